"""Budgets: checked before each call, shared by children, side calls and plugins, and over processes for a day."""

from __future__ import annotations

import json
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hermes.agent.context.setup import OUT_OF_BUDGET
from hermes.agent.llm.budgets import ANSWER_TOKENS, Budgets, CallBound
from hermes.base.config.schema.sections import BudgetLimitsConfig, BudgetsConfig
from hermes.base.errors import BudgetExceeded
from hermes.base.scope import Interrupt, Scope
from hermes.contract.events import BudgetReached, TurnEvent
from hermes.contract.llm import PluginLlmBudgetError
from hermes.models.costs.usage import Usage
from hermes.testing import RecordedRequest, ScriptedProvider, ScriptedReply, text, tool_call
from support import run_hermes, write_config
from support.configured import configured_host, write_plugin

STEP = {"prompt_tokens": 1_000, "completion_tokens": 100}


def limits(**kinds: Any) -> BudgetsConfig:
    on_limit: Any = kinds.pop("on_limit", "stop")
    amounts: dict[str, Any] = {kind: BudgetLimitsConfig(**amounts) for kind, amounts in kinds.items()}
    return BudgetsConfig(on_limit=on_limit, **amounts)


def working(request: RecordedRequest) -> ScriptedReply:
    """A model that never ends by itself, unless it is told to conclude."""
    if "tools" not in request.body:
        return text("What I know so far.", usage=STEP)
    return tool_call("todo", {}, usage=STEP)


# -- a turn ----------------------------------------------------------------------------------------------------------


def test_a_turn_ends_with_the_best_answer_when_its_calls_are_made(home: Path, workdir: Path) -> None:
    with (
        ScriptedProvider(working) as provider,
        configured_host(home, workdir, provider, budgets=limits(turn={"calls": 4})) as host,
    ):
        session = host.new_session()
        result = session.run("go")
        again = session.last_result()
        assert session.run("and now?").finish_reason == "budget"  # a new turn has its own
    assert (result.status, result.finish_reason, result.answer) == ("incomplete", "budget", "What I know so far.")
    assert result.error == "the budget of this turn is used up: 3 of 4 calls are made (budgets.turn.calls)"
    assert (again.status, again.finish_reason, again.error) == ("incomplete", "budget", result.error)
    first = provider.requests[:4]
    assert first[-1].last_user_text == OUT_OF_BUDGET and "tools" not in first[-1].body
    assert len(provider.requests) == 8


def test_the_upper_bound_of_a_call_has_to_fit(home: Path, workdir: Path) -> None:
    long = {"prompt_tokens": 5_000, "completion_tokens": 100}
    script = [tool_call("todo", {}, usage=long), text("Briefly.", usage=STEP)]
    with (
        ScriptedProvider(script) as provider,
        configured_host(home, workdir, provider, budgets=limits(turn={"tokens": 8_500})) as host,
    ):
        result = host.new_session().run("go")
    assert (result.finish_reason, result.answer) == ("budget", "Briefly.")
    assert "5,100 of 8,500 tokens are used, and the next call may take" in (result.error or "")
    # The last call had to be shorter than it would have been.
    first, last = provider.requests
    assert "max_tokens" not in first.body and 0 < last.body["max_tokens"] < ANSWER_TOKENS


def test_a_budget_with_no_room_for_any_call_sends_nothing(home: Path, workdir: Path) -> None:
    with (
        ScriptedProvider("never") as provider,
        configured_host(home, workdir, provider, budgets=limits(turn={"tokens": 100})) as host,
    ):
        result = host.new_session().run("go")
    assert provider.requests == []
    assert result.finish_reason == "budget" and result.answer.startswith("[no answer: the budget of this turn")


def test_text_that_is_there_is_the_answer(home: Path, workdir: Path) -> None:
    script = [text("The first half ", finish_reason="length", usage=STEP), text("never", usage=STEP)]
    with (
        ScriptedProvider(script) as provider,
        configured_host(home, workdir, provider, budgets=limits(turn={"calls": 1})) as host,
    ):
        result = host.new_session().run("go")
    assert (result.finish_reason, result.answer, len(provider.requests)) == ("budget", "The first half ", 1)


