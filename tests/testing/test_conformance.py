"""The conformance kit: every rule fires on a plugin that breaks it, and on nothing else."""

from __future__ import annotations

import argparse
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.contract.hooks import HOOKS, PAIRS
from hermes.contract.middleware import MIDDLEWARE
from hermes.surfaces.cli.main import main
from hermes.testing import EventRecorder
from hermes.testing.conformance.check import (
    RULES,
    ConformanceFinding,
    ConformanceLimits,
    ConformanceReport,
    check_plugin,
)
from hermes.testing.conformance.payloads import LIFECYCLE, Flavour, LifecycleStep, SampleSession, payload
from hermes.testing.conformance.process import check_plugin_in_process
from hermes.testing.conformance.rules import FindingCollector, SourceLine
from hermes.testing.conformance.tools import sample_arguments, schema_problem
from support.waiting import wait_until

#: Far above what any plugin here needs; no test waits for one of these to be reached.
GENEROUS = ConformanceLimits(deadline=30, slow=10, budget=900)
#: For plugins that reach a limit on purpose, by sleeping or waiting far longer.
SHORT = ConformanceLimits(deadline=1, slow=0.1, budget=60)
LIMITS = {"hangs": SHORT, "slow": SHORT, "unfinished": ConformanceLimits(deadline=1, slow=0.1, budget=0.3)}

