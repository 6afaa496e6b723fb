"""What is known about providers by name: where they are and which variable holds their key."""

from __future__ import annotations

from typing import NamedTuple


class Profile(NamedTuple):
    """A provider that speaks the OpenAI chat format."""

    base_url: str
    #: Environment variables that may hold the key, in order. None at all: the server asks for no key.
    key_env: tuple[str, ...] = ()


PROFILES: dict[str, Profile] = {
    "openai": Profile("https://api.openai.com/v1", ("OPENAI_API_KEY",)),
    "openrouter": Profile("https://openrouter.ai/api/v1", ("OPENROUTER_API_KEY",)),
    "nous": Profile("https://inference-api.nousresearch.com/v1", ("NOUS_API_KEY",)),
    "groq": Profile("https://api.groq.com/openai/v1", ("GROQ_API_KEY",)),
    "mistral": Profile("https://api.mistral.ai/v1", ("MISTRAL_API_KEY",)),
    "deepseek": Profile("https://api.deepseek.com/v1", ("DEEPSEEK_API_KEY",)),
    "gemini": Profile("https://generativelanguage.googleapis.com/v1beta/openai", ("GEMINI_API_KEY", "GOOGLE_API_KEY")),
    "xai": Profile("https://api.x.ai/v1", ("XAI_API_KEY",)),
    "together": Profile("https://api.together.xyz/v1", ("TOGETHER_API_KEY",)),
    "fireworks": Profile("https://api.fireworks.ai/inference/v1", ("FIREWORKS_API_KEY",)),
    "ollama": Profile("http://127.0.0.1:11434/v1"),
    "vllm": Profile("http://127.0.0.1:8000/v1"),
    "llamacpp": Profile("http://127.0.0.1:8080/v1"),
    "lmstudio": Profile("http://127.0.0.1:1234/v1"),
}
