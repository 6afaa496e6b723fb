"""``gateway.platforms.helpers``: what adapters share. ``gateway.status``: one owner for an identity on this machine."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any

from hermes.plugins.compat.machine.helpers import atomic_json_write
from hermes.plugins.compat.messages import MessageEvent
from hermes.plugins.compat.names import Names, home_of
from hermes.plugins.services import PluginHost

log = logging.getLogger("hermes.plugins")

_MARKS = (
    (re.compile(r"```[\w+-]*\n?"), ""),
    (re.compile(r"`([^`\n]+)`"), r"\1"),
    (re.compile(r"\*\*(.+?)\*\*", re.DOTALL), r"\1"),
    (re.compile(r"\*(\S(?:.*?\S)?)\*"), r"\1"),
    (re.compile(r"\b__(\S(?:.*?\S)?)__\b"), r"\1"),
    (re.compile(r"\b_(\S(?:.*?\S)?)_\b"), r"\1"),
    (re.compile(r"^#{1,6}\s+", re.MULTILINE), ""),
    (re.compile(r"\[([^\]]+)\]\([^)]+\)"), r"\1"),
    (re.compile(r"\n{3,}"), "\n\n"),
)


def strip_markdown(text: str) -> str:
    """The text without the marks of Markdown, for platforms that show them as they are."""
    for pattern, replacement in _MARKS:
        text = pattern.sub(replacement, text)
    return text.strip()


def redact_phone(phone: str) -> str:
    """A phone number of which only the beginning and the end are shown."""
    if not phone:
        return "<none>"
    return f"{phone[:4]}****{phone[-4:]}" if len(phone) > 8 else f"{phone[:2]}****{phone[-2:]}"


class MessageDeduplicator:
    """Remembers the ids of messages for some time."""

    def __init__(self, max_size: int = 2000, ttl_seconds: float = 300) -> None:
        self._most = max_size
        self._seconds = ttl_seconds
        #: When each id was first seen, the earliest first.
        self._seen: OrderedDict[str, float] = OrderedDict()

    def is_duplicate(self, msg_id: str) -> bool:
        """Whether the id was seen before. From now on it was."""
        if not msg_id or self.contains(msg_id):
            return bool(msg_id)
        self._seen[msg_id] = time.monotonic()
        while len(self._seen) > self._most:
            self._seen.popitem(last=False)
        return False

    def contains(self, msg_id: str) -> bool:
        """Whether the id was seen, without taking note of it."""
        at = self._seen.get(msg_id)
        if at is not None and time.monotonic() - at >= self._seconds:
            del self._seen[msg_id]
            return False
        return at is not None

    def discard(self, msg_id: str) -> None:
        """Forget an id, so that the message may come again."""
        self._seen.pop(msg_id, None)

    def clear(self) -> None:
        """Forget all of them."""
        self._seen.clear()


class TextBatchAggregator:
    """Makes one message of texts that arrive shortly after each other."""

    def __init__(
        self,
        handler: Callable[[MessageEvent], Awaitable[Any]],
        *,
        batch_delay: float = 0.6,
        split_delay: float = 2.0,
        split_threshold: int = 4000,
    ) -> None:
        self._handler = handler
        self._delay = batch_delay
        self._split_delay = split_delay
        self._split_threshold = split_threshold
        self._waiting: dict[str, MessageEvent] = {}
        self._timers: dict[str, asyncio.Task[None]] = {}

    def is_enabled(self) -> bool:
        """Whether messages are held back at all."""
        return self._delay > 0

    def enqueue(self, event: MessageEvent, key: str) -> None:
        """Hold a message back, together with those of the same key."""
        first = self._waiting.setdefault(key, event)
        if first is not event:
            first.text = f"{first.text}\n{event.text}"
        if key in self._timers:
            self._timers[key].cancel()
        # A text of full length is probably the first part of a longer one.
        is_part = len(event.text or "") >= self._split_threshold
        self._timers[key] = asyncio.create_task(self._pass_on(key, self._split_delay if is_part else self._delay))

    async def _pass_on(self, key: str, delay: float) -> None:
        await asyncio.sleep(delay)
        del self._timers[key]
        try:
            await self._handler(self._waiting.pop(key))
        except Exception:
            log.exception("a message that was held back could not be passed on")

    def cancel_all(self) -> None:
        """Drop what is held back."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._waiting.clear()


def platform_helpers(host: PluginHost) -> Names:
    """``gateway.platforms.helpers``: what needs the host's home."""

    class ThreadParticipationTracker:
        """The threads in which the agent has taken part, kept in the home."""

        def __init__(self, platform_name: str, max_tracked: int = 500) -> None:
            from hermes.plugins.compat.machine.helpers import safe_json_loads

            self._most = max_tracked
            self._path = home_of(host) / f"{platform_name}_threads.json"
            written: Any = safe_json_loads(_read(self._path), [])
            self._threads: dict[str, None] = dict.fromkeys(map(str, written if isinstance(written, list) else []))  # pyright: ignore[reportUnknownArgumentType]

        def __contains__(self, thread_id: object) -> bool:
            return str(thread_id) in self._threads

        def mark(self, thread_id: str) -> None:
            """The agent takes part in this one."""
            if thread_id not in self:
                self._threads[str(thread_id)] = None
                self._keep()

        def clear(self) -> None:
            """Forget all of them."""
            self._threads.clear()
            self._keep()

        def _keep(self) -> None:
            self._threads = dict.fromkeys(list(self._threads)[-self._most :])
            atomic_json_write(self._path, list(self._threads))

    return {"ThreadParticipationTracker": ThreadParticipationTracker}


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


# -- gateway.status ---------------------------------------------------------------------------------------------------

_locks: dict[Path, int] = {}
_locks_guard = Lock()


def acquire_scoped_lock(
    scope: str, identity: str, metadata: dict[str, Any] | None = None
) -> tuple[bool, dict[str, Any] | None]:
    """Be the only process of this machine that uses an identity, such as the token of a bot.

    Returns whether it is now this one's, and what the process that has it wrote down. The system gives a lock back
    when its process ends, however that happens.
    """
    from hermes.plugins.compat.machine.helpers import safe_json_loads

    path = _lock_path(scope, identity)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _locks_guard:
        is_ours = path in _locks
        file = _locks[path] if is_ours else os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        held: Any = safe_json_loads(os.pread(file, 65536, 0), None)
        if not is_ours:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(file)
                return False, held or {}
            _locks[path] = file
        record = {"pid": os.getpid(), "scope": scope, "metadata": metadata or {}, "updated_at": time.time()}
        _write_record(file, record)
        return True, held if is_ours else None


def release_scoped_lock(scope: str, identity: str) -> None:
    """Give an identity back that this process has."""
    with _locks_guard:
        file = _locks.pop(_lock_path(scope, identity), None)
        if file is not None:
            os.ftruncate(file, 0)
            os.close(file)


def release_all_scoped_locks(**_options: Any) -> int:
    """Give all of them back; how many there were."""
    with _locks_guard:
        files = list(_locks.values())
        _locks.clear()
        for file in files:
            os.ftruncate(file, 0)
            os.close(file)
    return len(files)


def _lock_path(scope: str, identity: str) -> Path:
    # Beside no home: two homes must not use one identity either.
    root = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "hermes" / "gateway-locks"
    return root / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', scope)}-{sha256(identity.encode()).hexdigest()[:16]}.lock"


def _write_record(file: int, record: dict[str, Any]) -> None:
    import json

    os.ftruncate(file, 0)
    os.pwrite(file, json.dumps(record, default=str).encode(), 0)
