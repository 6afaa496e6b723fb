"""Which module names plugins may import, and the modules of one host behind them."""

from __future__ import annotations

from importlib import import_module
from threading import RLock
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes.plugins.context import Parts

#: Each name with what fills it: ``module:function`` in this package, called with the host's parts.
NAMES = {
    "agent.browser_provider": "providers:browser",
    "agent.context_engine": "engines:context_engine",
    "agent.image_gen_provider": "media:image",
    "agent.memory_provider": "engines:memory_provider",
    "agent.plugin_llm": "plugin_llm:names",
    "agent.secret_sources.base": "secret_sources:names",
    "agent.transcription_provider": "providers:transcription",
    "agent.tts_provider": "providers:speech",
    "agent.video_gen_provider": "media:video",
    "agent.web_search_provider": "providers:web_search",
    "hermes_cli.config": "settings:names",
    "hermes_cli.dashboard_auth": "dashboard_auth:names",
    "hermes_cli.dashboard_auth.base": "dashboard_auth:names",
    "hermes_cli.middleware": "middleware:names",
    "hermes_cli.plugins": "manager:names",
    "hermes_constants": "constants:names",
    "plugins.memory": "engines:memory_plugins",
    "providers": "model_providers:names",
    "providers.base": "model_providers:base",
    "tools.registry": "tool_registry:names",
    "utils": "helpers:names",
}

#: Names that only hold others.
PACKAGES = frozenset(
    ".".join(parts[:length]) for name in NAMES if (parts := name.split(".")) for length in range(1, len(parts))
)
ROOTS = frozenset(name.partition(".")[0] for name in NAMES)

#: Names so common that a plugin may also mean a module of its own: what ours lacks is looked for in the installed one.
_COMMON = frozenset({"agent", "plugins", "providers", "tools", "utils"})

_building = RLock()


class CompatModule(ModuleType):
    """A module that is in no ``sys.modules``; its submodules are made when they are first looked at."""

    def __init__(self, name: str, parts: Parts) -> None:
        super().__init__(name)
        self._parts = parts
        if name in PACKAGES:
            self.__path__ = []

    def __getattr__(self, name: str) -> Any:
        # Plugins use `import agent` and then `agent.plugin_llm`, which elsewhere some other module has imported.
        if not name.startswith("__"):
            child = find_module(self._parts, f"{self.__name__}.{name}")
            if child is not None:
                return child
            if self.__name__ in _COMMON:
                installed = _installed(self.__name__)
                if hasattr(installed, name):
                    return getattr(installed, name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


def find_module(parts: Parts, name: str) -> ModuleType | None:
    """The host's module of that name, or ``None`` when the name is not in the table."""
    found = parts.compat_modules.get(name)
    if found is not None or (name not in NAMES and name not in PACKAGES):
        return found
    with _building:
        found = parts.compat_modules.get(name)
        if found is None:
            found = parts.compat_modules[name] = _build(parts, name)
    return found


def _build(parts: Parts, name: str) -> ModuleType:
    module = CompatModule(name, parts)
    source = NAMES.get(name)
    if source is not None:
        file, _, function = source.partition(":")
        content: dict[str, Any] = getattr(import_module(f"hermes.plugins.compat.{file}"), function)(parts)
        vars(module).update(content, __all__=sorted(key for key in content if not key.startswith("_")))
    return module


def _installed(name: str) -> ModuleType | None:
    try:
        return import_module(name)
    except ImportError:
        return None
