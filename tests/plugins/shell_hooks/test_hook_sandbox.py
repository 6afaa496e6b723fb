"""Hook commands run in the sandbox of the session they run for, unless their entry says otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.base.config import load_config
from hermes.host import Host, HostOptions
from hermes.testing import ScriptedProvider, text, tool_call
from support import write_config
from support.sandbox_rig import real_backend


@pytest.fixture(autouse=True)
def _needs_a_sandbox() -> None:  # pyright: ignore[reportUnusedFunction]
    real_backend("landlock")


@pytest.mark.parametrize(
    ("entry", "unattended", "escapes"),
    [("", True, False), ("sandbox: true", True, False), ("sandbox: false", True, True), ("", False, True)],
)
def test_a_hook_command_is_confined_like_its_session(
    home: Path, workdir: Path, entry: str, unattended: bool, escapes: bool
) -> None:
    script = home / "agent-hooks" / "note.sh"
    outside, secret = workdir.parent / "outside.txt", home / ".env"
    script.parent.mkdir(parents=True)
    secret.write_text("SOME_API_KEY=hidden-value-1\n")
    script.write_text(
        f"#!/bin/sh\ncat > /dev/null\necho x > inside.txt\necho x > {outside}\ncat {secret} > seen.txt\nexit 0\n"
    )
    script.chmod(0o755)
    settings = f"hooks:\n  post_tool_call:\n    - command: {script}\n"
    settings += f"      {entry}\n" if entry else ""
    with ScriptedProvider([tool_call("todo", {}), text("done")]) as provider:
        write_config(home, provider.base_url, settings)
        options = HostOptions(unattended=unattended, accept_hooks=True)
        with Host(home, load_config(home).config, options, cwd=workdir) as host:
            session = host.new_session()
            session.run("go")
            session.close()
    assert (workdir / "inside.txt").exists(), "the command ran"
    seen = (workdir / "seen.txt").read_text() if (workdir / "seen.txt").exists() else ""
    assert (outside.exists(), "hidden-value-1" in seen) == (escapes, escapes)
