"""The page over a journal in PostgreSQL: the same lists, timelines, live updates and reports."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from hermes.base.config import Config
from hermes.base.config.schema.sections import JournalConfig, ModelConfig
from hermes.journal.store.port import home_store
from hermes.testing import ScriptedProvider, text, tool_call
from support.trace_runs import USAGE, Rig
from support.web_rig import page_over

pytestmark = pytest.mark.slow


def test_the_page_reads_a_journal_in_postgresql(rig: Rig, home: Path, postgres_url: str) -> None:
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.yaml").write_text(f"journal:\n  url: {postgres_url}\nbudgets:\n  day:\n    calls: 4\n")
    with closing(home_store(home)) as store:
        assert "postgresql" in store.location
    script = [tool_call("read_file", {"path": "none"}, usage=USAGE), text("ok", usage=USAGE)]
    provider = rig.stack.enter_context(ScriptedProvider(script))
    model = ModelConfig(provider="custom", default="scripted", base_url=provider.base_url, api_key="test-key")
    host = rig.host_for(Config(model=model, journal=JournalConfig(url=postgres_url)))
    session = host.new_session()
    with page_over(home) as page, closing(page.live("/api/live")) as events:
        events.next("sessions")
        session.run("Read it.")
        while not any(line["state"] == "completed" for line in events.next("sessions")["data"]["sessions"]):
            pass
        (line,) = page.get("/api/sessions?q=read").json
        assert (line["id"], line["calls"]) == (session.id, 2)
        rows = page.get(f"/api/sessions/{session.id}").json["rows"][0]["rows"]
        assert [row["id"] for row in rows] == ["0", "0/model:1", "0/tool:1.0", "0/model:2"]
        seq = rows[2]["seq"]
        assert page.get(f"/api/sessions/{session.id}/events/{seq}").json["body"]["args"] == {"path": "none"}
        assert page.get("/api/costs").json["budgets"][0]["spent"]["calls"] == 2
        for path in (
            "/",
            "/api/plugins",
            "/api/approvals",
            "/api/sessions?state=failed",
            "/api/sessions?state=running",
        ):
            assert page.get(path).status == 200
        assert page.get(f"/api/compare?a={session.id}&b={session.id}").json["count"] == 0
