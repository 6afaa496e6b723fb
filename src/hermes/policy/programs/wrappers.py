"""Wrapper programs (sudo, env, timeout …): finds the wrapped command in their arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hermes.policy.call import base_name, is_assignment
from hermes.policy.shell.words import by_program, names


@dataclass(frozen=True, slots=True)
class Wrapper:
    """How the arguments in front of the inner command are read."""

    #: Letters and long names that take a value.
    letters: str = ""
    names: frozenset[str] = frozenset()
    #: Words that come before the inner command.
    operands: int = 0
    #: Whether ``NAME=value`` may precede it.
    assignments: bool = False
    #: Letters with which nothing is run.
    inert: str = ""


_SUDO = names("user group host prompt close-from chdir role type chroot command-timeout other-user login-class")
_SYSTEMD_RUN = names("unit property slice setenv description host machine uid gid working-directory")

WRAPPERS = by_program(
    {
        "sudo": Wrapper("ugpCDhrRtTU", _SUDO, assignments=True, inert="lvKk"),
        "doas": Wrapper("uCa", inert="L"),
        "env": Wrapper("uCP", names("unset chdir argv0"), assignments=True),
        "nice": Wrapper("n", names("adjustment")),
        "ionice": Wrapper("cnpPu", names("class classdata pid pgid uid")),
        "timeout gtimeout": Wrapper("ks", names("kill-after signal"), operands=1),
        "time": Wrapper("fo", names("format output")),
        "stdbuf": Wrapper("ioe", names("input output error")),
        "flock": Wrapper("wEc", names("wait timeout conflict-exit-code command"), operands=1),
        "exec": Wrapper("a"),
        "command": Wrapper(inert="vV"),
        "chroot": Wrapper(names=names("userspec groups"), operands=1),
        "unshare": Wrapper("SGR", names("setuid setgid root wd map-user map-group propagation")),
        "nsenter": Wrapper("tSG", names("target setuid setgid")),
        "strace": Wrapper("abeEIoOpPsSuX", names("trace signal output attach user")),
        "ltrace": Wrapper("aAeFlnopsuwx"),
        "gdb": Wrapper("xdp"),
        "chrt": Wrapper("TPD", operands=1),
        "numactl": Wrapper("NmCiPp"),
        "prlimit": Wrapper("p"),
        "choom": Wrapper("np"),
        "fakeroot": Wrapper("lsibu"),
        "systemd-run": Wrapper("HMpEtuG", _SYSTEMD_RUN),
        "systemd-inhibit": Wrapper(names=names("what who why mode")),
        "caffeinate": Wrapper("tw"),
        "ssh-agent": Wrapper("aEtPO", inert="ks"),
        "xvfb-run": Wrapper("efnps"),
        "rlwrap": Wrapper("abcCDfHlmMnoOpqrsStwWz"),
        "proxychains proxychains4": Wrapper("f"),
        "torsocks": Wrapper("Pu"),
        "pkexec": Wrapper(names=names("user")),
        "runuser": Wrapper("ugGcs", names("user group command shell")),
        "chpst": Wrapper("uUbedmonplfrctP"),
        "tini": Wrapper("pe"),
        "dumb-init": Wrapper("r"),
        "cpulimit": Wrapper("lpeP"),
        "tsp": Wrapper("LNd"),
        "hyperfine": Wrapper("wmMrpscniPL", names("warmup runs prepare setup cleanup min-runs max-runs")),
        "perf": Wrapper("eo", operands=1),
        "taskset setarch faketime setuidgid gosu su-exec": Wrapper(operands=1),
        "setsid nohup builtin coproc noglob nocorrect busybox toybox valgrind setpriv dbus-run-session": Wrapper(),
        "unbuffer catchsegv torify firejail bwrap winpty ts then do else elif if while until { !": Wrapper(),
    }
)

#: Programs that run another one after a word like ``run`` or ``--``.
LOOSE = names(
    "npx pnpm yarn bun bunx npm poetry uv pipenv pdm hatch rye conda mamba micromamba bundle mise asdf direnv op "
    "aws-vault doppler dotenv envchain infisical chamber nix nix-shell distrobox toolbox flatpak-spawn host-spawn wsl "
    "entr watchexec nodemon reflex xterm gnome-terminal konsole screen tmux ccache sccache with-contenv s6-setuidgid "
    "script circusd honcho foreman sem lxc machinectl capsh cgexec numad softlimit start-stop-daemon daemonize daemon "
    "setlock lockf shtool pexec rush run0 sg apptainer singularity pyenv rbenv nodenv goenv jenv nvm fnm volta rtx "
    "proto pixi pipx uvx tox nox invoke just task earthly dagger act devbox devenv guix spack module sdk "
    "virtualenvwrapper vex heroku fly railway"
)


def unwrap(program: str, args: list[str]) -> list[str] | None:
    """The inner command of a wrapper; empty when nothing is run; None when the program is not a wrapper."""
    wrapper = WRAPPERS.get(program)
    if wrapper is None:
        return None
    at = 0
    while at < len(args):
        word = args[at]
        if word == "--":
            at += 1
            break
        if word.startswith("-") and len(word) > 1:
            if wrapper.inert and not word.startswith("--") and not set(wrapper.inert).isdisjoint(word[1:]):
                return []
            at += 2 if _takes_next(wrapper, word) else 1
        elif wrapper.assignments and (word == "-" or is_assignment(word)):
            at += 1
        else:
            break
    at += wrapper.operands
    return args[at + 1 :] if args[at : at + 1] == ["--"] else args[at:]


def _takes_next(wrapper: Wrapper, word: str) -> bool:
    if word.startswith("--"):
        return "=" not in word and word[2:] in wrapper.names
    for position, letter in enumerate(word[1:], 2):
        if letter in wrapper.letters:
            return position == len(word)
    return False


def loose_commands(args: list[str], is_notable: Callable[[str], bool]) -> list[str]:
    """The arguments from the first known program on."""
    for at, word in enumerate(args):
        if not word.startswith("-") and word not in ("exec", "time", "command") and is_notable(base_name(word)):
            return args[at:]
    return []
