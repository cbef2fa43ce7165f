"""The list of mutants fits the tree, and the runner tells a killed mutant from one that survives."""

from pathlib import Path

import pytest

from tests.mutants import ROOT, Mutant, check_imports, judge, mutate, read_mutants

MUTANTS = read_mutants()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutation_applies_to_code_and_names_tests_that_exist(mutant):
    source = (ROOT / mutant.file).read_text()
    compile(mutate(source, mutant), mutant.file, "exec")
    for test in mutant.tests:
        path, _, name = test.partition("::")
        assert f"def {name.partition('[')[0]}" in Path(ROOT / path).read_text()


def test_names_are_unique():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_a_copy_imports_itself():
    check_imports()


@pytest.mark.parametrize(
    ("new", "verdict"),
    [
        ("self.colder & self.demotable", "survived"),
        ("self.demotable", "killed"),
        ("self.demotable & self.no_such_signal", "broken"),
        ("self.demotable & (", "broken"),
    ],
)
def test_verdicts(new, verdict):
    old = "self.demotable & self.colder"
    mutant = Mutant(name="verdict", file="hdl/tide.py", old=old, new=new, tests=("tests/test_tide.py",))
    assert judge(mutant)["verdict"] == verdict


@pytest.mark.parametrize(("old", "new"), [("no such text", "x"), ("m.d.comb", "m.d.sync"), ("Members", "Members")])
def test_a_mutation_that_does_not_fit_is_an_error(old, new):
    with pytest.raises(ValueError, match="wrong"):
        mutate("m.d.comb m.d.comb Members", Mutant(name="wrong", file="x", old=old, new=new, tests=()))
