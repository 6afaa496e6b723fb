"""Helpers that several folders of tests share. What users of the test kit want is in ``hermes.testing`` instead.

Everywhere
    (this module)         homes, real ``hermes`` processes, the TLS certificate of loopback servers
    waiting               waiting without clocks, work that must end, a clock that a test moves
    growth                work that must not grow with the square of a length
    configured            hosts with a scripted model and sections of the configuration
    small_disk            a disk that is soon full
    forked_hermes         ``hermes`` processes that need no start of an interpreter
    postgres, postgres_server  a real PostgreSQL, and a database for each test
    surfaces              a surface that records what slash commands ask of it

Models and HTTP
    model_server          a server with a list of models
    web_server            a web server that answers as a test says
    image_server          a server that makes images
    authorization_server  OAuth: code flow with PKCE, device flow, refresh tokens
    drivers               the HTTP driver, direct and from an event loop
    llm_rig               a host and a plugin's ``ctx.llm``
    local_rig             the embedded model with a made-up runtime
    sdk_agreement, sdk_types  answers read by the official SDKs and by us

Plugins and hooks
    plugin_rig            folders of plugins and a host's parts to load them into
    compat_rig            a plugin that looks at one compatibility module
    hook_callbacks        small callbacks to register
    shell_rig             hook commands of the configuration
    git_repository        real git repositories with plugins in them
    conformance_surfaces  the conformance conversation of the kit on every surface, as real processes
    delivery              the expected table of the delivery matrix
    approval_rig, approving_run  hosts with settings about approvals; a process that approves

Traces
    trace_runs            runs of every kind, seen live and in the journal
    events                events with only the fields a test cares about
    otel_rig, langfuse_rig, relay_rig  hosts that export to a receiver or to files

Terminal
    repl_terminal, screen a real ``hermes`` on a pseudo-terminal, seen through a terminal emulator
    doctor_rig            ``hermes doctor`` on a home, and servers that are broken

Chat platforms
    adapter_rig           a platform adapter with a gateway that only notes what arrives
    chat_servers          ngircd, dovecot with aiosmtpd, synapse

A2A
    a2a_rig               a served agent and the SDK's client
    a2a_echo              a remote agent that does what a message says
    executor_rig, executor_server  requests to an executor; a server of the SDK around one
    a2a_03_client         a client of the older SDK, as a process
    webhook               a receiver of push notifications
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from hermes.host import Host
from support.forked_hermes import can_fork, run_forked

HostFactory = Callable[..., Host]

SOURCES = Path(__file__).parents[2] / "src"

#: Certificate and key of a TLS server on 127.0.0.1, for servers to show and for clients to trust.
CERTIFICATE = Path(__file__).with_name("loopback.pem")


def write_config(home: Path, base_url: str, extra: str = "") -> None:
    """The config.yaml of a person who uses one OpenAI-compatible server."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.yaml").write_text(
        "model:\n"
        "  provider: custom\n"
        "  default: scripted\n"
        f"  base_url: {base_url}\n"
        "  api_key: test-key\n"
        "agent:\n"
        "  api_max_retries: 0\n" + extra
    )


def hermes_environment(home: Path, env: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a ``hermes`` process that shares nothing with the person who runs the tests."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    base = {"HERMES_HOME": str(home), "HOME": str(home.parent), "PYTHONPATH": str(SOURCES), **recording_environment()}
    return {**kept, **base, **(env or {})}


def recording_environment() -> dict[str, str]:
    """What a process needs to record the settings that it reads, see ``support.setting_reads``; usually nothing."""
    if "RECORD_SETTING_READS" not in os.environ:
        return {}
    path = os.pathsep.join((str(SOURCES), str(Path(__file__).with_name("recording"))))
    return {"RECORD_SETTING_READS": os.environ["RECORD_SETTING_READS"], "PYTHONPATH": path}


def hermes_command(*arguments: str) -> list[str]:
    """The command line of a real ``hermes`` process."""
    return [sys.executable, "-W", "error", "-m", "hermes", *arguments]


def start_hermes(
    *arguments: str, home: Path, cwd: Path, env: Mapping[str, str] | None = None, **streams: int
) -> subprocess.Popen[str]:
    """Start ``hermes`` and leave it running; what it prints goes nowhere unless ``streams`` say otherwise."""
    return subprocess.Popen(
        hermes_command(*arguments),
        cwd=cwd,
        env=hermes_environment(home, env),
        stdout=streams.get("stdout", subprocess.DEVNULL),
        stderr=streams.get("stderr", subprocess.DEVNULL),
        text=True,
    )


def run_hermes(
    *arguments: str,
    home: Path,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    stdin: str | bytes = b"",
    timeout: float = 60,
) -> subprocess.CompletedProcess[str]:
    """Run ``hermes`` to its end. What it prints is the same on every machine: see ``without_sandbox_notice``."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    command = hermes_command(*arguments)
    if can_fork(env or {}):
        code, output, errors = run_forked(arguments, cwd, hermes_environment(home, env), data, timeout)
    else:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=hermes_environment(home, env),
            input=data,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
        code, output, errors = done.returncode, done.stdout, done.stderr
    printed = without_sandbox_notice(errors.decode("utf-8", "replace"))
    return subprocess.CompletedProcess(command, code, output.decode("utf-8", "replace"), printed)


def without_sandbox_notice(errors: str) -> str:
    """Standard error without the warning of a machine where bubblewrap is missing or does not work."""
    return re.sub(r"^Warning: (the sandbox is reduced|no sandbox): .*\n", "", errors, flags=re.MULTILINE)


def is_running(pid: int) -> bool:
    """Whether a process is there and not merely waiting for its parent to take note of its end."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
