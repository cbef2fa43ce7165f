"""The evaluation: its grid, comparison with the references, bootstrap, store, workers, interrupts and commands."""

import json
import math
import os
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import Future
from contextlib import closing
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from unison.model import cli, evaluation, provenance
from unison.model.accounting import COSTS
from unison.model.evaluation import (
    Setup,
    WorkerDied,
    Workers,
    cluster_workers,
    evaluate,
    grid_setups,
    local_workers,
    read_grid,
    resampled_sums,
)
from unison.model.generate import FAMILIES, generate, read_family
from unison.model.load import ENVELOPES, default_load
from unison.model.policies import POLICIES
from unison.model.policies.gdsf import gdsf
from unison.model.policies.index import index
from unison.model.policies.lru import timeout
from unison.model.provenance import fingerprint, modules_digest
from unison.model.schedule import make_schedule
from unison.model.simulator import simulate
from unison.model.store import Store
from unison.model.trace import Trace, write_trace

#: The keys that results.json promises.
KEYS = [
    "trace", "envelope", "completion", "load", "seed", "policy", "theta", "training", "degraded", "hr", "hr_sram",
    "hr_hbm", "bypass", "amat", "amat_no_delta", "amat_vs_lru", "amat_vs_lru_ci", "prefill_reduction", "br",
    "attainment", "attainment_floor", "amat_vs_floor", "prefetch_accuracy", "ttft_p50", "evicted_tokens",
    "false_evictions", "events_per_s",
]  # fmt: skip
TIGHT = {name: ENVELOPES[name] for name in ("edge-tight", "server")}
DEADLINE_S = 300


