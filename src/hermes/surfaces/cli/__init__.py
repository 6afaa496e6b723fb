"""The front door: one module per command, imported only when that command runs, and how a command opens its home."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from hermes.base.config import LoadedConfig
    from hermes.base.sanitize import Redactor


def open_home(*, verbose: bool = False, ignore_user: bool = False) -> tuple[Path, Redactor, LoadedConfig]:
    """The home, with the variables of its ``.env`` in the environment and its log open; and its configuration.

    The redactor cleans the log; a host adds the secrets of the home to it. The warnings of the configuration begin with
    those of ``.env``.
    """
    from msgspec.structs import replace

    from hermes.base.config import apply_env, hermes_home, load_config, load_env_file
    from hermes.base.log import setup_logging
    from hermes.base.sanitize import Redactor

    home, redactor = hermes_home(), Redactor()
    warnings: list[str] = []
    apply_env(load_env_file(home, warnings=warnings))
    setup_logging(home, verbose=verbose, redactor=redactor)
    loaded = load_config(home, ignore_user=ignore_user)
    return home, redactor, replace(loaded, warnings=[*warnings, *loaded.warnings])


def home_with_variables() -> Path:
    """The home, with the variables of its ``.env`` in the environment."""
    from hermes.base.config import apply_env, hermes_home, load_env_file

    home = hermes_home()
    apply_env(load_env_file(home))
    return home


def opened_home(_args: object) -> AbstractContextManager[Path]:
    """For commands whose actions get the home, with the variables of its ``.env`` in the environment."""
    from contextlib import nullcontext

    return nullcontext(home_with_variables())
