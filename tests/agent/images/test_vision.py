"""Images for models that see, and what those that do not see are told instead."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.agent.images.attachments import image_part
from hermes.base.config.schema.sections import AuxiliaryConfig, AuxiliaryTaskConfig
from hermes.base.scope import Interrupt
from hermes.host import Host
from hermes.journal.sessions import Sessions
from hermes.testing import ScriptedProvider, failure, hanging, text
from support import run_hermes, write_config
from support.configured import configured_host

PNG = b"\x89PNG\r\n\x1a\n picture"


@pytest.fixture
def question(workdir: Path) -> list[dict[str, Any]]:
    (workdir / "dot.png").write_bytes(PNG)
    return [{"type": "text", "text": "What is it?"}, image_part(workdir / "dot.png")]


def blind_host(home: Path, workdir: Path, provider: ScriptedProvider, vision: str = "seer", **model: Any) -> Host:
    tasks = {"vision": AuxiliaryTaskConfig(model=vision)} if vision else {}
    settings = {"supports_vision": False, **model}
    return configured_host(
        home, workdir, provider, model=settings, auxiliary=AuxiliaryConfig(transient_retries=0, tasks=tasks)
    )


def test_a_model_that_sees_gets_the_image(home: Path, workdir: Path, question: list[dict[str, Any]]) -> None:
    with ScriptedProvider([text("a dot")]) as provider, configured_host(home, workdir, provider) as host:
        host.new_session().run(question)
    assert provider.requests[0].messages[-1]["content"] == question


def test_a_model_that_does_not_see_gets_a_description(
    home: Path, workdir: Path, question: list[dict[str, Any]]
) -> None:
    script = [text("A black dot on white.", model="seer-1"), text("A dot."), text("Still a dot.")]
    with ScriptedProvider(script) as provider, blind_host(home, workdir, provider) as host:
        session = host.new_session()
        assert session.run(question).answer == "A dot."
        assert session.run("Are you sure?").answer == "Still a dot."
        recorded = Sessions(host.store).messages(session.id)[0]
    described, asked, again = provider.requests
    assert described.body["model"] == "seer"
    words, picture = described.messages[0]["content"]
    assert "What is it?" in words["text"] and picture == question[1]
    told = asked.messages[-1]["content"]
    assert told.startswith(
        "What is it?\n\n[An image, which you cannot see. seer-1 describes it:\nA black dot on white.]"
    )
    # The next turn is told the same, and nobody looks twice.
    assert again.messages[1]["content"] == told
    # The record keeps the image itself.
    assert recorded["content"] == question
    assert "image_url" not in msgspec.json.encode(asked.body["messages"]).decode()


def test_the_name_alone_can_tell(home: Path, workdir: Path, question: list[dict[str, Any]]) -> None:
    settings: dict[str, Any] = {"default": "gpt-3.5-turbo", "supports_vision": None}
    with (
        ScriptedProvider([text("dot"), text("A dot.")]) as provider,
        blind_host(home, workdir, provider, **settings) as host,
    ):
        host.new_session().run(question)
    assert [request.body["model"] for request in provider.requests] == ["seer", "gpt-3.5-turbo"]


def test_without_a_model_that_sees_the_error_says_what_to_set(
    home: Path, workdir: Path, question: list[dict[str, Any]]
) -> None:
    with ScriptedProvider([text("fine")]) as provider, blind_host(home, workdir, provider, vision="") as host:
        session = host.new_session()
        result = session.run(question)
        assert result.status == "failed" and result.error is not None
        assert "scripted cannot see images" in result.error and "auxiliary.vision.model" in result.error
        # The conversation goes on; the image in it is a word.
        assert session.run("Then without").answer == "fine"
    [request] = provider.requests
    assert request.messages[1]["content"] == "What is it?\n\n[An image, which you cannot see.]"


def test_a_model_taken_in_the_middle_is_told_about_earlier_images(
    home: Path, workdir: Path, question: list[dict[str, Any]]
) -> None:
    with ScriptedProvider([text("I see a dot."), text("black dot"), text("It was a dot.")]) as provider:
        tasks = {"vision": AuxiliaryTaskConfig(model="seer")}
        with configured_host(home, workdir, provider, auxiliary=AuxiliaryConfig(tasks=tasks)) as host:
            session = host.new_session()
            session.run(question)
            session.models = host.models.conversation(model="deepseek-chat")
            session.run("And now?")
    assert [request.body["model"] for request in provider.requests] == ["scripted", "seer", "deepseek-chat"]
    assert "black dot" in provider.requests[2].messages[1]["content"]


def test_a_description_that_fails_is_a_clear_error(home: Path, workdir: Path, question: list[dict[str, Any]]) -> None:
    script = [failure(401, "bad key"), text("guessing is not allowed")]
    with ScriptedProvider(script) as provider, blind_host(home, workdir, provider) as host:
        result = host.new_session().run(question)
    assert result.status == "failed" and "auxiliary.vision" in (result.error or "")
    # The model that cannot see is not asked to describe it.
    assert [request.body["model"] for request in provider.requests] == ["seer"]


def test_a_turn_cut_off_later_is_told_the_same(home: Path, workdir: Path, question: list[dict[str, Any]]) -> None:
    script = [text("A black dot."), hanging(), text("A dot.")]
    with ScriptedProvider(script) as provider, blind_host(home, workdir, provider) as host:
        session = host.new_session()
        interrupt = Interrupt()
        threading.Thread(target=lambda: provider.wait_for_request(2) and interrupt.cancel("enough")).start()
        assert session.run(question, interrupt=interrupt).status == "interrupted"
        result = session.finish_open_turn()
        assert result is not None and result.answer == "A dot."
    assert [request.body["model"] for request in provider.requests] == ["seer", "scripted", "scripted"]
    assert provider.requests[1].messages[-1] == provider.requests[2].messages[-1]


def test_the_command_line_describes_too(home: Path, workdir: Path) -> None:
    (workdir / "dot.png").write_bytes(PNG)
    with ScriptedProvider([text("A black dot."), text("A dot.")]) as provider:
        write_config(home, provider.base_url, "auxiliary:\n  vision:\n    model: seer\n")
        config = home / "config.yaml"
        config.write_text(config.read_text().replace("model:\n", "model:\n  supports_vision: false\n", 1))
        done = run_hermes("chat", "-q", "What?", "-Q", "--image", "dot.png", home=home, cwd=workdir)
    assert (done.returncode, done.stdout) == (0, "A dot.\n"), done.stderr