#: Rule -> a plugin that breaks it, and the line (from 1) the finding must point at.
BAD: dict[str, tuple[str, int]] = {
    "load": ("def register(ctx):\n    raise RuntimeError('no licence')", 2),
    "unknown-name": ("def register(ctx):\n    ctx.register_hook('post_tool_cal', print)", 2),
    "refused": (
        "def register(ctx):\n    ctx.register_tool('terminal', 't', {'description': 'd'}, lambda args: '{}')",
        1,
    ),
    "register-differs": (
        "import sys\n"
        "def register(ctx):\n"
        "    if not hasattr(sys, 'conformance_registered'):\n"
        "        sys.conformance_registered = True\n"
        "        ctx.register_hook('post_tool_call', lambda **kw: None)",
        1,
    ),
    "register-residue": (
        "import threading\n"
        "stop = threading.Event()\n"
        "def register(ctx):\n"
        "    threading.Thread(target=stop.wait, args=(60.0,), daemon=True).start()\n"
        "    ctx.register_hook('post_tool_call', lambda **kw: None)",
        1,
    ),
    "global-state": ("import os\ndef register(ctx):\n    os.environ['CONFORMANCE_LEFT_BEHIND'] = '1'", 1),
    "non-daemon-thread": (
        "import threading\n"
        "def register(ctx):\n"
        "    threading.Thread(target=threading.Event().wait, args=(20.0,)).start()",
        1,
    ),
    "impossible-signature": (
        "def register(ctx):\n    ctx.register_hook('pre_tool_call', cb)\n\ndef cb(tool, **kwargs):\n    pass",
        4,
    ),
    "narrow-signature": (
        "def register(ctx):\n    ctx.register_hook('pre_tool_call', cb)\n\ndef cb(tool_name):\n    pass",
        4,
    ),
    "raises": ("def register(ctx):\n    ctx.register_hook('pre_llm_call', cb)\ndef cb(**kw):\n    kw['nothing']", 3),
    "exits": (
        "import sys\ndef register(ctx):\n    ctx.register_hook('pre_llm_call', cb)\ndef cb(**kw):\n    sys.exit(3)",
        4,
    ),
    "additive-field": (
        "def register(ctx):\n"
        "    ctx.register_hook('subagent_start', cb)\n"
        "def cb(**kw):\n"
        "    assert 'field_of_a_later_version' not in kw",
        3,
    ),
    "hangs": (
        "import threading\n"
        "def register(ctx):\n"
        "    ctx.register_hook('on_session_end', cb)\n"
        "def cb(**kw):\n"
        "    threading.Event().wait(60)",
        4,
    ),
    "slow": (
        "import time\ndef register(ctx):\n    ctx.register_hook('pre_verify', cb)\ndef cb(**kw):\n    time.sleep(0.5)",
        4,
    ),
    "mutates-payload": (
        "def register(ctx):\n    ctx.register_hook('post_tool_call', cb)\ndef cb(**kw):\n    kw['args']['seen'] = True",
        3,
    ),
    "unawaited-coroutine": (
        "def register(ctx):\n"
        "    ctx.register_hook('post_llm_call', cb)\n"
        "async def send(): pass\n"
        "def cb(**kw):\n"
        "    send()",
        4,
    ),
    "registers-late": (
        "def register(ctx):\n"
        "    def cb(**kw):\n"
        "        ctx.register_hook('post_tool_call', lambda **kw: None)\n"
        "    ctx.register_hook('on_session_start', cb)",
        2,
    ),
    "answer-shape": (
        "def register(ctx):\n    ctx.register_hook('pre_tool_call', cb)\ndef cb(**kw):\n    return {'action': 'block'}",
        3,
    ),
    "answer-ignored": (
        "def register(ctx):\n"
        "    ctx.register_hook('post_tool_call', cb)\n"
        "def cb(**kw):\n"
        "    return {'action': 'block'}",
        3,
    ),
    "replacement-shape": (
        "def register(ctx):\n"
        "    ctx.register_middleware('llm_request', cb)\n"
        "def cb(request, **kw):\n"
        "    return request",
        3,
    ),
    "partial-payload": (
        "def register(ctx):\n"
        "    ctx.register_middleware('llm_request', cb)\n"
        "def cb(**kw):\n"
        "    return {'request': {'temperature': 0}}",
        3,
    ),
    "trace-shape": (
        "def register(ctx):\n"
        "    ctx.register_middleware('tool_request', cb)\n"
        "def cb(args, **kw):\n"
        "    return {'args': args, 'reason': 7}",
        3,
    ),
    "not-deterministic": (
        "import uuid\n"
        "def register(ctx):\n"
        "    ctx.register_middleware('llm_request', cb)\n"
        "def cb(request, **kw):\n"
        "    return {'request': {**request, 'seed': uuid.uuid4().int}}",
        4,
    ),
    "next-call-twice": (
        "def register(ctx):\n"
        "    ctx.register_middleware('tool_execution', cb)\n"
        "def cb(next_call, **kw):\n"
        "    next_call()\n"
        "    return next_call()",
        3,
    ),
    "next-call-late": (
        "import threading\n"
        "def register(ctx):\n"
        "    ctx.register_middleware('tool_execution', cb)\n"
        "def cb(next_call, **kw):\n"
        "    timer = threading.Timer(0.3, quietly, [next_call])\n"
        "    timer.daemon = True\n"
        "    timer.start()\n"
        "    return '{}'\n"
        "def quietly(next_call):\n"
        "    try: next_call()\n"
        "    except RuntimeError: pass",
        4,
    ),
    "drops-call": ("def register(ctx):\n    ctx.register_middleware('llm_execution', cb)\ndef cb(**kw):\n    pass", 3),
    "loses-result": (
        "def register(ctx):\n"
        "    ctx.register_middleware('llm_execution', cb)\n"
        "def cb(next_call, **kw):\n"
        "    next_call()",
        3,
    ),
    "swallows-failure": (
        "def register(ctx):\n"
        "    ctx.register_middleware('llm_execution', cb)\n"
        "def cb(next_call, **kw):\n"
        "    try: return next_call()\n"
        "    except Exception: return None",
        3,
    ),
    "swallows-interrupt": (
        "def register(ctx):\n"
        "    ctx.register_middleware('tool_execution', cb)\n"
        "def cb(next_call, **kw):\n"
        "    try: return next_call()\n"
        "    except BaseException: return '{}'",
        3,
    ),
    "result-shape": (
        "def register(ctx):\n"
        "    ctx.register_middleware('llm_execution', cb)\n"
        "def cb(next_call, **kw):\n"
        "    return {'wrapped': next_call()}",
        3,
    ),
    "tool-schema": (
        "def register(ctx):\n"
        "    parameters = {'type': 'object', 'properties': {'a': {'type': 'text'}}}\n"
        "    ctx.register_tool('t', 's', {'description': 'd', 'parameters': parameters}, cb)\n"
        "def cb(args, **kw):\n"
        "    return '{}'",
        4,
    ),
    "tool-description": (
        "def register(ctx):\n    ctx.register_tool('t', 's', {}, cb)\ndef cb(args, **kw):\n    return '{}'",
        3,
    ),
    "tool-result": (
        "def register(ctx):\n"
        "    ctx.register_tool('t', 's', {'description': 'd'}, cb)\n"
        "def cb(args, **kw):\n"
        "    return 7",
        3,
    ),
    "tool-result-text": (
        "def register(ctx):\n"
        "    ctx.register_tool('t', 's', {'description': 'd'}, cb)\n"
        "def cb(args):\n"
        "    return 'done'",
        3,
    ),
    "tool-raises": (
        "def register(ctx):\n"
        "    ctx.register_tool('t', 's', {'description': 'd'}, cb)\n"
        "def cb(args, **kw):\n"
        "    raise OSError('disk full')",
        3,
    ),
    "command-answer": (
        "def register(ctx):\n    ctx.register_command('go', cb)\ndef cb(raw):\n    return ['a', 'list']",
        3,
    ),
    "manifest": ("def register(ctx):\n    pass", 1),
    "environment": ("def register(ctx):\n    pass", 1),
    "unfinished": (
        "import time\n"
        "def register(ctx):\n"
        "    ctx.register_hook('pre_tool_call', cb)\n"
        "def cb(**kw):\n"
        "    time.sleep(0.05)",
        0,
    ),
    "crash": (
        "import os\ndef register(ctx):\n    ctx.register_hook('pre_llm_call', cb)\ndef cb(**kw):\n    os._exit(9)",
        4,
    ),
}

