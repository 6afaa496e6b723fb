"""What the status line tells about a session."""

from __future__ import annotations

from hermes.agent.session import Session
from hermes.cli.repl.show.statusline import StatusFacts
from hermes.host import Host
from hermes.journal.usage.spending import session_spending


def session_facts(host: Host, session: Session) -> StatusFacts:
    """Where a session stands. Reads the journal."""
    first = session.models.endpoints[0]
    spent = session_spending(host.store, session.id)
    costs = [one.cost_usd for one in spent if one.cost_usd is not None]
    return StatusFacts(
        model=first.model,
        session_id=session.id,
        input_tokens=sum(one.prompt_tokens for one in spent),
        output_tokens=sum(one.output_tokens for one in spent),
        cost_usd=sum(costs) if costs else None,
        context_tokens=session.window.status()["last_prompt_tokens"],
        context_window=session.runtime.contexts.length_for(first),
        yolo=host.approvals.trusts(session.id),
    )
