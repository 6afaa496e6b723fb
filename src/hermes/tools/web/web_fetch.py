"""The ``web_fetch`` tool: a page, a document or data of a URL as text, behind the SSRF guard."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from hermes.base.config.schema.sections import WebConfig
from hermes.base.http.errors import HttpError
from hermes.base.http.exchange import Timeouts
from hermes.base.http.ssrf import public_only
from hermes.tools.registry import Args, ToolContext
from hermes.tools.results import tool_error, tool_result

if TYPE_CHECKING:
    from hermes.base.http.client import HttpClient, HttpResponse

_MAX_REDIRECTS = 5
_ACCEPT = "text/html,application/xhtml+xml,application/json,text/*;q=0.9,application/pdf;q=0.8,*/*;q=0.5"
_TEXT_TYPES = ("application/json", "application/xml", "application/yaml", "application/javascript", "application/toml")
#: Most characters of a document that are extracted; a call returns a part of them.
_MAX_EXTRACTED = 2_000_000
_INSTALL = "reading it needs the extra web-tools: run 'hermes install web-tools'"


class FetchError(Exception):
    """Why a URL has no text; the message is for the model."""


class Page(msgspec.Struct, frozen=True):
    """The text of a URL."""

    url: str
    content: str
    content_type: str = ""
    title: str = ""


def run_web_fetch(
    args: Args, context: ToolContext, client: HttpClient, settings: WebConfig, *, allow_private: bool
) -> str:
    """Fetch a URL and answer with its text, or a part of it."""
    try:
        page = fetch_page(str(args["url"]).strip(), context, client, settings, allow_private=allow_private)
    except FetchError as error:
        return tool_error(str(error))
    return page_result(page, int(args.get("offset") or 0), settings.max_chars)


def page_result(page: Page, offset: int, max_chars: int) -> str:
    """The part of a page that begins at ``offset``, as a result."""
    part = page.content[max(offset, 0) : max(offset, 0) + max_chars]
    fields: dict[str, Any] = {"url": page.url}
    if page.title:
        fields["title"] = page.title
    if page.content_type:
        fields["content_type"] = page.content_type
    fields["content"] = part
    if max(offset, 0) + len(part) < len(page.content):
        fields |= {"truncated": True, "next_offset": max(offset, 0) + len(part), "total_chars": len(page.content)}
    return tool_result(**fields)


def fetch_page(url: str, context: ToolContext, client: HttpClient, settings: WebConfig, *, allow_private: bool) -> Page:
    """The text of a URL. Raises ``FetchError``."""
    response = _get(_checked(url, context), context, client, settings, allow_private=allow_private)
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not response.is_success:
        excerpt = " ".join(response.text[:300].split()) if kind.startswith("text/plain") else ""
        raise FetchError(f"the server answered with status {response.status}{f': {excerpt}' if excerpt else ''}")
    data = response.body
    if data[:5] == b"%PDF-" or kind == "application/pdf":
        return _extracted("pdf", data, response.url, "application/pdf", context)
    if kind in ("text/html", "application/xhtml+xml") or (not kind and data.lstrip()[:1] == b"<"):
        return _extracted("html", _with_charset(data, response), response.url, kind or "text/html", context)
    if not (kind.startswith("text/") or kind in _TEXT_TYPES or kind.endswith(("+json", "+xml")) or not kind):
        raise FetchError(f"{response.url} is {kind} with {len(data):,} bytes; only text, JSON, HTML and PDF are read")
    if b"\0" in data[:8_000] and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise FetchError(f"{response.url} is not text ({len(data):,} bytes); only text, JSON, HTML and PDF are read")
    return Page(response.url, _decoded(data, response), kind)


def _checked(url: str, context: ToolContext) -> str:
    if not url.lower().startswith(("http://", "https://")):
        raise FetchError(f"url is {url[:80]!r}; it must begin with http:// or https://")
    if "@" in urlsplit(url).netloc:
        raise FetchError("url has a user name or password in it; give it without")
    if context.confinements.redactor.mask_known(url) != url:
        raise FetchError("url contains a secret of the user, which must not leave; it was not fetched")
    return url


def _get(
    url: str, context: ToolContext, client: HttpClient, settings: WebConfig, *, allow_private: bool
) -> HttpResponse:
    from hermes.base.http.errors import AddressRefused, BodyTooLarge, InvalidUrl, TimedOut

    headers = [("user-agent", settings.user_agent), ("accept", _ACCEPT), ("accept-encoding", "gzip, deflate")]
    try:
        response = client.request(
            "GET",
            url,
            headers,
            timeouts=Timeouts.within(settings.timeout),
            interrupt=context.scope.interrupt,
            guard=None if allow_private else public_only,
            max_bytes=settings.max_bytes,
            follow_redirects=_MAX_REDIRECTS,
        )
    except (InvalidUrl, AddressRefused) as error:
        raise FetchError(str(error)) from None
    except BodyTooLarge:
        raise FetchError(f"the document is larger than {settings.max_bytes:,} bytes") from None
    except TimedOut:
        raise FetchError(f"the server took longer than {settings.timeout:g} s") from None
    except HttpError as error:
        raise FetchError(f"it cannot be fetched: {error or type(error).__name__}") from None
    if 300 <= response.status < 400 and response.headers.get("location"):
        raise FetchError(f"more than {_MAX_REDIRECTS} redirects, the last one to {response.headers['location'][:200]}")
    return response


def _charset(response: HttpResponse) -> str:
    for part in response.headers.get("content-type", "").split(";")[1:]:
        name, _, value = part.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip("\"'")
    return ""


def _decoded(data: bytes, response: HttpResponse) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    for charset in (_charset(response), "utf-8-sig"):
        try:
            if charset:
                return data.decode(charset)
        except (LookupError, UnicodeDecodeError):
            continue  # a wrong or unknown name
    return data.decode("cp1252", "replace")


def _with_charset(data: bytes, response: HttpResponse) -> bytes:
    """The page in UTF-8 when its headers say what it is in; else as it is, and the parser finds out."""
    charset = _charset(response)
    try:
        return data.decode(charset).encode() if charset and charset.lower() not in ("utf-8", "utf8") else data
    except (LookupError, UnicodeDecodeError):
        return data


# -- documents that have to be parsed ---------------------------------------------------------------------------------


class _Extracted(msgspec.Struct):
    title: str = ""
    content: str = ""
    error: str = ""
    missing: bool = False


def _extracted(kind: str, data: bytes, url: str, content_type: str, context: ToolContext) -> Page:
    """The text of a document, parsed in a process of its own."""
    found = _run_extraction(kind, data, url, context)
    if found.missing:
        raise FetchError(f"{url} is {content_type}; {_INSTALL} ({found.error})")
    if found.error:
        raise FetchError(f"{url}: {found.error}")
    if not found.content.strip():
        raise FetchError(f"{url} is {content_type} without text" + (f", titled {found.title!r}" if found.title else ""))
    return Page(url, found.content, content_type, found.title)


def _run_extraction(kind: str, data: bytes, url: str, context: ToolContext) -> _Extracted:
    from hermes.tools.terminal.parser_process import run_parser

    program = Path(__file__).with_name("extract.py")
    arguments = (kind, url, str(_MAX_EXTRACTED))
    answer = run_parser(program, arguments, data, context.scope.interrupt, context.processes.supervisor)
    try:
        return msgspec.json.decode(answer, type=_Extracted)
    except msgspec.DecodeError:
        return _Extracted(error=f"the document took too long or too much memory to read ({len(data):,} bytes)")
