"""Safety: refusals and masks of the host for plugins that ask first: secrets, files, addresses, long outputs."""

from __future__ import annotations

import os
import re
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from hermes.base.config.schema.sections import ToolOutputConfig
from hermes.plugins.compat.names import Names, config_of, home_of
from hermes.plugins.services import PluginHost

#: The variables that a program for secrets gets beside those it is given.
_KEPT = (
    "HOME",
    "LANG",
    "LC_ALL",
    "PATH",
    "SYSTEMROOT",
    "TEMP",
    "TMPDIR",
    "USERPROFILE",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
)
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?)")


# -- agent.redact -----------------------------------------------------------------------------------------------------


def redact(host: PluginHost) -> Names:
    """``agent.redact``: the same masking as in logs and records."""

    def redact_sensitive_text(text: Any, **_options: Any) -> Any:
        """The text without the secrets of the home and without what looks like one. It cannot be switched off."""
        return text if text is None else host.services.redactor.redact(str(text))

    return {"redact_sensitive_text": redact_sensitive_text}


def mask_secret(
    value: str, *, head: int = 4, tail: int = 4, floor: int = 12, placeholder: str = "***", empty: str = ""
) -> str:
    """A secret of which only the ends are shown; a short one not at all."""
    if not value:
        return empty
    return placeholder if len(value) < floor else f"{value[:head]}...{value[-tail:]}"


# -- agent.secret_sources.base ----------------------------------------------------------------------------------------


def scrub_ansi(text: str) -> str:
    """The text without the escape sequences of terminals."""
    return _ESCAPES.sub("", text or "")


def run_secret_cli(
    argv: Sequence[str],
    *,
    allow_env: Sequence[str] = (),
    extra_env: dict[str, str] | None = None,
    timeout: float = 30.0,
) -> subprocess.CompletedProcess[str]:
    """Run the program of a secret manager: no shell, no input, and of the environment only what it needs.

    Raises ``RuntimeError`` when it cannot be started or takes too long.
    """
    kept = {name: os.environ[name] for name in (*_KEPT, *allow_env) if name in os.environ}
    program = Path(argv[0]).name
    try:
        done = subprocess.run(
            list(argv),
            env={"NO_COLOR": "1", **kept, **(extra_env or {})},
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"{program} did not end within {timeout:.0f} seconds") from error
    except OSError as error:
        raise RuntimeError(f"{program} could not be started: {error}") from error
    done.stderr = scrub_ansi(done.stderr)
    return done


# -- agent.file_safety ------------------------------------------------------------------------------------------------


def file_safety(host: PluginHost) -> Names:
    """``agent.file_safety``: whether the tools of this host would open a file."""
    from hermes.tools.files.guard import FileGuard
    from hermes.tools.files.paths import resolve_path

    guard = FileGuard(home_of(host))

    def full(path: str) -> str:
        return str(resolve_path(path, Path.cwd()))

    def get_read_block_error(path: str) -> str | None:
        """Why a file must not be read; None when it may be."""
        return guard.refusal(full(path))

    def get_write_denied_error(path: str, *, verb: str = "Write") -> str | None:
        """Why a file must not be changed; None when it may be."""
        reason = guard.refusal_to_write(full(path)) or guard.refusal_to_write(os.path.realpath(full(path)))
        return f"{verb} denied: {reason}" if reason else None

    def is_write_denied(path: str) -> bool:
        return get_write_denied_error(path) is not None

    def raise_if_read_blocked(path: str) -> None:
        reason = get_read_block_error(path)
        if reason:
            raise ValueError(reason)

    def is_write_approval_required(path: str) -> bool:
        """Whether a person has to be asked before it is changed."""
        from hermes.tools.files.guard import may_be_credential

        return may_be_credential(os.path.realpath(full(path)))

    return {
        "get_read_block_error": get_read_block_error,
        "get_write_denied_error": get_write_denied_error,
        "is_write_approval_required": is_write_approval_required,
        "is_write_denied": is_write_denied,
        "raise_if_read_blocked": raise_if_read_blocked,
    }


# -- tools.url_safety, tools.tool_output_limits, agent.runtime_cwd ----------------------------------------------------


def redirect_target_from_response(response: Any) -> str | None:
    """The whole address that an answer of an HTTP client redirects to; ``None`` when it does not."""
    location: str = response.headers.get("location") or ""
    if not location or not 300 <= int(response.status_code) < 400:
        return None
    return urljoin(str(response.url), location)


def url_safety(host: PluginHost) -> Names:
    """``tools.url_safety``: whether a URL that others chose may be fetched."""

    def is_safe_url(url: str) -> bool:
        """Whether every address of its server is public. What cannot be looked up is not."""
        from hermes.base.http.ssrf import is_public

        try:
            parts = urlsplit(str(url))
            if parts.scheme not in ("http", "https") or not parts.hostname:
                return False
            found = socket.getaddrinfo(parts.hostname, parts.port or 443, type=socket.SOCK_STREAM)
            config = config_of(host)
            is_any_allowed = config is not None and config.security.allow_private_urls
            return bool(found) and (is_any_allowed or all(is_public(str(one[4][0])) for one in found))
        except (OSError, UnicodeError, ValueError):
            return False

    async def async_is_safe_url(url: str) -> bool:
        import asyncio

        return await asyncio.to_thread(is_safe_url, url)

    return {"async_is_safe_url": async_is_safe_url, "is_safe_url": is_safe_url}


def output_limits(host: PluginHost) -> Names:
    """``tools.tool_output_limits``: the settings under ``tool_output``."""

    def limits() -> ToolOutputConfig:
        config = config_of(host)
        return ToolOutputConfig() if config is None else config.tool_output

    usual = ToolOutputConfig()
    return {
        "DEFAULT_MAX_BYTES": usual.max_bytes,
        "DEFAULT_MAX_LINES": usual.max_lines,
        "DEFAULT_MAX_LINE_LENGTH": usual.max_line_length,
        "get_max_bytes": lambda: limits().max_bytes,
        "get_max_line_length": lambda: limits().max_line_length,
        "get_max_lines": lambda: limits().max_lines,
        "get_tool_output_limits": lambda: {
            name: getattr(limits(), name) for name in ("max_bytes", "max_lines", "max_line_length")
        },
    }


def working_folder(host: PluginHost) -> Names:
    """``agent.runtime_cwd``: the folder that the running session works in."""

    def resolve_agent_cwd() -> Path:
        found: object = getattr(host.services, "current_cwd", None)
        return found if isinstance(found, Path) else Path.cwd()

    return {"resolve_agent_cwd": resolve_agent_cwd, "resolve_context_cwd": resolve_agent_cwd}
