"""The data of the ``genai-prices`` package in the compact form that the project reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, cast

import msgspec
from genai_prices import data, types

import hermes.models.costs

PATH = Path(hermes.models.costs.__file__).with_name("prices.json")

#: Each clause of a match as the mark it has in the snapshot.
_MARKS: dict[type, str] = {
    types.ClauseEquals: "=",
    types.ClauseStartsWith: "^",
    types.ClauseEndsWith: "$",
    types.ClauseContains: "*",
    types.ClauseRegex: "~",
}
#: What a model may charge for that a call of ours uses, in the order of the snapshot.
_COUNTED = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok")
#: What every call pays besides its tokens, or pays in another way: without it a cost would be wrong.
_NOT_COUNTED = frozenset({"requests_kcount", "output_reasoning_mtok", "output_citation_mtok"})


def snapshot() -> bytes:
    """The file, one provider to a line."""
    about = {
        "source": f"genai-prices {distribution('genai-prices').version}",
        "licence": _licence(),
        "addresses": [_address(provider) for provider in data.providers],
    }
    head = msgspec.json.encode(about)
    lines = [
        msgspec.json.encode(provider.id).decode() + ":" + msgspec.json.encode(_provider(provider)).decode()
        for provider in data.providers
    ]
    return head[:-1] + b',"providers":{\n' + ",\n".join(lines).encode() + b"\n}}\n"


def _licence() -> str:
    for file in distribution("genai-prices").files or ():
        if file.name == "LICENSE":
            return " ".join(file.read_text().split())
    raise LookupError("the licence of genai-prices was not found")


def _address(provider: types.Provider) -> list[str]:
    """``[beginning, pattern, provider]``: an address that begins so belongs to it, if the pattern, when there is one,
    fits too.
    """
    pattern = provider.api_pattern
    plain = re.match(r"(?:[\w:/-]|\\[.])*", pattern)
    assert plain is not None
    # What a quantifier follows is not certain to be there.
    beginning = plain[0] if plain.end() == len(pattern) or pattern[plain.end()] in "([" else ""
    return [beginning.replace("\\", ""), "" if plain.end() == len(pattern) else pattern, provider.id]


def _provider(provider: types.Provider) -> dict[str, Any]:
    return {
        "behind": provider.fallback_model_providers or [],
        "models": [_model(model) for model in provider.models],
    }


def _model(model: types.ModelInfo) -> list[Any]:
    variants = model.prices if isinstance(model.prices, list) else [types.ConditionalPrice(prices=model.prices)]
    prices = [_variant(variant) for variant in variants]
    seen = any("input_image_mtok" in vars(variant.prices) for variant in variants)
    return [list(_names(model.match)), model.context_window, [] if None in prices else prices, seen]


def _names(match: Any) -> Iterator[str]:
    if isinstance(match, types.ClauseOr):
        for clause in match.or_:
            yield from _names(clause)
    elif isinstance(match, types.ClauseAnd):
        yield "~" + "".join(f"(?=.*?(?:{_as_pattern(clause)}))" for clause in match.and_)
    else:
        yield _MARKS[type(match)] + _text(match)


def _as_pattern(clause: Any) -> str:
    text = _text(clause)
    patterns = {"=": f"^{re.escape(text)}$", "^": f"^{re.escape(text)}", "$": f"{re.escape(text)}$", "~": text}
    return patterns.get(_MARKS[type(clause)], re.escape(text))


def _text(clause: Any) -> str:
    [text] = cast("dict[str, str]", vars(clause)).values()
    # Names are compared in lower case; a pattern is taken as it is.
    return text if isinstance(clause, types.ClauseRegex) else text.lower()


def _variant(variant: types.ConditionalPrice) -> list[Any] | None:
    """``[when, input, output, cache read, cache write]``, or None for what cannot be counted in tokens."""
    known = {name: price for name, price in vars(variant.prices).items() if price is not None}
    if not {"input_mtok", "output_mtok"} <= known.keys() or known.keys() & _NOT_COUNTED:
        return None
    return [_when(variant.constraint), *(_price(known.get(name)) for name in _COUNTED)]


def _when(constraint: Any) -> Any:
    if isinstance(constraint, types.StartDateConstraint):
        return constraint.start_date.isoformat()
    if isinstance(constraint, types.TimeOfDateConstraint):
        return [constraint.start_time.strftime("%H:%M"), constraint.end_time.strftime("%H:%M")]
    assert constraint is None
    return None


def _price(price: Any) -> Any:
    """Dollars for a million tokens; with tiers ``[[tokens, dollars], …]``, the first from 0 on."""
    if isinstance(price, types.TieredPrices):
        return [[0, float(price.base)], *([tier.start, float(tier.price)] for tier in price.tiers)]
    return None if price is None else float(price)
