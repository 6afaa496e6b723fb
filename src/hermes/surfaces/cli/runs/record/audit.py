"""``hermes audit``: sessions sealed with an SSH key, exported as evidence and verified offline."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hermes.base.config import hermes_home
from hermes.base.errors import HermesError
from hermes.surfaces.cli.arguments import JSON, Action, Argument, CommandSpec, flag, repeatable
from hermes.surfaces.cli.report import Report
from hermes.surfaces.cli.runs.record.source import session_or_file
from hermes.surfaces.cli.runs.trace.session_argument import open_store, session_named

if TYPE_CHECKING:
    from hermes.record.audit.evidence import Verification
    from hermes.trace.seals import Seal

_EXAMPLES = """
A seal signs the last event of a session; every event is chained to the one before it, so that it covers them all.

examples:
  hermes audit seal                                  seal the last session with ~/.ssh/id_ed25519
  hermes audit export 20250301_1412 -o run.evidence  write what a third party can verify
  hermes audit export 20250301_1412 --redact 'tool:*' -o run.evidence
  hermes audit verify run.evidence --key alice.pub   needs no journal
"""
_DEFAULT_KEY = "~/.ssh/id_ed25519"


def _seal(args: argparse.Namespace) -> None:
    from hermes.trace.seals import seal_session

    name: str | None = args.session
    if args.hook:
        name = _session_of_hook(sys.stdin.buffer.read())
    with open_store() as store:
        session_id = session_named(store, name)
        seal = seal_session(store, hermes_home(), session_id, Path(args.key).expanduser())
    if args.anchor:
        done = subprocess.run(args.anchor, shell=True, input=msgspec.json.encode(seal) + b"\n", check=False)
        if done.returncode:
            raise HermesError(f"the anchor command ended with code {done.returncode}; the seal itself is stored")
    if not args.hook:
        print(f"sealed event {seal.seq} of {seal.session} with {seal.fingerprint}")


def _session_of_hook(data: bytes) -> str:
    try:
        found = msgspec.json.decode(data, type=dict[str, object]).get("session_id")
    except (msgspec.DecodeError, UnicodeDecodeError):
        found = None
    if not isinstance(found, str) or not found:
        raise HermesError("--hook: there is no session_id in the input; a hook command of on_session_end gets one")
    return found


def _export(args: argparse.Namespace) -> None:
    from hermes.record.audit.evidence import export_evidence
    from hermes.surfaces.cli.terminal import write_private_file
    from hermes.trace.seals import SealFile

    with open_store() as store:
        session_id = session_named(store, args.session)
        seals = SealFile(hermes_home(), session_id).read()
        data = export_evidence(store, session_id, seals, redact=args.redact)
    write_private_file(Path(args.output), data.decode())
    if not seals:
        print("The session has no seal: 'hermes audit seal' signs it.", file=sys.stderr)


def _verify(args: argparse.Namespace) -> Report:
    from hermes.record.audit.evidence import export_evidence, verify_evidence
    from hermes.trace.seals import SealFile, public_key_of, read_seals

    anchors = read_seals(Path(args.anchors)) if args.anchors else []
    allowed = [public_key_of(Path(path).expanduser()) for path in args.key]
    path = Path(args.run).expanduser()
    if path.is_file():
        data = path.read_bytes()
    else:
        with open_store() as store:
            session_id = session_or_file(store, args.run, "hermes audit export ID -o FILE")
            data = export_evidence(store, session_id, SealFile(hermes_home(), session_id).read())
    result = verify_evidence(data, anchors)
    _check_signatures(result, [*result.seals, *anchors], allowed)
    document = {name: getattr(result, name) for name in ("session_id", "events", "redacted", "seals", "problems")}
    return Report(document, _verdict_lines(result, bool(allowed)), code=1 if result.problems else 0)


def _check_signatures(result: Verification, seals: list[Seal], allowed: list[str]) -> None:
    from hermes.trace.seals import check_signature

    if result.problems:
        return
    if allowed and not seals:
        result.problems.append("there is no seal")
    for seal in seals:
        problem = check_signature(seal, allowed)
        if problem:
            result.problems.append(f"the seal of event {seal.seq} does not hold: {problem}")
            return


def _verdict_lines(result: Verification, knows_keys: bool) -> Iterator[str]:
    yield from result.problems
    if result.problems:
        return
    redacted = f", {result.redacted} redacted" if result.redacted else ""
    yield f"valid: {result.events} events of {result.session_id}{redacted}"
    if not result.seals:
        yield "not sealed: the events fit each other, but the writer of the file may have invented all of them"
        return
    last = max(result.seals, key=lambda seal: seal.seq)
    trust = "" if knows_keys else " (give the key that you expect with --key)"
    yield f"sealed up to event {last.seq} by {last.fingerprint}{trust}"


_SESSION = Argument("session SESSION", "a session's id (default: the last one)", nargs="?")

COMMAND = CommandSpec(
    epilog=_EXAMPLES,
    actions=(
        Action("seal", _seal, "sign the last event of a session with an SSH key").takes(
            _SESSION,
            Argument("--key FILE", f"the private key (default: {_DEFAULT_KEY})", default=_DEFAULT_KEY),
            Argument("--anchor COMMAND", "give the seal to this command, to keep it elsewhere"),
            flag("--hook", "take the session from the input of a hook command"),
        ),
        Action("export", _export, "write the events and seals of a session as one file").takes(
            _SESSION,
            Argument("-o, --output FILE", "the file, readable only by you", required=True),
            repeatable("--redact PATTERN", "leave out the bodies of these steps; * is all"),
        ),
        Action("verify", _verify, "check a file of 'export', or a session; exit code 1 if invalid").takes(
            Argument("run FILE", "a file, or a session's id"),
            repeatable("--key FILE", "a public key that may have signed"),
            Argument("--anchors FILE", "a file of seals that were kept elsewhere"),
            JSON,
        ),
    ),
)
