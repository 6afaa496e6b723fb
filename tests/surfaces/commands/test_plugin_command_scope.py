"""A plugin's command works in the person's session: its model, its account, and their wish to stop."""

from __future__ import annotations

import signal
import subprocess
import threading
from pathlib import Path

import pytest

from hermes.base.scope import Interrupt
from hermes.surfaces.commands.conversation import Conversation
from hermes.surfaces.commands.dispatch import run_command
from hermes.surfaces.commands.surface import OneShotSurface
from hermes.testing import ScriptedProvider, hanging
from support import start_hermes
from support.configured import write_plugin
from support.llm_rig import llm_host, recorded, write_settings

PLUGIN = """
def register(ctx):
    def ask(raw):
        return ctx.llm.complete([{"role": "user", "content": raw}]).text
    async def ask_later(raw):
        return (await ctx.llm.acomplete([{"role": "user", "content": raw}])).text
    ctx.register_command("ask", ask)
    ctx.register_command("later", ask_later)
"""


@pytest.mark.parametrize("name", ["ask", "later"])
def test_it_asks_the_model_of_the_session_and_on_its_account(home: Path, workdir: Path, name: str) -> None:
    write_plugin(home, "p", PLUGIN)
    with (
        ScriptedProvider("pong") as provider,
        llm_host(home, workdir, provider, plugins={"enabled": ["p"]}) as (host, _),
    ):
        session = host.new_session()
        session.models = host.models.conversation(model="switched")
        answer = run_command(Conversation(host, session, OneShotSurface()), f"/{name} me\nthis")
        assert (answer.text, answer.error) == ("pong", "")
        assert [row["session_id"] for row in recorded(host)] == [session.id]
    [request] = provider.requests
    assert (request.body["model"], request.last_user_text) == ("switched", "me\nthis")


@pytest.mark.parametrize("name", ["ask", "later"])
def test_stopping_the_command_ends_the_request(home: Path, workdir: Path, name: str) -> None:
    write_plugin(home, "p", PLUGIN)
    interrupt = Interrupt()
    with (
        ScriptedProvider(hanging()) as provider,
        llm_host(home, workdir, provider, plugins={"enabled": ["p"]}) as (host, _),
    ):

        def stop() -> None:
            provider.wait_for_request()
            interrupt.cancel("keyboard interrupt")

        thread = threading.Thread(target=stop)
        thread.start()
        answer = run_command(Conversation(host, None, OneShotSurface(interrupt)), f"/{name} me")
        thread.join()
    assert answer.error == f"/{name} was interrupted"


def test_a_single_run_ends_with_the_code_of_an_interrupt(home: Path, workdir: Path) -> None:
    write_plugin(home, "p", PLUGIN)
    with ScriptedProvider(hanging()) as provider:
        write_settings(home, provider.base_url, plugins={"enabled": ["p"]})
        command = ("chat", "-q", "/ask me")
        with start_hermes(*command, home=home, cwd=workdir, stderr=subprocess.PIPE) as process:
            provider.wait_for_request()
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
            assert process.stderr is not None and process.stderr.read() == "Error: /ask was interrupted\n"
