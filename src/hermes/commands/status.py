"""Read-only commands: status, usage, plugins."""

from __future__ import annotations

from collections.abc import Sequence

from hermes.agent.context.tokens import estimate
from hermes.agent.session import Session
from hermes.commands.conversation import Conversation
from hermes.commands.sessions import title_of
from hermes.commands.text import columns, dollars, plural
from hermes.host import Host
from hermes.journal.usage.spending import Spending, session_spending


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
        "Title": title_of(conversation) or "(none yet)",
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
    return "off for this session (yolo)" if mode == "yolo" else f"{host.config.approvals.mode}, mode {mode}"


def _context(session: Session) -> str:
    """What the model sees of the conversation, and how much of its window that takes."""
    length = session.runtime.contexts.length_for(session.models.endpoints[0])
    tokens = session.window.status()["last_prompt_tokens"] or estimate(session.messages())
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


def plugins(conversation: Conversation, arguments: str) -> str:
    """List the plugins in use, and their commands."""
    found = [plugin for plugin in conversation.host.plugins if plugin.status != "not enabled"]
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