MANIFESTS = {
    "manifest": "name: bad\nprovides_hooks: [on_session_start]\n",
    "environment": "name: bad\nrequires_env: [CONFORMANCE_NEVER_SET]\n",
}


def write(folder: Path, source: str, manifest: str = "name: bad\n") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plugin.yaml").write_text(manifest)
    (folder / "__init__.py").write_text(source)
    return folder


def found(report: ConformanceReport, rule: str) -> ConformanceFinding:
    matches = [finding for finding in report.findings if finding.rule == rule]
    assert matches, f"{rule} was not found among {[str(finding) for finding in report.findings]}"
    return matches[0]


@pytest.fixture(autouse=True)
def no_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONFORMANCE_LEFT_BEHIND", "0")


def test_every_rule_has_a_plugin_that_breaks_it() -> None:
    assert BAD.keys() == RULES.keys()


@pytest.mark.slow
@pytest.mark.parametrize("rule", BAD)
def test_a_bad_plugin_is_found_out(rule: str, tmp_path: Path) -> None:
    source, line = BAD[rule]
    folder = write(tmp_path / "bad", source, MANIFESTS.get(rule, "name: bad\n"))
    check = check_plugin_in_process if rule == "crash" else check_plugin
    report = check(folder, limits=LIMITS.get(rule, GENEROUS))
    finding = found(report, rule)
    assert (finding.severity, report.plugin) == (RULES[rule].severity, "bad")
    assert finding.line == line
    if line:
        assert Path(finding.file).parent == folder
    if finding.severity == "error":
        assert not report.ok
    # Warnings of a plugin that breaks one rule are about that rule; an error may have several consequences.
    if RULES[rule].severity == "warning" and rule not in ("non-daemon-thread", "unfinished"):
        assert report.rules - {"narrow-signature", "non-daemon-thread"} <= {rule, "register-residue"}


