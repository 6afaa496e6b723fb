"""Rules for package managers: publishing for others, and removing from the system."""

from __future__ import annotations

import re
from collections.abc import Callable

from hermes.policy.call import Call
from hermes.policy.registries import REGISTRY_HOSTS
from hermes.policy.rules.rule import Rule
from hermes.policy.shell.words import by_program, names

_MANAGERS = (
    "npm yarn pnpm bun npx pnpx bunx lerna nx rush changeset semantic-release np auto release-it twine poetry uv flit "
    "hatch pdm rye maturin pipenv python setup.py cargo gem bundle mvn mvnw gradle gradlew sbt lein dotnet nuget vsce "
    "ovsx conda anaconda jsr deno wasm-pack goreleaser cabal stack opam mix rebar3 pod conan cpan-upload luarocks dart "
    "flutter pub ansible-galaxy charmcraft snapcraft helm oras crane skopeo docker podman nerdctl buildah composer "
    "rake elm spago hackage raco tfx clawhub fastlane xcrun wp gcloud-artifacts quarto vcpkg spack mason cpack"
)
_PUBLISHES = names(
    "publish unpublish yank deprecate hex.publish release:perform bintrayupload publishtomavencentral npm:publish"
)
#: Words that publish with these programs, and mean something else with others.
_ALSO = by_program(
    {
        "twine luarocks cabal stack conan anaconda snapcraft setup.py charmcraft": names("upload release"),
        "nuget dotnet pod helm oras crane docker podman nerdctl buildah": names("push"),
        "mvn mvnw sbt lein": names("deploy release deploy:deploy-file"),
        "skopeo": names("copy sync"),
        "goreleaser": names("release"),
        "npm": names("owner access token hook team profile dist-tag"),
        "cargo": names("owner"),
        "gem": names("owner push"),
        "fastlane": names("deliver upload_to_app_store pilot supply"),
        "xcrun": names("altool notarytool"),
    }
)
_CHANGES = names("add rm remove set revoke create grant delete --add --remove -a -r")
_REHEARSALS = names("--dry-run --dryrun -n --skip-publish --snapshot --help -h --test")
#: Words that remove software.
_REMOVES = by_program(
    {
        "apt apt-get aptitude nala": names("remove purge autoremove autopurge dist-upgrade --purge"),
        "yum dnf dnf5 microdnf tdnf": names("remove erase autoremove distro-sync swap history"),
        "zypper": names("remove rm dup"),
        "apk": names("del"),
        "snap opkg guix": names("remove"),
        "flatpak": names("uninstall remove"),
        "brew": names("uninstall remove rm zap untap"),
        "port choco winget scoop": names("uninstall"),
        "pkg": names("delete remove autoremove"),
        "emerge": names("--unmerge --depclean -c -C"),
        "nix-env": names("-e --uninstall"),
        "dpkg": names("-r -P --remove --purge --force-all"),
        "rpm": names("-e --erase --nodeps"),
        "softwareupdate": names("--install -i"),
        "swupd": names("bundle-remove"),
        "rpm-ostree": names("uninstall override rebase reset"),
    }
)


_RELEASERS = names("semantic-release np release-it")


def _words(call: Call) -> list[str]:
    return [word.lower() for word in call.args if not word.startswith("-")]


def _publishes(call: Call) -> bool:
    if not _REHEARSALS.isdisjoint(call.args):
        return False
    words = _words(call)
    program = call.program
    if program.startswith("python"):
        return _python_publishes(call)
    if program in ("gradle", "gradlew"):
        return any(
            word.rpartition(":")[2].startswith(("publish", "upload", "release")) and "local" not in word
            for word in words
        )
    if program in _RELEASERS or (program in ("npx", "pnpx", "bunx") and not _RELEASERS.isdisjoint(words[:1])):
        return True
    if not _PUBLISHES.isdisjoint(words[:4]):
        return True
    also = _ALSO.get(program, frozenset()).intersection(words[:3])
    if not also:
        return False
    if program in ("npm", "cargo") or "owner" in also:
        return not _CHANGES.isdisjoint(call.args)
    if program in ("docker", "podman", "nerdctl", "buildah"):
        return words[:1] == ["push"] or words[:2] in (["image", "push"], ["manifest", "push"], ["compose", "push"])
    return True


def _python_publishes(call: Call) -> bool:
    args = call.args
    if args[:1] == ["-m"] and len(args) > 2:
        return args[1] in ("twine", "flit", "hatch", "poetry", "uv") and not {"upload", "publish"}.isdisjoint(args[2:])
    return args[:1] == ["setup.py"] and "upload" in args


