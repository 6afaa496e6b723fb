"""``hermes config``: shows and changes the configuration; edits a copy, which replaces the file only when valid.

A name in capitals is an environment variable: it is kept in ``.env``, and its value is never shown.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shlex
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import msgspec

from hermes.base.config import LoadedConfig, config_path, env_path, hermes_home, load_config, load_env_file
from hermes.base.config.document import parse_value
from hermes.base.config.edit import edit_config, replace_config, unset_config
from hermes.base.config.environment import is_variable, remove_env, save_env
from hermes.base.config.listing import list_settings
from hermes.base.config.load import load_text, read_text
from hermes.base.config.messages import dotted
from hermes.base.errors import ConfigError
from hermes.base.programs import owners_command
from hermes.surfaces.cli.arguments import JSON, Action, Argument, CommandSpec
from hermes.surfaces.cli.report import Report
from hermes.surfaces.cli.terminal import plain, print_error, print_note, print_warnings, secret_from_stdin, typed_secret
from hermes.surfaces.commands.handlers.settings import masked, select, setting_lines

_EXAMPLES = """
examples:
  hermes config set agent.max_turns 60         change a setting in config.yaml
  hermes config set TELEGRAM_BOT_TOKEN         a name in capitals is a variable in .env: asks for it without showing it
  hermes config set TELEGRAM_BOT_TOKEN < file  the same from a file; a VALUE would stay in the history of the shell
  hermes config get TELEGRAM_BOT_TOKEN         whether it is set
