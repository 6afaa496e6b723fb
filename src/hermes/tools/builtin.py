"""The six built-in tools: their schemas and descriptions for the model, and their handlers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hermes.tools.registry import Args, Tool, ToolContext, ToolLimits
from hermes.tools.schema import fields, flag, number, text


def builtin_tools(limits: ToolLimits | None = None) -> list[Tool]:
    """The tools every host has. ``limits`` appear in the descriptions for the model."""
    return [
        Tool("terminal", "terminal", _TERMINAL, _terminal_args(limits or ToolLimits()), _terminal, emoji="💻"),
        Tool("process", "terminal", _PROCESS, _PROCESS_ARGS, _process, emoji="⚙️"),
        Tool("read_file", "file", _READ, _READ_ARGS, _read_file, "pure", parallel=True, quick=True, emoji="📖"),
        Tool("write_file", "file", _WRITE, _WRITE_ARGS, _write_file, writes=_written, emoji="✍️"),
        Tool("patch", "file", _PATCH, _PATCH_ARGS, _patch, writes=_patched, emoji="🔧"),
        Tool("search_files", "file", _SEARCH, _SEARCH_ARGS, _search_files, "pure", parallel=True, emoji="🔎"),
    ]


# Every request contains these texts, so they are short: a test counts their bytes.

_TERMINAL = (
    "Run a shell command; returns output (stdout and stderr) and exit_code. Each call starts in the working "
    "directory. Commands get no input. Prefer read_file, search_files, patch and write_file for files. "
    "Run servers and long jobs with background=true."
)


def _terminal_args(limits: ToolLimits) -> dict[str, Any]:
    return fields(
        ["command"],
        command=text(),
        background=flag("Return at once with a session_id for the process tool"),
        timeout=number(f"Seconds, default {limits.terminal_timeout}, at most {limits.max_foreground_timeout}"),
        workdir=text("Directory to run in"),
        pty=flag("Use a pseudo-terminal, for programs that insist on one"),
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


# A tool's code is imported at its first call: unused tools cost no start-up time.


def _terminal(args: Args, context: ToolContext) -> str:
    from hermes.tools.terminal.terminal import run_terminal

    return run_terminal(args, context)


def _process(args: Args, context: ToolContext) -> str:
    from hermes.tools.terminal.process import run_process

    return run_process(args, context)


def _read_file(args: Args, context: ToolContext) -> str:
    from hermes.tools.files.read_file import run_read_file

    return run_read_file(args, context)


def _write_file(args: Args, context: ToolContext) -> str:
    from hermes.tools.files.write_file import run_write_file

    return run_write_file(args, context)


def _written(args: Args, context: ToolContext) -> Iterable[Path]:
    from hermes.tools.files.write_file import written_paths

    return written_paths(args, context)


def _patch(args: Args, context: ToolContext) -> str:
    from hermes.tools.files.patch import run_patch

    return run_patch(args, context)


def _patched(args: Args, context: ToolContext) -> Iterable[Path]:
    from hermes.tools.files.patch import patched_paths

    return patched_paths(args, context)


def _search_files(args: Args, context: ToolContext) -> str:
    from hermes.tools.search.search_files import run_search_files

    return run_search_files(args, context)
