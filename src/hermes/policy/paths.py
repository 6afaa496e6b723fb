"""Sensitive paths: classifies paths by name, without reading the disk."""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from posixpath import join, normpath
from typing import NamedTuple

from hermes.policy.files.code import GIT_FILES, GIT_MARK, HOME_FILES, LOGIN_FILES, PROJECT_FILES
from hermes.policy.files.credentials import HOME_STORES, KEY_FILES, OF_MACHINE, OPEN_FILES, STORES
from hermes.policy.files.globs import GLOB, stores_matching
from hermes.policy.files.patterns import pattern_of
from hermes.policy.places import NOWHERE, Place, is_within
from hermes.policy.shell.marks import UNKNOWN, is_known
from hermes.policy.shell.words import names

#: Folders whose loss destroys the system or the user's work.
_VITAL = names(
    "/ /bin /boot /dev /etc /home /lib /lib32 /lib64 /libx32 /media /mnt /nix /nix/store /opt /proc /root /run /sbin "
    "/srv /sys /usr /usr/bin /usr/include /usr/lib /usr/lib64 /usr/libexec /usr/local /usr/local/bin /usr/local/lib "
    "/usr/sbin /usr/share /var /var/lib /var/lib/dpkg /var/lib/docker /boot/efi /etc/ssh /etc/systemd /applications "
    "/library /private /private/etc /private/var /system /system/library /users /volumes /cores /mnt/c /mnt/c/users "
    "/mnt/c/windows /c /c/users /c/windows /cygdrive/c"
)
#: Of these, the folders without which a machine does not start or let anyone in; the others hold data.
_SYSTEM_FOLDER = re.compile(r"/(?:bin|boot|dev|etc|home|lib\w*|proc|root|run|sbin|sys|usr|var|system|library|users)")
_USER_FOLDER = re.compile(r"/(?:home|users|mnt/c/users|c/users)/[^/]+")
_DRIVE = re.compile(r"([a-z]):(?:/(?:windows|users|program files[^/]*)?)?/?\*?(?:\.\*)?")
_EVERYTHING = re.compile(r"(?:\*+|\?\*|\.\*|\.\?\*|\.\?\?\*|\.\[[!^]\.?\]\*|\*\.\*)")
_PROCESS_ROOT = re.compile(r"/proc/(?:self|thread-self|\d+)/(?:task/[^/]+/)?root(?=/|$)")
_PROCESS_CWD = re.compile(r"/proc/(?:self|thread-self)/cwd(?=/|$)")

#: After more moves than this in a command line, nothing counts as made by it.
_MOST_MOVES = 64
_LONGEST_PATH = 4_096
#: Where programs of the system and of its package managers lie.
_INSTALLED = re.compile(
    r"/(?:usr|s?bin|lib\w*|opt|nix|snap|etc|gnu|run/current-system|applications|library|system|dev/fd)(?:/|$)"
)
_TEMPORARY = re.compile(r"(?:/private)?(?:/var)?/tmp/[^/*?\[]+")
#: Folders and files that a build, a test run or an installation makes again.
_BUILD_OUTPUT = re.compile(
    r"build|dist|out|target|node_modules|__pycache__|coverage|htmlcov|\.coverage|tmp|temp|\.tmp|_build|_site|\.?zig-(?:cache|out)"
    r"|\.[\w-]*cache"
    r"|\.(?:tox|nox|next|nuxt|turbo|svelte-kit|vite|angular|gradle|eggs|venv|nyc_output|output|docusaurus|astro|expo|build|hypothesis)"
    r"|venv|cmake-build-[\w*-]+|(?:[\w.*-]+)\.egg-info|DerivedData|package-lock\.json|yarn\.lock|pnpm-lock\.yaml|bazel-\w+"
    r"|(?:[\w.*-]+)?\.(?:pyc|pyo|o|obj|class|tsbuildinfo|swp)|\.DS_Store|\*~"
)

_RAW_DEVICE = re.compile(
    r"/dev/(?:(?:sd|hd|vd|xvd|ubd)[a-z?*\[]|nvme|mmcblk|r?disk|md\d|md/|dm-|loop\d|sr\d|nbd|mapper/|disk/|block/|bcache|zd|zvol/"
    r"|ram\d|k?mem$|port$|ada\d|da\d|mtd|pmem|\*|\?|drbd|cciss/|fd\d)"
)
_DEVICE = re.compile(r"/dev/(?!null$|zero$|full$|u?random$|tty|pts/|std(?:in|out|err)$|fd/|shm(?:/|$)|tcp/|udp/|ptmx$)")

