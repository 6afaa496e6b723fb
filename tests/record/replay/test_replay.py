"""Runs of every kind, replayed byte for byte in another home."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest
from hermes.base.config import Config
from hermes.base.config.schema.sections import BudgetsConfig
from hermes.base.errors import HermesError, SessionNotFound
from hermes.base.scope import Interrupt
from hermes.journal.store.sqlite.store import SqliteStore
from hermes.models.endpoint import ApiMode
from hermes.plugins.context import PluginContext
from hermes.record.bundle import open_bundle, read_bundle, write_bundle
from hermes.record.compare import difference_lines
from hermes.record.recording import load_recording
from hermes.record.replay.replay import ReplayResult, ReplaySettings, recorded_config, replay
from hermes.surfaces.cli.main import main
from hermes.testing import ScriptedProvider, ScriptedReply, text, tool_call
from hermes.testing.scripted.replies import ScriptedCall
from support import HostFactory, trace_runs
from support.configured import configured_host
from support.trace_runs import Rig, Run

ANY = Config()


@pytest.fixture
def rig(home: Path, workdir: Path) -> Generator[Rig]:
    with ExitStack() as stack:
        yield Rig(home, workdir, stack)


def again(home: Path, session_id: str, other: Path, config: Config | None = None, **options: Any) -> ReplayResult:
    """The run of a home once more, in a home that has nothing."""
    objects = options.pop("plugin_objects", ())
    with closing(SqliteStore(home / "state.db")) as store:
        settings = config or recorded_config(load_recording(store, session_id))
        assert settings is not None
        return replay(store, session_id, other, settings, ReplaySettings(**options), plugin_objects=objects)


def shown(result: ReplayResult) -> str:
    return "\n".join(line for one in result.differences for line in difference_lines(one))


KINDS: list[Callable[[Rig], Run]] = [
    trace_runs.one_tool,
    trace_runs.thinking,
    trace_runs.parallel_tools_reversed,
    trace_runs.delegated_children,
    trace_runs.approval,
    trace_runs.denied,
    trace_runs.error_and_retry,
    trace_runs.fallback,
    trace_runs.final_error,
    trace_runs.interrupted_turn,
    trace_runs.compaction,
    trace_runs.steered_and_out_of_steps,
    trace_runs.plugin_makes_a_call,
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_replays_identically_in_another_home(kind: Callable[[Rig], Run], rig: Rig, tmp_path: Path) -> None:
    run = kind(rig)
    rig.stack.close()
    result = again(rig.home, run.stored.id, tmp_path / "elsewhere", strict=True)
    # Tools that a test added by hand are not there, and a strict replay says so.
    by_hand = {trace_runs.parallel_tools_reversed, trace_runs.steered_and_out_of_steps}
    assert [one.field for one in result.differences] == (["tools"] if kind in by_hand else []), shown(result)
    assert result.turns >= len(run.stored.turns)


@pytest.mark.parametrize("mode", get_args(ApiMode))
def test_every_wire(mode: ApiMode, home: Path, workdir: Path, tmp_path: Path) -> None:
    (workdir / "a.txt").write_text("forty-two\n")
    look = ScriptedReply(thoughts="I had better look", calls=(ScriptedCall("read_file", {"path": "a.txt"}),))
    with (
        ScriptedProvider([look, text("It is 42."), text("Yes.")]) as provider,
        configured_host(home, workdir, provider, model={"api_mode": mode}) as host,
    ):
        session = host.new_session()
        session.run("What is in a.txt?")
        session.run("Sure?")
    (workdir / "a.txt").unlink()
    result = again(home, session.id, tmp_path / "elsewhere")
    assert result.identical, shown(result)
    assert (result.turns, result.steps) == (2, 3)


def test_an_unknown_outcome_is_replayed_as_unknown(make_host: HostFactory, tmp_path: Path, home: Path) -> None:
    from agent.test_recovery import left_at

    with left_at(make_host, "key = 'tool:2.0' AND kind = 'step_claimed'") as (host, session, _provider):
        outcome = session.finish_open_turn()
        assert outcome is not None and outcome.status == "completed"
        host.close()
        effects = (session.cwd / "effects.log").read_text()
        result = again(home, session.id, tmp_path / "elsewhere")
        assert result.identical, shown(result)
        assert (session.cwd / "effects.log").read_text() == effects, "a replayed tool ran"


@pytest.mark.parametrize("limit", [{"tokens": 20}, {"calls": 1}])
def test_a_turn_that_its_budget_stopped(limit: dict[str, int], home: Path, workdir: Path, tmp_path: Path) -> None:
    (workdir / "a").write_text("a")
    budgets = msgspec.convert({"on_limit": "stop", "turn": limit}, BudgetsConfig)
    look = [tool_call("read_file", {"path": "a"}), tool_call("read_file", {"path": "a", "offset": 1}), text("Enough.")]
    with ScriptedProvider(look) as provider, configured_host(home, workdir, provider, budgets=budgets) as host:
        session = host.new_session()
        ended = session.run("Look.")
    with closing(SqliteStore(home / "state.db")) as store:
        assert any(key.startswith("budget:") for key in load_recording(store, session.id).turns[0].steps), ended
    result = again(home, session.id, tmp_path / "elsewhere")
    assert result.identical, shown(result)


class Asker:
    """A plugin that asks a model of its own before every turn."""

    name = "asker"

    @staticmethod
    def register(ctx: PluginContext) -> None:
        def ask(**_: Any) -> dict[str, str]:
            answer = ctx.llm.complete([{"role": "user", "content": "Say something."}], purpose="greeting")
            return {"context": answer.text}

        ctx.register_hook("pre_llm_call", ask)


class OtherAsker(Asker):
    """The same plugin with another question."""

    @staticmethod
    def register(ctx: PluginContext) -> None:
        def ask(**_: Any) -> dict[str, str]:
            answer = ctx.llm.complete([{"role": "user", "content": "Say something else."}], purpose="greeting")
            return {"context": answer.text}

        ctx.register_hook("pre_llm_call", ask)


def test_side_calls_of_plugins_are_answered_from_the_record(make_host: HostFactory, home: Path, tmp_path: Path) -> None:
    with ScriptedProvider(["Good morning.", "Hello."]) as provider:
        host = make_host(provider, plugin_objects=[Asker])
        session = host.new_session()
        session.run("Hi.")
        host.close()
    result = again(home, session.id, tmp_path / "elsewhere", plugin_objects=[Asker])
    assert result.identical, shown(result)
    # A changed question misses, and the nearest recorded one is shown beside it.
    result = again(home, session.id, tmp_path / "elsewhere", plugin_objects=[OtherAsker])
    assert not result.identical


def test_prompt_sections_of_plugins_are_those_of_the_record(make_host: HostFactory, home: Path, tmp_path: Path) -> None:
    made: list[str] = []

    class Teller:
        name = "teller"

        @staticmethod
        def register(ctx: PluginContext) -> None:
            def tell(session: dict[str, Any]) -> str:
                made.append(session["session_id"])
                return f"Told {len(made)} times."

            ctx.register_system_prompt_section("count", tell)

    with ScriptedProvider([text("One."), text("Two.")]) as provider:
        host = make_host(provider, plugin_objects=[Teller])
        session = host.new_session()
        session.run("Hi.")
        session.run("And now?")
        host.close()
        prompts = {str(request.messages[0]["content"]) for request in provider.requests}
    assert ["Told 1 times." in prompt for prompt in prompts] == [True]
    # With the plugin, which has another text by now and is not asked; and without it.
    for plugins in ([Teller], []):
        result = again(home, session.id, tmp_path / "elsewhere", plugin_objects=plugins)
        assert result.identical, shown(result)
    assert made == [session.id]


@pytest.fixture
def recorded(make_host: HostFactory, workdir: Path, home: Path) -> str:
    """A session with three turns, of which the second was undone, and a command that leaves a trace."""
    script = [tool_call("terminal", {"command": "echo x >> ran"}), text("One."), text("Two."), text("Three.")]
    with ScriptedProvider(script) as provider:
        host = make_host(provider)
        session = host.new_session()
        session.run("first")
        session.run("second")
        session.undo()
        session.run("third")
        host.close()
    return session.id


def test_recorded_tools_run_nothing(recorded: str, home: Path, workdir: Path, tmp_path: Path) -> None:
    assert (workdir / "ran").read_text() == "x\n"
    result = again(home, recorded, tmp_path / "elsewhere")
    assert result.identical, shown(result)
    assert result.notes == ["turn 2 was left out: it was undone, and is not part of the conversation"]
    assert (workdir / "ran").read_text() == "x\n"


def test_live_tools_run_again(recorded: str, home: Path, workdir: Path, tmp_path: Path) -> None:
    result = again(home, recorded, tmp_path / "elsewhere", tools="live", turn=1)
    assert result.identical, shown(result)
    assert (workdir / "ran").read_text() == "x\nx\n"


def test_one_turn_alone(recorded: str, home: Path, tmp_path: Path) -> None:
    result = again(home, recorded, tmp_path / "elsewhere", turn=3)
    assert result.identical and result.turns == 1, shown(result)
    with pytest.raises(HermesError, match=r"turn 2 of session .* was undone"):
        again(home, recorded, tmp_path / "elsewhere", turn=2)
    with pytest.raises(HermesError, match="has no turn 9; it has turns 1 to 3"):
        again(home, recorded, tmp_path / "elsewhere", turn=9)


def test_the_last_turns_of_a_record_are_read_alone(recorded: str, home: Path) -> None:
    with closing(SqliteStore(home / "state.db")) as store:
        whole, last = load_recording(store, recorded), load_recording(store, recorded, first_turn=2)
    assert last.turns == whole.turns[2:] and len(whole.turns) == 3


def test_a_changed_prompt_is_the_first_difference(recorded: str, home: Path, tmp_path: Path) -> None:
    with closing(SqliteStore(home / "state.db")) as store:
        config = recorded_config(load_recording(store, recorded))
    assert config is not None
    config.agent.system_prompt = "Answer in rhymes."
    result = again(home, recorded, tmp_path / "elsewhere", config)
    assert [one.place for one in result.differences] == ["turn 1, setup, system"]
    assert "+Answer in rhymes." in shown(result)


class Shouter:
    """Middleware that changes every request."""

    name = "shouter"

    @staticmethod
    def register(ctx: PluginContext) -> None:
        def shout(request: dict[str, Any], **_: Any) -> dict[str, Any]:
            return {"request": {**request, "temperature": 1.5}}

        ctx.register_middleware("llm_request", shout)


def test_middleware_that_changes_the_request_is_seen(recorded: str, home: Path, tmp_path: Path) -> None:
    result = again(home, recorded, tmp_path / "elsewhere", plugin_objects=[Shouter])
    assert result.differences[0].place == "turn 1, model:1, parameters"
    assert '"temperature": 1.5' in shown(result)


def test_nothing_is_written_to_the_home(recorded: str, home: Path, tmp_path: Path) -> None:
    def files() -> dict[Path, int]:
        # Reading a journal makes the two companions of a log.
        return {
            path: path.stat().st_size for path in home.rglob("*") if path.is_file() and "state.db-" not in path.name
        }

    before = files()
    again(home, recorded, home)
    assert files() == before


# -- bundles and the command ----------------------------------------------------------------------------------------


def test_a_bundle_is_replayed_elsewhere_by_the_command(
    recorded: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = tmp_path / "run.bundle"
    assert main(["sessions", "export", recorded, "--bundle", str(bundle)]) == 0
    assert main(["replay", recorded]) == 0 or "custom" in capsys.readouterr().err
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    assert main(["replay", str(bundle)]) == 0
    assert capsys.readouterr().out.endswith("identical (2 turns, 3 model steps)\n")
    assert main(["replay", str(bundle), "--turn", "3", "--json"]) == 0
    assert '"differences": []' in capsys.readouterr().out


def test_a_bundle_that_was_changed_or_is_newer_is_refused(recorded: str, home: Path, tmp_path: Path) -> None:
    with closing(SqliteStore(home / "state.db")) as store:
        whole = write_bundle(store, recorded)
    bundle = tmp_path / "run.bundle"
    bundle.write_text(whole)
    with open_bundle(bundle) as (copy, session_id):
        assert load_recording(copy, session_id).turns[0].message == "first"
    bundle.write_text(whole.replace("\n", "\r\n"))
    assert read_bundle(bundle)[0] == recorded
    for text_, problem in (
        (whole.replace("first", "worst"), "cut off or was changed"),
        (whole[: len(whole) // 2], "is not part of a bundle|cut off"),
        (whole.replace('"schema":', '"schema":9', 1), r"newer than this one .schema 9\d+, this one knows"),
        ("{}\n", "is not a bundle; 'hermes sessions export"),
        ("", "is not a bundle"),
    ):
        bundle.write_text(text_)
        with pytest.raises(HermesError, match=problem):
            read_bundle(bundle)


def _without(mark: str) -> Callable[[list[str]], list[str]]:
    return lambda lines: [line for line in lines if mark not in line]


def _with(old: str, new: str) -> Callable[[list[str]], list[str]]:
    return lambda lines: [line.replace(old, new) for line in lines]


def _twice(lines: list[str]) -> list[str]:
    return [*lines, *lines[1:]]


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        (_with('"schema":', '"schema":"x","y":'), "line 1: this is not part of a bundle"),
        (_with('"session":"2', '"session":7,"x":"2'), "line 1: this is not part"),
        (_without('"table":"sessions"'), "does not have the session .* that it names"),
        (_without('"table":"turns"'), "has a message of turn 1, but no such turn"),
        (_with('"row":', '"rows":'), "is not part of a bundle"),
        (_with('"chain":"', '"chain":"zz'), "is not part of a bundle"),
        (_with("You are Hermes", "You are somebody"), r"line \d+: this is not part of a bundle"),
        (_twice, "rows that do not fit each other: UNIQUE"),
        (_with('"started_at":', '"started_at":"x","y":'), "rows that do not fit each other"),
        (_with('"body":"{', '"body":"['), "it is not JSON"),
        (_with('\\"args\\"', '\\"orgs\\"'), r"event \d .step_done tool:1.0. .* does not have the parts"),
        (_with('\\"reply\\"', '\\"roply\\"'), r"event \d .step_done model:1. .* does not have the parts"),
        (_with('\\"arguments\\"', '\\"orguments\\"'), "does not have the parts"),
        (_with('\\"message\\"', '\\"massage\\"'), "event 1 .turn_started. .* does not have the parts"),
        (_with("model:1", "model:x"), "does not have the parts"),
    ],
)
def test_a_bundle_with_a_digest_that_fits_its_changes_is_refused_all_the_same(
    edit: Callable[[list[str]], list[str]], problem: str, recorded: str, home: Path, tmp_path: Path
) -> None:
    with closing(SqliteStore(home / "state.db")) as store:
        lines = edit(write_bundle(store, recorded).splitlines()[:-1])
    body = "".join(f"{line}\n" for line in lines)
    bundle = tmp_path / "run.bundle"
    bundle.write_text(f'{body}{{"sha256":"{hashlib.sha256(body.encode()).hexdigest()}"}}\n')
    with pytest.raises(HermesError, match=problem), open_bundle(bundle) as (copy, session_id):
        load_recording(copy, session_id)


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (["replay", "missing.bundle"], "the file missing.bundle does not exist; 'hermes sessions export ID --bundle"),
        (["replay", "some/where"], "the file some/where does not exist"),
        (["replay", "."], "the file . is a folder"),
        (["trace", "diff", "missing.bundle", "missing.bundle"], "the file missing.bundle does not exist"),
        (["audit", "verify", "gone.evidence"], "the file gone.evidence does not exist; 'hermes audit export ID -o"),
        (["replay", "nosuch"], "no session"),
    ],
)
def test_a_file_that_is_missing_is_not_called_a_session(
    command: list[str],
    problem: str,
    recorded: str,
    workdir: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(workdir)
    assert main(command) == 1
    assert problem in capsys.readouterr().err


def test_missing_parts_are_named(recorded: str, home: Path, tmp_path: Path) -> None:
    with closing(SqliteStore(home / "state.db")) as store:
        with pytest.raises(SessionNotFound):
            replay(store, "nosuch", tmp_path / "elsewhere", ANY)
        store.write(lambda connection: connection.execute("DELETE FROM blobs"))
        with pytest.raises(HermesError, match=r"event \d+ \(step_done setup\) in turn 1 .* is missing"):
            replay(store, recorded, tmp_path / "elsewhere", ANY)
        with pytest.raises(HermesError, match="the stored text"):
            write_bundle(store, recorded)


def test_a_child_is_replayed_with_its_parent(rig: Rig, tmp_path: Path) -> None:
    run = trace_runs.delegated_children(rig)
    rig.stack.close()
    with closing(SqliteStore(rig.home / "state.db")) as store:
        child = load_recording(store, run.stored.id).children[0]
        with pytest.raises(HermesError, match=f"hermes replay {run.stored.id}"):
            replay(store, child.id, tmp_path / "elsewhere", ANY)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(8))
def test_a_hundred_runs_of_every_kind(number: int, tmp_path: Path) -> None:
    """Each time in another order: one home has many runs, and another one replays them all."""
    workdir = tmp_path / "place"
    workdir.mkdir()
    ids: list[str] = []
    for kind in KINDS[number:] + KINDS[:number]:
        with ExitStack() as stack:
            ids.append(kind(Rig(tmp_path / "home", workdir, stack)).stored.id)
    results = [again(tmp_path / "home", session_id, tmp_path / "elsewhere") for session_id in ids]
    assert [shown(result) for result in results if not result.identical] == []
    assert len(results) == len(KINDS)


def test_live_tools_are_not_for_bundles(
    recorded: str, workdir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = tmp_path / "run.bundle"
    assert main(["sessions", "export", recorded, "--bundle", str(bundle)]) == 0
    assert main(["replay", str(bundle), "--tools", "live"]) != 0
    assert "live tools run a session of this home only" in capsys.readouterr().err
    assert (workdir / "ran").read_text() == "x\n"


class Agreeable:
    """A user who approves everything for good."""

    surface = "cli"

    def approve(self, request: ApprovalRequest, interrupt: Interrupt) -> ApprovalAnswer:
        return ApprovalAnswer("always")

    def answer(self, question: str, choices: Sequence[str], interrupt: Interrupt) -> str | None:
        return None


def test_an_approval_for_good_in_a_record_is_not_one_of_this_home(home: Path, workdir: Path, tmp_path: Path) -> None:
    (workdir / "notes").mkdir()
    script = [tool_call("terminal", {"command": "rm -rf notes"}), text("Gone.")]
    with ScriptedProvider(script) as provider, configured_host(home, workdir, provider) as host:
        session = host.new_session()
        host.responders.attach(session.id, Agreeable())
        assert session.run("clear it").answer == "Gone."
    assert not (workdir / "notes").exists() and "recursive-delete" in (home / "config.yaml").read_text()
    other = tmp_path / "elsewhere"
    other.mkdir()
    result = again(home, session.id, other)
    assert result.identical, shown(result)
    assert not (other / "config.yaml").exists()
