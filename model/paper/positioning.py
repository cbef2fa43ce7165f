"""Table VI: what the engines near memory decide about, and where a session scheduler stands among them."""

from unison.model.paper.lab import Claim, Report

__all__ = ["positioning"]

#: Engine, level, what it ranks or decides, by what signal, whether it sees a tool wait and other live sessions, source.
_GRID = (
    ("Token-Picker", "token", "transfers of a decode step", "pre-softmax probability", False, False, "[28]"),
    ("UniCAIM", "token", "pruning of tokens", "content-addressable search", False, False, "[29]"),
    ("KV-MMU", "token", "replacement of tokens at run time", "token relevance", False, False, "[30]"),
    ("HiKV", "token", "eviction of tokens, loading of elements", "significance, sorted", False, False, "[31]"),
    ("Kelle", "token", "eviction from embedded DRAM", "attention score", False, False, "[32]"),
    ("MATA", "token", "eviction of tokens", "look-back and voting", False, False, "[33]"),
    ("VEDA", "token", "eviction of tokens", "look-back and voting", False, False, "[34]"),
    ("CXL-SpecKV", "device", "offload to FPGA memory, prefetch", "speculation", False, False, "[35]"),
    ("V-Rex", "device", "retrieval of video-token subsets", "clusters", False, False, "[36]"),
    ("FlexGen", "placement", "blocks on GPU, CPU, disk", "linear program, offline", False, False, "[25]"),
    ("CachedAttention", "placement", "blocks in three tiers", "next scheduled job", False, True, "[26]"),
    ("Mooncake", "placement", "blocks in DRAM, SSD, RDMA", "prefix popularity", False, True, "[27]"),
    ("Unison", "session", "eviction and migration of sessions", "own gaps, turn, completion", True, True, "here"),
)
KEYS = ("engine", "level", "decides", "signal", "sees_tool_wait", "sees_other_sessions", "source")


def positioning(lab):
    """Table VI."""
    rows = [dict(zip(KEYS, row, strict=True)) for row in _GRID]
    both = [row["engine"] for row in rows if row["sees_tool_wait"] and row["sees_other_sessions"]]
    claims = [
        Claim(
            "only the session scheduler ranks live sessions on gap and completion signals",
            "every other entry works on one request",
            f"both signals: {', '.join(both)}; the placement policies that see other sessions' blocks see no tool wait",
            both == ["Unison"],
        )
    ]
    notes = [
        "A table of text, from the paper's Section II; numbers in brackets are its references. Nothing is measured: "
        "this says what each design looks at according to that text.",
        "InferCept, Continuum, AGSERVE, CacheScout, KVFlow and PBKV are software policies and compared by measurement "
        "(table2 and the evaluation).",
    ]
    return Report(rows, claims, notes)
