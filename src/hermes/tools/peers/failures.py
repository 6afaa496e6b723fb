"""Errors of calls to other agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.base.errors import HermesError

if TYPE_CHECKING:
    import httpx

_MAX_CHARS = 300
_NOT_INSTALLED = "calling other agents needs the A2A SDK; install it with: hermes install a2a"
#: Packages that come with the SDK.
_SDK = ("a2a", "httpx", "google")


class PeerError(HermesError):
    """Another agent cannot be called, or did not answer as it should."""


class StreamDropped(PeerError):
    """The connection ended before the answer did."""


def missing_sdk(error: ModuleNotFoundError) -> PeerError:
    """The error for a missing A2A SDK; any other missing module is a fault of ours and raised."""
    if (error.name or "").partition(".")[0] in _SDK:
        return PeerError(_NOT_INSTALLED)
    raise error


def as_peer_error(error: Exception, name: str, timeout: float) -> PeerError:
    """The failure of a call to the agent ``name``, from any part of the SDK."""
    import httpx
    from a2a.client import A2AClientTimeoutError
    from a2a.client.errors import A2AClientError
    from a2a.utils.errors import A2AError

    if isinstance(error, HermesError):
        return error if isinstance(error, PeerError) else PeerError(str(error))
    cause = error if isinstance(error, httpx.HTTPError) else error.__cause__
    if isinstance(error, A2AClientTimeoutError) or isinstance(cause, httpx.TimeoutException):
        waiting = "cannot be reached" if isinstance(cause, httpx.ConnectTimeout) else f"was silent for {timeout:g} s"
        return PeerError(f"{name} {waiting}; try again, or give it more time (a2a.call_timeout)")
    if isinstance(cause, httpx.HTTPStatusError):
        return PeerError(_status_text(cause.response, name))
    if isinstance(cause, httpx.ConnectError):
        return PeerError(f"{name} cannot be reached: {_short(str(cause)) or 'no connection'}; is it running?")
    if isinstance(cause, httpx.RequestError):
        return StreamDropped(f"the connection to {name} broke off: {_short(str(cause)) or type(cause).__name__}")
    if isinstance(error, A2AError) and not isinstance(error, A2AClientError):
        return PeerError(f"{name} refused: {_short(error.message)}")
    return PeerError(f"what {name} answered cannot be read: {_short(str(error)) or type(error).__name__}")


def _status_text(response: httpx.Response, name: str) -> str:
    status = response.status_code
    if status == 401:
        return (
            f"{name} wants a token, or another one: name the variable that holds it with --token-env, or as "
            f"token_env under a2a.agents"
        )
    if status == 403:
        return f"{name} does not allow this with the token it was given (status 403)"
    if status == 404:
        return f"{name} has nothing at {response.url} (status 404); is that the address of an A2A agent?"
    if 300 <= status < 400:
        return f"{name} sends callers elsewhere (status {status}), which is not followed; use the new address"
    later = response.headers.get("retry-after", "")
    wait = f"; it asks to wait {_short(later)} s" if later else ""
    return f"{name} answered with status {status}{wait}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_CHARS else f"{line[: _MAX_CHARS - 1]}…"