def test_a_plugin_that_does_everything_right_is_left_in_peace() -> None:
    recorder, events = EventRecorder(), list[Any]()

    def register(ctx: Any) -> None:
        recorder.register(ctx)
        schema = {"description": "d", "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}}
        ctx.register_tool("double", "math", schema, double)
        ctx.register_command("hello", hello)
        ctx.register_cli_command("hello", "say hello", declare)
        ctx.register_hook("pre_api_request", ask_model)
        ctx.register_hook("post_tool_call", ask_model, background=True)
        ctx.register_event_sink(events.append)

    def double(args: dict[str, Any], **_keywords: Any) -> str:
        number = args.get("n")
        return f'{{"n": {number * 2}}}' if isinstance(number, int) else '{"error": "n must be a number"}'

    async def hello(raw: str) -> str | None:
        return raw or None

    def declare(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name")

    async def ask_model(**_fields: Any) -> None: ...

    report = check_plugin(register, limits=GENEROUS)
    assert report.findings == []
    assert report.ok
    fired = set(recorder.names(middleware=True, streams=True))
    assert fired == {*HOOKS, *MIDDLEWARE}, "every hook and kind is fired"
    violations = [text for text in recorder.contract_violations() if "field_of_a_later_version" not in text]
    assert violations == []


def test_each_start_of_a_lifecycle_has_its_end() -> None:
    recorder = EventRecorder()
    check_plugin(recorder.register, limits=GENEROUS)
    unbalanced = {entry.start for entry in recorder.pairs_unbalanced()}
    # Sparse payloads have no call ids to tell calls by; the others pair up in every round.
    assert unbalanced <= {"pre_api_request", "pre_tool_call"}
    assert {pair.start for pair in PAIRS} <= {step.site for step in LIFECYCLE}


@pytest.mark.parametrize("flavour", ["complete", "minimal", "unicode", "huge"])
def test_payloads_hold_what_the_contract_says(flavour: Flavour) -> None:
    kinds: dict[str, type | tuple[type, ...]] = {"str": str, "int": int, "float": float, "bool": bool}
    for name, spec in {**HOOKS, **MIDDLEWARE}.items():
        fields = payload(LifecycleStep(name), SampleSession("x", flavour))
        promised = {field.name for field in spec.fields if field.always} - {"next_call"}
        assert promised <= fields.keys() <= {field.name for field in spec.fields}
        for field in spec.fields:
            kind = kinds.get(field.type)
            if kind is not None and field.name in fields:
                assert isinstance(fields[field.name], kind), f"{name}.{field.name} is {fields[field.name]!r}"
    assert len(repr(payload(LifecycleStep("pre_api_request"), SampleSession("x", "huge")))) < 8_000_000


def test_lifecycle_covers_the_whole_contract() -> None:
    assert {step.site for step in LIFECYCLE} == {*HOOKS, *MIDDLEWARE}


# -- details of single rules ------------------------------------------------------------------------------------------


def test_rewriting_live_arguments_and_returning_a_changed_payload_are_fine() -> None:
    def register(ctx: Any) -> None:
        ctx.register_hook("pre_tool_call", live)
        ctx.register_middleware("tool_request", replace)
        ctx.register_middleware("tool_execution", wrap)

    def live(args: dict[str, Any], **_fields: Any) -> None:
        args["note"] = "seen"

    def replace(args: dict[str, Any], **_fields: Any) -> Any:
        args["more"] = 1
        return {"args": args, "source": "me"}

    def wrap(args: dict[str, Any], next_call: Any, **_fields: Any) -> Any:
        args["more"] = 2
        return next_call(args)

    assert check_plugin(register, limits=GENEROUS).findings == []


def test_dropping_a_required_argument_in_place_is_a_partial_payload() -> None:
    def clear(args: dict[str, Any], **_fields: Any) -> None:
        args.clear()

    report = check_plugin(lambda ctx: ctx.register_hook("pre_tool_call", clear), limits=GENEROUS)
    assert "'command'" in found(report, "partial-payload").text


def test_changing_a_request_without_returning_it_has_no_effect_and_is_reported() -> None:
    def change(request: dict[str, Any], **_fields: Any) -> None:
        request["temperature"] = 0

    report = check_plugin(lambda ctx: ctx.register_middleware("llm_request", change), limits=GENEROUS)
    assert report.rules == {"mutates-payload"}


@pytest.mark.parametrize("payload_", ["a string", {"temperature": 0}])
def test_what_is_passed_to_next_call_must_be_complete(payload_: Any) -> None:
    def pass_on(next_call: Any, **_fields: Any) -> Any:
        return next_call(payload_)

    report = check_plugin(lambda ctx: ctx.register_middleware("llm_execution", pass_on), limits=GENEROUS)
    assert "partial-payload" in report.rules


def test_translating_a_failure_and_short_circuits_are_allowed() -> None:
    def translate(next_call: Any, **_fields: Any) -> Any:
        try:
            return next_call()
        except OSError as error:
            raise ValueError("translated") from error

    def recover(next_call: Any, **_fields: Any) -> Any:
        try:
            return next_call()
        except OSError:
            return '{"error": "recovered"}'

    def answer_itself(**_fields: Any) -> Any:
        return '{"cached": true}'

    async def wait_for_it(next_call: Any, **_fields: Any) -> Any:
        return next_call()

    def register(ctx: Any) -> None:
        for middleware in (translate, recover, answer_itself, wait_for_it):
            ctx.register_middleware("tool_execution", middleware)

    assert check_plugin(register, limits=GENEROUS).findings == []


def test_a_failure_that_only_odd_input_provokes_is_a_warning() -> None:
    def encode(user_message: str, **_fields: Any) -> None:
        user_message.encode()

    report = check_plugin(lambda ctx: ctx.register_hook("pre_llm_call", encode), limits=GENEROUS)
    finding = found(report, "raises")
    assert (finding.severity, finding.schedule) == ("warning", "unicode")
    assert report.ok


def test_a_race_between_parallel_calls_is_found() -> None:
    inside = threading.Lock()

    def not_thread_safe(**_fields: Any) -> None:
        if not inside.acquire(blocking=False):
            raise RuntimeError("two at once")
        threading.Event().wait(0.02)  # long enough for the second one on a busy machine
        inside.release()

    report = check_plugin(lambda ctx: ctx.register_hook("pre_tool_call", not_thread_safe), limits=GENEROUS)
    assert found(report, "raises").schedule == "parallel"


def test_relying_on_order_is_a_warning() -> None:
    open_spans: set[str] = set()

    def register(ctx: Any) -> None:
        ctx.register_hook("pre_tool_call", start)
        ctx.register_hook("post_tool_call", end)

    def start(tool_call_id: str, **_fields: Any) -> None:
        open_spans.add(tool_call_id)

    def end(tool_call_id: str, **_fields: Any) -> None:
        if tool_call_id:
            open_spans.remove(tool_call_id)

    finding = found(check_plugin(register, limits=GENEROUS), "raises")
    assert (finding.severity, finding.schedule) == ("warning", "out of order")


def test_a_callback_that_hangs_is_called_once() -> None:
    released = threading.Event()
    calls: list[int] = []

    def hang(**_fields: Any) -> None:
        calls.append(1)
        released.wait(60)

    report = check_plugin(lambda ctx: ctx.register_hook("pre_tool_call", hang), limits=SHORT)
    released.set()
    assert (len(calls), report.rules) == (1, {"hangs"})


class HostileDict(dict[str, Any]):
    """What a plugin may hand back."""

    def __contains__(self, key: object) -> bool:
        raise OSError("do not look")

    get = __getitem__ = keys = items = __contains__  # pyright: ignore[reportAssignmentType]


class HostileCallable:
    """What a plugin may register."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("do not ask")

    def __call__(self, **_fields: Any) -> Any:
        return HostileDict(args=1)


class HostileError(Exception):
    """What a plugin may raise."""

    def __str__(self) -> str:
        raise ValueError("do not print")


@pytest.mark.parametrize("site", ["tool_request", "pre_tool_call", "pre_verify", "llm_execution", "post_tool_call"])
def test_objects_that_fight_back_do_not_break_the_kit(site: str) -> None:
    def fail(**_fields: Any) -> None:
        raise HostileError

    def register(ctx: Any) -> None:
        add = ctx.register_hook if site in HOOKS else ctx.register_middleware
        add(site, HostileCallable())
        add(site, fail)

    report = check_plugin(register, limits=GENEROUS)
    assert "raises" in report.rules
    assert "unfinished" not in report.rules


def test_a_tool_that_cannot_work_here_is_not_called() -> None:
    def check() -> bool:
        return False

    def broken_check() -> bool:
        raise OSError("no such binary")

    def handler(args: Any) -> str:
        raise AssertionError("must not be called")

    def register(ctx: Any) -> None:
        ctx.register_tool("a", "s", {"description": "d"}, handler, check_fn=check)
        ctx.register_tool("b", "s", {"description": "d"}, handler, requires_env=["CONFORMANCE_NEVER_SET"])
        ctx.register_tool("c", "s", {"description": "d"}, handler, check_fn=broken_check)

    report = check_plugin(register, limits=GENEROUS)
    assert [(finding.rule, finding.site) for finding in report.findings] == [("raises", "tool c")]


def test_tools_and_commands_can_be_left_alone() -> None:
    def handler(*_args: Any) -> str:
        raise AssertionError("must not be called")

    def register(ctx: Any) -> None:
        ctx.register_tool("a", "s", {"description": "d"}, handler)
        ctx.register_command("b", handler)

    assert check_plugin(register, limits=GENEROUS, run_tools=False).findings == []


def test_a_cli_command_that_cannot_declare_its_arguments_is_reported() -> None:
    def setup(parser: Any) -> None:
        parser.add_nothing()

    report = check_plugin(lambda ctx: ctx.register_cli_command("x", "help", setup), limits=GENEROUS)
    assert found(report, "raises").site == "command hermes x"


def test_the_settings_grant_what_the_configuration_would() -> None:
    def register(ctx: Any) -> None:
        ctx.register_tool("terminal", "t", {"description": "d"}, run, override=True)

    def run(args: Any) -> str:
        return "{}"

    assert check_plugin(register, limits=GENEROUS).rules == {"load"}
    assert check_plugin(register, limits=GENEROUS, settings={"allow_tool_override": True}).ok


@pytest.mark.parametrize("source", ["def register(ctx:", "import nothing_of_that_name", "x = 1"])
def test_code_that_cannot_be_imported(source: str, tmp_path: Path) -> None:
    report = check_plugin(write(tmp_path / "p", source), limits=GENEROUS)
    assert report.rules == {"load"}
    assert report.findings[0].line == 1


def test_what_is_no_plugin(tmp_path: Path) -> None:
    assert "has no plugin.yaml" in check_plugin(tmp_path).findings[0].text


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "array"}, "'object' is expected"),
        ({"properties": []}, "properties is a list"),
        ({"properties": {"a": 7}}, "properties.a is a int"),
        ({"required": "a"}, "required is a str"),
        ({"properties": {"a": {}}, "required": ["b"]}, "names 'b'"),
        ({"properties": {"a": {"enum": "x"}}}, "enum is a str"),
        ({"properties": {"a": {"type": "array", "items": {"type": "int"}}}}, "items has type 'int'"),
        ({"properties": {"a": {"default": object()}}}, "is not JSON"),
        ({"type": "object", "properties": {"a": {"type": ["string", "null"]}, "b": True}, "required": ["a"]}, ""),
        ({}, ""),
    ],
)
def test_schemas(schema: dict[str, Any], problem: str) -> None:
    text = schema_problem(schema)
    assert (problem in text) if problem else text == ""


def test_sample_arguments_fit_the_schema() -> None:
    schema = {
        "properties": {
            "text": {"type": "string"},
            "count": {"type": "integer", "minimum": 3},
            "choice": {"enum": ["a", "b"]},
            "inner": {"type": "object", "properties": {"flag": {"type": "boolean"}}},
            "list": {"type": "array", "items": {"anyOf": [{"type": "number"}, {"type": "string"}]}},
            "set": {"default": 9},
        }
    }
    sample = {"text": "sample", "count": 3, "choice": "a", "inner": {"flag": True}, "list": [1.0], "set": 9}
    assert sample_arguments(schema) == sample


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "properties", "items", "required", "enum", "anyOf", "default", "a"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(["type", "properties", "items", "required", "enum", "a"]), JSON, max_size=5))
def test_wild_schemas_never_break_the_kit(schema: dict[str, Any]) -> None:
    assert isinstance(schema_problem(schema), str)
    assert isinstance(sample_arguments(schema), dict)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from([*HOOKS, *MIDDLEWARE]),
    st.sampled_from([7, "text", {}, {"request": 1}, {"args": {}}, [], b"x", (1,)]),
)
def test_wild_answers_never_break_the_kit(site: str, answer: Any) -> None:
    def register(ctx: Any) -> None:
        (ctx.register_hook if site in HOOKS else ctx.register_middleware)(site, give)

    def give(**_fields: Any) -> Any:
        return answer

    report = check_plugin(register, limits=GENEROUS)
    assert report.calls > 10
    assert report.rules <= {
        *("answer-shape", "answer-ignored", "replacement-shape", "partial-payload", "result-shape"),
    }


def test_a_graver_finding_replaces_a_lighter_one() -> None:
    findings = FindingCollector()
    findings.add("raises", "odd", SourceLine("f", 1), cause="x", severity="warning")
    findings.add("raises", "ordinary", SourceLine("f", 1), cause="x")
    findings.add("raises", "odd again", SourceLine("f", 1), cause="x", severity="warning")
    assert [(finding.severity, finding.text) for finding in findings.list()] == [("error", "ordinary")]


# -- in a process of its own ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "ending"),
    [
        ("os._exit(9)", "exit code 9"),
        ("os.kill(os.getpid(), 9)", "killed by SIGKILL"),
        ("print('token sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD'); os._exit(1)", "it last printed"),
    ],
)
def test_a_plugin_that_ends_its_process(code: str, ending: str, tmp_path: Path) -> None:
    source = f"import os\ndef register(ctx):\n    ctx.register_hook('pre_llm_call', cb)\ndef cb(**kw):\n    {code}"
    seen: list[ConformanceFinding] = []
    report = check_plugin_in_process(write(tmp_path / "p", source.replace("');", "', flush=True);")), limits=GENEROUS)
    finding = found(report, "crash")
    assert ending in finding.text
    assert "abcdefghijklmnop" not in finding.text
    assert (finding.site, finding.line, seen) == ("pre_llm_call", 4, [])


def test_a_plugin_that_ends_its_process_while_it_is_imported(tmp_path: Path) -> None:
    report = check_plugin_in_process(write(tmp_path / "p", "import os\nos._exit(4)"), limits=GENEROUS)
    assert "register()" in found(report, "crash").text


def test_a_plugin_that_never_lets_go_of_its_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes.testing.conformance.process._SILENCE", 0.5)
    # A regular expression holds the interpreter's lock for as long as it runs: no thread can time it.
    source = (
        "import re\n"
        "def register(ctx):\n"
        "    ctx.register_hook('pre_llm_call', cb)\n"
        "def cb(**kw):\n"
        "    re.match('(a+)+$', 'a' * 60 + 'b')"
    )
    limits = ConformanceLimits(deadline=0.5, slow=0.1, budget=20)
    report = check_plugin_in_process(write(tmp_path / "p", source), limits=limits)
    assert "blocks the whole process" in found(report, "hangs").text


def test_threads_and_children_of_a_plugin_end_with_the_examination(tmp_path: Path) -> None:
    source = (
        "import pathlib, subprocess, threading\n"
        "def register(ctx):\n"
        "    child = subprocess.Popen(['sleep', '60'])\n"
        f"    pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(child.pid))\n"
        "    threading.Thread(target=threading.Event().wait).start()\n"
    )
    report = check_plugin_in_process(write(tmp_path / "p", source), limits=GENEROUS)
    assert "non-daemon-thread" in report.rules
    status = Path("/proc", (tmp_path / "pid").read_text(), "status")
    wait_until(lambda: not status.exists() or "State:\tZ" in status.read_text(), "the child of the plugin has ended")


def test_in_a_process_findings_arrive_as_they_are_made(tmp_path: Path) -> None:
    seen: list[ConformanceFinding] = []
    folder = write(tmp_path / "p", BAD["answer-shape"][0])
    report = check_plugin_in_process(folder, limits=GENEROUS, on_finding=seen.append)
    assert seen == report.findings


# -- the command ------------------------------------------------------------------------------------------------------


def command(*arguments: str) -> int:
    return main(["plugins", "test", *arguments])


def test_the_command_prints_file_and_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "p", BAD["answer-shape"][0])
    monkeypatch.chdir(tmp_path)
    assert command("p") == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("p/__init__.py:3: error [answer-shape] pre_tool_call: cb() answered with a block")
    assert lines[-1].startswith("bad: 1 error, 0 warnings (")


def test_the_command_speaks_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "p", BAD["narrow-signature"][0])
    assert command(str(tmp_path / "p" / "plugin.yaml"), "--json") == 0
    document = msgspec.json.decode(capsys.readouterr().out)
    assert (document["plugin"], document["ok"], document["warnings"]) == ("bad", True, 1)
    assert document["findings"][0]["rule"] == "narrow-signature"
    assert command(str(tmp_path / "p"), "--strict") == 1


def test_the_command_finds_an_installed_plugin(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(home / "plugins" / "mine", "def register(ctx): pass", "name: mine\n")
    assert command("mine") == 0
    assert "mine: conforms to the contract (" in capsys.readouterr().out
    assert command("min") == 1
    assert "there is no plugin 'min'; did you mean 'mine'?" in capsys.readouterr().err


def test_the_command_refuses_what_is_no_plugin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file.txt").write_text("")
    assert command(str(tmp_path / "file.txt")) == 1
    assert "is not a plugin; give the folder" in capsys.readouterr().err
    assert command(str(tmp_path), "--deadline", "0") == 2
    assert "--deadline" in capsys.readouterr().err
