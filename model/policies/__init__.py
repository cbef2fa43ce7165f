"""The policies, each in a small file of its own; ``base`` is the guide to writing one."""

from unison.model.policies.agserve import agserve
from unison.model.policies.arc import ARC
from unison.model.policies.belady import BELADY, BELADY_SIZE
from unison.model.policies.cachedattention import CACHED_ATTENTION
from unison.model.policies.cachescout import cachescout
from unison.model.policies.continuum import continuum, continuum_released
from unison.model.policies.flexgen import FLEXGEN
from unison.model.policies.gdsf import gdsf
from unison.model.policies.index import index
from unison.model.policies.infercept import infercept
from unison.model.policies.kvflow import kvflow
from unison.model.policies.lhd import lhd
from unison.model.policies.lmcache import lmcache_cost
from unison.model.policies.lpc import lpc
from unison.model.policies.lrb import lrb
from unison.model.policies.lru import FIFO, LRU, LRU_BLOCK, LRU_COMPLETION, RANDOM, timeout
from unison.model.policies.lru_k import LRU_2
from unison.model.policies.mooncake import mooncake
from unison.model.policies.pbkv import pbkv
from unison.model.policies.s3fifo import s3fifo
from unison.model.policies.saga import saga
from unison.model.policies.sieve import SIEVE
from unison.model.policies.spear import spear_fixed, spear_float
from unison.model.policies.tinylfu import tinylfu
from unison.model.policies.trtllm import trtllm
from unison.model.policies.two_q import two_q

__all__ = ["POLICIES"]

#: Every policy by its name.
POLICIES = {
    policy.name: policy
    for policy in (
        LRU,
        LRU_COMPLETION,
        LRU_BLOCK,
        FIFO,
        RANDOM,
        *(timeout(limit_s) for limit_s in (10, 30, 60, 300)),
        LRU.replace(name="tide", summary=f"{LRU.summary} Tide migrates.", tide=True),
        spear_fixed("spear"),
        spear_fixed("unison", tide=True),
        spear_float("spear-float"),
        spear_float("unison-float", tide=True),
        spear_float("spear-idle-max", idle="max"),
        spear_float("spear-idle-sum", idle="sum"),
        spear_float("spear-no-gap", gap=False, idle="max"),
        spear_float("spear-no-hazard", hazard=False, idle="max"),
        spear_float("spear-no-idle-no-gap", gap=False),
        spear_float("spear-no-idle-no-hazard", hazard=False),
        continuum(),
        continuum_released(),
        infercept(),
        infercept("infercept-oracle", time="true"),
        infercept("infercept-hb", time="true", limits_s=(4, 7)),
        infercept("infercept-hb-mean", time="mean", limits_s=(4, 7)),
        agserve(),
        agserve("agserve-late", overdue="late"),
        agserve("agserve-conditional", overdue="conditional"),
        cachescout(),
        kvflow(),
        pbkv(),
        saga(),
        lpc(),
        lmcache_cost(),
        FLEXGEN,
        CACHED_ATTENTION,
        mooncake(),
        trtllm(),
        gdsf(),
        gdsf("pgdsf", theta=0.0, lasting=True),
        s3fifo(),
        SIEVE,
        ARC,
        two_q(),
        LRU_2,
        tinylfu(),
        lhd(),
        lhd("lhd-tokens", theta=0.0),
        lhd("lhd-hints", hints=True),
        lhd("lhd-hints-tokens", hints=True, theta=0.0),
        lrb(),
        index(),
        index("index-tide", tide=True),
        index("index-duel", tide=True, tier_first=True, duel=True, headline=True),
        index("index-trained", tide=True, trained=True),
        index("index-trained-duel", tide=True, tier_first=True, duel=True, trained=True),
        index("index-half", tide=True, theta=0.5),
        index("index-one", tide=True, theta=1.0),
        index("index-small", tide=True, gap_octaves=4, entry_bits=8),
        BELADY,
        BELADY_SIZE,
        BELADY.replace(name="belady-tide", summary=f"{BELADY.summary} Tide migrates.", tide=True),
    )
}
