"""Remotes of version control: work that is pushed to an address which no one has agreed to."""

from __future__ import annotations

import re

from hermes.policy.call import Call, after_options, read_options
from hermes.policy.rules.git import GLOBAL_VALUES

_ADDRESS = re.compile(r"\w+://(?!localhost|127\.|\[::1\])|[\w.-]+@[\w.-]+:|[\w-]+(?:\.[\w-]+)+:\S", re.IGNORECASE)


def pushes_away(added: set[str], call: Call) -> bool:
    """Whether a call pushes to an address, or to a remote that this command line added; ``added`` is kept up."""
    if call.program not in ("git", "hg"):
        return False
    words = after_options(call.args, GLOBAL_VALUES.__contains__)
    operands = read_options(words, "o").operands
    match operands[:2]:
        case ["remote", "add" | "set-url"]:
            given = [word for word in read_options(words, "tm").operands[2:] if word]
            if len(given) > 1 and _ADDRESS.match(given[1]):
                added.add(given[0])
            return False
        case ["push", *_]:
            target = operands[1] if len(operands) > 1 else "origin"
            return target in added or _ADDRESS.match(target) is not None
        case _:
            return False