"""
_FIRST_TEXT = "# Hermes settings. 'hermes config show' lists them all with their defaults.\n"


def edit_by_hand(_args: argparse.Namespace, home: Path) -> int:
    """Open an editor on a copy of the configuration; an invalid edit is kept beside the file and never replaces it."""
    path = config_path(home)
    before = read_text(path) or ""
    copy = _make_copy(home, before or _FIRST_TEXT)
    while True:
        _run_editor(copy)
        after = read_text(copy) or ""
        if after in (before, "" if before else _FIRST_TEXT):
            copy.unlink(missing_ok=True)
            print(f"{path} is unchanged")
            return 0
        try:
            loaded = load_text(after, copy, {**os.environ, **load_env_file(home)})
            replace_config(home, before, after)
            break
        except ConfigError as error:
            print_error(plain(str(error)))
            if not _wants_retry():
                print(f"{path} is unchanged; your edit is kept in {copy}", file=sys.stderr)
                return 1
    copy.unlink(missing_ok=True)
    print_warnings(warning.replace(str(copy), str(path)) for warning in loaded.warnings)
    print(f"{path} is saved")
    return 0


def _make_copy(home: Path, text: str) -> Path:
    copy = home / f"config.edit-{secrets.token_hex(3)}.yaml"
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ConfigError(f"{home}: cannot be written: {error.strerror}") from None
    return copy


def _run_editor(copy: Path) -> None:
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    # Ctrl-C belongs to the editor while it runs. A handler, unlike SIG_IGN, is not inherited.
    previous = signal.signal(signal.SIGINT, lambda _number, _frame: None)
    try:
        code = subprocess.run([*owners_command(shlex.split(command)), str(copy)], check=False).returncode
    except (OSError, ValueError) as error:
        copy.unlink(missing_ok=True)
        raise ConfigError(f"cannot start the editor {command!r} ({error}); set VISUAL or EDITOR") from None
    finally:
        signal.signal(signal.SIGINT, previous)
    if code:
        raise ConfigError(f"the editor {command!r} ended with code {code}; nothing was changed, the copy is {copy}")


def _wants_retry() -> bool:
    if not sys.stdin.isatty():
        return False
    try:
        answer = input("Edit again? [Y/n] ")
    except EOFError:
        return False
    return answer.strip().lower() in ("", "y", "yes")


def _set(args: argparse.Namespace, home: Path) -> None:
    key, value = args.key, args.value
    if is_variable(key):
        if key == "HERMES_HOME":
            raise ConfigError(
                f"HERMES_HOME cannot be set in {env_path(home)}, which lies in the home; set it in the shell"
            )
        if value is None and sys.stdin.isatty():
            value = typed_secret(f"{key} (not shown):  ", "give the value on standard input")
        elif value is None:
            value = secret_from_stdin()
        if not value:
            raise ConfigError(
                f"no value was given for {key}; nothing was changed. To remove it: hermes config unset {key}"
            )
        save_env(home, {key: value})
        print(f"{key} is set in {env_path(home)}")
    elif value is None:
        raise ConfigError(f"no value was given for {key}; use: hermes config set {key} VALUE")
    else:
        edit_config(home, key, parse_value(value))
        print(f"{key} is set in {config_path(home)}")
    _print_restart_note(home, key)


def _unset(args: argparse.Namespace, home: Path) -> None:
    key = args.key
    if is_variable(key):
        if not remove_env(home, key):
            elsewhere = "; it is set in the environment of this shell" if os.environ.get(key) else ""
            raise ConfigError(f"{key} is not set in {env_path(home)}{elsewhere}")
        print(f"{key} is removed from {env_path(home)}")
    else:
        if not unset_config(home, key):
            raise ConfigError(f"{key} is not set in {config_path(home)}")
        print(f"{key} is removed from {config_path(home)}; its default applies")
    _print_restart_note(home, key)


def _print_restart_note(home: Path, key: str) -> None:
    """Say so when a gateway runs with the old value."""
    if not is_variable(key) and not key.startswith("gateway."):
        return
    from hermes.surfaces.gateway.status import read_status

    status = read_status(home)
    if status is not None and status.is_running:
        print_note(f"The gateway that runs (process {status.pid}) uses it after a restart.")


def _get(args: argparse.Namespace, home: Path) -> Report:
    """One value: text as it is, anything else as JSON; of a variable only whether it is set, and where."""
    key = args.key
    if is_variable(key):
        places = {str(env_path(home)): load_env_file(home), "the environment of this shell": os.environ}
        place = next((name for name, variables in places.items() if variables.get(key)), "")
        if not place:
            raise ConfigError(f"{key} is not set; set it with: hermes config set {key}")
        return Report(None, [f"{key} is set in {place}"])
    settings = select(list(list_settings(_load(home).config)), key)
    if len(settings) > 1:
        names = ", ".join(dotted(setting.path) for setting in settings[:4])
        raise ConfigError(f"{key} is a section ({names}, ...); use 'hermes config show {key}', or name one setting")
    [setting] = settings
    value = masked(setting.path, setting.value)
    return Report(None, data=value if isinstance(value, str) else msgspec.json.encode(value).decode())


def _load(home: Path) -> LoadedConfig:
    """The configuration; what is wrong with it goes to stderr."""
    warnings: list[str] = []
    environ = {**os.environ, **load_env_file(home, warnings=warnings)}
    loaded = load_config(home, environ=environ)
    print_warnings([*warnings, *loaded.warnings])
    return loaded


def _show(args: argparse.Namespace, home: Path) -> Report:
    loaded = _load(home)
    settings = select(list(list_settings(loaded.config)), args.key)
    exists = loaded.path.exists()
    document = {
        "path": str(loaded.path),
        "exists": exists,
        "values": {dotted(setting.path): masked(setting.path, setting.value) for setting in settings},
        "defaults": [dotted(setting.path) for setting in settings if setting.is_default],
    }
    missing = "" if exists else " (no such file; all values are defaults)"
    return Report(document, [f"# {loaded.path}{missing}", *setting_lines(settings)])


def _path(_args: argparse.Namespace, home: Path) -> None:
    print(config_path(home))


_KEY = Argument(
    "key KEY", "names joined by dots, such as agent.max_turns; or a variable in .env, such as OPENAI_API_KEY"
)

COMMAND = CommandSpec(
    default="show",
    opened=lambda _args: nullcontext(hermes_home()),
    epilog=_EXAMPLES,
    actions=(
        Action("show", _show, "print the current settings, secrets redacted (the default)").takes(
            Argument("key KEY", "only this setting or section", nargs="?", default=""), JSON
        ),
        Action("get", _get, "print the value of one setting, or whether a variable is set").takes(_KEY),
        Action("path", _path, "print the path of the file"),
        Action("set", _set, "change one setting, or one variable in .env").takes(
            _KEY,
            Argument(
                "value VALUE",
                "written as in the file: 5, true, text, [a, b]; that of a variable is asked for, or read from "
                "standard input, when it is left out",
                nargs="?",
            ),
        ),
        Action("unset", _unset, "remove one setting, so that its default applies, or one variable").takes(_KEY),
        Action("edit", edit_by_hand, "open the file in your editor ($VISUAL or $EDITOR)"),
    ),
)
