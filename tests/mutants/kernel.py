"""Mutation of the kernel: generic edits of its statements, a sample of which is run against the nearest tests."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator, Sequence
from typing import TypeGuard

from .copies import ROOT, SourceCopy, Verdict
from .named import KIT, Mutant

#: The folders that are mutated, each with the tests next to it, the quickest first.
NEAREST = {
    "hooks": "tests/hooks tests/agent/test_hostile_plugins.py tests/contract/test_sentinels.py",
    "agent/pipelines": (
        "tests/agent/test_pipelines.py tests/contract/test_delivery_matrix.py tests/agent/test_turn.py "
        "tests/agent/test_claims_and_results.py tests/agent/test_untrusted_results.py tests/agent/test_dispatch.py "
        "tests/agent/test_masking.py tests/agent/test_turn_record.py tests/agent/test_sent_messages.py "
        "tests/agent/test_cut_off_turns.py tests/agent/approvals/test_late_answers.py"
    ),
    "agent/approvals": (
        "tests/agent/approvals tests/contract/test_delivery_matrix.py tests/agent/test_dispatch.py "
        "tests/contract/test_late_answers.py tests/agent/tools/test_execute_code.py"
    ),
    "journal/turns": (
        "tests/journal/test_turn_journal.py tests/journal/test_after_a_crash.py tests/journal/test_records.py "
        "tests/agent/test_recovery.py tests/agent/test_turn_record.py tests/journal/usage/test_latency.py "
        "tests/service/dispatch/test_local_dispatcher.py"
    ),
}
#: Only the quick ones of these: a mutant that lives is run against all of them.
_QUICK = " -m quick"

#: What has a place in the text.
Place = ast.expr | ast.stmt

_SWAPS: dict[type[ast.cmpop], str] = {
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}


def kernel_mutants() -> list[Mutant]:
    """Every mutant of the kernel."""
    found: list[Mutant] = []
    for folder in NEAREST:
        for path in sorted((ROOT / "src" / "hermes" / folder).rglob("*.py")):
            file = path.relative_to(ROOT / "src" / "hermes").as_posix()
            found.extend(_mutants_of(file, path.read_text(), NEAREST[folder] + _QUICK))
    return found


def sample(size: int, seed: int) -> list[Mutant]:
    """Some of them; the same for the same seed and source."""
    mutants = kernel_mutants()
    return random.Random(seed).sample(mutants, min(size, len(mutants)))


def check_baseline(copy: SourceCopy, mutants: Sequence[Mutant]) -> None:
    """The tests have to pass without a mutant, or they would find every one."""
    for tests in (KIT, *dict.fromkeys(mutant.caught_by for mutant in mutants)):
        verdict = copy.run(tests)
        if verdict.caught:
            raise SystemExit(f"{tests} fails without a mutant: {verdict.why}")


def judge_kernel(copy: SourceCopy, mutant: Mutant) -> Verdict:
    """Whether the kit or the nearest tests find a mutant. ``new`` is the whole module."""
    with copy.changed(mutant.file, mutant.new):
        found = copy.run(KIT)
        return found if found.caught else copy.run(mutant.caught_by)


def _mutants_of(file: str, source: str, tests: str) -> Iterator[Mutant]:
    text = source.encode()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def place(node: Place) -> slice:
        end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        return slice(starts[node.lineno - 1] + node.col_offset, end)

    for node in _run_nodes(ast.parse(source)):
        for changed, becomes in _edits(node):
            where = place(changed)
            old = text[where].decode()
            new = becomes.format(old)
            name = f"{file}:{changed.lineno}: {_short(old)} → {_short(new)}"
            yield Mutant(name, file, old, (text[: where.start] + new.encode() + text[where.stop :]).decode(), tests)


def _short(code: str) -> str:
    return " ".join(code.split())[:70]


def _run_nodes(module: ast.Module) -> Iterator[ast.AST]:
    """The nodes of functions. What is only said, in docstrings and logs, is not looked at."""
    functions = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)]
    inner = {id(child) for node in functions for child in ast.walk(node) if child is not node}
    waiting: list[ast.AST] = [statement for node in functions if id(node) not in inner for statement in node.body]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.Assert) or (isinstance(node, ast.Expr) and _is_said(node.value)):
            continue
        yield node
        waiting.extend(node.body if isinstance(node, ast.FunctionDef) else ast.iter_child_nodes(node))


def _is_said(value: ast.expr) -> bool:
    """Docstrings, lines of the log, and the points where tests of crashes stop a process."""
    return isinstance(value, ast.Constant) or (
        isinstance(value, ast.Call) and ast.unparse(value.func).startswith(("log.", "crash_point"))
    )


def _edits(node: ast.AST) -> Iterator[tuple[Place, str]]:
    """What may be changed in a node, and into what; ``{}`` is what is there."""
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        yield node.test, "(not ({}))"
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = ast.unparse(node.left), ast.unparse(node.comparators[0])
        yield node, _verbatim(f"{left} {_SWAPS[type(node.ops[0])]} {right}")
    elif isinstance(node, ast.BoolOp):
        word = " or " if isinstance(node.op, ast.And) else " and "
        yield node, _verbatim(f"({word.join(f'({ast.unparse(value)})' for value in node.values)})")
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        changed = not node.value if isinstance(node.value, bool) else node.value + 1
        yield node, _verbatim(str(changed))
    elif isinstance(node, ast.Expr | ast.AugAssign | ast.Raise) or _sets_attribute(node):
        yield node, "pass"
    elif isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        yield node, "return None"


def _sets_attribute(node: ast.AST) -> TypeGuard[ast.Assign]:
    return isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute)


def _verbatim(code: str) -> str:
    return code.replace("{", "{{").replace("}", "}}")
