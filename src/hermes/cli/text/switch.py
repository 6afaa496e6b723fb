"""How it is said that another model answers."""

from __future__ import annotations

from hermes.cli.text.terminal import one_line
from hermes.contract.events import ModelSwitched


def switched_line(event: ModelSwitched) -> str:
    """One line for a person."""
    now = f"{event.model} ({event.provider})"
    if not event.from_model:
        return one_line(f"→ back to {now}")
    return one_line(f"→ {now} takes over from {event.from_model} ({event.from_provider}): {event.reason}")
