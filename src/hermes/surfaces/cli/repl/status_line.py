"""Status line of the prompt: model, tokens, cost, context use."""

from __future__ import annotations

import msgspec

from hermes.agent.session import Session
from hermes.base.config.schema.modes import DEFAULT_MODE
from hermes.host import Host
from hermes.journal.usage.spending import session_spending
from hermes.surfaces.cli.terminal import cells, fitted, one_line
from hermes.surfaces.commands.conversation import Conversation

#: Parts by importance, the most important first.
_IMPORTANCE = ("mode", "model", "context", "queued", "cost", "tokens", "session")


class StatusFacts(msgspec.Struct, frozen=True):
    """Content of the status line. Unknown parts are left out."""

    model: str = ""
    session_id: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    #: Tokens of the last request.
    context_tokens: int = 0
    context_window: int | None = None
    #: The permission mode, unless it is the usual one.
    mode: str = ""
    queued: int = 0
    #: The title of the session, for the title of the terminal.
    title: str = ""


def status_line(facts: StatusFacts, width: int, *, unicode: bool = True) -> str:
    """The facts on one line; the least important are dropped to fit."""
    parts = _parts(facts)
    separator, ellipsis = (" · ", "…") if unicode else (" | ", "...")
    for name in reversed(_IMPORTANCE):
        line = separator.join(parts.values())
        if cells(line) <= width or len(parts) <= 1:
            break
        parts.pop(name, None)
    return fitted(separator.join(parts.values()), width, ellipsis)


def short_count(count: int) -> str:
    """A number of tokens in at most five characters: ``950``, ``12.3k``, ``128k``, ``1.2M``."""
    # The bounds are those of the rounded numbers, so that 999,700 is 1M and not 1000k.
    if count < 1_000:
        return str(count)
    scaled, unit = (count / 1_000, "k") if count < 999_500 else (count / 1_000_000, "M")
    return f"{scaled:.1f}".removesuffix(".0") + unit if scaled < 99.95 else f"{scaled:.0f}{unit}"


def _parts(facts: StatusFacts) -> dict[str, str]:
    """The parts in reading order."""
    read, written, cost = facts.input_tokens, facts.output_tokens, facts.cost_usd
    parts = {
        "model": one_line(facts.model, 60) or "no model",
        "tokens": f"{short_count(read)} in, {short_count(written)} out" if read or written else "",
        "cost": "" if cost is None else f"${cost:.4f}" if cost < 1 else f"${cost:.2f}",
        "context": _context(facts),
        "session": one_line(facts.session_id.rpartition("_")[2][-8:], 8),
        "queued": f"queued {facts.queued}" if facts.queued else "",
        "mode": facts.mode,
    }
    return {name: text for name, text in parts.items() if text}


def _context(facts: StatusFacts) -> str:
    if not facts.context_window:
        return f"{short_count(facts.context_tokens)} context" if facts.context_tokens else ""
    percent = 100 * facts.context_tokens / facts.context_window
    return f"{short_count(facts.context_tokens)}/{short_count(facts.context_window)} {percent:.0f}%"


def shown_mode(host: Host, session: Session) -> str:
    """The permission mode of a session, unless it is the usual one."""
    mode = host.approvals.modes.of(session.id)
    return "" if mode == DEFAULT_MODE else mode


def conversation_facts(conversation: Conversation) -> StatusFacts:
    """The facts of a conversation. Reads the journal."""
    host, session = conversation.host, conversation.session
    spent = session_spending(host.store, session.id)
    costs = [one.cost_usd for one in spent if one.cost_usd is not None]
    tokens, window = session.context_use()
    return StatusFacts(
        model=session.models.endpoints[0].model,
        session_id=session.id,
        input_tokens=sum(one.prompt_tokens for one in spent),
        output_tokens=sum(one.output_tokens for one in spent),
        cost_usd=sum(costs) if costs else None,
        context_tokens=tokens,
        context_window=window,
        mode=shown_mode(host, session),
        queued=conversation.surface.queued,
        title=conversation.title(),
    )
