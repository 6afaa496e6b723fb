"""Checks of what the tools lean on: the shell, helper programs, the folder commands start in, the toolsets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hermes.cli.doctor.finding import Finding, broken, ok, warning
from hermes.cli.doctor.patient import Patient
from hermes.config import Config
from hermes.tools.terminal.child_process import find_program
from hermes.tools.terminal.shell import find_shell

_SHELL_SECONDS = 5.0
#: Program -> what it is missed for, and how to get it.
_HELPERS = {
    "rg": ("searching files works, but more slowly", "install ripgrep"),
    "git": ("plugins cannot be installed from repositories", "install git"),
}


def check_shell(_patient: Patient) -> Iterator[Finding]:
    """The shell that runs the commands of the terminal tool."""
    import subprocess

    shell = find_shell()
    try:
        done = subprocess.run(
            [shell, "-c", "exit 7"], stdin=subprocess.DEVNULL, capture_output=True, timeout=_SHELL_SECONDS, check=False
        )
        problem = "" if done.returncode == 7 else f"ended with code {done.returncode}"
    except OSError as error:
        problem = error.strerror or str(error)
    except subprocess.TimeoutExpired:
        problem = f"took longer than {_SHELL_SECONDS:g} s"
    if problem:
        yield broken("shell", f"{shell} cannot run a command: {problem}", "install bash")
    else:
        yield ok("shell", shell)


def check_programs(_patient: Patient) -> Iterator[Finding]:
    """Programs that make the tools better and are not needed."""
    for name, (loss, fix) in _HELPERS.items():
        path = find_program(name)
        yield ok(name, path) if path else warning(name, f"not found: {loss}", fix)


def check_terminal(patient: Patient) -> Iterator[Finding]:
    """Where commands run, and the folder they start in."""
    terminal = patient.settings().terminal
    folder = (patient.cwd / Path(terminal.cwd).expanduser()).resolve()
    if folder.is_dir():
        yield ok("terminal", f"{terminal.backend}, commands start in {folder}")
    else:
        command = "hermes config unset terminal.cwd"
        yield broken(
            "terminal", f"{folder} (terminal.cwd) is not a folder", "make it, or start elsewhere", command=command
        )


def check_toolsets(patient: Patient) -> Iterator[Finding]:
    """Every toolset that the configuration names exists."""
    config = patient.settings()
    toolsets, tools = _known(patient, config)
    named = {"toolsets": config.toolsets}
    named |= {f"platform_toolsets.{platform}": names for platform, names in config.platform_toolsets.items()}
    unknown = [(setting, name) for setting, names in named.items() for name in names if name.strip() not in toolsets]
    # Single tools may be left out by name, and leaving out what is not there does no harm.
    odd = [name for name in config.agent.disabled_toolsets if name.strip() not in toolsets | tools]
    for setting, name in unknown:
        yield _unknown(setting, name, toolsets, is_harmless=bool(config.plugins.enabled))
    for name in odd:
        yield _unknown("agent.disabled_toolsets", name, toolsets | tools, is_harmless=True)
    if not unknown and not odd:
        yield ok("toolsets", ", ".join(config.toolsets) or "none")


def _known(patient: Patient, config: Config) -> tuple[set[str], set[str]]:
    """The toolsets and the tools there are without any plugin, as a host of this version has them."""
    from hermes.host import Host, HostOptions
    from hermes.tools.toolsets import toolsets

    bare = Config(model=config.model, terminal=config.terminal)
    with Host(patient.home, bare, HostOptions(use_enabled_plugins=False), cwd=patient.cwd) as host:
        return set(toolsets(host.tools)), set(host.tools.all())


def _unknown(setting: str, name: str, known: set[str], *, is_harmless: bool) -> Finding:
    from hermes.errors import did_you_mean

    detail = f"{setting} names {name!r}, which does not exist"
    fix = did_you_mean(name, known).removeprefix("; ") or f"there are {', '.join(sorted(known))}"
    if is_harmless:
        return warning("toolsets", f"{detail} unless a plugin brings it", fix, command="hermes config edit")
    return broken("toolsets", detail, fix, command="hermes config edit")
