"""What ``${name…}`` gives: defaults, substrings, replacements, prefixes, case."""

from __future__ import annotations

from fnmatch import fnmatchcase

from hermes.policy.shell.marks import UNKNOWN, is_known


def expand(value: str, operator: str, operands: list[str]) -> str:
    """The value after the operator. What cannot be told is unknown."""
    first = operands[0] if operands else ""
    if operator in (":-", "-", ":=", "="):
        return value if value and is_known(value) else first
    if operator in (":+", "+"):
        return first if value else ""
    if operator in ("", ":?", "?", "@"):
        return value
    if not is_known(value) or not all(map(is_known, operands)):
        return UNKNOWN
    if operator == ":":
        return _substring(value, operands)
    if operator in _CASES:
        return _CASES[operator](value)
    if operator in ("#", "##", "%", "%%"):
        return _trimmed(value, operator, first)
    if operator in ("/", "//", "/#", "/%"):
        return _replaced(value, operator, first, operands[1] if len(operands) > 1 else "")
    return UNKNOWN


def _first_lower(value: str) -> str:
    return value[:1].lower() + value[1:]


def _first_upper(value: str) -> str:
    return value[:1].upper() + value[1:]


_CASES = {",,": str.lower, "^^": str.upper, ",": _first_lower, "^": _first_upper}


def _substring(value: str, operands: list[str]) -> str:
    try:
        start, *length = (int(operand) for operand in operands if operand.strip())
    except ValueError:
        return UNKNOWN
    rest = value[start:] if start >= 0 or -start <= len(value) else ""
    return rest[: length[0]] if length else rest


def _trimmed(value: str, operator: str, pattern: str) -> str:
    """Without the shortest or longest beginning or end that fits the pattern."""
    lengths = range(len(value) + 1) if len(operator) == 1 else range(len(value), -1, -1)
    for length in lengths:
        if operator[0] == "#" and fnmatchcase(value[:length], pattern):
            return value[length:]
        if operator[0] == "%" and fnmatchcase(value[len(value) - length :], pattern):
            return value[: len(value) - length]
    return value


def _replaced(value: str, operator: str, pattern: str, replacement: str) -> str:
    if any(character in pattern for character in "*?["):
        return UNKNOWN
    if operator == "/#":
        return replacement + value[len(pattern) :] if value.startswith(pattern) else value
    if operator == "/%":
        return value.removesuffix(pattern) + replacement if value.endswith(pattern) else value
    return value.replace(pattern, replacement, -1 if operator == "//" else 1) if pattern else value
