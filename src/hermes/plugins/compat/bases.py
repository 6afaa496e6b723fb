"""Which class a plugin subclasses for what it offers."""

from __future__ import annotations

from importlib import import_module

#: By the last part of the ``ctx.register_…`` method. Memories and schedulers are taken as they come.
_BASES = {
    "browser_provider": "providers:BrowserProvider",
    "context_engine": "engines:ContextEngine",
    "dashboard_auth_provider": "dashboard_auth:DashboardAuthProvider",
    "image_gen_provider": "media:ImageGenProvider",
    "secret_source": "secret_sources:SecretSource",
    "transcription_provider": "providers:TranscriptionProvider",
    "tts_provider": "providers:TTSProvider",
    "video_gen_provider": "media:VideoGenProvider",
    "web_search_provider": "providers:WebSearchProvider",
}


def base_of(what: str) -> type | None:
    """The class an offer must be an instance of; ``None`` when any object will do."""
    place = _BASES.get(what)
    if place is None:
        return None
    file, _, name = place.partition(":")
    return getattr(import_module(f"hermes.plugins.compat.{file}"), name)
