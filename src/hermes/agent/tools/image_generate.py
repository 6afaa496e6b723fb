"""The ``image_generate`` tool: an image from a description, by the provider in use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.base.errors import HermesError
from hermes.tools.registry import Args, ToolContext
from hermes.tools.results import tool_result

if TYPE_CHECKING:
    from hermes.agent.runtime import Runtime

MAX_PROMPT_CHARS = 8_000


def run_image_generate(args: Args, context: ToolContext, runtime: Runtime) -> str:
    """Make one image and answer with the path of its file."""
    prompt = str(args["prompt"]).strip()
    if not prompt or len(prompt) > MAX_PROMPT_CHARS:
        found = f"has {len(prompt):,} characters" if prompt else "is empty"
        return _failed(f"prompt {found}; between 1 and {MAX_PROMPT_CHARS:,} are expected")
    try:
        shape, scope = str(args.get("aspect_ratio") or "landscape"), context.scope
        made = runtime.images.make(prompt, shape, scope.interrupt, scope.principal)
    except HermesError as error:
        return _failed(str(error))
    return tool_result(**made)


def _failed(error: str) -> str:
    return tool_result(success=False, image=None, error=error)
