"""A session as one HTML file: the timeline with its details and scripts inside, for any browser, without a server."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

import msgspec

from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store
from hermes.surfaces.web.documents.assets import content_hash, one_script, text_of
from hermes.surfaces.web.documents.frame import document, embedded
from hermes.surfaces.web.documents.session_timeline import timeline_table
from hermes.surfaces.web.queries.detail import EventDetail, event_detail
from hermes.surfaces.web.queries.sessions import IsAlive
from hermes.surfaces.web.queries.timeline import TimelineRows, family_rows
from hermes.trace.clean import Cleaner


def session_document(store: Store, session_id: str, is_alive: IsAlive, clean: Cleaner) -> str:
    """The document. Raises ``SessionNotFound``."""

    def read(connection: JournalConnection) -> str:
        line, rows = family_rows(connection, session_id, is_alive, clean)
        events = dict(_events(connection, rows, clean))
        data = {"session": msgspec.to_builtins(line), "rows": rows, "events": events}
        return _document(line.title or session_id, data, timeline_table(line, rows))

    return store.read(read)


def _events(
    connection: JournalConnection, families: list[TimelineRows], clean: Cleaner
) -> Iterator[tuple[str, EventDetail]]:
    """The events behind the rows, as the details show them."""
    for one in families:
        for seq in sorted({row.seq for row in one.rows if row.seq}):
            yield f"{one.id} {seq}", event_detail(connection, one.id, seq, clean)


def _document(title: str, data: object, table: str) -> str:
    # A script may not contain the end of its element.
    script = one_script("report.js").replace("</script", "<\\/script")
    style = text_of("style.css")
    hashes = f"script-src '{content_hash(script)}'; style-src '{content_hash(style)}'"
    policy = f"default-src 'none'; {hashes}; img-src data:"
    head = f'<meta http-equiv="content-security-policy" content="{escape(policy)}"><style>{style}</style>'
    inner = f'{embedded(data)}<div id="app">{table}</div><script type="module">{script}</script>'
    return document(f"{title} · Hermes", head, f"<body>{inner}</body>")
