"""Registrations of providers, engines and platforms, kept until the part of the runtime they belong to uses them."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hermes.base.errors import PluginError
from hermes.plugins.registry import LoadedPlugin, ProviderOffer

log = logging.getLogger("hermes.plugins")

#: The kinds that the runtime uses, and the setting that selects one.
SELECTED_BY = {
    "context_engine": "context.engine",
    "cron_scheduler": "cron.provider",
    "image_gen_provider": "image_gen.provider",
    "memory_provider": "memory.provider",
    "platform": "gateway.platforms",
    "model_provider": "model.provider",
    "slack_action_handler": "gateway.platforms",
    "web_search_provider": "web.search_backend",
}


def _registration(kind: str, what: str, setting: str) -> Callable[[ProviderRegistrations, Any], None]:
    """A ``register_<kind>(provider)`` method."""

    def register(self: ProviderRegistrations, provider: Any) -> None:
        self._offer(kind, provider)  # pyright: ignore[reportPrivateUsage]

    register.__name__ = register.__qualname__ = f"register_{kind}"
    register.__doc__ = f"Offer {what}, selected by ``{setting}``." if setting else f"Offer {what}."
    return register


class ProviderRegistrations:
    """The part of ``ctx`` that offers providers, engines and platforms. None of these methods fails a plugin.

    What is offered must be an instance of the base class that plugins subclass for it; anything else is ignored, with
    a warning and a recorded problem.
    """

    _record: LoadedPlugin

    register_memory_provider = _registration("memory_provider", "a memory", "memory.provider")

    def register_context_engine(self, engine: Any) -> None:
        """Offer a context engine, selected by ``context.engine``. One per plugin."""
        if any(offer.kind == "context_engine" for offer in self._record.waiting):
            self._problem("a second context engine was registered; the first one stays")
            return
        self._offer("context_engine", engine)

    def register_model_provider(self, profile: Any) -> None:
        """Offer a model provider, selected by its name wherever the configuration names a provider."""
        from hermes.plugins.model_provider import read_profile

        try:
            name, made = read_profile(profile)
        except PluginError as error:
            self._problem(f"{error}; it is ignored")
            return
        self._add("model_provider", name, made)

    register_cron_scheduler = _registration("cron_scheduler", "a scheduler", "cron.provider")
    register_image_gen_provider = _registration("image_gen_provider", "image generation", "image_gen.provider")
    register_video_gen_provider = _registration("video_gen_provider", "video generation", "video_gen.provider")
    register_web_search_provider = _registration("web_search_provider", "web search", "web.search_backend")
    register_browser_provider = _registration("browser_provider", "a browser", "browser.cloud_provider")
    register_tts_provider = _registration("tts_provider", "speech", "tts.provider")
    register_transcription_provider = _registration("transcription_provider", "transcription", "stt.provider")
    register_dashboard_auth_provider = _registration(
        "dashboard_auth_provider", "a way to sign in to the dashboard", setting=""
    )

    def register_secret_source(self, source: Any) -> None:
        """Offer a source of secrets, configured under ``secrets.<name>``."""
        self._offer("secret_source", source)

    def register_platform(
        self,
        name: str,
        label: str,
        adapter_factory: Callable[..., Any],
        check_fn: Callable[..., Any],
        validate_config: Callable[..., Any] | None = None,
        required_env: Sequence[str] | None = None,
        install_hint: str = "",
        **entry_kwargs: Any,
    ) -> None:
        """Offer a chat platform, run by ``hermes gateway run`` when ``gateway.platforms`` names it.

        ``adapter_factory(config)`` makes its adapter, a ``BasePlatformAdapter``; ``entry_kwargs`` are further fields of
        ``PlatformEntry``.
        """
        options = {
            "label": label,
            "check_fn": check_fn,
            "validate_config": validate_config,
            "required_env": list(required_env or ()),
            "install_hint": install_hint,
            **entry_kwargs,
        }
        self._add("platform", name, adapter_factory, options)

    def register_slack_action_handler(
        self, action_id: str | re.Pattern[str] | Mapping[str, Any], callback: Callable[..., Any]
    ) -> None:
        """Handle a button or menu of the Slack platform.

        ``action_id`` is the id, a pattern that is found in it, or a mapping of fields of the action (``action_id``,
        ``block_id``, ``type``) to such values.
        """
        fields = action_id if isinstance(action_id, Mapping) else {"action_id": action_id}
        if not fields or not all(value and isinstance(value, str | re.Pattern) for value in fields.values()):
            raise ValueError(
                f"register_slack_action_handler: action_id is {action_id!r}; it must be text, a pattern, or a mapping"
            )
        if not callable(callback):
            found = type(callback).__name__
            raise ValueError(f"register_slack_action_handler({action_id!r}) needs a function, got {found}")
        name = action_id if isinstance(action_id, str) else repr(action_id)
        self._add("slack_action_handler", name, callback, {"fields": dict(fields)})

    def _offer(self, kind: str, value: Any) -> None:
        from hermes.plugins.compat.bases import base_of  # only plugins that offer something need the classes

        base = base_of(kind)
        if base is not None and not issubclass(type(value), base):
            found = type(value).__name__
            self._problem(f"register_{kind} needs an instance of a {base.__name__}, got {found}; it is ignored")
            return
        self._add(kind, _name_of(value), value)

    def _add(self, kind: str, name: str, value: Any, options: dict[str, Any] | None = None) -> None:
        self._record.waiting.append(ProviderOffer(kind, name, value, self._record.manifest.key, options or {}))

    def _problem(self, text: str) -> None:
        self._record.problems.append(text)
        self._record.refused.append(text)
        log.warning("plugin %r: %s", self._record.manifest.key, text)


def _name_of(value: Any) -> str:
    try:
        name = getattr(value, "name", None)
    except Exception:  # a property of the plugin's, which may fail before the plugin is set up
        name = None
    return name if isinstance(name, str) and name else type(value).__name__
