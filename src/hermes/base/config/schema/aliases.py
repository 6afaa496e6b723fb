"""Aliases: other spellings that a configuration file may use, and the settings they mean."""

from typing import Literal, TypeVar

from msgspec import Struct, field

from hermes.base.config.schema.bounds import SecondsOrNone
from hermes.base.config.schema.modes import DEFAULT_MODE, UNASKED_MODE
from hermes.base.config.schema.sections import (
    ApprovalsConfig,
    Config,
    FallbackConfig,
    HooksConfig,
    ModelConfig,
    ModelProviderConfig,
    Name,
    PluginsConfig,
    ShellHookConfig,
)

S = TypeVar("S", bound=Struct)

# As in sections.py, annotations are evaluated once, here.


class AliasedModelConfig(ModelConfig, kw_only=True):
    """``model`` with its aliases."""

    model: str = ""  #: Means default.
    name: str = ""  #: Means default.
    api_base: str = ""  #: Means base_url.


class AliasedApprovalsConfig(ApprovalsConfig, kw_only=True):
    """``approvals`` with its alias."""

    #: ``smart`` means ``reviewer: model``, ``off`` the permission mode without questions, ``manual`` the defaults.
    mode: Literal["manual", "smart", "off"] | None = None


class AliasedPluginsConfig(PluginsConfig, kw_only=True):
    """``plugins`` with its alias."""

    hook_callback_timeout: SecondsOrNone | None = None  #: Means hook_timeout.


class AliasedShellHookConfig(ShellHookConfig, kw_only=True):
    """A hook command with its alias."""

    fail_closed: bool = False  #: Means on_error: deny.


class AliasedHooksConfig(HooksConfig, kw_only=True):
    """``hooks`` with the aliases of its commands."""

    events: dict[str, list[AliasedShellHookConfig]] = {}  # pyright: ignore[reportIncompatibleVariableOverride]


class CustomProviderConfig(ModelProviderConfig, kw_only=True):
    """An item of ``custom_providers``: a provider that carries its own name."""

    name: Name


class AliasedConfig(Config, kw_only=True):
    """``config.yaml`` with the aliases it may use."""

    model: AliasedModelConfig = field(default_factory=AliasedModelConfig)  # pyright: ignore[reportIncompatibleVariableOverride]
    approvals: AliasedApprovalsConfig = field(default_factory=AliasedApprovalsConfig)  # pyright: ignore[reportIncompatibleVariableOverride]
    plugins: AliasedPluginsConfig = field(default_factory=AliasedPluginsConfig)  # pyright: ignore[reportIncompatibleVariableOverride]
    hooks: AliasedHooksConfig = field(default_factory=AliasedHooksConfig)  # pyright: ignore[reportIncompatibleVariableOverride]
    provider: str = ""  #: Means model.provider.
    base_url: str = ""  #: Means model.base_url.
    api_base: str = ""  #: Means model.base_url.
    custom_providers: list[CustomProviderConfig] = []  #: Means providers.
    fallback_model: FallbackConfig | None = None  #: Means one more entry of fallback_providers.


def resolve_aliases(written: AliasedConfig, warnings: list[str]) -> Config:
    """The configuration in its one documented spelling. Where two spellings differ, the documented one wins."""
    model = written.model
    resolved = {name: getattr(written, name) for name in Config.__struct_fields__}
    main = resolved["model"] = _settled(ModelConfig, model)
    main.default = _choose(
        warnings, "model.default", model.default, {"model.model": model.model, "model.name": model.name}
    )
    main.base_url = _choose(
        warnings,
        "model.base_url",
        model.base_url,
        {"model.api_base": model.api_base, "base_url": written.base_url, "api_base": written.api_base},
    )
    main.provider = _choose(warnings, "model.provider", model.provider, {"provider": written.provider})
    resolved["approvals"] = _approvals(written.approvals, warnings)
    resolved["plugins"] = _plugins(written.plugins, warnings)
    resolved["hooks"] = _hooks(written.hooks)
    for custom in written.custom_providers:
        if custom.name in written.providers:
            warnings.append(f"custom_providers: {custom.name!r} is left out, providers has that name already")
            continue
        resolved["providers"][custom.name] = _settled(ModelProviderConfig, custom)
    if written.fallback_model is not None:
        resolved["fallback_providers"].append(written.fallback_model)
    return Config(**resolved)


def _approvals(written: AliasedApprovalsConfig, warnings: list[str]) -> ApprovalsConfig:
    approvals = _settled(ApprovalsConfig, written)
    if written.mode == "off":
        if approvals.permission_mode == DEFAULT_MODE:
            approvals.permission_mode = UNASKED_MODE
        elif approvals.permission_mode != UNASKED_MODE:
            warnings.append("approvals.mode is ignored because approvals.permission_mode says something else")
    elif written.mode == "smart":
        approvals.reviewer = "model"
    return approvals


def _plugins(written: AliasedPluginsConfig, warnings: list[str]) -> PluginsConfig:
    plugins, other = _settled(PluginsConfig, written), written.hook_callback_timeout
    if other is None or other == plugins.hook_timeout:
        return plugins
    if plugins.hook_timeout != PluginsConfig().hook_timeout:
        warnings.append("plugins.hook_callback_timeout is ignored because plugins.hook_timeout says something else")
    else:
        plugins.hook_timeout = other
    return plugins


def _hooks(written: AliasedHooksConfig) -> HooksConfig:
    hooks = _settled(HooksConfig, written)
    hooks.events = {event: [_command(entry) for entry in entries] for event, entries in written.events.items()}
    return hooks


def _command(written: AliasedShellHookConfig) -> ShellHookConfig:
    command = _settled(ShellHookConfig, written)
    if written.fail_closed:  # where the two differ, the one that lets less pass wins
        command.on_error = "deny"
    return command


def _settled(kind: type[S], written: S) -> S:
    """The section without its aliases."""
    return kind(**{name: getattr(written, name) for name in kind.__struct_fields__})


def _choose(warnings: list[str], name: str, value: str, others: dict[str, str]) -> str:
    for other_name, other in others.items():
        if not value:
            value, name = other, other_name if other else name
        elif other and other != value:
            warnings.append(f"{other_name} is ignored because {name} says something else")
    return value
