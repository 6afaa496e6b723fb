"""Tests made from runs: a recording, and what has to hold when it is run again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from hermes.base.config.document import parse_document
from hermes.base.config.files import write_atomically
from hermes.base.config.schema.sections import Config
from hermes.base.errors import HermesError
from hermes.base.scope import Interrupt
from hermes.journal.records import CallRecord
from hermes.journal.store.port import Store
from hermes.plugins.llm.structured import encode_schema, parse_answer
from hermes.record.bundle import open_bundle, write_bundle
from hermes.record.compare import difference_lines
from hermes.record.recording import Recording, load_recording, totals_of
from hermes.record.replay.replay import ReplaySettings, recorded_config, replay

#: The first line of every test file, by which it is recognised.
HEADER = "# hermes test"
_NAME = re.compile(r"[\w.-]+")


class ExpectedCall(msgspec.Struct, forbid_unknown_fields=True):
    """A call that has to be made. Every named argument must match: a text as a regular expression, else as it is."""

    tool: str
    args: dict[str, Any] = {}


class Expectations(msgspec.Struct, forbid_unknown_fields=True):
    """What has to hold. What is not named is not checked."""

    #: The tools called, in this order and no others.
    tools: list[str] | None = None
    #: Tools that have to be called, in any order.
    tools_any: list[str] = []
    calls: list[ExpectedCall] = []
    #: Texts that the last answer contains, a regular expression it matches, a JSON schema it fits.
    contains: list[str] = []
    matches: str = ""
    schema: dict[str, Any] | None = None
    max_steps: int | None = None
    max_cost_usd: float | None = None


class CaseFile(msgspec.Struct, forbid_unknown_fields=True):
    """A test as it is written down."""

    recording: str
    tools: Literal["recorded", "live"] = "recorded"
    #: False lets requests differ from the recorded ones, as long as the expectations hold.
    same_requests: bool = True
    expect: Expectations = msgspec.field(default_factory=Expectations)


class CaseResult(msgspec.Struct):
    """How a test went."""

    path: Path
    problems: list[str] = []
    updated: bool = False

    @property
    def passed(self) -> bool:
        """Whether everything holds."""
        return not self.problems


def add_case(store: Store, session_id: str, folder: Path, name: str = "") -> Path:
    """Write a test for a session: its recording, and expectations to be edited. Returns the test file."""
    recording = load_recording(store, session_id)
    name = name or recording.id
    if not _NAME.fullmatch(name):
        raise HermesError(f"--name {name}: allowed are letters, digits, '-', '_' and '.'")
    path = folder / f"{name}.yaml"
    if path.exists():
        raise HermesError(f"{path} exists; choose another --name, or remove it")
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / f"{name}.bundle", write_bundle(store, recording.id))
    write_atomically(path, _text_of(recording, f"{name}.bundle"))
    return path


def _text_of(recording: Recording, bundle: str) -> str:
    tools = _called(recording)
    answer = next((turn.answer for turn in reversed(recording.turns) if turn.answer and not turn.undone), "")
    first = next((line.strip() for line in answer.splitlines() if line.strip()), "")
    steps = totals_of(recording).model_steps
    lines = [
        f"{HEADER}: {' '.join(recording.title.split())}",
        f"recording: {bundle}",
        "expect:",
        f"  tools: {msgspec.json.encode(tools).decode()}",
        *([f"  contains: {msgspec.json.encode([first]).decode()}"] if first else []),
        f"  max_steps: {steps}",
    ]
    return "\n".join(lines) + "\n"


def find_cases(places: Sequence[Path]) -> list[Path]:
    """The test files among and below some places, sorted. Raises ``HermesError`` when there is none."""
    found = [path for place in places for path in _below(place)]
    if not found:
        raise HermesError(f"no test in {', '.join(map(str, places))}; 'hermes test add SESSION' writes one")
    return found


def _below(place: Path) -> Iterator[Path]:
    files = sorted(place.rglob("*.yaml")) if place.is_dir() else [place] if place.exists() else []
    yield from (path for path in files if is_case(path))


def is_case(path: Path) -> bool:
    """Whether a file begins as a test does."""
    try:
        with path.open("rb") as file:
            return file.read(len(HEADER)) == HEADER.encode()
    except OSError:
        return False


def run_case(
    path: Path, home: Path, config: Config | None = None, *, update: bool = False, interrupt: Interrupt | None = None
) -> CaseResult:
    """Run one test, without network and key. ``update`` accepts changed requests into the recording."""
    try:
        case = msgspec.convert(parse_document(path.read_text("utf-8"), str(path)), CaseFile)
    except (msgspec.ValidationError, UnicodeDecodeError, OSError) as error:
        raise HermesError(f"{path}: this is not a test: {error}") from None
    bundle = path.parent / case.recording
    with open_bundle(bundle) as (store, session_id):
        settings = config or recorded_config(load_recording(store, session_id)) or Config()
        how = ReplaySettings(tools=case.tools, stop_early=False, keep=True)
        result = replay(store, session_id, home, settings, how, interrupt=interrupt)
    outcome = CaseResult(path)
    assert result.recording is not None
    outcome.problems += _unmet(case.expect, result.recording)
    changed = [line for one in result.differences[:1] for line in difference_lines(one)]
    if update and result.differences and not outcome.problems:
        write_atomically(bundle, result.bundle)
        outcome.updated = True
    elif changed and case.same_requests and case.tools == "recorded":
        outcome.problems.append("the run is not as recorded; --update accepts it:\n" + "\n".join(changed))
    return outcome


# -- expectations ---------------------------------------------------------------------------------------------------


def _called(recording: Recording) -> list[str]:
    return [call.name for call in _calls(recording)]


def _calls(recording: Recording) -> list[CallRecord]:
    return [call for turn in recording.turns if not turn.undone for call in turn.tool_calls().values()]


def _unmet(expected: Expectations, recording: Recording) -> Iterator[str]:
    yield from _unmet_calls(expected, recording)
    yield from _unmet_text(expected, recording)
    yield from _unmet_limits(expected, recording)


def _unmet_calls(expected: Expectations, recording: Recording) -> Iterator[str]:
    called = _called(recording)
    if expected.tools is not None and called != expected.tools:
        yield f"tools: expected {', '.join(expected.tools) or 'none'}; found {', '.join(called) or 'none'}"
    for name in expected.tools_any:
        if name not in called:
            yield f"tools_any: {name} was not called; found {', '.join(called) or 'none'}"
    calls = _calls(recording)
    for wanted in expected.calls:
        same = [call.args for call in calls if call.name == wanted.tool]
        if not any(_fits(wanted.args, args) for args in same):
            found = "; ".join(msgspec.json.encode(args).decode() for args in same) or "no call of it"
            yield f"calls: no {wanted.tool} with {msgspec.json.encode(wanted.args).decode()}; found {found}"


def _unmet_limits(expected: Expectations, recording: Recording) -> Iterator[str]:
    totals = totals_of(recording)
    if expected.max_steps is not None and totals.model_steps > expected.max_steps:
        yield f"max_steps: expected at most {expected.max_steps}; found {totals.model_steps}"
    cost = totals.cost_usd or 0.0
    if expected.max_cost_usd is not None and cost > expected.max_cost_usd:
        yield f"max_cost_usd: expected at most {expected.max_cost_usd}; found {cost:.6f}"


def _unmet_text(expected: Expectations, recording: Recording) -> Iterator[str]:
    answer = next((turn.answer for turn in reversed(recording.turns) if not turn.undone), None) or ""
    for piece in expected.contains:
        if piece not in answer:
            yield f"contains: {piece!r} is not in the answer {answer[:200]!r}"
    if expected.matches and not re.search(expected.matches, answer):
        yield f"matches: {expected.matches!r} does not match the answer {answer[:200]!r}"
    if expected.schema is not None:
        try:
            _, kind = parse_answer(answer, encode_schema(expected.schema))
            problem = "" if kind == "json" else "the answer is not JSON"
        except ValueError as error:
            problem = str(error)
        if problem:
            yield f"schema: {problem}"


def _fits(wanted: dict[str, Any], args: dict[str, Any]) -> bool:
    for name, value in wanted.items():
        found = args.get(name)
        if isinstance(value, str) and isinstance(found, str):
            if not re.search(value, found):
                return False
        elif found != value:
            return False
    return True
