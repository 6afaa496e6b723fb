"""Provider profiles: the address, request format, key variable and quirks of the providers that are known by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from hermes.models.endpoint import ApiMode, Quirks


class Family(Struct, frozen=True):
    """What holds for some models of a provider only, found by how their names begin."""

    begins: tuple[str, ...]
    #: Fields of the profile's quirks that are different for them.
    quirks: Mapping[str, Any] = {}
    extra_body: Mapping[str, Any] = {}


class Profile(Struct, frozen=True):
    """A provider. Everything but the address may be left to the defaults."""

    base_url: str
    #: Environment variables that may hold the key, in order. None at all: the server asks for no key.
    key_env: tuple[str, ...] = ()
    api_mode: ApiMode = "chat_completions"
    aliases: tuple[str, ...] = ()
    #: Used when no model is named.
    default_model: str = ""
    #: Prefixes of the names of models that take images. Other names say nothing.
    vision_models: tuple[str, ...] = ()
    quirks: Quirks = Quirks()
    families: tuple[Family, ...] = ()
    extra_headers: Mapping[str, str] = {}
    extra_body: Mapping[str, Any] = {}
    context_length: int | None = None
    #: For a provider that brings its own client, whose address may be no address of a server.
    make_client: Callable[..., Any] | None = None

    def quirks_of(self, model: str) -> Quirks:
        """The quirks that a model of this provider has."""
        quirks = self.quirks
        for family in self._families_of(model):
            quirks = replace(quirks, **family.quirks)
        return quirks

    def extra_body_of(self, model: str) -> dict[str, Any]:
        """What is added to every request to a model of this provider."""
        body = dict(self.extra_body)
        for family in self._families_of(model):
            body.update(family.extra_body)
        return body

    def sees_images(self, model: str) -> bool | None:
        """Whether a model takes images; ``None`` when the profile does not know."""
        return True if _begins(model, self.vision_models) else None

    def _families_of(self, model: str) -> list[Family]:
        return [family for family in self.families if _begins(model, family.begins)]


def _begins(model: str, beginnings: tuple[str, ...]) -> bool:
    """Whether a name begins so, with or without the maker in front, as gateways write it."""
    name = model.lower()
    return name.startswith(beginnings) or name.rpartition("/")[2].startswith(beginnings)


#: Models that think before they answer, and then take neither a temperature nor the older name of the limit.
_OPENAI_THINKERS = Family(("o1", "o3", "o4", "gpt-5", "gpt-6"), quirks={"temperature": False})
#: Hermes 4 answers at once unless it is asked to reason.
_HERMES_4 = Family(("hermes-4",), quirks={"reasoning": "enabled"}, extra_body={"reasoning": {"enabled": True}})
#: Chat templates of open models often take one system message, and only as the first.
_OPEN_MODELS = Quirks(merge_system=True, merge_user=True)
#: Models that want their reasoning back, also behind a gateway.
DEEPSEEK = Family(("deepseek",), quirks={"echo_reasoning": True})

_OPENAI_SEES = ("gpt-4o", "chatgpt-4o", "gpt-4.1", "gpt-4.5", "gpt-4-turbo", "gpt-5", "gpt-6", "o4")
_CLAUDE_SEES = ("claude-3-", "claude-3.", "claude-opus", "claude-sonnet", "claude-haiku", "claude-fable")

PROFILES: dict[str, Profile] = {
    "openai": Profile(
        "https://api.openai.com/v1",
        ("OPENAI_API_KEY",),
        api_mode="codex_responses",
        default_model="gpt-6.1-sol",
        vision_models=_OPENAI_SEES,
        quirks=Quirks(max_tokens_field="max_completion_tokens", prompt_cache_key=True),
        families=(_OPENAI_THINKERS,),
    ),
    "anthropic": Profile(
        "https://api.anthropic.com",
        ("ANTHROPIC_API_KEY",),
        api_mode="anthropic_messages",
        aliases=("claude",),
        default_model="claude-sonnet-5-5",
        vision_models=_CLAUDE_SEES,
    ),
    "openrouter": Profile(
        "https://openrouter.ai/api/v1",
        ("OPENROUTER_API_KEY",),
        aliases=("open-router",),
        default_model="anthropic/claude-sonnet-5.5",
        vision_models=(*_OPENAI_SEES, *_CLAUDE_SEES, "gemini-"),
        quirks=Quirks(reasoning="object"),
        families=(_HERMES_4, DEEPSEEK),
    ),
    "nous": Profile(
        "https://inference-api.nousresearch.com/v1",
        ("NOUS_API_KEY",),
        aliases=("nousresearch", "nous-research"),
        default_model="Hermes-4-405B",
        quirks=Quirks(merge_system=True, merge_user=True, reasoning="object"),
        families=(_HERMES_4,),
    ),
    "groq": Profile(
        "https://api.groq.com/openai/v1",
        ("GROQ_API_KEY",),
        default_model="openai/gpt-oss-120b",
        vision_models=("llama-4-",),
        quirks=Quirks(max_tokens_field="max_completion_tokens"),
    ),
    "mistral": Profile(
        "https://api.mistral.ai/v1",
        ("MISTRAL_API_KEY",),
        aliases=("mistralai",),
        default_model="mistral-medium-latest",
        vision_models=(
            "pixtral",
            "mistral-medium-latest",
            "mistral-medium-3",
            "mistral-small-latest",
            "mistral-large-4",
        ),
        quirks=Quirks(merge_system=True, merge_user=True, stream_options=False, reasoning="", tool_id_length=9),
    ),
    "deepseek": Profile(
        "https://api.deepseek.com/v1",
        ("DEEPSEEK_API_KEY",),
        default_model="deepseek-v4-pro",
        vision_models=("deepseek-flash",),
        quirks=Quirks(echo_reasoning=True, echo_empty_reasoning=True),
    ),
    "gemini": Profile(
        "https://generativelanguage.googleapis.com/v1beta/openai",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        aliases=("google", "google-gemini"),
        default_model="gemini-3.8-flash",
        vision_models=("gemini-", "gemma-3", "gemma-4"),
    ),
    "xai": Profile(
        "https://api.x.ai/v1",
        ("XAI_API_KEY",),
        aliases=("x-ai", "grok"),
        default_model="grok-4.7",
        vision_models=("grok-4", "grok-2-vision"),
        quirks=Quirks(max_tokens_field="max_completion_tokens"),
    ),
    "together": Profile(
        "https://api.together.xyz/v1",
        ("TOGETHER_API_KEY",),
        aliases=("together-ai", "togetherai"),
        default_model="zai-org/GLM-5.3",
        vision_models=("llama-4-",),
        quirks=_OPEN_MODELS,
    ),
    "fireworks": Profile(
        "https://api.fireworks.ai/inference/v1",
        ("FIREWORKS_API_KEY",),
        aliases=("fireworks-ai",),
        default_model="accounts/fireworks/models/glm-5p3",
        vision_models=("kimi-k3", "llama4-", "qwen2p5-vl"),
        quirks=_OPEN_MODELS,
    ),
    "ollama": Profile("http://127.0.0.1:11434/v1", quirks=_OPEN_MODELS),
    "vllm": Profile("http://127.0.0.1:8000/v1", quirks=_OPEN_MODELS),
    "llamacpp": Profile(
        "http://127.0.0.1:8080/v1", aliases=("llama.cpp", "llama-cpp", "llama-server"), quirks=_OPEN_MODELS
    ),
    "local": Profile(
        "http://127.0.0.1:0/v1",  # the server that hermes.local starts has a port when it runs
        aliases=("embedded",),
        default_model="smollm2-135m",
        quirks=Quirks(merge_system=True, merge_user=True, reasoning="", parallel_tools=False, prompt_caching=False),
    ),
    "lmstudio": Profile("http://127.0.0.1:1234/v1", aliases=("lm-studio", "lm_studio"), quirks=_OPEN_MODELS),
}

#: A server that only the configuration knows.
CUSTOM = "custom"
#: What is assumed of such a server: it may have any model, behind any chat template.
UNKNOWN_SERVER = Profile("", quirks=Quirks(merge_user=True), families=(DEEPSEEK,))
_CUSTOM_ALIASES = frozenset({"openai-compatible", "openai_compatible"})


def canonical(name: str, profiles: Mapping[str, Profile] = PROFILES) -> str:
    """The name a provider goes by, for any of its names. One that is not known stays as it is."""
    if name in profiles or name == CUSTOM:
        return name
    wanted = name.strip().lower()
    if wanted in _CUSTOM_ALIASES:
        return CUSTOM
    for known, profile in profiles.items():
        if wanted == known or wanted in profile.aliases:
            return known
    return name
