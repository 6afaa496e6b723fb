"""Secrets planted everywhere a user has them never come out: not in payloads made for export, nor logs, nor exports."""

from __future__ import annotations

from pathlib import Path

from hermes.testing import ScriptedProvider, by_step, failure, text, tool_call
from support import run_hermes, write_config

#: Where each secret is planted -> its value. None of them has a shape that gives it away, except the last two.
PLANTED = {
    "config": "plain-config-key-0001",
    "header": "plain-header-value-0002",
    "environment file": "plain-dotenv-value-0003",
    "environment": "plain-environ-value-0004",
    "tool arguments": "sk-ant-api03-" + "Zx9Qw7" * 8,
    "tool result": "ghp_" + "a1B2c3D4e5F6" * 3,
}

PLUGIN = """
import json, os

def register(ctx):
    ctx.register_hook("pre_api_request", lambda **kw: note("request", kw["request"]))
    ctx.register_hook("post_api_request", lambda **kw: note("response", [kw["response"], kw["request"]]))
    ctx.register_hook("api_request_error", lambda **kw: note("error", [kw["error"], kw["request"]]))
    ctx.register_middleware("llm_request", add_header)

def note(kind, payload):
    with open(os.environ["PAYLOADS"], "a") as file:
        file.write(json.dumps([kind, payload]) + "\\n")

def add_header(**kw):
    request = dict(kw["request"])
    request["extra_headers"] = {"Authorization": "Basic " + os.environ["MY_SERVICE_TOKEN"]}
    return {"request": request}
"""


def test_no_secret_leaves_in_a_payload_a_log_or_an_export(home: Path, workdir: Path, tmp_path: Path) -> None:
    (workdir / "config.ini").write_text(f"github = {PLANTED['tool result']}\n")
    everything = " ".join(PLANTED.values())
    script = by_step(
        tool_call("terminal", {"command": f"echo {PLANTED['tool arguments']}"}),
        tool_call("read_file", {"path": "config.ini"}),
        failure(400, f"you sent {everything}"),
    )
    folder = home / "plugins" / "watcher"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("name: watcher\n")
    (folder / "__init__.py").write_text(PLUGIN)
    (home / ".env").write_text(f"DATABASE_PASSWORD={PLANTED['environment file']}\n")
    (home / ".env").chmod(0o600)
    payloads = tmp_path / "payloads"
    with ScriptedProvider(script) as provider:
        write_config(home, provider.base_url, "plugins:\n  enabled: [watcher]\n")
        config = (home / "config.yaml").read_text()
        config = config.replace("test-key", PLANTED["config"])
        config = config.replace("agent:", f"  extra_headers:\n    X-Api-Key: {PLANTED['header']}\nagent:")
        (home / "config.yaml").write_text(config)
        env = {"MY_SERVICE_TOKEN": PLANTED["environment"], "PAYLOADS": str(payloads), "HERMES_LOG_LEVEL": "DEBUG"}
        run = run_hermes("chat", "-q", "go", "--json", "-v", home=home, cwd=workdir, env=env)
        export = run_hermes("sessions", "export", run.stdout.split('"session_id":"')[1][:22], home=home, cwd=workdir)
        shown = run_hermes("config", "show", home=home, cwd=workdir)

    # The secrets really went where they were used.
    assert provider.requests[0].headers["x-api-key"] == PLANTED["header"]
    assert PLANTED["tool result"] in str(provider.requests[2].messages)
    assert run.returncode == 1 and export.returncode == 0 and "config.ini" in export.stdout
    channels = {
        "payloads": payloads.read_text(),
        "log": (home / "logs" / "agent.log").read_text(),
        "stderr": run.stderr,
        "json": run.stdout,
        "export": export.stdout,
        "config show": shown.stdout,
    }
    assert channels["payloads"].count("\n") == 6
    leaks = [
        (channel, place)
        for channel, content in channels.items()
        for place, secret in PLANTED.items()
        if secret in content
    ]
    assert leaks == []


def test_files_with_keys_are_private(home: Path, workdir: Path) -> None:
    with ScriptedProvider([text("hi")]) as provider:
        run_hermes("config", "set", "model.base_url", provider.base_url, home=home, cwd=workdir)
        run_hermes("config", "set", "model.default", "scripted", home=home, cwd=workdir)
        run_hermes("chat", "-q", "hi", "-Q", home=home, cwd=workdir)
        run_hermes("sessions", "search", "hi", home=home, cwd=workdir)
    modes = {path.name: path.stat().st_mode & 0o777 for path in home.rglob("*") if path.is_file()}
    assert {name for name, mode in modes.items() if mode & 0o077} == set()
    assert {"config.yaml", "state.db", "search.db", "agent.log"} <= modes.keys()
