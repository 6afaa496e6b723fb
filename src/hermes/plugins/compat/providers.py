"""The base classes of web search, browser, speech and transcription providers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes.plugins.compat.host import Names
    from hermes.plugins.context import Parts

_AUDIO_FORMATS = frozenset({"mp3", "wav", "ogg", "opus", "flac"})
_AUDIO_DEFAULT = "mp3"


class Provider:
    """What all providers have in common. Subclasses give a ``name`` and override what they can do better."""

    name: str = ""

    @property
    def display_name(self) -> str:
        """The name as people see it."""
        return self.name.title()

    def is_available(self) -> bool:
        """Whether it can work here, found out without a network call."""
        return True

    def list_models(self) -> list[dict[str, Any]]:
        """The models to choose from, each with at least an ``id``."""
        return []

    def default_model(self) -> str | None:
        """The first of them."""
        return _first_id(self.list_models())

    def get_setup_schema(self) -> dict[str, Any]:
        """What a person is shown and asked when setting it up."""
        return {"name": self.display_name, "badge": "", "tag": "", "env_vars": []}


class WebSearchProvider(Provider):
    """Searches the web, reads pages, or both."""

    def supports_search(self) -> bool:
        """Whether ``search`` works."""
        return True

    def supports_extract(self) -> bool:
        """Whether ``extract`` works."""
        return False

    def search(self, query: str, limit: int = 5) -> dict[str, Any]:
        """``{"success": True, "data": {"web": [{title, url, description, position}]}}``."""
        raise NotImplementedError(f"{self.name} does not search")

    def extract(self, urls: list[str], **kwargs: Any) -> Any:
        """A list of ``{url, title, content, raw_content, …}``, or a coroutine of one."""
        raise NotImplementedError(f"{self.name} does not read pages")


class BrowserProvider(Provider):
    """Lends browsers that run somewhere else."""

    @property
    def display_name(self) -> str:
        """The name as people see it."""
        return self.name

    def create_session(self, task_id: str) -> dict[str, object]:
        """Start a browser: ``{session_name, bb_session_id, cdp_url, features, …}``."""
        raise NotImplementedError(f"{self.name} does not start browsers")

    def close_session(self, session_id: str) -> bool:
        """End a browser; False when that failed."""
        raise NotImplementedError(f"{self.name} does not end browsers")

    def emergency_cleanup(self, session_id: str) -> None:
        """End a browser while the process exits, as well as that can be done."""

    def is_configured(self) -> bool:
        """The older name of ``is_available``."""
        return self.is_available()

    def provider_name(self) -> str:
        """The older form of ``display_name``."""
        return self.display_name


class TTSProvider(Provider):
    """Turns text into speech."""

    voice_compatible: bool = False

    def list_voices(self) -> list[dict[str, Any]]:
        """The voices to choose from, each with at least an ``id``."""
        return []

    def default_voice(self) -> str | None:
        """The first of them."""
        return _first_id(self.list_voices())

    def synthesize(self, text: str, output_path: str, **options: Any) -> str:
        """Write the speech to a file and return its path."""
        raise NotImplementedError(f"{self.name} does not speak")

    def stream(self, text: str, **options: Any) -> Iterator[bytes]:
        """The speech piece by piece."""
        raise NotImplementedError(f"{self.name} does not stream speech")


class TranscriptionProvider(Provider):
    """Turns speech into text."""

    def transcribe(self, file_path: str, **options: Any) -> dict[str, Any]:
        """``{"success": bool, "transcript": str, "provider": str}``, with ``error`` when it failed."""
        raise NotImplementedError(f"{self.name} does not transcribe")


def web_search(_parts: Parts) -> Names:
    """``agent.web_search_provider``."""
    return {"WebSearchProvider": WebSearchProvider, "get_provider_env": _env_value}


def browser(_parts: Parts) -> Names:
    """``agent.browser_provider``."""
    return {"BrowserProvider": BrowserProvider}


def transcription(_parts: Parts) -> Names:
    """``agent.transcription_provider``."""
    return {"TranscriptionProvider": TranscriptionProvider}


def speech(_parts: Parts) -> Names:
    """``agent.tts_provider``."""
    return {
        "DEFAULT_OUTPUT_FORMAT": _AUDIO_DEFAULT,
        "VALID_OUTPUT_FORMATS": _AUDIO_FORMATS,
        "TTSProvider": TTSProvider,
        "resolve_output_format": _audio_format,
    }


def _first_id(entries: list[dict[str, Any]]) -> str | None:
    return entries[0].get("id") if entries else None


def _env_value(name: str) -> str:
    return os.environ.get(name, "").strip()


def _audio_format(value: object) -> str:
    wanted = value.strip().lower() if isinstance(value, str) else ""
    return wanted if wanted in _AUDIO_FORMATS else _AUDIO_DEFAULT
