"""The ``patch`` tool: replace a piece of a file, or apply a V4A patch to several files at once."""

from __future__ import annotations

from typing import Any

from hermes.tools.files.draft import Draft, TextFile
from hermes.tools.files.guard import mark_refusal
from hermes.tools.files.line_match import find_lines, nearest_lines
from hermes.tools.files.patch_v4a import FilePatch, PatchError, apply_hunks, parse_patch
from hermes.tools.registry import Args, ToolContext
from hermes.tools.results import tool_result

_HINT = "Nothing was changed. Read the file again with read_file and copy the lines exactly."


def run_patch(args: Args, context: ToolContext) -> str:
    """Change files as ``mode`` says; see the tool's schema."""
    draft = Draft(context)
    try:
        for text in (args.get("old_string"), args.get("new_string"), args.get("patch")):
            refused = mark_refusal(text) if isinstance(text, str) else None
            if refused:
                raise PatchError(refused)
        notes = _fill(draft, args)
        diff = draft.diff()
        draft.commit()
    except PatchError as error:
        return tool_result(success=False, error=str(error), _hint=_HINT)
    touched = draft.touched()
    first = next((path for paths in touched.values() for path in paths), None)
    return tool_result(success=True, diff=diff, **touched, resolved_path=first, **notes)


def preview_patch(args: Args, context: ToolContext) -> str:
    """The diff that a call would make; empty when it would fail."""
    draft = Draft(context)
    try:
        _fill(draft, args)
        return draft.diff()
    except PatchError:
        return ""


def _fill(draft: Draft, args: Args) -> dict[str, Any]:
    """Make the changes of a call in the draft; what the model should know of it."""
    mode = args.get("mode", "replace")
    if mode == "replace":
        return _replace(draft, args)
    if mode == "patch":
        return _apply(draft, args.get("patch"))
    raise PatchError(f"mode must be replace or patch, found {mode!r}")


# ---- mode replace


def _replace(draft: Draft, args: Args) -> dict[str, Any]:
    old, new = args.get("old_string"), args.get("new_string")
    if not isinstance(old, str) or not isinstance(new, str):
        raise PatchError("mode replace needs path, old_string and new_string")
    if not old:
        raise PatchError("old_string is empty; give the text to replace, or use write_file for a new file")
    if old == new:
        raise PatchError("old_string and new_string are the same; there is nothing to change")
    path = draft.locate(args.get("path"))
    file = draft.read(path)
    if file.crlf:
        old, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    text, count, how = _replaced(file.text, old, new, every=bool(args.get("replace_all")), name=path)
    draft.write(path, file, text)
    return {"replacements": count} | ({"_hint": f"matched by ignoring {how}; check the diff"} if how else {})


def _replaced(text: str, old: str, new: str, *, every: bool, name: str) -> tuple[str, int, str]:
    """The new text, the number of replacements, and the tolerated difference."""
    count = text.count(old)
    if count:
        if count > 1 and not every:
            raise PatchError(_ambiguous(_line_numbers(text, old), count))
        return text.replace(old, new), count, ""
    lines = text.split("\n")
    whole_lines = old.endswith("\n")
    wanted = old.removesuffix("\n").split("\n")
    matches, how = find_lines(lines, wanted)
    if not matches:
        near = nearest_lines(lines, wanted)
        shown = f" Nearest lines:\n{near}" if near else ""
        raise PatchError(f"old_string was not found in {name}.{shown}")
    if len(matches) > 1 and not every:
        raise PatchError(_ambiguous([match.at + 1 for match in matches], len(matches)))
    for match in reversed(matches):
        fitted = "\n".join(map(match.fit, new.split("\n")))
        end = match.at + len(wanted)
        if whole_lines and fitted.endswith("\n"):
            lines[match.at : end] = fitted.removesuffix("\n").split("\n")
        elif whole_lines and end < len(lines):
            lines[match.at : end + 1] = [fitted + lines[end]]
        else:
            lines[match.at : end] = [fitted]
    # All lines match but the text does not: only the last line's end can differ.
    return "\n".join(lines), len(matches), how or "the line break at the end of the file"


def _ambiguous(numbers: list[int], count: int) -> str:
    places = ", ".join(map(str, numbers[:5]))
    return (
        f"old_string occurs {count} times (lines {places}{', …' if count > 5 else ''}); "
        f"add more lines around it, or set replace_all=true"
    )


def _line_numbers(text: str, old: str) -> list[int]:
    numbers: list[int] = []
    at = text.find(old)
    while at >= 0 and len(numbers) < 5:
        numbers.append(text.count("\n", 0, at) + 1)
        at = text.find(old, at + len(old))
    return numbers


# ---- mode patch


def _apply(draft: Draft, patch: object) -> dict[str, Any]:
    if not isinstance(patch, str) or not patch.strip():
        raise PatchError("mode patch needs the patch text, from '*** Begin Patch' to '*** End Patch'")
    forgiven: list[str] = []
    for file in parse_patch(patch):
        forgiven += _apply_to_file(draft, file)
    if not forgiven:
        return {}
    return {"_hint": f"matched by ignoring {' and '.join(dict.fromkeys(forgiven))}; check the diff"}


def _apply_to_file(draft: Draft, file: FilePatch) -> list[str]:
    stays = file.action == "update" and file.move_to is None
    path = draft.locate(file.path, through_links=stays)
    if file.action == "add":
        if draft.exists(path):
            raise PatchError(f"{path} exists already; use '*** Update File:' to change it")
        draft.write(path, TextFile(""), file.content)
        return []
    if file.action == "delete":
        draft.delete(path)
        return []
    source = draft.read(path)
    text, forgiven = apply_hunks(source.text, file.hunks, file.path)
    if file.move_to is None:
        draft.write(path, source, text)
        return forgiven
    target = draft.locate(file.move_to)
    if draft.exists(target):
        raise PatchError(f"{target} exists already; nothing can be moved there")
    draft.write(target, source, text, like=path)
    draft.delete(path)
    return forgiven
