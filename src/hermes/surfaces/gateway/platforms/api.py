"""Requests to the HTTP API of a platform: JSON both ways, errors without secrets and with what they mean for a send."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import urlencode

from hermes.base.http.errors import ConnectError, HttpError, TimedOut
from hermes.surfaces.gateway.adapter import SendResult
from hermes.surfaces.gateway.platforms.receiving import ConnectionFailed

if TYPE_CHECKING:
    from hermes.plugins.http import PluginHttp


T = TypeVar("T")

#: A poll that fails is tried again by itself this often; then the gateway restarts the adapter, with its backoff.
_MOST_FAILED_POLLS = 3
_PAUSE = 1.0
#: Statuses that refuse us as such: a token that is wrong or was withdrawn.
_REFUSALS = (401, 403)


class PlatformApiError(ConnectionFailed):
    """A request that did not do what it was for."""

    def __init__(
        self,
        message: str,
        *,
        kind: str = "unknown",
        status: int = 0,
        may_repeat: bool = False,
        retry_after: float | None = None,
        refusals: Collection[int] = _REFUSALS,
    ) -> None:
        """``refusals`` are the statuses by which the platform refuses us as such."""
        is_final = status in refusals
        super().__init__(message, code="auth" if is_final else "connection_lost", is_final=is_final)
        #: One of the words for ``SendResult.error_kind``.
        self.kind = kind
        self.status = status
        #: The platform surely did not do what was asked.
        self.may_repeat = may_repeat
        self.retry_after = retry_after

    def result(self) -> SendResult:
        """The outcome of a send that failed with this error."""
        return SendResult(
            False, error=str(self), retryable=self.may_repeat, retry_after=self.retry_after, error_kind=self.kind
        )


class PlatformApi:
    """Sends requests to one server. Neither a URL nor a header enters an error, since both may have a token in them."""

    def __init__(
        self, http: PluginHttp, base_url: str, headers: Mapping[str, str] | None = None, *, allow_private: bool = False
    ) -> None:
        self._http = http
        self._base_url = base_url.rstrip("/")
        self._headers = dict(headers or {})
        self._allow_private = allow_private

    async def call(self, method: str, path: str, **options: Any) -> tuple[int, dict[str, Any]]:
        """The status and the JSON object of the answer, whatever the status. Raises ``PlatformApiError``.

        Options are those of ``fetch``.
        """
        status, data = await self.fetch(method, path, **options)
        return status, read_object(status, data)

    async def fetch(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, **options: Any
    ) -> tuple[int, bytes]:
        """The status and the body of the answer. Raises ``PlatformApiError``. Options are those of ``PluginHttp``."""
        url = f"{self._base_url}{path}" + (f"?{urlencode(query)}" if query else "")
        try:
            response = await self._http.arequest(
                method, url, headers=self._headers, allow_private=self._allow_private, **options
            )
        except ConnectError as error:
            raise PlatformApiError(f"cannot connect: {_short(error)}", kind="transient", may_repeat=True) from None
        except TimedOut as error:
            unsent = error.phase == "connect"
            raise PlatformApiError(str(error), kind="transient" if unsent else "unknown", may_repeat=unsent) from None
        except HttpError as error:
            raise PlatformApiError(_short(error)) from None
        pause = response.headers.get("retry-after", "")
        if response.status == 429 and pause.isdecimal():
            text = f"the platform wants a pause of {pause} s"
            raise PlatformApiError(text, kind="rate_limited", status=429, may_repeat=True, retry_after=float(pause))
        return response.status, response.body

    async def download(self, path: str, limit: int) -> bytes:
        """The content of a file, cut after one byte more than the limit. Raises ``PlatformApiError``."""
        status, data = await self.fetch("GET", path, max_bytes=limit + 1)
        if status != 200:
            raise PlatformApiError(f"a file could not be fetched (status {status})", status=status)
        return data


async def polled(poll: Callable[[], Awaitable[T]], *, final: Collection[int] = ()) -> T:
    """The result of a poll, which is tried again when it fails, unless we are refused or by a status in ``final``."""
    failed = 0
    while True:
        try:
            return await poll()
        except PlatformApiError as error:
            failed += 1
            if error.is_final or error.status in final or failed >= _MOST_FAILED_POLLS:
                raise
            await asyncio.sleep(error.retry_after or _PAUSE)


def as_object(value: object) -> dict[str, Any]:
    """A JSON object, empty when the value is none."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_objects(value: object) -> list[dict[str, Any]]:
    """The items of a JSON array as objects, none when the value is no array."""
    return [as_object(one) for one in cast("list[object]", value)] if isinstance(value, list) else []


def as_text(value: object) -> str:
    """A JSON string, empty when the value is none."""
    return value if isinstance(value, str) else ""


def as_size(value: object) -> int:
    """A JSON number of bytes, 0 when the value is none."""
    return value if isinstance(value, int) else 0


def read_object(status: int, data: bytes) -> dict[str, Any]:
    """The JSON object in an answer. Raises ``PlatformApiError`` for anything else."""
    import msgspec

    try:
        found: object = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        found = None
    if not isinstance(found, dict):
        raise PlatformApiError(f"the server answered with status {status} and no JSON object", status=status)
    return cast("dict[str, Any]", found)


def _short(error: HttpError) -> str:
    return str(error) or type(error).__name__
