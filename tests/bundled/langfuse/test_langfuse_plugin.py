"""The plugin as people meet it: enabled in a configuration, run by the real command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from hermes.testing import ScriptedProvider, text, tool_call
from support import hermes_environment, run_hermes, write_config
from support.langfuse_rig import LangfuseServer

ENABLED = "plugins:\n  enabled: [observability/langfuse]\n"
PUBLIC, SECRET = "pk-lf-0000", "sk-lf-11112222333344445555"
KEYS = {"LANGFUSE_PUBLIC_KEY": PUBLIC, "LANGFUSE_SECRET_KEY": SECRET}


def chat(home: Path, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return run_hermes("chat", "-q", "Read a.", "-Q", home=home, cwd=cwd, env=env)


def log_of(home: Path) -> str:
    path = home / "logs" / "agent.log"
    return path.read_text() if path.exists() else ""


def test_a_one_shot_chat_arrives_whole(home: Path, workdir: Path) -> None:
    (workdir / "a").write_text("a")
    script = [tool_call("read_file", {"path": "a"}), text("It says a.")]
    with ScriptedProvider(script) as provider, LangfuseServer(PUBLIC, SECRET) as server:
        write_config(home, provider.base_url, ENABLED)
        done = chat(home, workdir, **KEYS, LANGFUSE_HOST=server.url, HERMES_LANGFUSE_FLUSH_SECONDS="20")
        names = [span.name for span in server.spans]
    assert (done.returncode, done.stdout) == (0, "It says a.\n")
    assert done.stderr.startswith("session_id: ") and done.stderr.count("\n") == 1
    assert names == ["hermes turn", "chat scripted", "read_file", "chat scripted"]
    assert "WARNING" not in log_of(home) and SECRET not in log_of(home)


def test_a_dead_server_leaves_the_answer_alone(home: Path, workdir: Path) -> None:
    with ScriptedProvider("Fine.") as provider:
        write_config(home, provider.base_url, ENABLED)
        env = {**KEYS, "LANGFUSE_HOST": "http://127.0.0.1:9", "HERMES_LANGFUSE_FLUSH_SECONDS": "0.2"}
        done = chat(home, workdir, **env)
    assert (done.returncode, done.stdout) == (0, "Fine.\n")
    assert done.stderr.startswith("session_id: ") and done.stderr.count("\n") == 1
    assert "Traceback" not in log_of(home) and SECRET not in log_of(home)


def test_wrong_keys_are_one_line_in_the_log_and_seen_by_doctor(home: Path, workdir: Path) -> None:
    with ScriptedProvider("Fine.") as provider, LangfuseServer(PUBLIC, "another") as server:
        write_config(home, provider.base_url, ENABLED)
        done = chat(home, workdir, **KEYS, LANGFUSE_HOST=server.url, HERMES_LANGFUSE_FLUSH_SECONDS="20")
        told = run_hermes("doctor", home=home, cwd=workdir, env={**KEYS, "LANGFUSE_HOST": server.url})
    assert (done.returncode, done.stdout) == (0, "Fine.\n")
    (line,) = [line for line in log_of(home).splitlines() if "WARNING" in line]
    assert "the keys are not accepted" in line and SECRET not in log_of(home)
    assert "observability/langfuse" in told.stdout and "the keys are not accepted" in told.stdout


def test_without_keys_or_the_wheel_there_is_one_line(home: Path, workdir: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("import sys\nsys.modules['opentelemetry'] = None\n")
    missing = {"PYTHONPATH": f"{site}:{hermes_environment(home)['PYTHONPATH']}"}
    with ScriptedProvider("Fine.") as provider:
        write_config(home, provider.base_url, ENABLED)
        for env in ({}, {**KEYS, **missing}, {**KEYS, "LANGFUSE_TRACING_ENABLED": "false"}):
            done = chat(home, workdir, **env)
            assert (done.returncode, done.stdout) == (0, "Fine.\n")
    lines = [line for line in log_of(home).splitlines() if "WARNING" in line]
    assert len(lines) == 2 and "Traceback" not in log_of(home)
    assert "LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY are not set" in lines[0]
    assert "hermes install langfuse" in lines[1]


def test_a_wheel_that_is_broken_is_one_line_too(home: Path, workdir: Path, tmp_path: Path) -> None:
    package = tmp_path / "site" / "opentelemetry"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ModuleNotFoundError('gone', name='opentelemetry.part')\n")
    env = {**KEYS, "PYTHONPATH": f"{package.parent}:{hermes_environment(home)['PYTHONPATH']}"}
    with ScriptedProvider("Fine.") as provider:
        write_config(home, provider.base_url, ENABLED)
        done = chat(home, workdir, **env)
    assert (done.returncode, done.stdout) == (0, "Fine.\n")
    (line,) = [line for line in log_of(home).splitlines() if "WARNING" in line]
    assert "OpenTelemetry cannot be used (opentelemetry.part)" in line and "Traceback" not in log_of(home)


def test_opentelemetry_is_not_loaded_before_there_is_a_turn(home: Path, workdir: Path) -> None:
    """Commands without a turn, and the start of every other one, must not pay for it."""
    program = (
        "import sys\nfrom pathlib import Path\n"
        "from hermes.base.config import Config, PluginsConfig\nfrom hermes.host import Host\n"
        "config = Config(plugins=PluginsConfig(enabled=['observability/langfuse']))\n"
        "with Host(Path.cwd() / 'home', config, cwd=Path.cwd(), env={}) as host:\n"
        "    assert host.hooks.pre_llm_call is not None\n"
        "print('langfuse' in sys.modules, 'opentelemetry' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=workdir,
        env=hermes_environment(home, KEYS),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("False False\n", "")
