"""Mutants are caught: a few in every run, all of them in the slow one."""

from __future__ import annotations

import ast
from collections.abc import Generator

import pytest

from .copies import ROOT, SourceCopy, judge, mutated, source_copy
from .kernel import NEAREST, kernel_mutants, sample
from .named import KIT, MUTANTS, Mutant

#: One of the payloads, one of the order, one of several plugins.
_FEW = (
    "original_args of tool_execution are the rewritten ones",
    "transform_tool_result comes before post_tool_call",
    "a block after another plugin's answer is dropped",
)


@pytest.fixture(scope="module")
def copy() -> Generator[SourceCopy]:
    with source_copy() as made:
        yield made


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_fits_the_source_and_its_tests_exist(mutant: Mutant) -> None:
    source = (ROOT / "src" / "hermes" / mutant.file).read_text()
    assert ast.dump(ast.parse(mutated(mutant, source))) != ast.dump(ast.parse(source))
    assert mutant.caught_by == KIT or (ROOT / mutant.caught_by.partition(" ")[0]).exists()


def test_the_names_of_mutants_differ() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_the_kit_finds_nothing_in_the_source_as_it_is(copy: SourceCopy) -> None:
    verdict = copy.run(KIT)
    assert not verdict.caught, verdict.output


def test_a_mutant_that_ends_the_run_early_is_caught(copy: SourceCopy) -> None:
    ending = "import os\nos._exit(0)\n"
    with copy.changed("hooks/answers.py", ending):
        assert copy.run(KIT).caught
        assert copy.run("tests/hooks/test_zero_cost.py").caught


@pytest.mark.parametrize("name", _FEW)
def test_a_few_mutants_are_caught(copy: SourceCopy, name: str) -> None:
    [mutant] = [one for one in MUTANTS if one.name == name]
    assert judge(copy, mutant).caught


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_is_caught(copy: SourceCopy, mutant: Mutant) -> None:
    assert judge(copy, mutant).caught


def test_mutants_of_the_kernel_are_programs_and_a_seed_chooses_the_same_ones() -> None:
    for mutant in sample(100, 1):
        source = (ROOT / "src" / "hermes" / mutant.file).read_text()
        assert ast.dump(ast.parse(mutant.new)) != ast.dump(ast.parse(source)), mutant.name
    assert [one.name for one in sample(20, 7)] == [one.name for one in sample(20, 7)]
    assert {mutant.file.rpartition("/")[0] for mutant in kernel_mutants()} >= NEAREST.keys()
    missing = [name for tests in NEAREST.values() for name in tests.split() if not (ROOT / name).exists()]
    assert missing == []
