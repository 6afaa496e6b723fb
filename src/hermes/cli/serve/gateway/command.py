"""``hermes gateway``: runs the agent on chat platforms, shows its state, lets users in, sends messages again."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import msgspec

from hermes.cli.terminal import one_line, plain, print_json
from hermes.commands.text import plural
from hermes.config import hermes_home, load_config
from hermes.config.secrets import home_redactor
from hermes.journal.store.port import Store, home_store

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


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-commands."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLES
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    summary = "run the platforms, and the OpenAI-compatible API, until Ctrl-C"
    run_parser = actions.add_parser("run", help=summary, description=summary)
    add = run_parser.add_argument
    add("--platform", metavar="NAME", action="append", default=[], help="run only this platform (repeatable)")
    add("--no-api", action="store_true", help="do not serve the OpenAI-compatible API")
    add("--no-web", action="store_true", help="do not serve the page at the address of the API")
    add("--provider", default="", help="provider to use instead of the configured one")
    add("-m", "--model", default="", help="model to use instead of the configured one")
    add("--plugin", metavar="KEY", action="append", default=[], help="load this plugin too (repeatable)")
    add("-v", "--verbose", action="store_true", help="show the log on stderr")
    run_parser.set_defaults(action=_run)
    summary = "show the platforms, and messages that were not sent or not answered"
    status = actions.add_parser("status", help=summary, description=summary)
    status.add_argument("--json", action="store_true", help="print JSON")
    status.set_defaults(action=_status)
    summary = "send a message again that failed, or whose outcome is unknown"
    retry = actions.add_parser("retry", help=summary, description=summary)
    retry.add_argument("number", type=int, metavar="NUMBER", help="number of the message, from 'hermes gateway status'")
    retry.set_defaults(action=_retry)
    _configure_pairing(actions)


def _configure_pairing(actions: Any) -> None:
    summary = "list the users of the platforms, let users in, or lock them out"
    pair = actions.add_parser("pair", help=summary, description=summary)
    kinds = pair.add_subparsers(metavar="ACTION", required=True)
    summary = "list who asked to be let in, and who is in"
    listing = kinds.add_parser("list", help=summary, description=summary)
    listing.add_argument("--json", action="store_true", help="print JSON")
    listing.set_defaults(action=_list_users)
    summary = "let in the user who has this code"
    approve = kinds.add_parser("approve", help=summary, description=summary)
    approve.add_argument("code", metavar="CODE", help="the code that the gateway gave to the user")
    _add_role(approve)
    approve.set_defaults(action=_approve)
    summary = "let in a user without a code, or change what a user may do"
    adding = kinds.add_parser("add", help=summary, description=summary)
    _add_user(adding)
    _add_role(adding)
    adding.set_defaults(action=_add)
    summary = "lock a user out again"
    revoke = kinds.add_parser("revoke", help=summary, description=summary)
    _add_user(revoke)
    revoke.set_defaults(action=_revoke)


def _add_user(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("platform", metavar="PLATFORM", help="name of the platform")
    parser.add_argument("user", metavar="USER", help="id of the user there")


def _add_role(parser: argparse.ArgumentParser) -> None:
    roles = parser.add_mutually_exclusive_group()
    flags: dict[str, Any] = {"action": "store_const", "dest": "role", "default": "user"}
    roles.add_argument("--owner", const="owner", help="the user is you: the same memory, files and rights", **flags)
    roles.add_argument("--approver", const="approver", help="the user may also answer approvals", **flags)


def run(args: argparse.Namespace) -> int:
    """Run the sub-command."""
    return args.action(args)


def _run(args: argparse.Namespace) -> int:
    from hermes.cli.serve.gateway.process import run_gateway  # the server and all it needs

    return run_gateway(args)


# -- users -----------------------------------------------------------------------------------------------------------


def _list_users(args: argparse.Namespace) -> int:
    from hermes.gateway.store.users import GatewayUsers

    with closing(_store()) as store:
        known = GatewayUsers(store)
        users, requests = known.all(), known.pending()
    if args.json:
        print_json({"users": msgspec.to_builtins(users), "requests": msgspec.to_builtins(requests)})
        return 0
    if not users and not requests:
        print("No user was let in, and none asks for it.")
    for user in users:
        print(f"{plain(user.platform)}  {plain(user.user_id)}  {one_line(user.name, 40)}  {user.role}")
    for request in requests:
        minutes = int((time.time() - request.requested_at) / 60)
        who = f"{plain(request.platform)}  {plain(request.user_id)}  {one_line(request.name, 40)}"
        print(f"{who}  asked {minutes} min ago: hermes gateway pair approve CODE")
    return 0


def _approve(args: argparse.Namespace) -> int:
    from hermes.gateway.store.users import GatewayUsers

    with closing(_store()) as store:
        user = GatewayUsers(store).approve(args.code, args.role)
    print(f"{plain(user.name)} ({plain(user.user_id)} on {plain(user.platform)}) is let in as {user.role}.")
    return 0


def _add(args: argparse.Namespace) -> int:
    from hermes.gateway.store.users import GatewayUsers

    with closing(_store()) as store:
        user = GatewayUsers(store).add(args.platform.lower(), args.user, args.role)
    print(f"{plain(user.user_id)} on {plain(user.platform)} is let in as {user.role}.")
    return 0


def _revoke(args: argparse.Namespace) -> int:
    from hermes.gateway.store.users import GatewayUsers

    with closing(_store()) as store:
        found = GatewayUsers(store).revoke(args.platform.lower(), args.user)
    if not found:
        print(f"{plain(args.user)} on {plain(args.platform)} was not let in; 'hermes gateway pair list' shows who was.")
        return 1
    print(f"{plain(args.user)} on {plain(args.platform)} is let in no longer.")
    return 0


# -- state -----------------------------------------------------------------------------------------------------------


def _status(args: argparse.Namespace) -> int:
    from hermes.gateway.status import read_status
    from hermes.gateway.store.inbox import Inbox
    from hermes.gateway.store.outbox import Outbox

    home = hermes_home()
    config = load_config(home).config.gateway
    status = read_status(home)
    with closing(_store()) as store:
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
    if args.json:
        print_json(document)
        return 0
    redact = home_redactor(home).redact
    for line in _status_lines(document):
        print(plain(redact(line)))
    return 0


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


def _retry(args: argparse.Namespace) -> int:
    from hermes.gateway.store.outbox import Outbox

    with closing(_store()) as store:
        row = Outbox(store).retry(args.number)
    print(f"Message {row.number} to {plain(row.message.chat_id)} is sent again by the gateway.")
    return 0


def _store() -> Store:
    return home_store(hermes_home())
