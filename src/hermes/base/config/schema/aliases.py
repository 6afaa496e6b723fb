"""Aliases: other spellings that a configuration file may use, and the settings they mean."""

from typing import Literal

from msgspec import field

from hermes.base.config.schema.modes import DEFAULT_MODE, UNASKED_MODE
from hermes.base.config.schema.sections import (
    ApprovalsConfig,
    Config,
    FallbackConfig,
    ModelConfig,
    ModelProviderConfig,
    Name,
)

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


class CustomProviderConfig(ModelProviderConfig, kw_only=True):
    """An item of ``custom_providers``: a provider that carries its own name."""

    name: Name


class AliasedConfig(Config, kw_only=True):
    """``config.yaml`` with the aliases it may use."""

    model: AliasedModelConfig = field(default_factory=AliasedModelConfig)  # pyright: ignore[reportIncompatibleVariableOverride]
    approvals: AliasedApprovalsConfig = field(default_factory=AliasedApprovalsConfig)  # pyright: ignore[reportIncompatibleVariableOverride]
    provider: str = ""  #: Means model.provider.
    base_url: str = ""  #: Means model.base_url.
    api_base: str = ""  #: Means model.base_url.
    custom_providers: list[CustomProviderConfig] = []  #: Means providers.
    fallback_model: FallbackConfig | None = None  #: Means one more entry of fallback_providers.


def resolve_aliases(written: AliasedConfig, warnings: list[str]) -> Config:
    """The configuration in its one documented spelling. Where two spellings differ, the documented one wins."""
    model = written.model
    resolved = {name: getattr(written, name) for name in Config.__struct_fields__}
    resolved["model"] = ModelConfig(**{name: getattr(model, name) for name in ModelConfig.__struct_fields__})
    main: ModelConfig = resolved["model"]
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
    for custom in written.custom_providers:
        if custom.name in written.providers:
            warnings.append(f"custom_providers: {custom.name!r} is left out, providers has that name already")
            continue
        resolved["providers"][custom.name] = ModelProviderConfig(
            **{n: getattr(custom, n) for n in ModelProviderConfig.__struct_fields__}
        )
    if written.fallback_model is not None:
        resolved["fallback_providers"].append(written.fallback_model)
    return Config(**resolved)


def _approvals(written: AliasedApprovalsConfig, warnings: list[str]) -> ApprovalsConfig:
    approvals = ApprovalsConfig(**{name: getattr(written, name) for name in ApprovalsConfig.__struct_fields__})
    if written.mode == "off":
        if approvals.permission_mode == DEFAULT_MODE:
            approvals.permission_mode = UNASKED_MODE
        elif approvals.permission_mode != UNASKED_MODE:
            warnings.append("approvals.mode is ignored because approvals.permission_mode says something else")
    elif written.mode == "smart":
        approvals.reviewer = "model"
    return approvals


def _choose(warnings: list[str], name: str, value: str, others: dict[str, str]) -> str:
    for other_name, other in others.items():
        if not value:
            value, name = other, other_name if other else name
        elif other and other != value:
            warnings.append(f"{other_name} is ignored because {name} says something else")
    return value