_SYSTEM_FILE = re.compile(
    r"(?:/private)?/(?:etc|boot|usr|bin|sbin|lib(?:32|64|x32)?|sys|proc/sys|proc/sysrq-trigger|var/spool/cron|system|library)(?:/|$)"
    r"|/(?:mnt/)?c/windows(?:/|$)|c:/windows(?:/|$)"
)
#: Folders that git takes templates of hooks from.
_HOOK_TEMPLATES = r"\.?git[\w.-]*/(?:.*/)?hooks/[\w-]+"
_LOG_FILE = re.compile(
    r"/var/log/.*|/run/log/.*|/var/run/utmp|/run/utmp|.*/\.(?:bash|zsh|sh|ksh|fish|python|node_repl|psql|mysql|sqlite|rediscli|less|irb|wget)_?(?:history|hsts|hst)"
    r"|.*/\.histfile|.*/\.local/share/fish/fish_history|.*/\.zsh_sessions(?:/.*)?|.*/\.lesshst|.*/\.viminfo|.*/\.recently-used.*"
)
_HERMES_SECRET = re.compile(r"(?:\.env[^/]*|auth\.json|config\.ya?ml)[~.\w]*")
#: Files of the agent's own folder with its configuration or records; users may keep other files there.
_HERMES_FILE = re.compile(
    rf"(?:[^/]*[*?\[{UNKNOWN}].*|config\.ya?ml|auth\.json|shell-hooks-allowlist\.json|[^/]*\.(?:db|lock|pid|sock)[^/]*|history[^/]*|\.[^/]*"
    r"|(?:plugins|runners|memories|cache|logs|hooks|skills|cron)(?:/.*)?"
    # What belongs to callers; their workspaces are ordinary folders.
    r"|principals(?!/[^/]+/workspace(?:/|$))(?:/.*)?)?",
    re.DOTALL,
)
_SSH = re.compile(r"(?:^|/)\.ssh(?:/|$)")
_ENV_FILE = re.compile(
    r"(?:^|/)\.env(?:rc|\.(?!(?:[\w-]+\.)*(?:example|sample|template|dist|schema)|md$|test$)[\w.-]+)?$"
)
#: Rules for writes to files that are known by their names or folders, in this order.
_KINDS_BY_NAME = {"write-ssh": _SSH, "write-env-file": _ENV_FILE}


class _Listed(NamedTuple):
    """The lists of files, as patterns of paths in lower case."""

    code: re.Pattern[str]
    login: re.Pattern[str]
    home_code: re.Pattern[str]
    stores: re.Pattern[str]
    home_stores: re.Pattern[str]
    open: re.Pattern[str]
    machine: re.Pattern[str]


@cache
def _listed() -> _Listed:
    """Made when they are first used: that takes as long as the rest of the module."""
    of_git = pattern_of(GIT_FILES)
    # Submodules and worktrees have their files in the folder of the repository.
    code = (
        rf"\.git(?:/(?:modules|worktrees)/.+)?/(?:{of_git})|commondir|{_HOOK_TEMPLATES}"
        rf"|{pattern_of(name for files in PROJECT_FILES for name in files.names)}"
    )
    return _Listed(
        code=re.compile(rf"(?:^|/)(?:{code})$"),
        login=re.compile(pattern_of(LOGIN_FILES)),
        home_code=re.compile(pattern_of(HOME_FILES)),
        stores=re.compile(rf"(?:^|/)(?:{pattern_of((*STORES, *KEY_FILES))})$"),
        home_stores=re.compile(pattern_of(HOME_STORES)),
        open=re.compile(rf"(?:^|/)(?:{pattern_of(OPEN_FILES)})$"),
        machine=re.compile(OF_MACHINE),
    )


