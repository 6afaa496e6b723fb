"""Checks of the chat platforms: a plugin for each, the state of the gateway, messages that did not get through."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from hermes.base.errors import JournalError
from hermes.plugins.loading.discovery import discover
from hermes.surfaces.cli.doctor.check import CheckResult, ok, warning
from hermes.surfaces.cli.doctor.installation import Installation
from hermes.surfaces.commands.text import plural

_STATUS = "hermes gateway status"


def check_platforms(installation: Installation) -> Iterator[CheckResult]:
    """Every platform of the configuration that is switched on."""
    settings = installation.settings()
    names = [name for name, one in settings.gateway.platforms.items() if one.enabled]
    if not names:
        return
    from hermes.surfaces.gateway.status import read_status  # few homes have a gateway

    status = read_status(installation.home)
    known = {one["name"]: one for one in status.platforms} if status is not None else {}
    is_running = status is not None and status.is_running
    manifests = discover(installation.home, installation.cwd).values()
    for name in names:
        found = known.get(name) if is_running else None
        last = known.get(name)
        has_plugin = any(one.answers_to(name) or one.key.rpartition("/")[2] == name for one in manifests)
        if found is not None and found["error"]:
            yield warning(name, f"{found['state']}: {found['error']}", command="hermes logs --level WARNING")
        elif found is not None:
            yield ok(name, f"{found['state']}")
        elif not has_plugin and not settings.plugins.enabled:
            yield warning(
                name, "no plugin offers this platform", "install and enable one", command="hermes plugins list"
            )
        elif is_running:
            detail = "configured, but the gateway that runs does not have it"
            yield warning(name, detail, "restart the gateway, without --platform", command=_STATUS)
        elif last is not None and last["state"] == "failed":
            yield warning(name, f"failed when the gateway ran last: {last['error']}", command="hermes gateway run")
        else:
            yield ok(name, "configured; the gateway does not run it")
    yield from _left(installation, is_running=is_running)


def _left(installation: Installation, *, is_running: bool) -> Iterator[CheckResult]:
    from hermes.surfaces.gateway.store.inbox import Inbox
    from hermes.surfaces.gateway.store.outbox import Outbox

    try:
        if not installation.has_current_journal():
            return
        with closing(installation.store()) as store:
            undelivered, dead = Outbox(store).undelivered(), Inbox(store).dead_letters()
            waiting = Outbox(store).waiting_chats()
    except JournalError:
        return  # another check reports it
    late = sum(one.messages for one in waiting if one.attempts or not is_running)
    if late:
        why = "not sent yet, and tried again later" if is_running else "to be sent, and the gateway does not run"
        yield warning("outbox", f"{plural(late, 'message')} {why}", command=_STATUS)
    if undelivered:
        yield warning(
            "outbox", f"{plural(len(undelivered), 'message')} not sent, or of unknown outcome", command=_STATUS
        )
    if dead:
        yield warning("inbox", f"{plural(len(dead), 'message')} given up", command=_STATUS)