def _removes(call: Call) -> bool:
    if not {"--dry-run", "--simulate", "-s", "--help", "--just-print"}.isdisjoint(call.args):
        return False
    if call.program == "pacman":
        return any(word.startswith(("-R", "--remove")) for word in call.args)
    removes = _REMOVES.get(call.program)
    if removes is None or (call.program == "rpm" and any(word[:2] == "-e" for word in call.args)):
        return True
    return not removes.isdisjoint(call.args[:6])


_RUNNERS = names("npx pnpx bunx uvx cpan cpanm cpm nix-shell nix-env ansible-pull cookiecutter copier")
_RUNS_PACKAGE = names("exec x dlx run tool develop shell try-repo")
_INSTALLS = names(
    "install i add download wheel sync get ci update require install-extension cask upgrade in localinstall"
)
_THIS_MACHINE = r"localhost|127(?:\.\d+){3}|\[::1\]|0\.0\.0\.0"
_REGISTRY = "|".join(map(re.escape, REGISTRY_HOSTS))
_HOST_ENDS = r"(?::\d+)?(?:[/?#]|$)"
#: An address that is neither this machine nor a registry; a version control system or a host may stand before it.
_ADDRESS = re.compile(
    rf"(?:\w+\+)?\w+://(?!(?:{_THIS_MACHINE}|{_REGISTRY}){_HOST_ENDS})"
    r"|(?:github|gitlab|bitbucket|gist|git):[^:]|git@[\w.-]+:|[\w.-]+\s*@\s*(?:git\+)?https?://",
    re.IGNORECASE,
)
#: Package files that a manager of the system installs, without any of its sources.
_PACKAGE_FILE = re.compile(
    r".*\.(?:deb|rpm|apk|snap|flatpak|flatpakref|pkg|msi|vsix|pkg\.tar\.\w+|txz)$", re.IGNORECASE
)


#: Variables that name the source of packages.
_SOURCE_VARIABLE = re.compile(
    r"GOPROXY|PIP_(?:EXTRA_)?INDEX_URL|PIP_FIND_LINKS|UV_(?:DEFAULT_|EXTRA_)?INDEX(?:_URL)?|npm_config_registry"
    r"|YARN_NPM_REGISTRY_SERVER|BUNDLE_MIRROR\w*|RUBYGEMS_HOST|CARGO_REGISTRIES_\w+_INDEX|GEM_SOURCE",
    re.IGNORECASE,
)


def changes_source(name: str, value: str) -> bool:
    """Whether a variable makes a manager take packages from another address."""
    return _SOURCE_VARIABLE.fullmatch(name) is not None and any(map(_ADDRESS.match, re.split(r"[,|\s]", value)))


def _fetches_code(call: Call) -> bool:
    """Packages whose code runs here, from an address of the command line's choice."""
    words = _words(call)
    if call.program == "go" and words[:1] == ["run"]:
        return any(map(_GO_MODULE.match, call.args))
    if call.program == "uv" and words[:1] == ["run"]:
        return any(map(_REMOTE_FILE.match, words[1:2]))
    runs = call.program in _RUNNERS or not _RUNS_PACKAGE.isdisjoint(words[:2])
    if call.program in ("uv", "poetry", "pdm", "npm", "cargo", "bundle", "conda") and words[:1] == ["run"]:
        return False
    if not runs and _INSTALLS.isdisjoint(words[:3]):
        return False
    return any(_ADDRESS.match(word.partition("=")[2] if word.startswith("-") else word) for word in call.args)


#: A module that is fetched and run at once; those of the language itself are its tools.
_GO_MODULE = re.compile(r"(?!golang\.org/|google\.golang\.org/)[\w-]+(?:\.[\w-]+)+/\S+@\S+")
#: An image at an address of its own instead of a registry with a name.
_IMAGE_ADDRESS = re.compile(
    rf"(?:\w+://)?(?!(?:{_THIS_MACHINE}))(?:\d{{1,3}}(?:\.\d{{1,3}}){{3}}(?::\d+)?|[\w-]+(?:\.[\w-]+)+:\d+)/\S+|\w+://\S+"
)


def _runs_image(call: Call) -> bool:
    """An image that is built or taken from an address, or from a download."""
    words = [word for word in _words(call) if word not in ("image", "container", "buildx")]
    match words[:1]:
        case ["run" | "create"]:
            return any(_IMAGE_ADDRESS.fullmatch(word) for word in words[1:6] if "=" not in word)
        case ["build" | "import" | "load" | "compose"]:
            from_address = any(_ADDRESS.match(word) for word in call.args if not word.startswith("-"))
            return call.stdin.origin == "remote" or from_address
        case _:
            return False


def _loads_module(call: Call) -> bool:
    """A script or module that a runtime takes from an address."""
    return any(_REMOTE_FILE.match(word.partition("=")[2] or word) for word in call.args[:6])


