"""Requirements of plugins: a version of the contract, and Python packages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import zip_longest

from hermes.contract.plugin import CONTRACT_VERSION

#: ``name[extra] >=1.0,<2 ; marker``, with the marker left to pip.
_REQUIREMENT = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*\(?([^;@()]*)\)?\s*(@[^;]*)?(;.*)?")
_CLAUSE = re.compile(r"(~=|===?|!=|<=|>=|<|>)\s*v?([0-9]+(?:\.[0-9]+)*)(\.\*)?[A-Za-z0-9.+-]*")
_RELEASE = re.compile(r"[0-9]+(?:\.[0-9]+)*")

Version = tuple[int, ...]


def meets(version: str, specifier: str) -> bool:
    """Whether a version is one that a specifier such as ``>=1.2,<2`` allows. ``ValueError`` when that is none.

    Only the numbers count: ``1.2rc1`` is 1.2.
    """
    found = _numbers(version)
    return all(_allows(found, clause.strip()) for clause in specifier.split(",") if clause.strip())


def unmet_contract(requires: str) -> str:
    """Why this host is not the one that ``requires_hermes`` asks for; empty when it is."""
    try:
        if meets(CONTRACT_VERSION, requires):
            return ""
    except ValueError as error:
        return f"requires_hermes: {error}"
    offered = f"this host offers version {CONTRACT_VERSION} of the plugin contract"
    return f"it is for hermes {requires} (requires_hermes); {offered}"


def missing_packages(requirements: Iterable[str]) -> list[str]:
    """Those of the requirements that no installed package meets. One with a marker is left to pip."""
    return [one for one in requirements if not _is_met(one)]


def check_requirement(requirement: str) -> None:
    """Raise ``ValueError`` for what is no requirement of a package."""
    match = _REQUIREMENT.fullmatch(requirement.strip())
    if match is None:
        raise ValueError(f"{requirement!r} is no requirement; 'name>=1.0,<2' is expected")
    meets("0", match[2])


def _is_met(requirement: str) -> bool:
    from importlib import metadata

    match = _REQUIREMENT.fullmatch(requirement.strip())
    if match is None or match[4]:
        return True
    try:
        return bool(match[3]) or meets(metadata.version(match[1]), match[2])
    except metadata.PackageNotFoundError:
        return False
    except ValueError:
        return True


_COMPARED: dict[str, Callable[[Version, Version], bool]] = {
    ">=": lambda found, wanted: found >= wanted,
    "<=": lambda found, wanted: found <= wanted,
    ">": lambda found, wanted: found > wanted,
    "<": lambda found, wanted: found < wanted,
    "==": lambda found, wanted: found == wanted,
    "===": lambda found, wanted: found == wanted,
    "!=": lambda found, wanted: found != wanted,
}


def _allows(found: Version, clause: str) -> bool:
    match = _CLAUSE.fullmatch(clause)
    if match is None:
        raise ValueError(f"{clause!r} is no version specifier; '>=1.0' is expected")
    operator, numbers, star = match.groups()
    wanted = _numbers(numbers)
    if operator == "~=":
        return found >= wanted and found[: len(wanted) - 1] == wanted[:-1]
    if star:
        same = found[: len(wanted)] == wanted
        return same if operator == "==" else not same
    left, right = zip(*zip_longest(found, wanted, fillvalue=0), strict=True)
    return _COMPARED[operator](left, right)


def _numbers(version: str) -> Version:
    match = _RELEASE.match(version.strip().removeprefix("v"))
    return tuple(int(number) for number in match[0].split(".")) if match else (0,)
