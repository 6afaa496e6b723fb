"""Variables by which a program starts another: what it means to set one of them."""

from __future__ import annotations

import re
from shlex import quote, split
from typing import TYPE_CHECKING

from hermes.policy.programs.options import git_loads, git_setting
from hermes.policy.rules.machine.persistence import hides_history, loads_code
from hermes.policy.rules.packages import changes_source
from hermes.policy.shell.marks import is_known
from hermes.policy.shell.words import by_program, names

if TYPE_CHECKING:
    from hermes.policy.shell.reader import Shell

#: Variables whose value a program runs as a command.
_COMMANDS = re.compile(
    r"\w*(?:PAGER|EDITOR|BROWSER|ASKPASS)|VISUAL|FCEDIT|GIT_(?:SSH|SSH_COMMAND|EXTERNAL_DIFF|PROXY_COMMAND)"
    r"|(?:RSYNC|CVS|BORG)_RSH|LESS(?:OPEN|CLOSE)|\w*_PASSWORD_COMMAND|\w*PASSCOMMAND|FZF_\w*COMMAND"
    r"|RUSTC|RUSTDOC|RUSTC_(?:WORKSPACE_)?WRAPPER|CARGO_BUILD_RUSTC\w*|CARGO_TARGET_\w+_(?:RUNNER|LINKER)"
    r"|CMAKE_\w*_(?:LAUNCHER|COMPILER)|CC|CXX|CPP|LD|AR|FC|HOSTCC|(?:CC|CXX|AR|LD)_\w+"
    r"|PROMPT_COMMAND|(?i:npm_config_(?:script_shell|shell|git|editor|viewer))"
)
#: Variables whose text a shell expands.
_PROMPTS = names("PS0 PS1 PS2 PS4")
#: Variables with folders from which a program takes code.
_FOLDERS = names(
    "PATH PYTHONPATH RUBYLIB NODE_PATH PERL5LIB CLASSPATH LD_LIBRARY_PATH DYLD_LIBRARY_PATH GIT_EXEC_PATH "
    "GIT_TEMPLATE_DIR GEM_PATH GEM_HOME LUA_PATH LUA_CPATH JULIA_LOAD_PATH FPATH PYTHONUSERBASE"
)
#: Variables that hold options for a program.
_OPTIONS = by_program(
    {
        "TAR_OPTIONS": "tar",
        "GOFLAGS": "go build",
        "MAKEFLAGS GNUMAKEFLAGS MFLAGS": "make",
        "FZF_DEFAULT_OPTS": "fzf",
        "RUSTFLAGS CARGO_BUILD_RUSTFLAGS": "rustc",
        "ZIPOPT": "zip",
    }
)
_GIT_PARAMETER = re.compile(r"'([^'=]+)(?:'=')?=?([^']*)'")
_GIT_VALUE = "GIT_CONFIG_VALUE_"
#: Variables that would change this agent's own safeguards.
_OWN_SETTING = re.compile(r"YOLO|MODE|APPROV|ACCEPT_HOOKS|TRUST")


def set_variable(shell: Shell, name: str, value: str, source: str) -> None:
    """Judge a variable that other programs run or load, or that would disable the agent's own safeguards."""
    if name.startswith("HERMES_") and _OWN_SETTING.search(name) and value not in ("", "0", "false"):
        shell.report("own-runtime", source)
    if loads_code(name, value):
        shell.report("load-code", source)
    if changes_source(name, value):
        shell.report("unchecked-package", source)
    if hides_history(name, value):
        shell.report("wipe-logs", source)
    if name in _FOLDERS and any(map(shell.state.paths.is_foreign, filter(is_known, re.split(r"[:;]", value)))):
        shell.report("load-code", source)
    if name.startswith("GIT_CONFIG_"):
        _git(shell, name, value, source)
    elif value and is_known(value):
        _run_value(shell, name, value)


def _run_value(shell: Shell, name: str, value: str) -> None:
    """Judge a value as the program that uses it would run it."""
    if name in _PROMPTS:
        if "$(" in value or "`" in value:
            shell.expand_text(value)
    elif name in ("ENV", "BASH_ENV"):
        if text := shell.content_of(value).text:
            shell.read_apart(text)
    elif name in _OPTIONS:
        shell.read_apart(f"{_OPTIONS[name]} {' '.join(map(quote, _split(value)))}")
    elif _COMMANDS.fullmatch(name):
        shell.read_apart(value.lstrip("|- ").replace("%s", "x"), by_option=True)
    else:
        shell.evaluate([value])


def _split(text: str) -> list[str]:
    try:
        return split(text)
    except ValueError:  # an open quote
        return text.split()


def _git(shell: Shell, name: str, value: str, source: str) -> None:
    """Settings of git in its environment: a list of keys and values, or all of them in one variable."""
    settings: list[tuple[str, str]] = []
    if name.startswith((_GIT_VALUE, "GIT_CONFIG_KEY_")):
        number = name.rpartition("_")[2]
        variables = shell.state.variables
        key, known = variables.get(f"GIT_CONFIG_KEY_{number}", ""), variables.get(_GIT_VALUE + number, "")
        settings = [(str(key), str(known))]
    elif name == "GIT_CONFIG_PARAMETERS":
        settings = _GIT_PARAMETER.findall(value)
    for key, known in settings:
        if git_loads(key, known) or (key.lower() == "core.fsmonitor" and "/" in known):
            shell.report("load-code", source)
        if text := git_setting(key, known):
            shell.read_apart(text, by_option=True)