def _installs_file(call: Call) -> bool:
    """A package of the system from a file or an address: its scripts run as root."""
    if call.program in ("dpkg", "rpm"):
        wanted = {"-i", "--install", "--unpack"} if call.program == "dpkg" else {"--install", "--upgrade"}
        bundled = call.program == "rpm" and any(re.match(r"-[iUF][vh]*$", word) for word in call.args)
        return bundled or not wanted.isdisjoint(call.args)
    if _INSTALLS.isdisjoint(_words(call)[:2]) and not {"-U", "--install-extension", "--dangerous"} & set(call.args):
        return False
    return any(_PACKAGE_FILE.match(word) or _ADDRESS.match(word) for word in call.args) or "--dangerous" in call.args


#: Commands that add a source of packages: the words before the source.
_ADDS_SOURCE: dict[str, Callable[[Call], bool]] = {
    "apt-key": lambda call: not {"add", "adv"}.isdisjoint(call.args),
    "add-apt-repository apt-add-repository": lambda call: bool(call.args),
    "dnf yum dnf5": lambda call: (
        any(word.startswith(("--add-repo", "--repofrompath", "addrepo")) for word in call.args)
        or {"copr", "enable"} <= set(call.args)
    ),
    "zypper": lambda call: not {"ar", "addrepo"}.isdisjoint(call.args),
    "rpm": lambda call: "--import" in call.args,
    "brew": lambda call: call.args[:1] == ["tap"] and len(call.args) > 1,
    "helm": lambda call: call.args[:2] == ["repo", "add"],
    "flatpak": lambda call: "remote-add" in call.args,
    "gem": lambda call: "sources" in call.args and any(word in ("-a", "--add") for word in call.args),
    "nix-channel": lambda call: "--add" in call.args,
    "gh": lambda call: call.args[:2] == ["extension", "install"],
    "choco nuget": lambda call: call.args[:1] in (["source"], ["sources"]) and "add" in call.args,
    "conda mamba": lambda call: any(_ADDRESS.match(word) for word in call.args) and "install" in call.args[:2],
    "pacman-key": lambda call: not {"-a", "--add", "-r", "--recv-keys"}.isdisjoint(call.args),
    "krew kubectl-krew": lambda call: call.args[:2] == ["index", "add"],
}


def _fetches_workload(call: Call) -> bool:
    """What a cluster or a runtime gets from an address."""
    wanted = {"apply", "create", "replace", "run", "install", "upgrade", "cache", "serve", "eval"}
    return not wanted.isdisjoint(call.args[:3]) and any(_REMOTE_FILE.match(word) for word in call.args)


_REMOTE_FILE = re.compile(
    rf"(?:-f|-k|--filename=|--kustomize=)?https?://(?!(?:{_THIS_MACHINE}){_HOST_ENDS})|(?:github|gitlab)\.com/\S",
    re.IGNORECASE,
)


def _removes_environment(call: Call) -> bool:
    """A whole environment, or everything on a list."""
    words = _words(call)
    if call.program in ("conda", "mamba", "micromamba"):
        return words[:2] in (["env", "remove"],) or (words[:1] in (["remove"], ["uninstall"]) and "--all" in call.args)
    if call.program == "pyenv":
        return words[:1] == ["uninstall"]
    listed = call.options.has("r", "requirement", "requirements") or call.stdin.origin != "terminal"
    return "uninstall" in words[:2] and listed and call.options.has("y", "yes")


RULES = (
    Rule("publish-package", "publishes or withdraws a package, image or release", {_MANAGERS: _publishes}),
    Rule(
        "remove-packages",
        "removes software from the system, or a whole environment",
        {
            " ".join((*_REMOVES, "pacman xbps-remove pkg_delete do-release-upgrade")): _removes,
            "conda mamba micromamba pyenv pip pip3 uv": _removes_environment,
        },
    ),
    Rule(
        "unchecked-package",
        "installs or runs a package from an address or file that no one checks, or adds a source of packages",
        {
            "pip pip3 pipx uv npm yarn pnpm bun gem cargo go conda mamba poetry pdm": _fetches_code,
            "composer luarocks brew npx pnpx bunx uvx cpan cpanm cpm": _fetches_code,
            "nix nix-shell nix-env ansible-pull ansible-galaxy cookiecutter copier pre-commit": _fetches_code,
            "docker podman nerdctl buildah": _runs_image,
            "node nodejs ansible-playbook": _loads_module,
            "terraform tofu": lambda call: any(word.lstrip("-").startswith("from-module=") for word in call.args),
            "dpkg rpm apt apt-get aptitude dnf yum zypper apk pacman snap flatpak installer": _installs_file,
            "code code-insiders codium cursor winget": _installs_file,
            "kubectl oc helm deno": _fetches_workload,
            **_ADDS_SOURCE,
        },
    ),
)
