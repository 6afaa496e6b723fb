"""Base classes that plugins subclass for what they offer: default methods, and a list of those that have none.

Image providers and schedulers are in use; nothing calls the others yet. They are here so that published plugins import
and register.
Context engines and memory providers, which are in use too, are in ``engines``.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar, cast

from hermes.plugins.compat.agent.engines import ContextEngine

IMAGE_RATIOS = ("landscape", "square", "portrait")
VIDEO_RATIOS = ("16:9", "9:16", "1:1", "4:3", "3:4", "3:2", "2:3")
VIDEO_RESOLUTIONS = ("480p", "540p", "720p", "1080p")
VALID_OUTPUT_FORMATS = frozenset({"mp3", "wav", "ogg", "opus", "flac"})
DEFAULT_OUTPUT_FORMAT = "mp3"
SECRET_SOURCE_API_VERSION = 1
DEFAULT_FETCH_TIMEOUT_SECONDS = 120.0


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


_Class = TypeVar("_Class", bound=type)


def _abstract(*methods: str) -> Callable[[_Class], _Class]:
    """Class decorator: these methods raise ``NotImplementedError`` until a subclass overrides them."""

    def add(kind: _Class) -> _Class:
        for method in methods:
            setattr(kind, method, _unimplemented(method))
        return kind

    return add


def _unimplemented(method: str) -> Callable[..., Any]:
    def raise_error(self: Any, *_args: Any, **_options: Any) -> Any:
        raise NotImplementedError(f"{self.name} does not implement {method}")

    return raise_error


@_abstract("generate")
class ImageGenProvider(Provider):
    """Makes images."""

    def capabilities(self) -> dict[str, Any]:
        return {"modalities": ["text"], "max_reference_images": 0}


@_abstract("generate")
class VideoGenProvider(Provider):
    """Makes videos."""

    def capabilities(self) -> dict[str, Any]:
        return {
            "modalities": ["text"],
            "aspect_ratios": list(VIDEO_RATIOS),
            "resolutions": list(VIDEO_RESOLUTIONS),
            "max_duration": 10,
            "min_duration": 1,
            "supports_audio": False,
            "supports_negative_prompt": False,
            "max_reference_images": 0,
        }


@_abstract("search", "extract")
class WebSearchProvider(Provider):
    """Searches the web, reads pages, or both."""

    def supports_search(self) -> bool:
        return True

    def supports_extract(self) -> bool:
        return False


@_abstract("create_session", "close_session")
class BrowserProvider(Provider):
    """Starts and ends browsers that run on another machine."""

    @property
    def display_name(self) -> str:
        return self.name

    def emergency_cleanup(self, session_id: str) -> None:
        pass

    def is_configured(self) -> bool:
        return self.is_available()

    def provider_name(self) -> str:
        return self.display_name


@_abstract("synthesize", "stream")
class TTSProvider(Provider):
    """Turns text into speech."""

    voice_compatible: bool = False

    def list_voices(self) -> list[dict[str, Any]]:
        return []

    def default_voice(self) -> str | None:
        return _first_id(self.list_voices())


class TranscriptionProvider(Provider):
    """Turns speech into text."""

    # Plugins compare the signature with the one that they know.
    def transcribe(
        self, file_path: str, *, model: str | None = None, language: str | None = None, **extra: Any
    ) -> dict[str, Any]:
        """The text of a recording."""
        raise NotImplementedError(f"{self.name} does not transcribe")


@_abstract(
    "start_login", "complete_login", "verify_session", "refresh_session", "complete_password_login", "verify_token"
)
class DashboardAuthProvider:
    """Signs people in to a dashboard."""

    name: str = ""
    display_name: str = ""
    supports_password: bool = False
    supports_token: bool = False
    supports_session: bool = True

    def revoke_session(self, *, refresh_token: str) -> None:
        pass


class CronScheduler:
    """Decides when schedules fire; ``cron.provider`` selects one by its ``name``. What a run is stays with the host."""

    name: str = ""
    #: Runs a schedule now; set by the host that uses the scheduler.
    fire_now: Callable[[str], bool] | None = None

    def is_available(self) -> bool:
        """Whether it can work here, found out without a network call."""
        return True

    def start(self, stop_event: threading.Event, *, adapters: Any = None, loop: Any = None, interval: int = 60) -> None:
        """Fire schedules until ``stop_event`` is set; or arrange that something else does, and return."""
        raise NotImplementedError(f"{self.name} does not implement start")

    def stop(self) -> None:
        """Release what it holds; the event is set already."""

    def on_jobs_changed(self) -> None:
        """A schedule was made, changed or removed."""

    def reconcile(self) -> None:
        """Bring what it has arranged in line with the schedules there are."""

    def recover_interrupted(self) -> int:
        """How many runs of dead processes were closed: none, since the host continues them."""
        return 0

    def fire_due(self, job_id: str, *, adapters: Any = None, loop: Any = None) -> bool:
        """Run a schedule now. False when it is gone, or running already."""
        return self.fire_now is not None and self.fire_now(job_id)


@_abstract("fetch")
class SecretSource:
    """Finds secrets in a vault, by the names they have in the environment. Configured under ``secrets.<name>``."""

    api_version: int = SECRET_SOURCE_API_VERSION
    name: str = ""
    label: str = ""
    #: ``mapped`` when each variable is bound to a secret by hand, ``bulk`` when a whole folder is taken.
    shape: str = "mapped"
    scheme: str | None = None

    def is_enabled(self, cfg: Any) -> bool:
        return bool(_setting(cfg, "enabled"))

    def override_existing(self, cfg: Any) -> bool:
        return bool(_setting(cfg, "override_existing"))

    def protected_env_vars(self, cfg: Any) -> frozenset[str]:
        return frozenset()

    def fetch_timeout_seconds(self, cfg: Any) -> float:
        given = _setting(cfg, "timeout_seconds")
        is_number = isinstance(given, int | float) and not isinstance(given, bool)
        return float(given) if is_number and given > 0 else DEFAULT_FETCH_TIMEOUT_SECONDS

    def config_schema(self) -> dict[str, Any]:
        return {}

    def remediation(self, kind: ErrorKind | None, cfg: Any) -> str:
        return ""


def _setting(cfg: Any, name: str) -> Any:
    return cast("dict[str, Any]", cfg).get(name) if isinstance(cfg, dict) else None


def _first_id(entries: list[dict[str, Any]]) -> str | None:
    return entries[0].get("id") if entries else None


#: By the last part of the ``ctx.register_…`` method. Memory providers and schedulers need no base class.
_BASES: dict[str, type] = {
    "browser_provider": BrowserProvider,
    "context_engine": ContextEngine,
    "dashboard_auth_provider": DashboardAuthProvider,
    "image_gen_provider": ImageGenProvider,
    "secret_source": SecretSource,
    "transcription_provider": TranscriptionProvider,
    "tts_provider": TTSProvider,
    "video_gen_provider": VideoGenProvider,
    "web_search_provider": WebSearchProvider,
}


def base_of(kind: str) -> type | None:
    """The class that a registered object must be an instance of; ``None`` when any object is accepted."""
    return _BASES.get(kind)


def get_provider_env(name: str) -> str:
    """A variable of the environment, for a provider of web search."""
    return os.environ.get(name, "").strip()


def resolve_output_format(value: object) -> str:
    """The format of speech that was asked for, or the default when there is no such format."""
    wanted = value.strip().lower() if isinstance(value, str) else ""
    return wanted if wanted in VALID_OUTPUT_FORMATS else DEFAULT_OUTPUT_FORMAT


def is_valid_env_name(name: str) -> bool:
    """Whether a secret can be a variable of the environment under this name."""
    return re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is not None


# -- dashboard sign-in: results and errors ---------------------------------------------------------------------------


class IdentityProviderError(Exception):
    """The identity provider cannot be reached."""


class InvalidCodeError(Exception):
    """The code or state that came back from the identity provider is not valid."""


class InvalidCredentialsError(Exception):
    """The user name or the password is wrong."""


class RefreshExpiredError(Exception):
    """The session cannot be renewed any more."""


@dataclass(frozen=True)
class SignedInUser:
    """A person who has signed in. ``expires_at`` is in seconds since the epoch."""

    user_id: str
    email: str
    display_name: str
    org_id: str
    provider: str
    expires_at: int
    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)


@dataclass(frozen=True)
class TokenPrincipal:
    """A program that has shown a token."""

    principal: str
    provider: str
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True)
class LoginStart:
    """Where the browser goes to sign in, and the cookies it takes along."""

    redirect_url: str
    cookie_payload: dict[str, str] = field(repr=False)


# -- secret sources: results -----------------------------------------------------------------------------------------


class ErrorKind(StrEnum):
    """Why a fetch failed."""

    NOT_CONFIGURED = "not_configured"
    BINARY_MISSING = "binary_missing"
    AUTH_FAILED = "auth_failed"
    AUTH_EXPIRED = "auth_expired"
    REF_INVALID = "ref_invalid"
    NETWORK = "network"
    EMPTY_VALUE = "empty_value"
    TIMEOUT = "timeout"
    INTERNAL = "internal"


@dataclass
class FetchResult:
    """What a source found, or why it found nothing."""

    secrets: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    applied: list[str] = field(default_factory=list[str])
    skipped: list[str] = field(default_factory=list[str])
    warnings: list[str] = field(default_factory=list[str])
    error: str | None = None
    error_kind: ErrorKind | None = None
    binary_path: Path | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing went wrong."""
        return self.error is None
