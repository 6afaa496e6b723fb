"""Seals: the head of a session's event chain, signed with an SSH key by ``ssh-keygen``."""

from __future__ import annotations

import base64
import hashlib
import logging
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from hermes.base.errors import HermesError
from hermes.base.programs import find_program
from hermes.journal.events import last_link
from hermes.journal.sessions import Sessions
from hermes.journal.store.port import Store

#: What a signature is for, so that it fits nothing else that the key has signed.
NAMESPACE = "hermes-audit"
_SIGNER = "hermes"
_PATIENCE_SECONDS = 60

log = logging.getLogger("hermes.audit")


class Seal(msgspec.Struct, frozen=True, omit_defaults=True):
    """One signed statement: this session had this chain at this event."""

    session: str
    seq: int
    chain: str
    at: float
    #: As in a file of the key, without its comment.
    public_key: str = ""
    signature: str = ""

    def statement(self) -> bytes:
        """The bytes that are signed."""
        return msgspec.json.encode([NAMESPACE, 1, self.session, self.seq, self.chain, self.at])

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the key, as ``ssh-keygen -l`` prints it."""
        parts = self.public_key.split()
        if len(parts) < 2:
            return "(no key)"
        try:
            digest = hashlib.sha256(base64.b64decode(parts[1])).digest()
        except ValueError:
            return "(no key)"
        return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


class SealFile:
    """The seals of one session in the home, one per line, only ever appended to."""

    def __init__(self, home: Path, session_id: str) -> None:
        self.path = home / "seals" / f"{session_id}.jsonl"

    def read(self) -> list[Seal]:
        """The seals, oldest first."""
        return read_seals(self.path) if self.path.exists() else []

    def append(self, seal: Seal) -> None:
        """Add a seal, on disk when this returns."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with os.fdopen(file, "ab") as stream:
            stream.write(msgspec.json.encode(seal) + b"\n")
            stream.flush()
            os.fsync(stream.fileno())


def read_seals(path: Path) -> list[Seal]:
    """The seals in a file. Raises ``HermesError`` when it has something else."""
    try:
        lines = path.read_bytes().splitlines()
        return [msgspec.json.decode(line, type=Seal) for line in lines if line.strip()]
    except OSError as error:
        raise HermesError(f"{path} cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise HermesError(f"{path} has a line that is not a seal: {error}") from None


class TurnSealer:
    """Seals a session when a turn of it has ended. A seal that cannot be made is reported, and stops nothing."""

    def __init__(self, store: Store, home: Path, key: Path) -> None:
        self._store, self._home, self._key = store, home, key
        #: What was reported: the same failure at the end of every turn is one warning.
        self._reported = ""

    def seal(self, session_id: str) -> None:
        """Sign the last event of a session."""
        try:
            seal_session(self._store, self._home, session_id, self._key, may_ask=False)
        except (HermesError, OSError) as error:
            level = logging.DEBUG if str(error) == self._reported else logging.WARNING
            self._reported = str(error)
            log.log(level, "session %s is not sealed (audit.seal_key): %s", session_id, error)


def seal_session(store: Store, home: Path, session_id: str, key: Path, *, may_ask: bool = True) -> Seal:
    """Sign the last event of a session. The same head is not signed twice with one key.

    ``may_ask``: ``ssh-keygen`` may ask for the passphrase of the key at the terminal.
    """
    session = Sessions(store).get(session_id).id
    found = store.read(lambda connection: last_link(connection, session))
    if found is None or found[1] is None:
        raise HermesError(f"session {session} has no chained event, so that there is nothing to seal")
    if not key.is_file():
        raise HermesError(f"there is no key {key}; 'ssh-keygen -t ed25519' makes one, --key names another")
    public = public_key_of(key, may_ask=may_ask)
    file = SealFile(home, session)
    for known in file.read():
        if (known.seq, known.chain, known.public_key) == (found[0], found[1].hex(), public):
            return known
    seal = Seal(session, found[0], found[1].hex(), time.time(), public)
    seal = msgspec.structs.replace(seal, signature=_sign(seal.statement(), key, may_ask=may_ask))
    file.append(seal)
    return seal


def public_key_of(key: Path, *, may_ask: bool = True) -> str:
    """The public half of a key file, from the file beside it or from the key itself."""
    beside = key if key.suffix == ".pub" else key.with_name(f"{key.name}.pub")
    if beside.is_file():
        text = beside.read_text("utf-8", "replace")
    else:
        text = _run(["-y", "-f", str(key)], b"", f"the key {key} cannot be read", may_ask=may_ask).decode()
    parts = text.split()
    if len(parts) < 2:
        raise HermesError(f"{beside} is not a public key")
    return f"{parts[0]} {parts[1]}"


def check_signature(seal: Seal, allowed: Sequence[str]) -> str:
    """Why a signature does not hold; empty when it does. ``allowed`` are the public keys that may have signed."""
    if not seal.signature:
        return "it has no signature"
    if allowed and seal.public_key not in allowed:
        return f"it is signed with another key ({seal.fingerprint})"
    with tempfile.TemporaryDirectory(prefix="hermes-audit-") as folder:
        signers, signature = Path(folder) / "signers", Path(folder) / "signature"
        signers.write_text(f"{_SIGNER} {seal.public_key}\n", "utf-8")
        signature.write_text(seal.signature, "utf-8")
        options = ["-f", str(signers), "-I", _SIGNER, "-n", NAMESPACE, "-s", str(signature)]
        try:
            _run(["-Y", "verify", *options], seal.statement(), "the signature does not fit")
        except HermesError as error:
            return str(error)
    return ""


def _sign(statement: bytes, key: Path, *, may_ask: bool) -> str:
    with tempfile.TemporaryDirectory(prefix="hermes-audit-") as folder:
        file = Path(folder) / "statement"
        file.write_bytes(statement)
        arguments = ["-Y", "sign", "-f", str(key), "-n", NAMESPACE, str(file)]
        _run(arguments, b"", f"{key} did not sign", may_ask=may_ask)
        return file.with_name("statement.sig").read_text("utf-8")


def _run(arguments: list[str], stdin: bytes, failure: str, *, may_ask: bool = True) -> bytes:
    program = find_program("ssh-keygen")
    if program is None:
        raise HermesError("ssh-keygen is not installed; it comes with OpenSSH")
    try:
        done = subprocess.run(
            [program, *arguments],
            input=stdin,
            capture_output=True,
            timeout=_PATIENCE_SECONDS,
            check=False,
            start_new_session=not may_ask,  # without a terminal it cannot ask for a passphrase
        )
    except subprocess.TimeoutExpired:
        raise HermesError(f"{failure}: ssh-keygen gave no answer; a key with a passphrase needs ssh-agent") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise HermesError(f"{failure}: {said[-1] if said else 'ssh-keygen failed'}")
    return done.stdout