def test_a_session_and_a_day_last_longer_than_a_turn(home: Path, workdir: Path) -> None:
    budgets = limits(session={"calls": 3}, day={"calls": 5})
    with (
        ScriptedProvider(text("fine", usage=STEP)) as provider,
        configured_host(home, workdir, provider, budgets=budgets) as host,
    ):
        session = host.new_session()
        assert [session.run("go").status for _ in range(4)] == ["completed"] * 3 + ["incomplete"]
        assert host.new_session().run("go").status == "completed"
    with (
        ScriptedProvider(text("fine", usage=STEP)) as provider,  # another process of the home
        configured_host(home, workdir, provider, budgets=budgets) as host,
    ):
        other = host.new_session()
        first, second = other.run("go"), other.run("go")
    assert (first.status, second.status) == ("completed", "incomplete")
    assert second.error == "the budget of this day is used up: 5 of 5 calls are made (budgets.day.calls)"


def test_minutes_of_a_turn_are_counted_from_its_beginning(home: Path, workdir: Path) -> None:
    with (
        ScriptedProvider(working) as provider,
        configured_host(home, workdir, provider, budgets=limits(turn={"minutes": 0})) as host,
    ):
        result = host.new_session().run("go")
    assert "its 0 minutes are over (budgets.turn.minutes)" in (result.error or "") and provider.requests == []


def test_dollars_count_where_the_server_says_what_a_call_cost(home: Path, workdir: Path) -> None:
    reply = tool_call("todo", {}, usage={**STEP, "cost": 0.4})
    with (
        ScriptedProvider(reply) as provider,
        configured_host(home, workdir, provider, budgets=limits(session={"usd": 1.0})) as host,
    ):
        result = host.new_session().run("go")
    assert result.finish_reason == "budget" and "$1.2000 of $1.0000 are spent" in (result.error or "")
    assert len(provider.requests) == 3  # one call beyond the limit, because its price was not known before


def test_another_principal_has_a_budget_of_its_own(home: Path, workdir: Path) -> None:
    budgets = limits(principal={"calls": 1})
    budgets.principals = {"eve": BudgetLimitsConfig(calls=2)}
    with (
        ScriptedProvider(text("fine")) as provider,
        configured_host(home, workdir, provider, budgets=budgets) as host,
    ):

        def ask(principal: str) -> list[str]:
            return [host.new_session(principal=principal).run("go").status for _ in range(3)]

        assert ask("bob") == ["completed", "incomplete", "incomplete"]
        assert ask("eve") == ["completed", "completed", "incomplete"]
        assert ask("") == ["completed"] * 3


# -- children and side calls -----------------------------------------------------------------------------------------


def delegating(request: RecordedRequest) -> ScriptedReply:
    if "part" in request.last_user_text:
        return (
            tool_call("read_file", {"path": "x"}, usage=STEP) if "tools" in request.body else text("part", usage=STEP)
        )
    tasks = [{"goal": f"part {number}"} for number in range(3)]
    return tool_call("delegate_task", {"tasks": tasks}, usage=STEP) if request.step == 0 else text("done", usage=STEP)


def test_children_in_parallel_share_the_budget_of_the_turn(home: Path, workdir: Path) -> None:
    with (
        ScriptedProvider(delegating) as provider,
        configured_host(home, workdir, provider, budgets=limits(turn={"calls": 9})) as host,
    ):
        result = host.new_session().run("go")
    assert result.finish_reason in ("budget", "stop")
    assert len(provider.requests) <= 9


