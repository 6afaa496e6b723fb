"""Registrations for parts of the runtime that are yet to come: each is kept and listed as waiting."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from hermes.errors import PluginError
from hermes.plugins.records import Waiting
from hermes.plugins.registry import LoadedPlugin

log = logging.getLogger("hermes.plugins")


class Surfaces:
    """The part of ``ctx`` that offers providers, engines and platforms. None of these methods fails a plugin.

    What is offered must be an instance of the base class that plugins subclass for it; anything else is a problem
    on record, with a warning, and ignored.
    """

    _record: LoadedPlugin

    def register_memory_provider(self, provider: Any) -> None:
        """Offer a memory, selected by ``memory.provider``."""
        self._wait("memory_provider", provider)

    def register_context_engine(self, engine: Any) -> None:
        """Offer a context engine, selected by ``context.engine``. One per plugin."""
        if any(entry.what == "context_engine" for entry in self._record.waiting):
            self._problem("a second context engine was registered; the first one stays")
            return
        self._wait("context_engine", engine)

    def register_model_provider(self, profile: Any) -> None:
        """Offer a model provider, selected by its name wherever the configuration names a provider."""
        from hermes.plugins.model_provider import read_profile

        try:
            name, made = read_profile(profile)
        except PluginError as error:
            self._problem(f"{error}; it is ignored")
            return
        self._record.waiting.append(Waiting("model_provider", name, made))

    def register_cron_scheduler(self, scheduler: Any) -> None:
        """Offer a scheduler for timed runs."""
        self._wait("cron_scheduler", scheduler)

    def register_image_gen_provider(self, provider: Any) -> None:
        """Offer image generation, selected by ``image_gen.provider``."""
        self._wait("image_gen_provider", provider)

    def register_video_gen_provider(self, provider: Any) -> None:
        """Offer video generation, selected by ``video_gen.provider``."""
        self._wait("video_gen_provider", provider)

    def register_web_search_provider(self, provider: Any) -> None:
        """Offer web search, selected by ``web.search_backend``."""
        self._wait("web_search_provider", provider)

    def register_browser_provider(self, provider: Any) -> None:
        """Offer a browser, selected by ``browser.cloud_provider``."""
        self._wait("browser_provider", provider)

    def register_tts_provider(self, provider: Any) -> None:
        """Offer speech, selected by ``tts.provider``."""
        self._wait("tts_provider", provider)

    def register_transcription_provider(self, provider: Any) -> None:
        """Offer transcription, selected by ``stt.provider``."""
        self._wait("transcription_provider", provider)

    def register_secret_source(self, source: Any) -> None:
        """Offer a source of secrets, configured under ``secrets.<name>``."""
        self._wait("secret_source", source)

    def register_dashboard_auth_provider(self, provider: Any) -> None:
        """Offer a way to sign in to the dashboard."""
        self._wait("dashboard_auth_provider", provider)

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
        """Offer a chat platform."""
        options = {
            "label": label,
            "check_fn": check_fn,
            "validate_config": validate_config,
            "required_env": list(required_env or ()),
            "install_hint": install_hint,
            **entry_kwargs,
        }
        self._record.waiting.append(Waiting("platform", name, adapter_factory, options))

    def register_slack_action_handler(self, action_id: str, callback: Callable[..., Any]) -> None:
        """Handle a button or menu of the Slack platform."""
        if not action_id or not isinstance(action_id, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"register_slack_action_handler: action_id is {action_id!r}; it must be text")
        if not callable(callback):
            found = type(callback).__name__
            raise ValueError(f"register_slack_action_handler({action_id!r}) needs a function, got {found}")
        self._record.waiting.append(Waiting("slack_action_handler", action_id, callback))

    def _wait(self, what: str, value: Any) -> None:
        from hermes.plugins.compat.bases import base_of  # only plugins that offer something need the classes

        base = base_of(what)
        if base is not None and not issubclass(type(value), base):
            found = type(value).__name__
            self._problem(f"register_{what} needs an instance of a {base.__name__}, got {found}; it is ignored")
            return
        self._record.waiting.append(Waiting(what, _name_of(value), value))

    def _problem(self, text: str) -> None:
        self._record.problems.append(text)
        log.warning("plugin %r: %s", self._record.manifest.key, text)


def _name_of(value: Any) -> str:
    try:
        name = getattr(value, "name", None)
    except Exception:  # a property of the plugin's, which may fail before the plugin is set up
        name = None
    return name if isinstance(name, str) and name else type(value).__name__