@dataclass(slots=True)
class PathContext:
    """The working folder and home of a command; resolves and classifies paths."""

    #: Empty when an earlier part of the command line made it unknown.
    cwd: str
    home: str
    hermes_home: str
    #: The folder that the command line starts in; empty when it is not known.
    workspace: str = ""
    #: Temporary folders that this command line made, and the targets of its moves.
    made: set[str] = field(default_factory=set[str])
    moved: set[str] = field(default_factory=set[str])
    #: Symbolic links that this command line made: path -> target.
    links: dict[str, str] = field(default_factory=dict[str, str])
    place: Place = NOWHERE
    #: Absolute paths, by folder and path: the rules look at each path several times.
    resolved: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])

    def copy(self) -> PathContext:
        """One for a subshell: its changes of the working folder do not affect this one."""
        return PathContext(
            self.cwd,
            self.home,
            self.hermes_home,
            self.workspace,
            self.made,
            self.moved,
            self.links,
            self.place,
            self.resolved,
        )

    def resolve(self, path: str) -> str:
        """The absolute path, without ``.``, ``..``, double slashes and aliases of the root."""
        whole = self.resolved.get((self.cwd, path))
        if whole is None:
            whole = self.resolved[self.cwd, path] = self._resolve(path)
        return whole

    def _resolve(self, path: str) -> str:
        path = self._expand_tilde(path).replace("\\", "/")
        if not path.startswith("/") and not (path[1:2] == ":" and _DRIVE.match(path.lower())):
            path = join(self.cwd or UNKNOWN, path)
        path = normpath(path)
        if path.startswith("//"):
            path = path[1:]
        if path.startswith("/proc/"):
            path = _PROCESS_CWD.sub(self.cwd or UNKNOWN, _PROCESS_ROOT.sub("/", path))
            path = normpath(path.replace("//", "/"))
        return path

    def _expand_tilde(self, path: str) -> str:
        if not path.startswith("~"):
            return path
        user, slash, rest = path[1:].partition("/")
        if user == "+":
            folder = self.cwd or UNKNOWN
        elif user == "-":
            folder = UNKNOWN
        else:
            folder = self.home if not user else "/root" if user == "root" else f"/home/{user}"
        return folder + slash + rest

    def is_vital(self, path: str) -> bool:
        """Whether a recursive delete of the path would destroy the system or a home folder."""
        if not path:
            return False
        if _DRIVE.fullmatch(path.lower().replace("\\", "/")):
            return True
        whole = self.resolve(path)
        if whole == "/" + UNKNOWN:
            return True  # whatever it is, it is a folder of the system
        folder = _without_everything(whole)
        if folder.lower() in _VITAL or _USER_FOLDER.fullmatch(folder.lower()):
            return True
        if self.home == folder or self.home.startswith(folder.rstrip("/") + "/"):
            return True
        if GLOB.search(folder):
            names = (*_VITAL, self.home)
            return any(_matches(name, folder) for name in names if name != "/")
        return False

    def is_disposable(self, path: str) -> bool:
        """Whether a path is build output or a cache in the workspace, or a temporary folder of this command line."""
        if not path or not is_known(path):
            return False
        whole = self.resolve(path)
        if len(self.moved) > _MOST_MOVES:
            return False
        if any(f"{target}/".startswith(f"{whole}/") or whole.startswith(f"{target}/") for target in self.moved):
            return False  # it may hold something else than what its name says
        if self._was_made(whole) or self.place.is_own(whole):
            return True
        place = self.workspace.rstrip("/")
        if not place or not whole.startswith(f"{place}/") or self.is_vital(place):
            return False
        return any(_BUILD_OUTPUT.fullmatch(name) for name in whole[len(place) + 1 :].split("/"))

    def is_outside(self, path: str) -> bool:
        """Whether a write to the path is one outside of the working folder, as far as is known."""
        if not path or not self.place.folder:
            return False
        whole = self.resolve(path)
        link = _ancestor_among(self.links, whole)
        if link:
            whole = self.links[link] + whole[len(link) :]
        return not self._was_made(whole) and self.place.is_outside(whole)

    def _was_made(self, whole: str) -> bool:
        """Whether a path lies in a temporary folder that this command line made."""
        return _TEMPORARY.match(whole) is not None and bool(_ancestor_among(self.made, whole))

    def is_foreign(self, path: str) -> bool:
        """Whether a program at the path is no one's: neither the system's, nor the user's, nor of this work."""
        whole = self.resolve(path)
        if not whole.startswith("/") or _INSTALLED.match(whole.lower()):
            return False
        return not any(folder and is_within(whole, folder) for folder in (self.workspace, self.home))

    def is_system(self, path: str) -> bool:
        """Whether the path is the root, or a folder of the system right below it."""
        folder = _without_everything(self.resolve(path)).lower() if self.is_vital(path) else ""
        return folder == "/" or (folder.count("/") == 1 and _SYSTEM_FOLDER.fullmatch(folder) is not None)

    def is_raw_device(self, path: str) -> bool:
        """Whether the path is a raw device: a disk, a partition, memory."""
        return path.startswith("/") and _RAW_DEVICE.match(self.resolve(path)) is not None

    def may_be_device(self, path: str) -> bool:
        """Whether the path is, or may be, a device other than the harmless ones."""
        return _DEVICE.match(self.resolve(path)) is not None

    def sensitive_kind(self, path: str) -> str | None:
        """The key of the rule for writes to this file, if any."""
        if not path:
            return None
        whole = self.resolve(path)
        lowered = whole.lower()
        if self.hermes_home and f"{whole}/".startswith(f"{self.hermes_home}/"):
            lowered = lowered[len(self.hermes_home) + 1 :]  # users may keep other files there
            if _HERMES_FILE.fullmatch(lowered):
                return "write-hermes-config"
        if whole == "/" or _SYSTEM_FILE.match(lowered):
            return "write-system-config"
        by_name = next((kind for kind, pattern in _KINDS_BY_NAME.items() if pattern.search(whole)), None)
        return by_name or self._kind_of_place(whole, lowered)

    def _kind_of_place(self, whole: str, lowered: str) -> str | None:
        inside = self._inside_a_home(whole).lower()
        if _LOG_FILE.fullmatch(lowered):
            return "wipe-logs"  # a history may hold secrets, too
        if _listed().stores.search(lowered) or _listed().home_stores.fullmatch(inside):
            return "write-credentials"
        if _listed().login.fullmatch(inside):
            return "write-shell-startup"
        if _listed().code.search(lowered) or _listed().home_code.fullmatch(inside) or whole.endswith(f"/{GIT_MARK}"):
            return "write-autorun"
        return None

    def secret_kind(self, path: str) -> str | None:
        """The key of the rule for reading this file or folder, if any; a pattern counts as what it may match."""
        if not path:
            return None
        whole = self.resolve(path)
        if GLOB.search(whole):
            matching = stores_matching(whole, self._inside_a_home(whole), self.hermes_home)
            found = next(filter(None, map(self._kind_of_secret, matching)), None)
            return found or self._kind_of_secret(whole)
        return self._kind_of_secret(whole)

    def _kind_of_secret(self, whole: str) -> str | None:
        if self.hermes_home and f"{whole}/".startswith(f"{self.hermes_home}/"):
            inside = whole[len(self.hermes_home) + 1 :]
            if _HERMES_SECRET.fullmatch(inside.lower()) or inside in (".*", ".e*", "auth*", "*"):
                return "read-own-secrets"
            return None if inside else "read-credentials"
        lowered = whole.lower()
        if _ENV_FILE.search(whole):
            return "read-env-file"
        listed = _listed()
        if listed.machine.fullmatch(lowered):
            return "read-credentials"
        is_store = listed.stores.search(lowered) or listed.home_stores.fullmatch(self._inside_a_home(whole).lower())
        return "read-credentials" if is_store and not listed.open.search(lowered) else None

    def is_in_home(self, path: str) -> bool:
        """Whether an absolute path is a home folder or lies in one."""
        return path == self.home or _USER_FOLDER.fullmatch(path.lower()) is not None or bool(self._inside_a_home(path))

    def _inside_a_home(self, path: str) -> str:
        if path.startswith(self.home.rstrip("/") + "/"):
            return path[len(self.home.rstrip("/")) + 1 :]
        match = re.match(r"/root/|/(?:home|Users)/[^/]+/|" + UNKNOWN + "/", path)
        return path[match.end() :] if match else ""


def _ancestor_among(folders: Container[str], path: str) -> str:
    """The folder of these that a path is or lies in, if any. Longer paths than any machine has lie in none."""
    if not folders or len(path) > _LONGEST_PATH:
        return ""
    while path and path not in folders:
        path = path.rpartition("/")[0]
    return path


def _without_everything(path: str) -> str:
    """``/etc/*`` as ``/etc``."""
    folder, _, name = path.rpartition("/")
    while _EVERYTHING.fullmatch(name):
        path = folder or "/"
        folder, _, name = path.rpartition("/")
    return path


def _matches(name: str, pattern: str) -> bool:
    parts, patterns = name.split("/"), pattern.lower().split("/")
    return len(parts) == len(patterns) and all(map(fnmatchcase, parts, patterns)) and is_known(pattern)
