"""The line under the prompt: which model, what it used, how full its context is."""

from __future__ import annotations

from dataclasses import dataclass

from hermes.cli.terminal import cells, fitted, one_line

#: Parts by importance, the first to go last.
_IMPORTANCE = ("yolo", "model", "context", "queued", "cost", "tokens", "session")


@dataclass(frozen=True, slots=True)
class StatusFacts:
    """What the status line tells. What is unknown is left out."""

    model: str = ""
    session_id: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    #: What the last request filled of the model's window.
    context_tokens: int = 0
    context_window: int | None = None
    yolo: bool = False
    queued: int = 0


def status_line(facts: StatusFacts, width: int, *, unicode: bool = True) -> str:
    """The facts on one line; where they do not fit, the least important go first."""
    parts = _parts(facts)
    separator, ellipsis = (" · ", "…") if unicode else (" | ", "...")
    for name in reversed(_IMPORTANCE):
        line = separator.join(parts.values())
        if cells(line) <= width or len(parts) <= 1:
            break
        parts.pop(name, None)
    return fitted(separator.join(parts.values()), width, ellipsis)


def short_session_id(session_id: str) -> str:
    """The part of a session id that differs from its neighbours'."""
    return session_id.rpartition("_")[2][-8:]


def short_count(count: int) -> str:
    """A number of tokens in at most five characters: ``950``, ``12.3k``, ``128k``, ``1.2M``."""
    # The bounds are those of the rounded figures, so that 999,700 is 1M and not 1000k.
    if count < 1_000:
        return str(count)
    scaled, unit = (count / 1_000, "k") if count < 999_500 else (count / 1_000_000, "M")
    return f"{scaled:.1f}".removesuffix(".0") + unit if scaled < 99.95 else f"{scaled:.0f}{unit}"


def _parts(facts: StatusFacts) -> dict[str, str]:
    """The parts in the order in which they are read."""
    parts = {
        "model": one_line(facts.model, 60) or "no model",
        "tokens": _tokens(facts),
        "cost": "" if facts.cost_usd is None else _cost(facts.cost_usd),
        "context": _context(facts),
        "session": one_line(short_session_id(facts.session_id), 8),
        "queued": f"queued {facts.queued}" if facts.queued else "",
        "yolo": "yolo" if facts.yolo else "",
    }
    return {name: text for name, text in parts.items() if text}


def _tokens(facts: StatusFacts) -> str:
    if not facts.input_tokens and not facts.output_tokens:
        return ""
    return f"{short_count(facts.input_tokens)} in, {short_count(facts.output_tokens)} out"


def _cost(cost: float) -> str:
    return f"${cost:.4f}" if cost < 1 else f"${cost:.2f}"


def _context(facts: StatusFacts) -> str:
    if not facts.context_window:
        return f"{short_count(facts.context_tokens)} context" if facts.context_tokens else ""
    percent = 100 * facts.context_tokens / facts.context_window
    return f"{short_count(facts.context_tokens)}/{short_count(facts.context_window)} {percent:.0f}%"
