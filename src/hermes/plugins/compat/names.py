"""Compatibility modules: the module names that published plugins import, made for one host.

The ``import`` of plugins finds them (``plugins/loading/imports.py``). None enters ``sys.modules``.
"""

from __future__ import annotations

from contextvars import ContextVar
from importlib import import_module
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes.base.config.schema.sections import Config
    from hermes.plugins.services import PluginHost

Names = dict[str, Any]

#: The first words of all names in the table, which is read only when a plugin imports one of them.
ROOTS = frozenset(
    {
        "agent",
        "cron",
        "gateway",
        "hermes_cli",
        "hermes_constants",
        "hermes_executor",
        "hermes_state",
        "hermes_time",
        "model_tools",
        "plugins",
        "providers",
        "run_agent",
        "tools",
        "utils",
    }
)

#: Names so common that a plugin may also mean a module of its own: what ours lacks is looked for in the installed one.
COMMON = frozenset({"agent", "cron", "gateway", "plugins", "providers", "tools", "utils"})

_building = RLock()


class CompatModule(ModuleType):
    """A module that is in no ``sys.modules``; its submodules are made when they are first used."""

    def __init__(self, name: str, host: PluginHost) -> None:
        super().__init__(name)
        self._host = host
        from hermes.plugins.compat.table import PACKAGES

        if name in PACKAGES:
            self.__path__ = []

    def __getattr__(self, name: str) -> Any:
        # Plugins use `import agent` and then `agent.plugin_llm`, which elsewhere some other module has imported.
        if not name.startswith("__"):
            child = find_module(self._host, f"{self.__name__}.{name}")
            if child is not None:
                return child
            if self.__name__ in COMMON:
                installed = _installed_module(self.__name__)
                if hasattr(installed, name):
                    return getattr(installed, name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


def find_module(host: PluginHost, name: str) -> ModuleType | None:
    """The host's module of that name, or ``None`` when the name is not in the table."""
    from hermes.plugins.compat.table import NAMES, PACKAGES

    found = host.compat_modules.get(name)
    if found is not None or (name not in NAMES and name not in PACKAGES):
        return found
    with _building:
        found = host.compat_modules.get(name)
        if found is None:
            found = host.compat_modules[name] = _build(host, name)
    return found


def _build(host: PluginHost, name: str) -> ModuleType:
    from hermes.plugins.compat.table import NAMES

    module = CompatModule(name, host)
    if name in NAMES:
        content = _content(host, NAMES[name])
        lazy: tuple[str, ...] = content.get("__lazy__", ())  # made by the module's own ``__getattr__``
        vars(module).update(content, __all__=sorted([*lazy, *(key for key in content if not key.startswith("_"))]))
    return module


def _content(host: PluginHost, row: str) -> Names:
    content: Names = {}
    source: ModuleType | None = None
    for word in row.split():
        if word.endswith(":"):
            place = word[:-1].replace("/", ".")
            source = import_module(f"hermes.{place}" if "." in word else f"{__package__}.{place}")
            continue
        theirs, _, ours = word.rpartition("=")
        value = getattr(source, ours.removesuffix("()"))
        if not ours.endswith("()"):
            content[theirs or ours] = value
        elif theirs:
            content[theirs] = value(host)
        else:
            content |= value(host)
    return content


def _installed_module(name: str) -> ModuleType | None:
    try:
        return import_module(name)
    except ImportError:
        return None


# -- the host that loaded a plugin -----------------------------------------------------------------------------------


#: Another home that a plugin works for now, with ``hermes_constants.set_hermes_home_override``.
home_override: ContextVar[Path | None] = ContextVar("hermes_home_override", default=None)


def home_of(host: PluginHost) -> Path:
    """The host's home; the process's own for a host that keeps none, such as one made for a test."""
    override = home_override.get()
    if override is not None:
        return override
    home: object = getattr(host.services, "home", None)
    if isinstance(home, Path):
        return home
    from hermes.base.config.files import hermes_home

    return hermes_home()


def config_of(host: PluginHost) -> Config | None:
    """The configuration the host was built from, when it has one."""
    from hermes.base.config.schema.sections import Config

    config: object = getattr(host.services, "config", None)
    return config if isinstance(config, Config) else None