@pytest.fixture(autouse=True)
def compiled(monkeypatch):
    """What was compiled for the other tests serves here too."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")


@pytest.fixture(scope="module")
def grid():
    return read_grid()


@pytest.fixture(scope="module")
def trace():
    return Trace("gaia_small", generate(read_family("gaia"), sessions=25, seed=3).sessions)


@pytest.fixture
def trace_file(trace, tmp_path):
    path = tmp_path / f"{trace.name}.jsonl"
    write_trace(path, trace)
    return str(path)


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "cells.sqlite") as store:
        yield store


def make_setup(trace, completion="explicit", **changes):
    """A Setup of a trace as the grid has it, with some of it changed."""
    schedule = make_schedule(trace, default_load(trace, completion=completion))
    parts = {"schedule": schedule, "label": "x", "costs": COSTS, "rate": Fraction(1, 2), "slots": 64}
    return Setup(**(parts | changes))


def without_speed(cells):
    return [{key: value for key, value in cell.items() if key != "events_per_s"} for cell in cells]


def assert_same(first, second):
    """Asserts that two lists of Outcomes agree in all but the speed."""
    for a, b in zip(first, second, strict=True):
        assert without_speed(a.cells) == without_speed(b.cells)
        assert np.array_equal(a.sums, b.sums)


def wait_until(ready, process):
    """Waits until ``ready()`` while a process runs."""
    deadline = time.monotonic() + DEADLINE_S
    while not ready():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.002)


# The grid


def test_grid_is_the_contract_s(grid, trace):
    assert (grid.envelopes, grid.costs) == (ENVELOPES, COSTS)
    assert (grid.rate, grid.slots, grid.policies) == (Fraction(1, 2), 64, tuple(POLICIES))
    assert sorted(each["family"] for each in grid.traces.values()) == sorted(FAMILIES)
    chat = generate(read_family("chat"), sessions=3)
    for name in grid.traces:
        like = Trace(name, (chat if name == "mooncake_conv" else trace).sessions)
        assert grid.load(name) == default_load(like), name
    assert math.prod(map(len, grid.content["formats"].values())) == 180


def test_sensitivity_changes_one_thing_at_a_time(grid, trace, tmp_path):
    setups = grid_setups(grid, {"gaia_miro": Trace("gaia_miro", trace.sessions)}, tmp_path, sensitivity=True)
    first, second = setups[:2]
    assert (first.schedule.load.completion, second.schedule.load.completion) == ("explicit", "silent")
    changed = {}
    for setup in setups[::2]:
        load = setup.schedule.load
        facts = {**setup.costs._asdict(), "rate": setup.rate, "scale": load.scale, "seed": load.seed}
        base = {**COSTS._asdict(), "rate": Fraction(1, 2), "scale": Fraction(1, 4), "seed": 0}
        differs = {name: value for name, value in facts.items() if value != base[name]}
        assert len(differs) == (setup is not first)
        changed[setup.label, load.seed] = differs
    assert len(changed) == 1 + 2 + 1 + 8
    assert changed["service x 1/4, t_h x 1/4", 0] == {"hbm": 1.0}
    assert changed["service x 1/4, B x 4", 0] == {"rate": 2}
    assert changed["service x 1", 0] == {"scale": 1}


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('policies = "all"', 'policies = ["spear", "nix"]', "no policy 'nix': lru, "),
        ("slots = 64", "", "'slots' is missing"),
        ('belady = "belady"', "", "'belady' is missing"),
        ('oracles = ["belady"', 'oracles = ["oracle"', "no policy 'oracle'"),
        ("[load]", "[load", "Expected"),
    ],
)
def test_a_bad_grid_file_is_refused_by_name(tmp_path, old, new, says):
    path = tmp_path / "mine.toml"
    text = evaluation.GRID.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(ValueError, match=says) as caught:
        read_grid(path)
    assert str(caught.value).startswith(f"{path}: ")


# Cells


def test_cells_are_those_of_the_simulator_with_the_promised_keys(grid, trace, store):
    setup = make_setup(trace, costs=COSTS._replace(hbm=9.0), rate=Fraction(3, 4000), slots=20)
    (outcome,), counts = evaluate([setup], ("unison",), TIGHT, grid, store)
    assert counts == {"computed": 12, "found": 0}
    assert outcome.policies == ("unison", "lru", "lru-completion", "belady", "belady-size", "belady-tide")
    assert [list(cell)[: len(KEYS)] for cell in outcome.cells] == [KEYS] * 12
    for place, name in enumerate(TIGHT):
        capacities = setup.schedule.capacities(TIGHT[name])
        result = simulate(
            setup.schedule, POLICIES["unison"], capacities, costs=setup.costs, numerator=3, denominator=4000, slots=20
        )
        cell = outcome.cells[6 * place]
        expected = {"envelope": name, "load": "x", "seed": 0, **result.cell()}
        del expected["events_per_s"]
        assert expected == {key: cell[key] for key in expected}
        assert outcome.sums[0, place, 0] == pytest.approx(result.request_costs().sum())


def compared(amat, hr=None, completion="explicit", sums=None):
    """Cells by policy that have these AMATs, hit rates and sums."""
    names = tuple(amat)
    cells = [
        dict.fromkeys(KEYS) | {"policy": name, "completion": completion, "amat": amat[name], "hr": (hr or amat)[name]}
        for name in names
    ]
    sums = np.tile([float(value) for value in amat.values()], (3, 1)) if sums is None else sums
    made = evaluation._compare(cells, sums, names, read_grid().references, 0.5)
    return {cell["policy"]: cell for cell in made}


AMATS = {"lru": 10, "lru-completion": 8, "belady": 5, "belady-size": 4, "belady-tide": 6, "x": 7}


@pytest.mark.parametrize(
    ("completion", "expected"),
    [
        # (10 - 7) / (10 - 4), (8 - 7) / (8 - 4), 7 / 8; with silent completion the floor is LRU.
        ("explicit", {"attainment": 0.5, "attainment_floor": 0.25, "amat_vs_floor": 7 / 8, "floor": "lru-completion"}),
        ("silent", {"attainment": 0.5, "attainment_floor": 0.5, "amat_vs_floor": 0.7, "floor": "lru"}),
    ],
)
def test_comparison_by_hand(completion, expected):
    cells = compared(AMATS, hr=AMATS | {"belady": 14}, completion=completion)
    expected |= {
        "amat_vs_lru": 0.7,
        "br": 0.5,
        "oracle": "belady-size",
        "nothing_to_win": False,
        "nothing_to_win_vs_lru": False,
    }
    assert {key: cells["x"][key] for key in expected} == expected
    assert cells["belady-size"]["attainment"] == cells["belady-size"]["attainment_floor"] == 1
    assert cells[expected["floor"]]["attainment_floor"] == 0


def test_nothing_is_divided_by_nothing():
    oracles = ("belady", "belady-size", "belady-tide")
    cells = compared(AMATS | dict.fromkeys(oracles, 8), hr=dict.fromkeys(AMATS, 0.0))
    keys = ("attainment_floor", "amat_vs_floor", "amat_vs_floor_ci", "br", "nothing_to_win", "attainment")
    assert [cells["x"][key] for key in keys] == [None, None, None, None, True, 1.5]
    # A floor better than any oracle still has a ratio.
    cells = compared(AMATS | dict.fromkeys(oracles, 9))
    assert [cells["x"][key] for key in keys[:2]] == [None, 7 / 8]
    for amat, nothing in ((7.93, [True, False]), (7.91, [False, False]), (9.91, [True, True])):
        cell = compared(AMATS | {"belady-size": amat, "belady": 10, "belady-tide": 10})["x"]
        assert [cell["nothing_to_win"], cell["nothing_to_win_vs_lru"]] == nothing


def test_intervals_are_quantiles_of_paired_ratios():
    names = list(AMATS)
    sums = np.ones((1 + 5, len(names)))
    sums[0] = 1000.0
    sums[1:, names.index("x")] = [40, 10, 20, 30, 50]
    sums[1:, names.index("lru")] = 100
    sums[1:, names.index("lru-completion")] = 10
    cells = compared(AMATS, sums=sums)
    # The middle half of five ratios ends at the second and the fourth.
    assert cells["x"]["amat_vs_lru_ci"] == pytest.approx([0.2, 0.4])
    assert cells["x"]["amat_vs_floor_ci"] == pytest.approx([2, 4])
    assert cells["lru"]["amat_vs_lru_ci"] == [1, 1]


# The bootstrap


def test_resampled_sums_draw_sessions_with_replacement_the_same_for_all_columns(monkeypatch):
    rng = np.random.default_rng(1)
    cost = rng.integers(1, 100, 7).astype(float)
    sums = resampled_sums(np.stack([cost, 2 * cost, np.ones(7)], axis=1), 50, seed=4)
    assert sums.shape == (51, 3)
    assert sums[0].tolist() == [cost.sum(), 2 * cost.sum(), 7]
    assert np.array_equal(sums[:, 1], 2 * sums[:, 0])
    assert (sums[:, 2] == 7).all()
    assert len(set(sums[:, 0])) > 40
    monkeypatch.setattr(evaluation, "_DRAWS", 20)
    assert np.array_equal(resampled_sums(np.stack([cost, 2 * cost, np.ones(7)], axis=1), 50, seed=4), sums)
    assert not np.array_equal(resampled_sums(np.stack([cost, 2 * cost, np.ones(7)], axis=1), 50, seed=5), sums)


def test_resampled_sums_have_the_law_of_two_draws():
    drawn = resampled_sums(np.array([[0.0], [1.0]]), 20_000, seed=0)[1:, 0]
    assert np.bincount(drawn.astype(int)) / 20_000 == pytest.approx([0.25, 0.5, 0.25], abs=0.02)


# The store


def test_a_second_run_computes_only_what_is_missing(grid, trace, store):
    setups = [make_setup(trace, completion) for completion in ("explicit", "silent")]
    first, counts = evaluate(setups, ("spear",), TIGHT, grid, store)
    assert counts == {"computed": 2 * (6 + 5), "found": 0}
    # A new Setup of the same content, one policy more, one envelope more.
    again = [make_setup(trace, completion) for completion in ("explicit", "silent")]
    second, counts = evaluate(again, ("spear",), TIGHT, grid, store)
    assert counts == {"computed": 0, "found": 22}
    assert_same(first, second)
    assert first[0].cells == second[0].cells
    assert evaluate(again, ("spear", "fifo"), TIGHT, grid, store)[1] == {"computed": 4, "found": 22}
    more = TIGHT | {"cxl": ENVELOPES["cxl"]}
    assert evaluate(again, ("spear",), more, grid, store)[1] == {"computed": 11, "found": 22}


@pytest.mark.parametrize(
    "changes",
    [
        {"costs": COSTS._replace(prefill=100.0)},
        {"rate": Fraction(2)},
        {"slots": 8},
        {"label": "y"},
        {"schedule": lambda trace: make_schedule(trace, default_load(trace, seed=1))},
        {"schedule": lambda trace: make_schedule(Trace(trace.name, trace.sessions[:-1]), default_load(trace))},
        {"schedule": lambda trace: make_schedule(Trace("gaia_other", trace.sessions), default_load(trace))},
    ],
)
def test_whatever_changes_a_result_changes_its_key(grid, trace, store, changes):
    changes = {name: value(trace) if callable(value) else value for name, value in changes.items()}
    evaluate([make_setup(trace)], ("lru",), {"server": ENVELOPES["server"]}, grid, store)
    (_,), counts = evaluate([make_setup(trace, **changes)], ("lru",), {"server": ENVELOPES["server"]}, grid, store)
    assert counts["found"] == 0


def test_policies_of_one_name_are_told_apart_by_what_they_were_made_with(monkeypatch):
    made = [timeout(10), timeout(30).replace(name="timeout-10s"), index(), index(entry_bits=8), gdsf(), gdsf(theta=0.5)]
    made += [POLICIES["lru"], POLICIES["lru"].replace(tide=True)]
    prints = [fingerprint(policy.replace(name="x", summary="y")) for policy in made]
    assert len(set(prints)) == len(made)
    assert fingerprint(timeout(10)) == fingerprint(timeout(10))
    with pytest.raises(TypeError, match="no fingerprint"):
        fingerprint(POLICIES["lru"].replace(training=object()))


def test_a_digest_covers_what_a_module_imports_and_the_files_it_names(monkeypatch, tmp_path):
    files = {
        "first.py": "from unison.deep.second import x\nimport json",
        "deep/__init__.py": "",
        "deep/second.py": "def late():\n    from unison import third",
        "third.py": "",
        "other.py": "",
        "data.json": "1",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(provenance, "_PACKAGES", {"unison": SimpleNamespace(__path__=[str(tmp_path)])})
    monkeypatch.setitem(sys.modules, "unison.third", SimpleNamespace(TABLE=tmp_path / "data.json", n=1))

    def digest():
        provenance._imports.cache_clear()
        return modules_digest("unison.first")

    before = digest()
    for name in ("other.py", "deep/__init__.py"):
        (tmp_path / name).write_text("changed = 1")
        assert digest() == before
    seen = {before}
    for name in ("first.py", "deep/second.py", "third.py", "data.json"):
        (tmp_path / name).write_text(files[name] + "\n")
        seen.add(digest())
    provenance._imports.cache_clear()
    assert len(seen) == 5


def test_store_refuses_a_foreign_file(tmp_path):
    (tmp_path / "notes").write_text("not a database, but long enough to be seen as none" * 10)
    with pytest.raises(ValueError, match="notes is no store of cells"), Store(tmp_path / "notes"):
        pass


# Workers


def test_processes_and_a_dask_cluster_give_what_one_process_gives(grid, trace, tmp_path):
    distributed = pytest.importorskip("distributed")
    setups = [make_setup(trace, completion) for completion in ("explicit", "silent")]

    def run(name, workers):
        with Store(tmp_path / name) as store, workers as hands:
            outcomes, counts = evaluate(setups, ("spear", "random"), TIGHT, grid, store, hands)
        assert counts["computed"] == 2 * (7 + 6)
        return outcomes

    here = run("here", local_workers(1))
    assert_same(here, run("processes", local_workers(2)))
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", host="127.0.0.1"
    ) as cluster:
        assert cluster.scheduler_address.startswith("tcp://127.0.0.1:")
        assert_same(here, run("dask", cluster_workers(cluster.scheduler_address)))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(evaluation, "_code", lambda: str(os.getpid()))
            with (
                pytest.raises(ValueError, match="has another version of unison"),
                cluster_workers(cluster.scheduler_address),
            ):
                pass


def test_workers_that_cannot_be_had_are_an_error_of_the_user(monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(distributed, "Client", lambda address, **_: (_ for _ in ()).throw(OSError("timed out")))
    with (
        pytest.raises(ValueError, match="no Dask scheduler answers at 'tcp://nowhere:1'"),
        cluster_workers("tcp://nowhere:1"),
    ):
        pass
    with pytest.raises(ValueError, match="workers must be a positive number, not 0"), local_workers(0):
        pass


def test_a_worker_that_dies_is_reported(monkeypatch):
    monkeypatch.setattr(evaluation, "replay", os._exit)
    with pytest.raises(WorkerDied, match="finished cells are kept"), local_workers(2) as hands:
        evaluation._run([(3,)], hands, print)


# Interrupts


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interrupt_keeps_finished_cells_and_the_next_run_goes_on(grid, trace, store, monkeypatch, error):
    setup = make_setup(trace)
    done = []

    def failing(setup, name, capacities):
        if len(done) == 2:
            raise error
        done.append(name)
        return replay(setup, name, capacities)

    replay = evaluation.replay
    monkeypatch.setattr(evaluation, "replay", failing)
    with pytest.raises(error):
        evaluate([setup], ("spear",), TIGHT, grid, store)
    monkeypatch.setattr(evaluation, "replay", replay)
    # The source of replay is in the keys: what counts is that the store holds them.
    (rows,) = store._connection.execute("SELECT count(*) FROM cells").fetchone()
    assert rows == 4


def test_what_was_begun_when_an_interrupt_came_is_kept_and_the_rest_is_not_begun():
    finished, running, waiting = futures = [Future() for _ in range(3)]
    finished.set_result("a")
    running.set_running_or_notify_cancel()
    kept = []

    def keep(job, result):
        kept.append((job, result))
        if len(kept) == 1:
            running.set_result("b")
            raise KeyboardInterrupt

    submitted = iter(futures)
    workers = Workers(lambda *_: next(submitted), lambda setup: setup)
    with pytest.raises(KeyboardInterrupt):
        evaluation._run([("s", 0), ("s", 1), ("s", 2)], workers, keep)
    assert kept[-1] == (("s", 1), "b")
    assert waiting.cancelled()


def test_a_batch_is_stored_whole_or_not_at_all(store):
    with pytest.raises(TypeError):
        store.keep({"a": ({}, np.ones(2)), "b": ({"bad": object()}, np.ones(2))})
    assert "a" not in store
    store.keep({"a": ({"x": 0.1}, np.array([1.5, 2.5]))})
    cell, costs = store["a"]
    assert (cell, costs.tolist()) == ({"x": 0.1}, [1.5, 2.5])


def test_ctrl_c_leaves_finished_cells_and_no_half_written_file(tmp_path):
    cache = tmp_path / "cache"
    policies = [name for name in POLICIES if name.startswith(("spear", "infercept", "timeout", "continuum", "agserve"))]
    command = [sys.executable, "-m", "unison.model.cli", "compare", "acg", "--policies", ",".join(policies)]
    command += ["--json", "--workers", "2", "--cache", str(cache)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A job in the background of a shell has it ignored, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )

    def stored():
        if not (cache / "cells.sqlite").exists():
            return 0
        with closing(sqlite3.connect(f"file:{cache}/cells.sqlite?mode=ro", uri=True, timeout=10)) as connection:
            try:
                return connection.execute("SELECT count(*) FROM cells").fetchone()[0]
            except sqlite3.OperationalError:
                return 0

    wait_until(stored, process)
    # As a terminal does: to all processes of the group.
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, out) == (130, "")
    assert "interrupted" in err and "Traceback" not in err
    kept = stored()
    # The oracles, LRU and with explicit completion the floor are added.
    total = len(ENVELOPES) * (2 * len(policies) + 5 + 4)
    assert 0 < kept < total
    files = {path.name for path in cache.rglob("*") if path.is_file()}
    assert "cells.sqlite" in files and not [name for name in files if "part" in name or "journal" in name]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
    assert finished.returncode == 0, finished.stderr
    assert f"{total - kept:,} cells" in finished.stderr.splitlines()[-1]
    assert len(json.loads(finished.stdout)["cells"]) == total


# Commands


def run_cli(capsys, *arguments):
    code = cli.main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def options(tmp_path):
    return "--workers", 1, "--cache", tmp_path / "cache"


def test_replay_prints_the_cell(trace, trace_file, options, capsys):
    arguments = [
        "replay",
        trace_file,
        "--policy",
        "spear",
        "--envelope",
        "9000:40000",
        "--completion",
        "silent",
        *options,
    ]
    code, out, _ = run_cli(capsys, *arguments, "--json", "--seed", 2, "--scale", 1, "--concurrency", 9)
    (cell,) = json.loads(out)["cells"]
    assert (code, list(cell)[: len(KEYS)]) == (0, KEYS)
    schedule = make_schedule(trace, default_load(trace, completion="silent", seed=2, scale=Fraction(1), concurrency=9))
    result = simulate(schedule, POLICIES["spear"], (9000, 40000))
    assert (cell["hr"], cell["amat"], cell["degraded"]) == (result.hr, result.amat, ["completion"])
    assert (cell["envelope"], cell["load"], cell["seed"]) == ("9000:40000", "service x 1, 9 sessions", 2)
    code, out, _ = run_cli(capsys, *arguments)
    assert code == 0
    assert ["policy", "spear"] in [line.split() for line in out.splitlines()]


def test_compare_prints_cells_and_a_verdict_for_each_trace_and_completion(trace_file, options, capsys):
    arguments = ["compare", trace_file, "gaia", "--policies", "spear,agserve,belady", *options]
    code, out, err = run_cli(capsys, *arguments, "--json")
    content = json.loads(out)
    assert (code, list(content)) == (0, ["meta", "cells", "verdicts"])
    assert {(cell["trace"], cell["completion"], cell["envelope"]) for cell in content["cells"]} == {
        (name, completion, envelope)
        for name in content["meta"]["traces"]
        for completion in ("explicit", "silent")
        for envelope in ENVELOPES
    }
    assert [verdict["candidates"] for verdict in content["verdicts"]] == [2] * 4
    assert "cells" in err
    code, out, err = run_cli(capsys, *arguments)
    assert (code, err) == (0, "")
    assert out.splitlines()[-4:] == [
        f"{verdict['trace']}, {verdict['completion']}: {verdict['text']}" for verdict in content["verdicts"]
    ]
    table = out.split("\n\n")[0].splitlines()
    assert table[1].split()[:3] == ["AMAT", "/", "lru-completion"]
    means = [float(line.split()[len(ENVELOPES) + 1]) for line in table[2:]]
    assert means == sorted(means)
    assert sum("looks ahead" in line for line in table) == 3


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["replay", "TRACE", "--policy", "nix"], "no policy 'nix': lru, lru-completion, "),
        (["replay", "TRACE", "--policy", "lru", "--envelope", "nix"], "one of edge-tight, edge, "),
        (["compare", "TRACE", "--policies", "lru,nix"], "no policy 'nix': lru, "),
        (["compare", "TRACE", "--envelopes", "edge,nix"], "one of edge-tight, edge, "),
        (["compare", "TRACE", "TRACE"], "two traces are named 'gaia_small'"),
        (["compare", "nix"], "nix"),
        (["compare", "TRACE", "--slots", "0"], "slots must be a positive integer, not 0"),
        (["eval", "--policies", "nix"], "no policy 'nix': lru, "),
        (["eval", "--traces", "nix"], "no trace 'nix': gaia_miro, "),
    ],
)
def test_a_wrong_name_is_answered_with_those_that_are_known(trace_file, options, capsys, arguments, says):
    code, out, err = run_cli(capsys, *(trace_file if each == "TRACE" else each for each in arguments), *options)
    assert (code, out) == (2, "")
    assert err.startswith("unison: error: ") and says in err


def test_eval_writes_results_and_says_when_the_traces_are_not_the_real_ones(tmp_path, options, capsys, monkeypatch):
    monkeypatch.setenv("UNISON_TRACES", str(tmp_path))
    path = tmp_path / "new" / "results.json"
    arguments = ["eval", "--traces", "gaia_miro", "--policies", "spear", "-o", path, *options]
    code, out, err = run_cli(capsys, *arguments)
    assert code == 0
    assert "NO REAL TRACES" in err
    content = json.loads(path.read_text(), parse_constant=lambda text: pytest.fail(f"{text} in the results"))
    assert list(content) == ["meta", "cells"]
    assert [list(cell)[: len(KEYS)] for cell in content["cells"]] == [KEYS] * 6 * (6 + 5)
    assert "not the real trace" in content["meta"]["traces"]["gaia_like"]["from"]
    assert content["meta"]["tools"]["numba"] and content["meta"]["assumptions"]
    assert (content["meta"]["computed"], content["meta"]["found"]) == (66, 0)
    assert out.splitlines()[-1].startswith(f"{path}: 66 cells, 66 computed and 0 found in ")
    run_cli(capsys, *arguments)
    assert json.loads(path.read_text())["meta"]["found"] == 66
    assert json.loads(path.read_text())["cells"] == content["cells"]


def test_real_traces_are_not_mixed_with_drawn_ones(grid, trace, tmp_path, monkeypatch):
    monkeypatch.setenv("UNISON_TRACES", str(tmp_path))
    write_trace(tmp_path / "gaia_miro.jsonl", trace)
    assert evaluation.grid_traces(grid, ["gaia_miro"])["gaia_miro"][1] == "the real trace"
    with pytest.raises(ValueError, match="no real trace acg_haiku beside the others"):
        evaluation.grid_traces(grid, ["gaia_miro", "acg_haiku"])


def test_the_lab_without_numba_says_what_to_install():
    program = "import sys; sys.modules['numba'] = None; from unison.model import cli; sys.exit(cli.main(sys.argv[1:]))"
    command = [sys.executable, "-c", program]
    done = subprocess.run([*command, "compare", "gaia"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "compare needs the package numba: pip install 'unison[lab]'" in done.stderr
    assert subprocess.run([*command, "--help"], capture_output=True).returncode == 0
