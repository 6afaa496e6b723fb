"""Rules for package managers: publishing for others, and removing from the system."""

from __future__ import annotations

import re

from hermes.policy.call import Call
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


_RUNNERS = names("npx pnpx bunx uvx")
_RUNS_PACKAGE = names("exec x dlx run tool")
#: An address that is neither this machine nor checked by TLS.
_UNCHECKED = re.compile(r"(?:git\+)?(?:http|git|ftp)://(?!localhost\b|127\.|\[::1\]|0\.0\.0\.0)", re.IGNORECASE)
_ANY_ADDRESS = re.compile(r"(?:\w+\+)?\w+://(?!localhost\b|127\.|\[::1\])", re.IGNORECASE)


def _fetches_code(call: Call) -> bool:
    """Packages whose code runs here, from an address of the command line's choice."""
    words = _words(call)
    values = [word.partition("=")[2] or word for word in call.args]
    runs = call.program in _RUNNERS or not _RUNS_PACKAGE.isdisjoint(words[:2])
    if runs and any(_ANY_ADDRESS.match(value) for value in values):
        return not (call.program in ("uv", "poetry", "pdm", "npm") and words[:1] == ["run"])
    installs = not {"install", "i", "add", "download", "wheel", "sync", "get", "ci", "update"}.isdisjoint(words[:3])
    return installs and any(_UNCHECKED.match(value) for value in values)


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
        "installs or runs a package from an address that no one checks",
        {
            "pip pip3 pipx uv npm yarn pnpm bun gem cargo go conda mamba poetry pdm": _fetches_code,
            "composer luarocks brew npx pnpx bunx uvx": _fetches_code,
        },
    ),
)
