"""``hermes serve`` and the commands of a cluster: what they refuse, and what a supervisor reports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from hermes.base.http_server.health import HealthServer
from hermes.surfaces.cli.serve.cluster.serve import Supervisor
from support import run_hermes, start_hermes
from support.chat_servers import free_port
from support.waiting import HANG, wait_until_gone


@pytest.mark.parametrize(
    ("configuration", "command", "error"),
    [
        ("{}", ["serve"], "serve.commands is empty"),
        ("serve: {commands: ['wroker --slots 2']}", ["serve"], "'wroker --slots 2' is not a command line"),
        ("serve: {commands: ['serve']}", ["serve"], "'serve' is not a command line"),
        ("{}", ["worker"], "journal.url is not set"),
        ("{}", ["workers", "list"], "journal.url is not set"),
    ],
)
def test_what_cannot_be_started_is_said(
    home: Path, workdir: Path, configuration: str, command: list[str], error: str
) -> None:
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(configuration)
    done = run_hermes(*command, home=home, cwd=workdir)
    assert done.returncode == 1
    assert error in " ".join(done.stderr.split())


@pytest.mark.slow
def test_a_process_that_ends_is_started_again_and_all_end_with_a_signal(home: Path, workdir: Path) -> None:
    home.mkdir(exist_ok=True)
    port = free_port()
    settings = f"{{commands: ['cron daemon'], restart_seconds: 0.1, health_port: {port}}}"
    (home / "config.yaml").write_text(f"serve: {settings}\nworker: {{drain_seconds: 20}}\n")
    with start_hermes("serve", home=home, cwd=workdir, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        pids: list[int] = []
        for _ in range(2):
            line = process.stdout.readline()
            while not line.startswith("started 'cron daemon' (pid "):
                assert line, "it ended"
                line = process.stdout.readline()
            pids.append(int(line.split()[-1].rstrip(")")))
            if len(pids) == 1:
                os.kill(pids[0], signal.SIGKILL)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as response:
            assert 'hermes_process_restarts_total{command="cron daemon"} 1' in response.read().decode()
        process.terminate()
        assert process.wait(HANG) == 0
    wait_until_gone(*pids)


@pytest.mark.slow
def test_its_processes_end_with_it_when_it_is_killed(home: Path, workdir: Path) -> None:
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text("serve: {commands: ['cron daemon', 'cron daemon']}\n")
    with start_hermes("serve", home=home, cwd=workdir, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        pids = [int(line.split()[-1].rstrip(")")) for line in lines]
        process.kill()
    wait_until_gone(*pids)


def test_health_readiness_and_metrics_over_http() -> None:
    supervisor = Supervisor([["worker", "--slots", "2"]], 1.0, 5.0)
    server = HealthServer(supervisor.problems, supervisor.metrics, "127.0.0.1", 0)
    server.start()
    try:
        with urllib.request.urlopen(f"{server.address}/healthz") as response:
            assert json.load(response) == {"status": "ok"}
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{server.address}/readyz")
        with refused.value as error:
            assert error.code == 503
            assert json.load(error)["problems"] == ["'worker --slots 2' does not run"]
        with urllib.request.urlopen(f"{server.address}/metrics") as response:
            assert 'hermes_process_up{command="worker --slots 2"} 0' in response.read().decode()
    finally:
        server.close()
