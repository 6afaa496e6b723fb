"""Checks of what the tools need: the shell, helper programs, the working folder, the toolsets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hermes.base.config import Config
from hermes.base.programs import find_program
from hermes.surfaces.cli.doctor.check import CheckResult, Installation, broken, ok, warning
from hermes.tools.terminal.child_process import find_shell

_SHELL_SECONDS = 5.0
#: Program -> what is lost without it, and how to get it.
_HELPERS = {
    "rg": ("file search is slower", "install ripgrep"),
    "git": ("plugins cannot be installed from repositories", "install git"),
}


def check_shell(_installation: Installation) -> Iterator[CheckResult]:
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


def check_programs(_installation: Installation) -> Iterator[CheckResult]:
    """Optional programs that improve the tools."""
    for name, (loss, fix) in _HELPERS.items():
        path = find_program(name, system_first=True)
        yield ok(name, path) if path else warning(name, f"not found: {loss}", fix)


def check_terminal(installation: Installation) -> Iterator[CheckResult]:
    """The backend of commands, and their working folder."""
    terminal = installation.settings().terminal
    folder = (installation.cwd / Path(terminal.cwd).expanduser()).resolve()
    if folder.is_dir():
        yield ok("terminal", f"{terminal.backend}, commands start in {folder}")
    else:
        detail, command = f"{folder} (terminal.cwd) is not a folder", "hermes config unset terminal.cwd"
        yield broken("terminal", detail, "create it, or use the default", command=command)


def check_sandbox(installation: Installation) -> Iterator[CheckResult]:
    """Whether this machine can confine commands. It is tried out each time, and the result kept for later runs."""
    from hermes.tools.sandbox.backend import probe, store_probe
    from hermes.tools.sandbox.escapes import open_ways
    from hermes.tools.sandbox.owner.program import probe_file

    terminal = installation.settings().terminal
    found = probe()
    store_probe(probe_file(installation.home), found)
    setting = f"terminal.sandbox: {terminal.sandbox}"
    if found.backend is None:
        loss = "commands are refused" if terminal.sandbox in ("workspace", "read-only") else "commands are not confined"
        yield warning("sandbox", f"none, {loss} ({setting}): {found.summary}", "install bubblewrap")
    elif found.backend.is_reduced:
        yield warning("sandbox", f"{found.summary}; {setting}", "install bubblewrap for the full sandbox")
    elif ways := open_ways(found.backend):
        fix = "install a current bubblewrap, and do not run Hermes as root"
        yield warning("sandbox", f"{found.summary}, not full: {'; '.join(ways)} ({setting})", fix)
    else:
        yield ok("sandbox", f"full: {found.summary}; {setting}")
    if isinstance(terminal.network, list) and (found.backend is None or found.backend.is_reduced):
        yield broken("sandbox", "terminal.network is a list of hosts, which needs bubblewrap", "install bubblewrap")


def check_instructions(installation: Installation) -> Iterator[CheckResult]:
    """The instruction files that a session in this folder gives to its model."""
    if not installation.settings().context.project_instructions:
        yield ok("instructions", "off (context.project_instructions)")
        return
    from hermes.agent.context.project import ProjectInstructions

    instructions = ProjectInstructions(installation.cwd, user_folder=installation.home)
    found = ", ".join(f"{file.name} ({file.size:,} bytes)" for file in instructions.files)
    yield ok("instructions", found or "none; /init in a chat writes an AGENTS.md")
    for notice in instructions.notices:
        yield warning("instructions", notice, "make the file shorter, or put a copy into the project")


def check_prompt_files(installation: Installation) -> Iterator[CheckResult]:
    """The commands and agents from files that a session in this folder has; broken ones are named."""
    from hermes.base.config.trust import how_to_trust
    from hermes.tools.skills.prompt_files import PromptFiles, PromptKind

    files = PromptFiles(installation.home)
    kinds: tuple[PromptKind, ...] = ("commands", "agents")
    for kind in kinds:
        what = f"{kind.removesuffix('s')} files"
        names = ", ".join(file.name for file in files.usable(kind, installation.cwd))
        yield ok(what, names or "none")
        for file in files.all(kind, installation.cwd):
            if file.problem:
                yield warning(what, file.problem, "repair the file, or remove it")
            elif file.wishes() and files.trust.decision(file.root) is None:
                wants = "; ".join(file.wishes())
                yield warning(what, f"{file.path} wants to {wants}", command=how_to_trust(file.root))


def check_skills(installation: Installation) -> Iterator[CheckResult]:
    """The skills that a session in this folder has; broken ones are named."""
    settings = installation.settings().skills
    if not settings.enabled:
        yield ok("skills", "off (skills.enabled)")
        return
    from hermes.tools.skills.skills import Skills

    skills = Skills(installation.home, settings)
    names = [skill.name for skill in skills.usable(installation.cwd)]
    yield ok("skills", ", ".join(names) or "none; 'hermes skills add' installs one")
    for skill in skills.all(installation.cwd):
        if skill.problem:
            yield warning("skills", skill.problem, command="hermes skills check")


def check_toolsets(installation: Installation) -> Iterator[CheckResult]:
    """Every toolset named in the configuration exists."""
    from hermes.host import Host, HostOptions
    from hermes.tools.toolsets import ALIASES, toolsets

    config = installation.settings()
    # Those of a host without plugins.
    bare = Config(model=config.model, terminal=config.terminal)
    with Host(installation.home, bare, HostOptions(use_enabled_plugins=False), cwd=installation.cwd) as host:
        known, tools = {*toolsets(host.tools), *ALIASES}, set(host.tools.all())
    named = {"toolsets": config.toolsets}
    named |= {f"platform_toolsets.{platform}": names for platform, names in config.platform_toolsets.items()}
    unknown = [(setting, name) for setting, names in named.items() for name in names if name.strip() not in known]
    # Single tools may be disabled by name, and disabling an unknown one does no harm.
    odd = [name for name in config.agent.disabled_toolsets if name.strip() not in known | tools]
    for setting, name in unknown:
        yield _unknown(setting, name, known, is_harmless=bool(config.plugins.enabled))
    for name in odd:
        yield _unknown("agent.disabled_toolsets", name, known | tools, is_harmless=True)
    if not unknown and not odd:
        yield ok("toolsets", ", ".join(config.toolsets) or "none")


def _unknown(setting: str, name: str, known: set[str], *, is_harmless: bool) -> CheckResult:
    from hermes.base.errors import did_you_mean

    detail = f"{setting}: {name!r} does not exist"
    fix = did_you_mean(name, sorted(known)).removeprefix("; ")
    if is_harmless:
        return warning("toolsets", f"{detail} unless a plugin adds it", fix, command="hermes config edit")
    return broken("toolsets", detail, fix, command="hermes config edit")