def test_each_child_has_a_budget(home: Path, workdir: Path) -> None:
    with (
        ScriptedProvider(delegating) as provider,
        configured_host(home, workdir, provider, budgets=limits(child={"calls": 2})) as host,
    ):
        result = host.new_session().run("go")
    assert (result.status, result.answer) == ("completed", "done")
    assert len([one for one in provider.requests if "part" in one.messages[1]["content"]]) == 6
    reports = json.loads(result.tool_calls[0].result)["results"]
    assert {report["exit_reason"] for report in reports} == {"incomplete"}
    assert all("budget of this child" in report["error"] for report in reports)


def test_no_two_calls_take_the_same_room(home: Path, workdir: Path) -> None:
    with ScriptedProvider("x") as provider, configured_host(home, workdir, provider) as host:
        budgets = Budgets(host.store, limits(session={"tokens": 10_000}))
        scope, bound, barrier = Scope(session_id="s"), CallBound(500, 1_500), threading.Barrier(12)
        held: list[Any] = []

        def call() -> None:
            barrier.wait()
            try:
                held.append(budgets.reserve(scope, bound))
            except BudgetExceeded:
                return

        threads = [threading.Thread(target=call) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(held) == 5
        held[0].add("", Usage(input_tokens=100, output_tokens=50), 0.1)
        held[0].close()
        with pytest.raises(BudgetExceeded, match=r"8,150 of 10,000 tokens are used"):
            budgets.reserve(scope, bound)
        for one in held[1:]:
            one.close()
        assert budgets.reserve(scope, bound).bound == bound


def test_side_calls_count(home: Path, workdir: Path) -> None:
    with (
        ScriptedProvider(text("fine", usage=STEP)) as provider,
        configured_host(home, workdir, provider, budgets=limits(session={"calls": 2})) as host,
    ):
        session = host.new_session()
        scope = Scope(session_id=session.id)
        ask = [{"role": "user", "content": "title?"}]
        assert session.run("go").status == "completed"
        host.side.ask("title", ask, scope=scope, main=session.models.endpoints)
        assert session.run("go").finish_reason == "budget"
        with pytest.raises(BudgetExceeded):
            host.side.ask("title", ask, scope=scope, main=session.models.endpoints)
    assert len(provider.requests) == 2


ASKING = """
def register(ctx):
    ctx.register_command(NAME, lambda raw: ctx.llm.complete([{"role": "user", "content": raw}]).text)
"""


def test_every_plugin_has_a_budget_of_a_day(home: Path, workdir: Path) -> None:
    for name in ("first", "second"):
        write_plugin(home, name, ASKING.replace("NAME", repr(name)))
    settings: dict[str, Any] = {"budgets": limits(plugin={"calls": 2}), "options": {"plugins": ["first", "second"]}}
    for allowed in (2, 0):  # another process of the home has what the first one left
        with (
            ScriptedProvider(text("fine", usage=STEP)) as provider,
            configured_host(home, workdir, provider, **settings) as host,
        ):
            ask = host.plugins.commands["first"].handler
            assert [ask("?") for _ in range(allowed)] == ["fine"] * allowed
            with pytest.raises(PluginLlmBudgetError, match=r"budgets.plugin.calls"):
                ask("?")
            assert len(provider.requests) == allowed
            if allowed:
                assert host.plugins.commands["second"].handler("?") == "fine", "each has its own"
                assert host.new_session().run("go").status == "completed", "the conversation has none of it"


def test_the_content_of_a_plugins_call_is_on_record_without_secrets(home: Path, workdir: Path) -> None:
    write_plugin(home, "first", ASKING.replace("NAME", repr("first")))
    with (
        ScriptedProvider(text("The answer.", usage=STEP)) as provider,
        configured_host(home, workdir, provider, options={"plugins": ["first"]}) as host,
    ):
        assert host.plugins.commands["first"].handler("is test-key a key?") == "The answer."
        path = Path(host.store.location)
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT b.data FROM outside_calls c JOIN blobs b ON b.sha256 = c.content"
        [(data,)] = connection.execute(query).fetchall()
    recorded = data.decode() if isinstance(data, bytes) else data
    assert "The answer." in recorded and "a key?" in recorded and "test-key" not in recorded


# -- what happens at a limit -----------------------------------------------------------------------------------------


class Person:
    """Answers questions about budgets."""

    surface = "cli"

    def __init__(self, *answers: str | None) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def answer(self, question: str, choices: Any, interrupt: Interrupt) -> str | None:
        self.asked.append(question)
        return self.answers.pop(0)

    def approve(self, request: Any, interrupt: Interrupt) -> Any:
        raise AssertionError("nothing is to be approved")


def test_a_person_may_let_it_go_on(home: Path, workdir: Path) -> None:
    person = Person("Continue", "Stop")
    with (
        ScriptedProvider(text("fine", usage=STEP)) as provider,
        configured_host(home, workdir, provider, budgets=limits(session={"calls": 1}, on_limit="ask")) as host,
    ):
        session = host.new_session()
        host.responders.attach(session.id, person)
        results = [session.run("go").status for _ in range(3)]
    assert results == ["completed", "completed", "incomplete"]
    assert person.asked[0].startswith("The budget of this session is used up: 1 of 1 calls are made")
    assert "2 of 2 calls" in person.asked[1]


def test_without_anyone_to_ask_it_stops(home: Path, workdir: Path) -> None:
    with (
        ScriptedProvider("fine") as provider,
        configured_host(home, workdir, provider, budgets=limits(turn={"calls": 0}, on_limit="ask")) as host,
    ):
        assert host.new_session().run("go").finish_reason == "budget"
    assert provider.requests == []


def test_a_limit_may_only_warn(home: Path, workdir: Path) -> None:
    events: list[TurnEvent] = []
    with (
        ScriptedProvider([tool_call("todo", {}), tool_call("todo", {}), text("done")]) as provider,
        configured_host(home, workdir, provider, budgets=limits(turn={"calls": 1}, on_limit="warn")) as host,
    ):
        result = host.new_session().run("go", listener=events.append)
    assert (result.status, len(provider.requests)) == ("completed", 3)
    [reached] = [event for event in events if isinstance(event, BudgetReached)]
    assert "1 of 1 calls are made (budgets.turn.calls)" in reached.text


# -- at the command line ---------------------------------------------------------------------------------------------


def test_a_script_is_told_by_the_exit_code(home: Path, workdir: Path) -> None:
    with ScriptedProvider(working) as provider:
        write_config(home, provider.base_url, "budgets: {turn: {calls: 2}, day: {tokens: 1000000}}\n")
        done = run_hermes("chat", "-Q", "-q", "go", home=home, cwd=workdir)
        shown = run_hermes("chat", "-q", "/budget", "-c", home=home, cwd=workdir)
    assert (done.returncode, done.stdout) == (3, "What I know so far.\n")
    assert "Incomplete: the budget of this turn is used up: 1 of 2 calls" in done.stderr
    lines = [line.split() for line in shown.stdout.splitlines()]
    assert ["this", "day", "1,000,000", "tokens", "2,200", "997,800"] in lines
    assert ["each", "turn", "2", "calls"] in lines


def test_a_call_counts_once_whether_its_row_is_written_or_not(home: Path, workdir: Path) -> None:
    with (
        ScriptedProvider(text("fine", usage=STEP)) as provider,
        configured_host(home, workdir, provider, budgets=limits(day={"tokens": 1_000_000})) as host,
    ):
        session = host.new_session()
        session.run("go")
        budgets = host.models.budgets
        assert budgets is not None
        scope = Scope(session_id=session.id)
        [line] = budgets.lines(scope)
        assert (line.used.tokens, line.used.calls, line.account.unwritten) == (1_100, 1, {})
        held = budgets.reserve(scope, CallBound(10, 10))
        held.add("never-written", Usage(input_tokens=7, output_tokens=3), 0.1)
        held.close()
        [line] = budgets.lines(scope)
        assert (line.used.tokens, line.used.calls) == (1_110, 2)
        assert (line.account.reserved.tokens, line.account.reserved.calls) == (0, 0)
