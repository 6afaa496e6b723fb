"""Read-only commands: status, usage, budget, plugins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hermes.agent.session import Session
from hermes.base.config.schema.modes import UNASKED_MODE
from hermes.base.scope import Scope
from hermes.host import Host
from hermes.journal.usage.spending import Spending, session_spending
from hermes.surfaces.commands.conversation import Conversation
from hermes.surfaces.commands.text import columns, dollars, plural

if TYPE_CHECKING:
    from hermes.agent.llm.budgets import Account
    from hermes.journal.usage.sums import Spent

NONE_SET = "No budget is set. budgets.turn, session, day, child, plugin and principal in config.yaml set one."


def status(conversation: Conversation, arguments: str) -> str:
    """Show the state of the session."""
    host, session, surface = conversation.host, conversation.session, conversation.surface
    first = session.models.endpoints[0]
    spent = session_spending(host.store, session.id)
    effort = session.models.reasoning_effort
    work = "working" if surface.is_working else "idle"
    if surface.queued:
        work += f", {plural(surface.queued, 'message')} waiting"
    facts = {
        "Session": session.id,
        "Title": conversation.title() or "(none yet)",
        "Model": f"{first.model} ({first.provider})" + (f", reasoning effort {effort}" if effort else ""),
        "Folder": str(session.cwd),
        "Context": _context(session),
        "Spent": _sum_line(spent),
        "Tools": f"{len(session.offered)} of {len(host.tools.all())}",
        "Approvals": _approvals(host, session),
        "State": work,
    }
    return "\n".join(columns(list(facts.items()), indent="", width=conversation.width))


def _approvals(host: Host, session: Session) -> str:
    mode = host.approvals.modes.of(session.id)
    if mode == UNASKED_MODE:
        return f"off for this session ({mode})"
    return f"mode {mode}" + (", a model is asked first" if host.config.approvals.reviewer == "model" else "")


def _context(session: Session) -> str:
    """What the model sees of the conversation, and how much of its window that takes."""
    tokens, length = session.context_use()
    seen = plural(len(session.messages()), "message")
    return f"{seen}, {tokens:,} of {length:,} tokens ({tokens / length:.0%})"


def usage(conversation: Conversation, arguments: str) -> str:
    """Show the tokens and the cost of the session by model, with side jobs and children."""
    spent = session_spending(conversation.host.store, conversation.session.id)
    if not spent:
        return "Nothing was spent yet."
    rows = [("FOR", "MODEL", "CALLS", "READ", "CACHED", "WRITTEN", "COST")]
    rows += [
        (
            _purpose(one),
            one.model or "unknown",
            f"{one.calls:,}",
            f"{one.prompt_tokens:,}",
            f"{one.cached_tokens:,}",
            f"{one.output_tokens:,}",
            dollars(one.cost_usd) or "unknown",
        )
        for one in spent
    ]
    return "\n".join([*columns(rows, indent="", width=conversation.width), "", f"Together: {_sum_line(spent)}"])


def _purpose(one: Spending) -> str:
    if not one.purpose:
        return "conversation"
    if one.purpose == "children":
        return "children"
    kind, colon, name = one.purpose.partition(":")
    return f"{kind} {name}" if colon else f"side job {one.purpose}"


def _sum_line(spent: Sequence[Spending]) -> str:
    read, written = sum(one.prompt_tokens for one in spent), sum(one.output_tokens for one in spent)
    known = [one.cost_usd for one in spent if one.cost_usd is not None]
    tokens = f"{read:,} tokens read, {written:,} written"
    return f"{tokens}, {dollars(sum(known))}" if known else tokens


def budget(conversation: Conversation, arguments: str) -> str:
    """Show the budgets of the session."""
    session, budgets = conversation.session, conversation.host.models.budgets
    if budgets is None:
        return NONE_SET
    scope = Scope(session_id=session.id, platform=session.platform, principal=session.principal)
    rows = [("BUDGET", "LIMIT", "USED", "LEFT")]
    for line in budgets.lines(scope):
        rows += [(line.whose, *amounts) for amounts in _amounts(line.account, line.used)]
    settings = conversation.host.config.budgets
    for kind in ("turn", "child"):
        limits = getattr(settings, kind)
        told = [
            f"{getattr(limits, name):g} {name}"
            for name in limits.__struct_fields__
            if getattr(limits, name) is not None
        ]
        if told and not any(row[0] == f"this {kind}" for row in rows):
            rows.append((f"each {kind}", ", ".join(told), "", ""))
    if len(rows) == 1:
        return NONE_SET
    return "\n".join(
        [
            *columns(rows, indent="", width=conversation.width),
            "",
            f"At a limit: {settings.on_limit} (budgets.on_limit).",
        ]
    )


def _amounts(account: Account, used: Spent) -> list[tuple[str, str, str]]:
    limits, room, rows = account.limits, account.room(used), list[tuple[str, str, str]]()
    times = account.extensions + 1
    if limits.usd is not None:
        rows.append((f"${limits.usd * times:g}", f"${used.usd:.4f}", f"${max(room.usd, 0):.4f}"))
    if limits.tokens is not None:
        rows.append((f"{limits.tokens * times:,} tokens", f"{used.tokens:,}", f"{max(room.tokens, 0):,}"))
    if limits.minutes is not None:
        left = max(room.seconds, 0.0) / 60
        rows.append((f"{limits.minutes * times:g} minutes", f"{limits.minutes * times - left:.1f}", f"{left:.1f}"))
    if limits.calls is not None:
        rows.append((f"{limits.calls * times} calls", f"{used.calls}", f"{max(room.calls, 0)}"))
    return rows


def plugins(conversation: Conversation, arguments: str) -> str:
    """List the plugins in use, and their commands."""
    found = [
        plugin
        for plugin in conversation.host.plugins
        if plugin.status != "not enabled"
        # One that comes with Hermes waits in every installation.
        and not (plugin.status == "waiting" and plugin.manifest.source == "bundled")
    ]
    if not found:
        return "No plugins are in use. 'hermes plugins list' shows those there are."
    rows = [
        (
            plugin.manifest.key,
            plugin.manifest.version or "-",
            plugin.status,
            plugin.error or " ".join(f"/{name}" for name in plugin.commands),
        )
        for plugin in found
    ]
    return "\n".join(columns(rows, indent="", width=conversation.width))
