"""CachedAttention: whole sessions, kept by their place in the scheduler's queue."""

from unison.model.policies.lru import timeout

__all__ = ["CACHED_ATTENTION"]

CACHED_ATTENTION = timeout(3600).replace(
    name="cachedattention",
    summary="Every session idle for more than an hour, else as LRU: jobs near the head of the queue are exempt, but a "
    "session that waits for a tool is in no queue. Source: CachedAttention, arXiv 2403.19708.",
)
