"""Compatibility modules: the module names that published plugins import, made for one host.

The ``import`` of plugins finds them (``plugins/loading/imports.py``). None enters ``sys.modules``.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes.base.config.schema.sections import Config
    from hermes.plugins.services import PluginHost

Names = dict[str, Any]

_ADAPTER_NAMES = (
    "platforms: BasePlatformAdapter messages: MessageEvent MessageType PlatformConfig ProcessingOutcome SendResult "
    "SessionSource"
)
_SIGN_IN_NAMES = (
    "bases: DashboardAuthProvider InvalidCodeError InvalidCredentialsError LoginStart "
    "ProviderError=IdentityProviderError RefreshExpiredError Session=SignedInUser TokenPrincipal"
)
#: Each module with what is in it: a module of this package, or of ours where it has a dot, and the names to take from
#: it. ``theirs=ours`` is a name that differs here, ``theirs=Kind()`` an object made for the host, and ``function()``
#: gives further names for the host.
NAMES = {
    "agent.auxiliary_client": "runtime: extract_content_or_reasoning auxiliary_client()",
    "agent.browser_provider": "bases: BrowserProvider",
    "agent.context_engine": "engines: ContextEngine",
    "agent.delegation_context": "runtime: delegation_context()",
    "agent.image_gen_provider": "bases: ImageGenProvider media: image()",
    "agent.memory_provider": "engines: MemoryProvider",
    "agent.plugin_llm": "plugins.llm.access: PluginLlm contract.llm: PluginLlmBudgetError PluginLlmCompleteResult "
    "PluginLlmImageInput PluginLlmStructuredResult PluginLlmTextInput PluginLlmTrustError PluginLlmUsage",
    "agent.secret_scope": "runtime: secret_scope()",
    "agent.secret_sources.base": "bases: DEFAULT_FETCH_TIMEOUT_SECONDS SECRET_SOURCE_API_VERSION ErrorKind FetchResult "
    "SecretSource is_valid_env_name",
    "agent.transcription_provider": "bases: TranscriptionProvider",
    "agent.tts_provider": "bases: DEFAULT_OUTPUT_FORMAT VALID_OUTPUT_FORMATS TTSProvider resolve_output_format",
    "agent.video_gen_provider": "bases: VideoGenProvider media: video()",
    "agent.web_search_provider": "bases: WebSearchProvider get_provider_env",
    "cron": "runtime: jobs()",
    "cron.jobs": "runtime: jobs()",
    "cron.scheduler_provider": "bases: CronScheduler",
    "gateway.config": "messages: HomeChannel Platform PlatformConfig platforms: config()",
    "gateway.platform_registry": "platforms: PlatformEntry PlatformRegistry platform_registry=PlatformRegistry()",
    "gateway.platforms.base": _ADAPTER_NAMES,
    "gateway.platforms.event": _ADAPTER_NAMES,
    "gateway.run": "platforms: run()",
    "gateway.session": "messages: SessionSource build_session_key canonical_whatsapp_identifier",
    "gateway.whatsapp_identity": "messages: canonical_whatsapp_identifier expand_whatsapp_aliases",
    "hermes_cli.config": "settings: names()",
    "hermes_cli.dashboard_auth": _SIGN_IN_NAMES,
    "hermes_cli.dashboard_auth.base": _SIGN_IN_NAMES,
    "hermes_cli.middleware": "manager: middleware()",
    "hermes_cli.plugins": "manager: plugins()",
    "hermes_cli.profiles": "runtime: profiles()",
    "hermes_constants": "settings: constants()",
    "hermes_state": "runtime: state()",
    "plugins.memory": "engines: MemoryProvider memory_plugins()",
    "providers": "plugins.model_provider: ProviderProfile runtime: providers()",
    "providers.base": "plugins.model_provider: ProviderProfile",
    "tools.approval": "runtime: approval()",
    "tools.interrupt": "runtime: is_interrupted",
    "tools.registry": "tool_registry: ToolEntry ToolRegistry=Registry registry=Registry() tool_error tool_result",
    "utils": "helpers: TRUTHY_STRINGS atomic_json_write atomic_replace atomic_write_text atomic_yaml_write "
    "base_url_host_matches base_url_hostname env_bool env_float env_int env_var_enabled is_truthy_value "
    "read_json_or_empty safe_json_loads",
}

#: Names that only hold others.
PACKAGES = frozenset(
    ".".join(parts[:length]) for name in NAMES if (parts := name.split(".")) for length in range(1, len(parts))
)
ROOTS = frozenset(name.partition(".")[0] for name in NAMES)

#: Names so common that a plugin may also mean a module of its own: what ours lacks is looked for in the installed one.
COMMON = frozenset({"agent", "cron", "gateway", "plugins", "providers", "tools", "utils"})

_building = RLock()


class CompatModule(ModuleType):
    """A module that is in no ``sys.modules``; its submodules are made when they are first used."""

    def __init__(self, name: str, host: PluginHost) -> None:
        super().__init__(name)
        self._host = host
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
    found = host.compat_modules.get(name)
    if found is not None or (name not in NAMES and name not in PACKAGES):
        return found
    with _building:
        found = host.compat_modules.get(name)
        if found is None:
            found = host.compat_modules[name] = _build(host, name)
    return found


def _build(host: PluginHost, name: str) -> ModuleType:
    module = CompatModule(name, host)
    if name in NAMES:
        content = _content(host, NAMES[name])
        vars(module).update(content, __all__=sorted(key for key in content if not key.startswith("_")))
    return module


def _content(host: PluginHost, row: str) -> Names:
    content: Names = {}
    source: ModuleType | None = None
    for word in row.split():
        if word.endswith(":"):
            source = import_module(f"hermes.{word[:-1]}" if "." in word else f"{__package__}.{word[:-1]}")
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


def home_of(host: PluginHost) -> Path:
    """The host's home; the process's own for a host that keeps none, such as one made for a test."""
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
