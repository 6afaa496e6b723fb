"""Fetch of a URL that others chose: GET behind the SSRF guard, with a size limit and a deadline."""

from __future__ import annotations

from typing import NamedTuple

from hermes.base.http.client import HttpClient
from hermes.base.http.errors import AddressRefused, BodyTooLarge, HttpError, InvalidUrl, TimedOut
from hermes.base.http.exchange import Timeouts
from hermes.base.http.ssrf import public_only

_MAX_REDIRECTS = 5
_HEADERS = (("user-agent", "hermes"), ("accept", "*/*"), ("accept-encoding", "identity"))


class Fetched(NamedTuple):
    """The content of a URL."""

    data: bytes
    #: Such as ``image/png``, as the server names it; empty when it does not.
    content_type: str


def fetch(
    url: str,
    *,
    max_bytes: int,
    timeout: float = 60.0,
    allow_private: bool = False,
    client: HttpClient | None = None,
) -> Fetched:
    """The content of an http or https URL. Raises ``ValueError`` when it must not be fetched, else ``OSError``.

    ``client`` is the one whose connections are used; without it, a connection is made for this fetch alone.
    """
    if not url.lower().startswith(("http://", "https://")):
        raise ValueError(f"only http and https addresses can be fetched, not {url[:60]!r}")
    own = client or HttpClient()
    try:
        response = own.request(
            "GET",
            url,
            _HEADERS,
            timeouts=Timeouts.within(timeout),
            guard=None if allow_private else public_only,
            max_bytes=max_bytes,
            follow_redirects=_MAX_REDIRECTS,
        )
    except InvalidUrl as error:
        raise ValueError(f"only http and https addresses can be fetched: {error}") from None
    except AddressRefused as error:
        raise ValueError(str(error)) from None
    except BodyTooLarge:
        raise ValueError(f"it is larger than {max_bytes:,} bytes") from None
    except TimedOut:
        raise TimeoutError(f"it took longer than {timeout:g} s") from None
    except HttpError as error:
        raise OSError(str(error) or type(error).__name__) from None
    finally:
        if client is None:
            own.close()
    if not response.is_success:
        raise OSError(f"the server answered with status {response.status}")
    return Fetched(response.body, response.headers.get("content-type", "").partition(";")[0].strip().lower())
