"""A policy judged by recorded sessions."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.base.config import Config
from hermes.base.errors import HermesError
from hermes.record.audit.backtest import backtest
from hermes.surfaces.cli.main import main
from hermes.testing import ScriptedProvider, text, tool_call, tool_calls
from support import HostFactory

GUARD = """
def register(ctx):
    def guard(tool_name="", args=None, **_):
        if "two" in str(args):
            return {"action": "block", "message": "no twos"}
    ctx.register_hook("pre_tool_call", guard)
"""


@pytest.fixture
def session_id(make_host: HostFactory, workdir: Path) -> str:
    script = [
        tool_calls([("terminal", {"command": "echo one > ran"}), ("terminal", {"command": "echo two > ran"})]),
        tool_call("read_file", {"path": "ran"}),
        text("Done."),
    ]
    with ScriptedProvider(script) as provider:
        host = make_host(provider)
        session = host.new_session()
        session.run("go")
        host.close()
    (workdir / "ran").unlink()
    return session.id


def test_rules_and_plugins_are_judged_without_running_anything(
    session_id: str, home: Path, workdir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = tmp_path / "stricter.yaml"
    rules.write_text("approvals:\n  tools:\n    read_file: deny\n    terminal: ask\n")
    assert main(["policy", "backtest", str(rules)]) == 0
    shown = capsys.readouterr().out
    assert shown.endswith("3 calls in 1 sessions: 1 blocked, 2 asked, 0 allowed\n"), shown
    folder = tmp_path / "guard"
    folder.mkdir()
    (folder / "plugin.yaml").write_text("name: guard\nversion: '1'\n")
    (folder / "__init__.py").write_text(GUARD)
    assert main(["policy", "backtest", str(folder), "--session", session_id]) == 0
    shown = capsys.readouterr().out
    assert "tool:1.1  terminal echo two > ran" in shown and "no twos" in shown
    assert shown.endswith("1 blocked, 0 asked, 2 allowed\n"), shown
    assert not (workdir / "ran").exists()
    assert sorted(path.name for path in home.iterdir() if path.is_dir()) == ["cache", "runners"]


def test_what_is_no_policy_is_refused(session_id: str, make_host: HostFactory, tmp_path: Path) -> None:
    with ScriptedProvider([text("x")]) as provider:
        host = make_host(provider)
    with pytest.raises(HermesError, match=r"give a config.yaml with rules, or the folder of a plugin"):
        backtest(host.store, [session_id], tmp_path / "nothing", Config())
