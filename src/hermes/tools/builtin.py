"""The six built-in tools: their schemas and descriptions for the model, and their handlers."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from hermes.tools.registry import Args, Tool, ToolContext, ToolLimits
from hermes.tools.schema import fields, flag, number, text


def builtin_tools(limits: ToolLimits | None = None, *, can_leave_sandbox: bool = False) -> list[Tool]:
    """The tools every host has. ``limits`` appear in the descriptions for the model."""
    arguments = _terminal_args(limits or ToolLimits(), can_leave_sandbox)
    return [
        Tool("terminal", "terminal", _TERMINAL, arguments, _terminal, emoji="💻"),
        Tool("process", "terminal", _PROCESS, _PROCESS_ARGS, _process, emoji="⚙️"),
        Tool("read_file", "file", _READ, _READ_ARGS, _read_file, "pure", parallel=True, quick=True, emoji="📖"),
        Tool(
            "write_file", "file", _WRITE, _WRITE_ARGS, _write_file, writes=_written, preview=_write_preview, emoji="✍️"
        ),
        Tool("patch", "file", _PATCH, _PATCH_ARGS, _patch, writes=_patched, preview=_patch_preview, emoji="🔧"),
        Tool("search_files", "file", _SEARCH, _SEARCH_ARGS, _search_files, "pure", parallel=True, emoji="🔎"),
    ]


def _imported(module: str, name: str) -> Callable[[Args, ToolContext], Any]:
    """A function whose code is imported at its first call: unused tools cost no start-up time."""

    def call(args: Args, context: ToolContext) -> Any:
        return getattr(import_module(f"hermes.tools.{module}"), name)(args, context)

    return call


_terminal = _imported("terminal.terminal", "run_terminal")
_process = _imported("terminal.process", "run_process")
_read_file = _imported("files.read_file", "run_read_file")
_write_file = _imported("files.write_file", "run_write_file")
_written = _imported("files.write_file", "written_paths")
_write_preview = _imported("files.write_file", "preview_write")
_patch_preview = _imported("files.patch", "preview_patch")
_patch = _imported("files.patch", "run_patch")
_patched = _imported("files.patch", "patched_paths")
_search_files = _imported("search.search_files", "run_search_files")


# Every request contains these texts, so they are short: a test counts their bytes.

_TERMINAL = (
    "Run a shell command; returns output (stdout and stderr) and exit_code. Each call starts in the working "
    "directory. Commands get no input. Prefer read_file, search_files, patch and write_file for files. "
    "Run servers and long jobs with background=true."
)


def _terminal_args(limits: ToolLimits, can_leave_sandbox: bool) -> dict[str, Any]:
    outside = flag("Run without the sandbox, which refused it; the user is asked")
    return fields(
        ["command"],
        command=text(),
        background=flag("Return at once with a session_id for the process tool"),
        timeout=number(f"Seconds, default {limits.terminal_timeout}, at most {limits.max_foreground_timeout}"),
        workdir=text("Directory to run in"),
        pty=flag("Use a pseudo-terminal, for programs that insist on one"),
        **({"outside_sandbox": outside} if can_leave_sandbox else {}),
    )


_PROCESS = (
    "Manage background processes: list them; poll status; log output by line offset and limit; wait for the end; "
    "kill; write data to stdin; submit data plus newline; close stdin."
)
_PROCESS_ARGS = fields(
    ["action"],
    action=text(enum=["list", "poll", "log", "wait", "kill", "write", "submit", "close"]),
    session_id=text("From terminal; for all but list"),
    data=text("For write and submit"),
    timeout=number("Seconds, for wait"),
    offset=number("For log; default: the last lines"),
    limit=number("For log, default 200"),
)

_READ = "Read a text file with line numbers ('     1|text'). Page through large files with offset and limit."
_READ_ARGS = fields(
    ["path"],
    path=text("Absolute, relative to the working directory, or ~"),
    offset=number("First line, from 1", default=1),
    limit=number("Lines, at most 2000", default=500),
)

_WRITE = "Create a file or replace its whole content; makes missing directories. To change part of a file use patch."
_WRITE_ARGS = fields(["path", "content"], path=text(), content=text())

_PATCH = (
    "Change files; returns a diff. mode=replace: replace old_string, which must be unique in the file, by new_string. "
    "mode=patch: apply a V4A patch to one or more files, all or nothing."
)
_PATCH_ARGS = fields(
    ["mode"],
    mode=text(enum=["replace", "patch"]),
    path=text("replace: the file"),
    old_string=text("replace: exact text without line numbers, with enough lines around it to be unique"),
    new_string=text("replace: the new text, may be empty"),
    replace_all=flag("replace: change every occurrence"),
    patch=text(
        "patch: '*** Begin Patch', then per file '*** Update File: p' (or Add, Delete; '*** Move to: q') with "
        "'@@ anchor' and lines starting with ' ', '-' or '+', then '*** End Patch'"
    ),
)

_SEARCH = (
    "Search file contents by regular expression, or find files by name (target=files, glob like '*.py'). "
    "Skips hidden, git-ignored and binary files."
)
_SEARCH_ARGS = fields(
    ["pattern"],
    pattern=text("Regular expression; with target=files a glob or part of a name"),
    target=text(enum=["content", "files"], default="content"),
    path=text("Directory or file", default="."),
    file_glob=text("Only files like '*.py'"),
    limit=number(default=50),
    offset=number("Results to skip", default=0),
    output_mode=text(enum=["content", "files_only", "count"], default="content"),
    context=number("Lines shown around each match", default=0),
)
