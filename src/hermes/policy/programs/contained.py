"""Commands that run inside a container: as far as hardline rules go, they cannot reach the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.policy.call import Call
from hermes.policy.names import names

if TYPE_CHECKING:
    from hermes.policy.shell.reader import Shell

#: Letters and long names of options that take a value, or do not.
_VALUES = "evwupmclhaE"
_FLAGS = names("rm privileged detach tty interactive init read-only no-deps")
_ENGINES = names("docker podman nerdctl kubectl oc docker-compose crictl lxc buildah")


def container(shell: Shell, call: Call) -> None:
    """``docker exec NAME COMMAND`` and the like: the inner command, judged as far as asking."""
    words = [word for word in call.args if word not in ("compose", "container")]
    verb = next((word for word in words if word in ("exec", "run")), "")
    if call.program not in _ENGINES or not verb:
        return
    rest = words[words.index(verb) + 1 :]
    inner = rest[rest.index("--") + 1 :] if "--" in rest else _after_image(rest)
    outer = shell.state
    shell.state = outer.inner(contained=True)
    try:
        shell.run(inner, call)
    finally:
        shell.state = outer


def _after_image(args: list[str]) -> list[str]:
    at = 0
    while at < len(args) and args[at].startswith("-"):
        word = args[at]
        lone = word.startswith("--") and "=" not in word and word[2:] not in _FLAGS
        at += 2 if lone or (len(word) == 2 and word[1] in _VALUES) else 1
    return args[at + 1 :]
