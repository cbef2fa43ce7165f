"""The cells of results.json, read, checked and averaged over seeds."""

import json
import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from unison.model.load import ENVELOPES
from unison.model.report.metrics import METRICS

__all__ = ["CI_KEYS", "Cell", "Results", "read_results"]

#: The floor by completion, which a ranking must never lose to, and the oracles whose best is the bound of a cell, where
#: the results do not name them.
_FLOORS = {"explicit": "lru-completion", "silent": "lru"}
_ORACLES = ("belady", "belady-size", "belady-tide")
CI_KEYS = {f"{name}_ci": name for name in METRICS}
_REQUIRED = ("trace", "envelope", "completion", "policy", "amat")


@dataclass(frozen=True)
class Cell:
    """One policy at one point of the grid, the mean over seeds.

    Attributes
    ----------
    load, completion, trace, envelope, policy : str
        The policy's name carries θ or training where the results hold several of that name.
    values : dict of str to float or None
        By metric.
    intervals : dict of str to (float, float)
        Confidence intervals by metric; the ends are means over seeds.
    degraded : tuple of str
        Hints that the policy needs and the trace lacks.
    seeds : int
    """

    load: str
    completion: str
    trace: str
    envelope: str
    policy: str
    values: dict
    intervals: dict
    degraded: tuple
    seeds: int

    @property
    def place(self):
        """Trace and envelope."""
        return self.trace, self.envelope


@dataclass(frozen=True)
class Results:
    """A results file: ``meta`` as it is, the ``raw`` cells, and the ``cells``, averaged over seeds."""

    meta: dict
    raw: list
    cells: list
    groups: dict = field(init=False, repr=False)

    def __post_init__(self):
        groups = defaultdict(list)
        for cell in self.cells:
            groups[cell.load, cell.completion].append(cell)
        object.__setattr__(self, "groups", dict(groups))

    @property
    def floors(self):
        """The floor's name by completion."""
        return _references(self.meta).get("floor", _FLOORS)

    @property
    def oracles(self):
        """Names of the policies whose best is the bound of a cell."""
        return tuple(_references(self.meta).get("oracles", _ORACLES))

    def policy(self, name):
        """What the results say of a policy, with or without a note of its variant: summary, causal."""
        return self.meta.get("policies", {}).get(name.split(" ")[0], {})

    def is_causal(self, name):
        """Whether a policy knows only the past; where nothing is said, the oracles and Bélády's do not."""
        return self.policy(name).get("causal", name not in self.oracles and not name.startswith("belady"))

    def names(self, attribute):
        """What the cells have as ``attribute``: envelopes by size, all else in the order of the file."""
        found = list(dict.fromkeys(getattr(cell, attribute) for cell in self.cells))
        if attribute == "envelope":
            order = list(ENVELOPES)
            found.sort(key=lambda name: order.index(name) if name in order else len(order))
        return found


def _references(meta):
    return meta.get("grid", {}).get("references", {})


def _number(value):
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _mean(values):
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _name_policies(raw):
    """The name of each raw cell's policy, made unique by θ and training where needed."""
    variants = defaultdict(lambda: (set(), set()))
    for cell in raw:
        for key, seen in zip(("theta", "training"), variants[cell["policy"]], strict=True):
            seen.add(cell.get(key))
    names = []
    for cell in raw:
        thetas, trainings = variants[cell["policy"]]
        name = cell["policy"]
        if len(thetas) > 1:
            name += f" θ={cell.get('theta')}"
        if len(trainings) > 1:
            name += f" ({cell.get('training') or 'untrained'})"
        names.append(name)
    return names


def _ratios(raw, floors):
    """Per raw cell its AMAT over LRU's and over the floor's, as given or, where they are not, of the same run."""
    amat = {}
    for cell in raw:
        amat[_run(cell), cell["policy"]] = _number(cell["amat"])
    ratios = []
    for cell in raw:
        against = {"amat_vs_lru": "lru", "amat_vs_floor": floors.get(cell["completion"])}
        row = {}
        for key, policy in against.items():
            given, base = _number(cell.get(key)), amat.get((_run(cell), policy))
            own = _number(cell["amat"])
            row[key] = given if given is not None else own / base if base and own is not None else None
        ratios.append(row)
    return ratios


def _run(cell):
    return tuple(str(cell.get(key)) for key in ("load", "completion", "trace", "envelope", "seed"))


def _name_loads(raw):
    """The load of each raw cell in a few words.

    A load of fields is a trace's own, so traces cannot share it: the commonest of a trace is ``default``, and others
    are named by what differs from that. Completion and seed are no part of it.
    """
    fields = [
        {key: value for key, value in cell["load"].items() if key not in ("completion", "seed")}
        if isinstance(cell.get("load"), dict)
        else None
        for cell in raw
    ]
    counts = defaultdict(Counter)
    for cell, load in zip(raw, fields, strict=True):
        if load is not None:
            counts[cell["trace"]][json.dumps(load, sort_keys=True)] += 1
    defaults = {trace: json.loads(count.most_common(1)[0][0]) for trace, count in counts.items()}
    names = []
    for cell, load in zip(raw, fields, strict=True):
        if load is None:
            names.append(str(cell.get("load") or "default"))
        else:
            other = (f"{key} {value}" for key, value in load.items() if defaults[cell["trace"]].get(key) != value)
            names.append(", ".join(other) or "default")
    return names


def _checked(path, content):
    if not isinstance(content, dict) or not isinstance(content.get("cells"), list) or not content["cells"]:
        raise ValueError(f"{path}: no results: an object with a list of cells is needed")
    for index, cell in enumerate(content["cells"]):
        missing = [key for key in _REQUIRED if key not in cell]
        if missing:
            raise ValueError(f"{path}: cell {index} lacks {', '.join(missing)}")
    return content


def read_results(path):
    """Results of a results.json.

    Raises
    ------
    ValueError
        If it is no JSON, or holds no cells, or a cell lacks what names it or its AMAT.
    """
    try:
        content = _checked(path, json.loads(path.read_text(encoding="utf-8")))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: not JSON: {error}") from None
    meta, raw = content.get("meta", {}), content["cells"]
    floors = _references(meta).get("floor", _FLOORS)
    runs = defaultdict(list)
    for cell, load, name, ratios in zip(raw, _name_loads(raw), _name_policies(raw), _ratios(raw, floors), strict=True):
        point = (load, cell["completion"], cell["trace"], cell["envelope"], name)
        if any(cell.get("seed") == other.get("seed") for other in runs[point]):
            raise ValueError(f"{path}: two cells of {', '.join(point)} with seed {cell.get('seed')}")
        runs[point].append({**cell, **ratios})
    return Results(meta, raw, [_average(point, seeds) for point, seeds in runs.items()])


def _average(point, seeds):
    values = {name: _mean([_number(seed.get(name)) for seed in seeds]) for name in METRICS}
    intervals = {}
    for key, name in CI_KEYS.items():
        ends = [seed[key] for seed in seeds if seed.get(key)]
        if ends and all(_number(end) is not None for pair in ends for end in pair):
            intervals[name] = tuple(sum(column) / len(column) for column in zip(*ends, strict=True))
    degraded = tuple(sorted({hint for seed in seeds for hint in seed.get("degraded") or ()}))
    return Cell(*point, values, intervals, degraded, len(seeds))
