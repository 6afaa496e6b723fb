"""A rule: key, description and the calls it applies to; and the predicates that most rules are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hermes.policy.call import Call
from hermes.policy.shell.words import names

Predicate = Callable[[Call], bool]
Checks = Mapping[str, Predicate]

#: In place of a program: the check applies to every call that redirects its output to a file.
REDIRECTED = "REDIRECTED"
#: In place of a program: the check applies to every call.
EVERY = "EVERY"

_QUESTIONS = names("--help -h --version -V -n --dry-run --show --list -l status list show")


@dataclass(frozen=True, slots=True)
class Rule:
    """Needs approval, or is blocked when ``hardline``.

    The checks have a row for each program; its key may name several that are alike. A rule without checks is reported
    by the shell parser itself, because it is about more than one call, or is about written files (``targets``).
    """

    key: str
    description: str
    checks: Checks = field(default_factory=dict[str, Predicate])
    hardline: bool = False


def always(_call: Call) -> bool:
    """Every use."""
    return True


def changing(call: Call) -> bool:
    """Every use but a question: for help, a version, a list, a rehearsal."""
    return _QUESTIONS.isdisjoint(call.args)


def with_arguments(call: Call) -> bool:
    """Every use with arguments but a question."""
    return bool(call.args) and _QUESTIONS.isdisjoint(call.args)


def any_of(words: str) -> Predicate:
    """Uses with one of these arguments; ``NAME=value`` counts as ``NAME``."""
    wanted = names(words)
    return lambda call: any(word in wanted or word.partition("=")[0] in wanted for word in call.args)


def none_of(words: str) -> Predicate:
    """For programs that mostly change things: every use with arguments but those with one of these."""
    harmless = names(words)
    return lambda call: bool(call.args) and harmless.isdisjoint(call.args)


def prefix(words: str) -> Predicate:
    """Uses with an argument that begins with one of these."""
    prefixes = tuple(words.split())
    return lambda call: any(word.startswith(prefixes) for word in call.args)


def option(letters: str, *long: str) -> Predicate:
    """Uses with one of these options."""
    return lambda call: call.options.has(letters, *long)


def operand(words: str, first: int = 0, last: int = 1) -> Predicate:
    """Uses with one of these words among their first operands, or those at other places."""
    wanted = names(words)
    return lambda call: not wanted.isdisjoint(call.options.operands[first:last])
