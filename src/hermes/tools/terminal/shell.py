"""A command line as a child process: which shell runs it, in what environment, through which arguments."""

from __future__ import annotations

import os
from typing import Literal

from hermes.tools.terminal.child_process import Child, find_program

#: The kernel takes single arguments up to 128 KiB; a longer command goes through a file.
_LONGEST_ARGUMENT = 120_000

#: No colours, no pagers: nobody is there to press a key.
_ENVIRONMENT = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat"}


def start_command(command: str, cwd: str, *, stdin: Literal["null", "pipe"] = "null", pty: bool = False) -> Child:
    """Run ``command`` in a shell. Raises OSError or ValueError when it cannot be started."""
    shell = find_shell()
    env = {**os.environ, **_ENVIRONMENT}
    script = command.encode("utf-8", "surrogateescape")
    if len(script) <= _LONGEST_ARGUMENT:
        return Child([shell, "-c", command], cwd=cwd, env=env, stdin=stdin, pty=pty)
    from tempfile import TemporaryFile

    with TemporaryFile() as file:
        file.write(script)
        file.seek(0)
        source = file.fileno()
        return Child([shell, f"/dev/fd/{source}"], cwd=cwd, env=env, stdin=stdin, pty=pty, pass_fds=(source,))


def find_shell() -> str:
    """bash where there is one, else sh."""
    usual = next((path for path in ("/bin/bash", "/usr/bin/bash") if os.access(path, os.X_OK)), None)
    return usual or find_program("bash") or "/bin/sh"
