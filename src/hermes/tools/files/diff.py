"""The difference between two versions of a text, as a unified diff of bounded size."""

from __future__ import annotations

_CONTEXT = 3
_MAX_CHARS = 20_000

#: Beyond this many line pairs a minimal diff takes seconds; the changed block is then shown as a whole.
_MAX_COMPARISONS = 4_000_000


def unified_diff(before: str | None, after: str | None, old_name: str, new_name: str) -> str:
    """What changed; a name stands for a missing file when its text is None."""
    old, new = _lines(before or ""), _lines(after or "")
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    first = max(start - _CONTEXT, 0)
    last = max(end - _CONTEXT, 0)
    hunks = _hunks(old[first : len(old) - last], new[first : len(new) - last], first)
    if not hunks:
        return ""
    old_label = f"a/{old_name.lstrip('/')}" if before is not None else "/dev/null"
    new_label = f"b/{new_name.lstrip('/')}" if after is not None else "/dev/null"
    text = f"--- {old_label}\n+++ {new_label}\n" + "".join(map(_with_line_end, hunks))
    return text if len(text) <= _MAX_CHARS else text[:_MAX_CHARS] + "\n[… the rest of the diff is left out …]\n"


def _lines(text: str) -> list[str]:
    lines = [line + "\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _hunks(old: list[str], new: list[str], skipped: int) -> list[str]:
    """The hunks of the part that differs, with line numbers counted from the start of the file."""
    from difflib import SequenceMatcher

    if len(old) * len(new) > _MAX_COMPARISONS:
        header = f"@@ -{skipped + 1},{len(old)} +{skipped + 1},{len(new)} @@\n"
        return [header, *("-" + line for line in old), *("+" + line for line in new)]
    lines: list[str] = []
    for group in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_CONTEXT):
        (_, old_start, _, new_start, _), (_, _, old_end, _, new_end) = group[0], group[-1]
        old_range = f"{skipped + old_start + 1},{old_end - old_start}"
        new_range = f"{skipped + new_start + 1},{new_end - new_start}"
        lines.append(f"@@ -{old_range} +{new_range} @@\n")
        for tag, i, j, k, m in group:
            if tag == "equal":
                lines.extend(" " + line for line in old[i:j])
            else:
                lines.extend("-" + line for line in old[i:j])
                lines.extend("+" + line for line in new[k:m])
    return lines


def _with_line_end(line: str) -> str:
    return line if line.endswith("\n") else line + "\n\\ No newline at end of file\n"


def _common(left: list[str], right: list[str]) -> int:
    """How many lines both begin with."""
    count = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        count += 1
    return count
