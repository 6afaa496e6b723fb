"""The tools of files, commands and searches: their schemas and descriptions for the model, and their handlers."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from hermes.tools.arguments import fields, flag, number, text
from hermes.tools.declarations.builtin import declared
from hermes.tools.declarations.origin import fetches, reads_outside, shows_fetched
from hermes.tools.registry import Args, Tool, ToolContext, ToolLimits


def builtin_tools(limits: ToolLimits | None = None, *, can_leave_sandbox: bool = False) -> list[Tool]:
    """The tools every host has. ``limits`` appear in the descriptions for the model."""
    arguments = _terminal_args(limits or ToolLimits(), can_leave_sandbox)
    tools = [
        Tool(
            "terminal", "terminal", _TERMINAL, arguments, _terminal, claims_itself=True, untrusted=fetches, emoji="💻"
        ),
        Tool("process", "terminal", _PROCESS, _PROCESS_ARGS, _process, untrusted=shows_fetched, emoji="⚙️"),
        Tool(
            "read_file",
            "file",
            _READ,
            _READ_ARGS,
            _read_file,
            "pure",
            parallel=True,
            untrusted=reads_outside,
            quick=True,
            emoji="📖",
        ),
        Tool(
            "write_file",
            "file",
            _WRITE,
            _WRITE_ARGS,
            _write_file,
            parallel_by_file=True,
            preview=_write_preview,
            emoji="✍️",
        ),
        Tool("patch", "file", _PATCH, _PATCH_ARGS, _patch, parallel_by_file=True, preview=_patch_preview, emoji="🔧"),
        Tool(
            "search_files",
            "file",
            _SEARCH,
            _SEARCH_ARGS,
            _search_files,
            "pure",
            parallel=True,
            untrusted=reads_outside,
            emoji="🔎",
        ),
    ]
    return declared(tools)


def _imported(module: str, name: str) -> Callable[[Args, ToolContext], Any]:
    """A function whose code is imported at its first call: unused tools cost no start-up time."""
    return lambda args, context: getattr(import_module(f"hermes.tools.{module}"), name)(args, context)


_terminal = _imported("terminal.terminal", "run_terminal")
_process = _imported("terminal.process", "run_process")
_read_file = _imported("files.read_file", "run_read_file")
_write_file = _imported("files.write_file", "run_write_file")
_write_preview = _imported("files.write_file", "preview_write")
_patch_preview = _imported("files.patch", "preview_patch")
_patch = _imported("files.patch", "run_patch")
_search_files = _imported("search.search_files", "run_search_files")


# Every request contains these texts, so they are short: a test counts their bytes.

_TERMINAL = (
    "Run a shell command in the working directory, without input. Prefer the file tools for files. Run servers and "
    "long jobs with background=true."
)


def _terminal_args(limits: ToolLimits, can_leave_sandbox: bool) -> dict[str, Any]:
    outside = flag("Outside the sandbox: asks the user")
    return fields(
        ["command"],
        command=text(),
        background=flag(),
        timeout=number(f"Seconds, default {limits.terminal_timeout}, at most {limits.max_foreground_timeout}"),
        workdir=text(),
        pty=flag(),
        **({"outside_sandbox": outside} if can_leave_sandbox else {}),
    )


_PROCESS = (
    "Manage background processes. log: output from a line on, default the last. write, submit (adds a newline), close: "
    "their stdin."
)
_PROCESS_ARGS = fields(
    ["action"],
    action=text(enum=["list", "poll", "log", "wait", "kill", "write", "submit", "close"]),
    session_id=text(),
    data=text(),
    timeout=number(),
    offset=number(),
    limit=number(),
)

_READ = "Read a text file, with line numbers."
_READ_ARGS = fields(
    ["path"],
    path=text(),
    offset=number("First line, from 1"),
    limit=number("Default 500, at most 2000"),
)

_WRITE = "Create a file or replace its whole content; makes directories."
_WRITE_ARGS = fields(["path", "content"], path=text(), content=text())

_PATCH = (
    "Change files. mode=replace: in path, old_string (exact and unique) by new_string. "
    "mode=patch: several files, all or nothing."
)
_PATCH_ARGS = fields(
    ["mode"],
    mode=text(enum=["replace", "patch"]),
    path=text(),
    old_string=text(),
    new_string=text(),
    replace_all=flag(),
    patch=text(
        "V4A: '*** Begin Patch', '*** Update File: p' (or Add, Delete), '@@ anchor', ' ', '-' and '+' lines, "
        "'*** End Patch'"
    ),
)

_SEARCH = (
    "Search file contents by regular expression, or names by glob (target=files). Skips hidden, git-ignored and binary "
    "files."
)
_SEARCH_ARGS = fields(
    ["pattern"],
    pattern=text(),
    target=text(enum=["content", "files"]),
    path=text(),
    file_glob=text(),
    limit=number(),
    offset=number(),
    output_mode=text(enum=["content", "files_only", "count"]),
    context=number(),
)
