"""``hermes gateway``: runs the agent on chat platforms, shows its state, lets users in, sends messages again."""

from __future__ import annotations

import argparse
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from hermes.base.config import hermes_home, load_config
from hermes.base.config.secrets import home_redactor
from hermes.journal.store.port import home_store
from hermes.surfaces.cli.arguments import (
    JSON,
    MODEL,
    PLUGIN,
    VERBOSE,
    Action,
    Argument,
    CommandSpec,
    OneOf,
    flag,
    repeatable,
)
from hermes.surfaces.cli.report import Report
from hermes.surfaces.cli.terminal import one_line, plain
from hermes.surfaces.commands.text import plural

if TYPE_CHECKING:
    from hermes.surfaces.gateway.store.users import GatewayUsers

_EXAMPLES = """
examples:
  hermes gateway run                           run every platform of gateway.platforms in config.yaml, and the API
  hermes gateway pair list                     who asked to be let in, and who is in
  hermes gateway pair approve K7RW2MXN         let in the user who has this code
  hermes gateway pair approve K7RW2MXN --owner the user who has this code is you
  hermes gateway status                        platforms, and messages that were not sent or not answered
"""
_LONGEST_TEXT = 60
_MOST_CHATS = 10


@contextmanager
def _known_users() -> Generator[GatewayUsers]:
    from hermes.surfaces.gateway.store.users import GatewayUsers

    with closing(home_store(hermes_home())) as store:
        yield GatewayUsers(store)


def _list_users(_args: argparse.Namespace) -> Report:
    with _known_users() as known:
        users, requests = known.all(), known.pending()
    lines = [f"{user.platform}  {user.user_id}  {one_line(user.name, 40)}  {user.role}" for user in users]
    for request in requests:
        minutes = int((time.time() - request.requested_at) / 60)
        who = f"{request.platform}  {request.user_id}  {one_line(request.name, 40)}"
        lines.append(f"{who}  asked {minutes} min ago: hermes gateway pair approve CODE")
    return Report(
        {"users": msgspec.to_builtins(users), "requests": msgspec.to_builtins(requests)},
        lines or ["No user was let in, and none asks for it."],
    )


def _approve(args: argparse.Namespace) -> None:
    with _known_users() as known:
        user = known.approve(args.code, args.role)
    print(f"{plain(user.name)} ({plain(user.user_id)} on {plain(user.platform)}) is let in as {user.role}.")


def _add(args: argparse.Namespace) -> None:
    with _known_users() as known:
        user = known.add(args.platform.lower(), args.user, args.role)
    print(f"{plain(user.user_id)} on {plain(user.platform)} is let in as {user.role}.")


def _revoke(args: argparse.Namespace) -> int:
    with _known_users() as known:
        found = known.revoke(args.platform.lower(), args.user)
    if not found:
        print(f"{plain(args.user)} on {plain(args.platform)} was not let in; 'hermes gateway pair list' shows who was.")
        return 1
    print(f"{plain(args.user)} on {plain(args.platform)} is let in no longer.")
    return 0


def _status(_args: argparse.Namespace) -> Report:
    from hermes.surfaces.gateway.status import read_status
    from hermes.surfaces.gateway.store.inbox import Inbox
    from hermes.surfaces.gateway.store.outbox import Outbox

    home = hermes_home()
    config = load_config(home).config.gateway
    status = read_status(home)
    with closing(home_store(home)) as store:
        inbox, outbox = Inbox(store), Outbox(store)
        left, dead = inbox.open_messages(), inbox.dead_letters()
        undelivered, counts, waiting = outbox.undelivered(), outbox.counts(), outbox.waiting_chats()
    running = status is not None and status.is_running
    document: dict[str, Any] = {
        "running": running,
        "pid": status.pid if status is not None and running else None,
        "platforms": status.platforms if status is not None and running else [],
        "configured": [name for name, settings in config.platforms.items() if settings.enabled],
        "open": len(left),
        "outbox": counts,
        "waiting": msgspec.to_builtins(waiting),
        "dead": [{"number": one.number, "chat": one.chat, "error": one.error} for one in dead],
        "undelivered": [
            {
                "number": one.number,
                "platform": one.message.platform,
                "chat": one.message.chat_id,
                "state": one.state,
                "error": one.error,
                "text": one.message.content,
            }
            for one in undelivered
        ],
    }
    return Report(document, map(home_redactor(home).redact, _status_lines(document)))


