"""Commands that enabled plugins add to ``hermes``."""

from __future__ import annotations

import argparse
import logging
from typing import Any

from hermes.base.config import Config, apply_env, hermes_home, load_config, load_env_file
from hermes.base.errors import ConfigError, HermesError, PluginError
from hermes.plugins.registry import CliCommand
from hermes.surfaces.cli.arguments import CommandParser

log = logging.getLogger("hermes.plugins")


def run_plugin_command(name: str, arguments: list[str]) -> tuple[int | None, list[str]]:
    """Run ``hermes <name>`` of an enabled plugin. Returns its exit code, or None and the known names.

    Plugins are loaded only here, so an unknown command costs nothing without enabled plugins.
    """
    home = hermes_home()
    try:
        apply_env(load_env_file(home))
        config: Config = load_config(home).config
    except ConfigError:
        return None, []
    if not config.plugins.enabled:
        return None, []
    from hermes.base.log import setup_logging
    from hermes.base.sanitize import Redactor
    from hermes.host import Host

    redactor = Redactor()  # the host adds the secrets of the home to it
    setup_logging(home, redactor=redactor)
    with Host(home, config, redactor=redactor) as host:
        commands = host.plugins.cli_commands
        command = commands.get(name)
        if command is None:
            return None, sorted(commands)
        return _run(host, command, arguments), []


def _run(host: Any, command: CliCommand, arguments: list[str]) -> int:
    from hermes.hooks.callback import describe, is_awaitable

    label = f"command {command.name!r} of plugin {command.plugin!r}"
    parser = CommandParser(prog=f"hermes {command.name}", description=command.description or command.help)
    try:
        command.setup_fn(parser)
        args: argparse.Namespace = parser.parse_args(arguments)
        handler = command.handler_fn or getattr(args, "func", None)
        if handler is None:
            raise PluginError(f"{label} has no handler")
        result = handler(args)
        if is_awaitable(result):
            result = host.hooks.loop.run(result, label)
    except HermesError:
        raise
    except Exception as error:
        log.warning("%s failed", label, exc_info=True)
        raise PluginError(f"{label} failed: {describe(error)}") from error
    return result if isinstance(result, int) else 0
