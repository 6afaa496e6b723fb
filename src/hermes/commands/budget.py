"""``/budget``: the limits that apply to the session, and what is left of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.commands.conversation import Conversation
from hermes.commands.text import columns
from hermes.scope import Scope

if TYPE_CHECKING:
    from hermes.agent.llm.budgets import Account
    from hermes.journal.usage.sums import Spent

NONE_SET = "No budget is set. budgets.turn, session, day, child, plugin and principal in config.yaml set one."


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