def _status_lines(document: dict[str, Any]) -> Iterator[str]:
    if document["running"]:
        yield f"The gateway runs (process {document['pid']})."
        for one in document["platforms"]:
            error = f": {one['error']}" if one["error"] else ""
            restarts = f", restarted {plural(one['restarts'], 'time')}" if one["restarts"] else ""
            yield f"  {one['name']}  {one['state']}{restarts}{error}"
        for name in document["configured"]:
            if not any(one["name"] == name for one in document["platforms"]):
                yield f"  {name}  not run: left out with --platform, or configured since the gateway was started"
    else:
        yield "The gateway does not run. Start it with: hermes gateway run"
        names = ", ".join(document["configured"])
        yield f"  platforms: {names}" if names else "  No platform is configured; see gateway.platforms in config.yaml."
    if document["open"]:
        have = "has" if document["open"] == 1 else "have"
        yield f"{plural(document['open'], 'message')} {have} no answer yet."
    yield from _waiting_lines(document)
    if document["undelivered"]:
        yield "Not sent (send one again with 'hermes gateway retry NUMBER'):"
        for one in document["undelivered"]:
            text = one_line(one["text"], _LONGEST_TEXT)
            yield f"  {one['number']}  {one['state']}  {one['platform']} {one['chat']}: {text} ({one['error']})"
    if document["dead"]:
        yield "Given up:"
        for one in document["dead"]:
            yield f"  {one['number']}  {one['chat']}: {one_line(one['error'], _LONGEST_TEXT)}"


def _waiting_lines(document: dict[str, Any]) -> Iterator[str]:
    chats = document["waiting"]
    if not chats:
        return
    count = sum(one["messages"] for one in chats)
    when = "" if document["running"] else ", which happens when the gateway runs"
    yield f"{plural(count, 'message')} {'waits' if count == 1 else 'wait'} to be sent{when}:"
    for one in chats[:_MOST_CHATS]:
        line = f"  {one['platform']} {one['chat_id']}: {plural(one['messages'], 'message')}"
        if one["attempts"]:
            seconds = max(one["due_at"] - time.time(), 0)
            line += f", tried {plural(one['attempts'], 'time')} ({one_line(one['error'], _LONGEST_TEXT) or 'not sent'})"
            line += f", next attempt in {seconds:.0f} s" if document["running"] else ""
        yield line
    if len(chats) > _MOST_CHATS:
        yield f"  and {plural(len(chats) - _MOST_CHATS, 'more chat')}"


def _retry(args: argparse.Namespace) -> None:
    from hermes.surfaces.gateway.store.outbox import Outbox

    with closing(home_store(hermes_home())) as store:
        row = Outbox(store).retry(args.number)
    print(f"Message {row.number} to {plain(row.message.chat_id)} is sent again by the gateway.")


_USER = (
    Argument("platform PLATFORM", "name of the platform"),
    Argument("user USER", "id of the user there"),
)


def _role(name: str, meaning: str) -> Argument:
    return Argument(f"--{name}", meaning, action="store_const", dest="role", const=name, default="user")


_ROLE = OneOf(
    _role("owner", "the user is you: the same memory, files and rights"),
    _role("approver", "the user may also answer approvals"),
)
_PAIRING = (
    Action("list", _list_users, "list who asked to be let in, and who is in").takes(JSON),
    Action("approve", _approve, "let in the user who has this code").takes(
        Argument("code CODE", "the code that the gateway gave to the user"), _ROLE
    ),
    Action("add", _add, "let in a user without a code, or change what a user may do").takes(*_USER, _ROLE),
    Action("revoke", _revoke, "lock a user out again").takes(*_USER),
)

COMMAND = CommandSpec(
    epilog=_EXAMPLES,
    actions=(
        Action(
            "run", "serve.gateway.process:run_gateway", "run the platforms, and the OpenAI-compatible API, until Ctrl-C"
        ).takes(
            repeatable("--platform NAME", "run only this platform (repeatable)"),
            flag("--no-api", "do not serve the OpenAI-compatible API"),
            flag("--no-web", "do not serve the page at the address of the API"),
            *MODEL,
            PLUGIN,
            VERBOSE,
        ),
        Action("status", _status, "show the platforms, and messages that were not sent or not answered").takes(JSON),
        Action("retry", _retry, "send a message again that failed, or whose outcome is unknown").takes(
            Argument("number NUMBER", "number of the message, from 'hermes gateway status'", type=int)
        ),
        Action("pair", "", "list the users of the platforms, let users in, or lock them out", actions=_PAIRING),
    ),
)
