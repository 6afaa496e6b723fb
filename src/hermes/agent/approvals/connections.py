"""Connections: the rules by which a user is asked about a host, and whether the user named a URL."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from hermes.tools.sandbox.network import pattern_of

if TYPE_CHECKING:
    from hermes.policy import Finding

#: Begins the rule for a host: ``connect:example.org``.
CONNECT = "connect:"
#: Begins the rule for text that a call sends to a host in the query of a URL.
SEND_QUERY = "send-query:"

#: Where the files begin that ``@path`` in a message brings along: no person typed what is in them.
_BROUGHT_ALONG = re.compile(r'\n\n<(?:file|folder) path="')
_ENDS = r"/?(?:\#\S*?)?(?=[.,;:!?*_]*(?:[\s<>\"'`)\]}|]|$))"


def connection(host: str, port: int, part: str = "") -> Finding:
    """The finding of a connection to a host; ``part`` is what patterns of ``command_allowlist`` are compared with."""
    from hermes.policy import Finding

    name = pattern_of(host, port)
    return Finding(f"{CONNECT}{name}", f"connects to {name}", part or name)


def connects_to(rules: Iterable[str]) -> str:
    """The host that a question is about; empty when it is about something else, too."""
    hosts = [rule.removeprefix(CONNECT).removeprefix(SEND_QUERY) for rule in rules]
    are_all = all(rule.startswith((CONNECT, SEND_QUERY)) for rule in rules)
    return hosts[0] if are_all and len(set(hosts)) == 1 else ""


def fetch_findings(url: str, said: Iterable[str]) -> list[Finding]:
    """What is asked about a URL that a call fetches: nothing, when it is in what the user ``said``."""
    from hermes.base.errors import HermesError
    from hermes.base.http.address import parse_url
    from hermes.policy import Finding

    url = url.strip()
    try:
        server, target = parse_url(url)  # as it will be fetched
    except HermesError:
        return []  # the tool refuses it by itself
    if is_named(url, said):
        return []
    found = [connection(server.host, server.port, url)]
    if "?" in target:
        name = pattern_of(server.host, server.port)
        found.append(Finding(f"{SEND_QUERY}{name}", f"sends text to {name} in the query of the URL", url))
    return found


def is_named(url: str, said: Iterable[str]) -> bool:
    """Whether texts have a URL in them, whole: with or without its scheme, a slash at its end, or a fragment."""
    scheme, _, rest = url.partition("#")[0].partition("://")
    if scheme.lower() not in ("http", "https") or re.search(r"[\s\\@]", rest):
        return False
    host, slash, path = rest.rstrip("/").partition("/")
    wanted = re.compile(rf"(?<![\w.@/-])(?:https?://)?(?i:{re.escape(host)}){re.escape(slash + path)}{_ENDS}")
    return any(wanted.search(_BROUGHT_ALONG.split(text, maxsplit=1)[0]) for text in said)
