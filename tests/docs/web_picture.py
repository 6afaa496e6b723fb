"""The picture of the page: the timeline of a real run in a real browser. Its times differ from run to run."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hermes.base.config import Config
from hermes.base.config.schema.sections import AgentConfig, ModelConfig, ModelProviderConfig
from hermes.host import Host, HostOptions
from hermes.testing import RecordedRequest, ScriptedProvider, ScriptedReply, ScriptedResponder, failure, tool_calls
from hermes.testing import text as answer
from hermes.testing.scripted.replies import ReplyOptions
from support.browser import chromium, opened
from support.web_rig import page_over

from .pages import DOCS

WEB_PICTURE = DOCS / "pictures" / "web.png"

_SIZE = (1120, 560)
_TASK = "Write the release notes for 2.4 and check them"
_USAGE = {"prompt_tokens": 12_000, "completion_tokens": 870, "prompt_tokens_details": {"cached_tokens": 9_000}}
_ANSWERED = ReplyOptions(usage=_USAGE, delay=0.2, model="gpt-5-mini")


def write_web_picture() -> Path:
    """Run an agent, look at its timeline in a browser, and write what is seen."""
    with tempfile.TemporaryDirectory() as name:
        home, work = Path(name, "home"), Path(name, "work")
        session_id = _run(home, work)
        with page_over(home) as page, chromium() as browser, opened(browser, page.url, _SIZE) as tab:
            tab.goto(f"{page.base}/sessions/{session_id}")
            tab.get_by_text("nknown tool").first.click()
            tab.get_by_role("button", name="Copy").first.wait_for()
            tab.screenshot(path=WEB_PICTURE)
    return WEB_PICTURE


def _run(home: Path, work: Path) -> str:
    """One turn with calls in parallel, children, a failed call, an approval and an attempt that failed."""
    (work / "old-notes").mkdir(parents=True)
    (work / "CHANGELOG.md").write_text("# 2.4\n- Streams continue after a restart.\n")
    (work / "pyproject.toml").write_text('version = "2.4"\n')
    steps = _steps()

    def reply(request: RecordedRequest) -> ScriptedReply:
        if _TASK not in request.last_user_text and request.messages[-1]["role"] != "tool":
            return _call(("read_file", {"path": "CHANGELOG.md"}))
        is_child = not any(_TASK in str(message.get("content")) for message in request.messages)
        return answer("It is right.", **_ANSWERED) if is_child else next(steps)

    with ScriptedProvider(reply) as provider:
        config = Config(
            model=ModelConfig(provider="openai", default="gpt-5-mini", api_key="test-key"),
            providers={"openai": ModelProviderConfig(base_url=provider.base_url)},
            agent=AgentConfig(api_max_retries=2),
        )
        with Host(home, config, HostOptions(), cwd=work, env={}) as host:
            session = host.new_session()
            host.responders.attach(session.id, ScriptedResponder("once"))
            assert session.run(_TASK).status == "completed"
            return session.id


def _steps() -> Iterator[ScriptedReply]:
    yield _call(("read_file", {"path": "CHANGELOG.md"}), ("read_file", {"path": "pyproject.toml"}))
    yield _call(("delegate_task", {"tasks": [{"goal": "check the dates"}, {"goal": "check the links"}]}))
    yield _call(("deploy", {"target": "staging"}))
    yield failure(503, "overloaded", headers={"retry-after": "0.3"})
    yield _call(("terminal", {"command": "rm -rf old-notes && sleep 0.4"}))
    yield _call(("write_file", {"path": "NOTES.md", "content": "# 2.4\n\nStreams continue after a restart.\n"}))
    yield answer("The notes for 2.4 are in NOTES.md.", **_ANSWERED)


def _call(*calls: tuple[str, dict[str, Any]]) -> ScriptedReply:
    return tool_calls(calls, **_ANSWERED)
