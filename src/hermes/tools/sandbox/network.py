"""The network of a command in a sandbox: all of it, none, or some hosts, by the settings and whom it works for.

Hosts are patterns: ``example.org`` and ``*.example.org`` for the ports 80 and 443, ``example.org:8443`` for one port.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

from hermes.base.scope import Interrupt

log = logging.getLogger("hermes.sandbox")

_USUAL_PORTS = frozenset({80, 443})

#: The member of a list that stands for what ``auto`` gives.
AUTO = "auto"

#: Decides about a host and a port that a command may not reach without asking. None: no one was asked. The interrupt
#: is cancelled when the command ends.
AskConnect = Callable[[str, int, Interrupt], bool | None]

NetworkSetting = Literal["auto", "on", "off"] | list[str]

_NO_PROXY = (
    "the network is off: only bubblewrap can hold a command to some hosts, and this machine does not have it; "
    "to give all of it: hermes config set terminal.network on"
)


def is_allowed(host: str, port: int, patterns: Iterable[str]) -> bool:
    """Whether a pattern fits a host."""
    host = host.lower().rstrip(".")
    for pattern in patterns:
        name, wanted = split_pattern(pattern)
        is_host = host.endswith(name[1:]) if name.startswith("*.") else host == name
        if is_host and (port == wanted if wanted else port in _USUAL_PORTS):
            return True
    return False


def split_pattern(pattern: str) -> tuple[str, int]:
    """The name and the port of a pattern; 0 when it names none. An IPv6 address is written in brackets."""
    text = pattern.strip().lower()
    name, _, port = text.rpartition(":")
    if not name or not port.isdigit() or (":" in name and not name.endswith("]")):
        name, port = text, "0"
    return name.strip("[]").rstrip("."), int(port)


def pattern_of(host: str, port: int) -> str:
    """The pattern for one host and port."""
    name = f"[{host}]" if ":" in host else host
    return (name if port in _USUAL_PORTS else f"{name}:{port}").lower().rstrip(".")


class Reach:
    """What one command may connect to, and what it was refused. Thread-safe."""

    def __init__(self, hosts: Sequence[str], setting: NetworkSetting = AUTO, ask: AskConnect | None = None) -> None:
        """``ask`` decides about a host that is not among them; without it such a host is refused."""
        self.hosts = tuple(hosts)
        self._setting = setting
        self._ask = ask
        self._lock = threading.Lock()
        self._answers: dict[tuple[str, int], bool | None] = {}
        self._ended = Interrupt()
        self._waited = 0.0
        self._asking_since: float | None = None
        self._other: Reach | None = None

    def become(self, other: Reach) -> None:
        """Decide as ``other`` does from now on: a sandbox that was made in advance has got its command."""
        self._other = other

    def allows(self, host: str, port: int) -> bool:
        """Whether the command may connect. A question is asked once, however often the command tries."""
        if self._other is not None:
            return self._other.allows(host, port)
        if is_allowed(host, port, self.hosts):
            return True
        server = host.lower().rstrip("."), port
        with self._lock:
            if server not in self._answers:
                self._answers[server] = self._asked(*server)
            return self._answers[server] is True

    def _asked(self, host: str, port: int) -> bool | None:
        if self._ask is None or self._ended.cancelled:
            return None
        self._asking_since = time.monotonic()
        try:
            return self._ask(host, port, self._ended)
        except Exception as error:  # not to be able to ask must not mean yes
            log.warning("a connection could not be asked about: %s: %s", type(error).__name__, error, exc_info=True)
            return None
        finally:
            self._waited, self._asking_since = self.waited(), None

    def waited(self) -> float:
        """For how many seconds the command has waited for answers: they do not count as its own time."""
        since = self._asking_since
        return self._waited + (time.monotonic() - since if since is not None else 0)

    def end(self) -> None:
        """The command has ended: a question that is open is withdrawn."""
        self._ended.cancel("the command has ended")

    def refused(self, *, by_user: bool) -> list[str]:
        """The hosts that the command was refused, as patterns: by the user, or without a question."""
        answer = False if by_user else None
        return [pattern_of(*server) for server, given in list(self._answers.items()) if given is answer]

    def note(self, *, failed: bool) -> str:
        """For the result of the command: what it was refused, or when it ``failed`` to connect, what it can reach."""
        by_user, refused, setting = self.refused(by_user=True), self.refused(by_user=False), self._setting
        if by_user and not refused:
            return f"the user refused the connection to {', '.join(by_user)}"
        is_auto = AUTO in setting
        reachable = (
            "package registries, the remotes of this workspace's repositories and hosts that terminal.network lists"
            if is_auto
            else ", ".join(self.hosts) or "no host"
        )
        if refused:
            listed = ", ".join([*([AUTO] if is_auto or isinstance(setting, str) else self.hosts), *refused])
            was = "was" if len(refused) == 1 else "were"
            give = f"hermes config set terminal.network '[{listed}]'"
            return f"{', '.join(refused)} {was} refused: only {reachable} can be reached here; to give it: {give}"
        return f"only {reachable} can be reached, by the proxy in HTTPS_PROXY (terminal.network)" if failed else ""


class SandboxNetwork(NamedTuple):
    """The network of a sandbox."""

    is_on: bool = False
    #: The only hosts that can be reached, by a proxy; None when there is none.
    hosts: tuple[str, ...] | None = None
    setting: NetworkSetting = AUTO
    #: Why there is none at all.
    offline: str = "the network is off (terminal.network)"

    def reach(self, ask: AskConnect | None = None) -> Reach | None:
        """What one command can connect to, where that is some hosts. ``ask`` decides about others."""
        return None if self.hosts is None else Reach(self.hosts, self.setting, ask)


def network_of(
    setting: NetworkSetting,
    remotes: Callable[[], Iterable[str]] = tuple[str],
    *,
    principal: str = "",
    is_attended: bool = False,
    is_program: bool = False,
    has_proxy: bool = True,
) -> SandboxNetwork:
    """The network of commands in a workspace, by the setting.

    ``is_program``: what runs is a program of the owner, not a command of a model. ``has_proxy``: the sandbox can be
    held to some hosts. Where it cannot, ``auto`` means none for the commands of a run that no person attends.
    """
    named = [host for host in setting if host != AUTO] if isinstance(setting, list) else []
    if AUTO not in setting:
        if isinstance(setting, list):
            return SandboxNetwork(hosts=tuple(named), setting=setting)
        # A person can be asked about a host, if there is a proxy that learns of it.
        asks = setting == "off" and is_attended and has_proxy and not principal and not is_program
        return SandboxNetwork(setting == "on", () if asks else None, setting)
    if principal:
        return SandboxNetwork(setting=setting)
    if is_attended or is_program:
        return SandboxNetwork(is_on=True, setting=setting)
    if not has_proxy:
        return SandboxNetwork(setting=setting, offline=_NO_PROXY)
    from hermes.policy.registries import REGISTRY_HOSTS

    hosts = dict.fromkeys((*named, *remotes(), *REGISTRY_HOSTS))
    return SandboxNetwork(hosts=tuple(hosts), setting=setting)
