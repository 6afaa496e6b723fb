"""Files that run code by themselves: the one list, for the policy, the file tools and the sandbox.

A file is in it when a program of the owner runs what is in it, or takes it as instructions, without the owner starting
the build or the tests of the project: git, a shell that enters a folder, an editor that opens it, another agent. What
runs because someone builds, tests or starts the project (``Makefile``, ``package.json``, ``conftest.py``) is not, and
neither is what runs elsewhere after a push (workflows of a forge).
"""

from __future__ import annotations

from typing import NamedTuple


class CodeFiles(NamedTuple):
    """Files that the same kind of program runs."""

    what: str
    #: Relative to a folder; see ``patterns``.
    names: tuple[str, ...]
    #: Those that are there are read-only in a sandbox. Others are part of ordinary work; their changes are undone.
    is_read_only: bool = False


#: In any folder of a project.
PROJECT_FILES = (
    CodeFiles("shells that enter the folder", (".envrc", ".autoenv.zsh", ".autoenv_leave.zsh"), True),
    CodeFiles(
        "editors",
        tuple(
            (
                ".vscode/ .idea/ .zed/ .fleet/ .devcontainer/ .devcontainer.json .exrc .nvim.lua .nvimrc .vimrc "
                ".gvimrc .lvimrc .dir-locals.el .dir-locals-2.el .gdbinit .lldbinit .vim/ .helix/ .lazy.lua "
                ".neoconf.json .nova/ .theia/ *.code-workspace"
            ).split()
        ),
        True,
    ),
    CodeFiles(
        "consoles and debuggers that start in the folder",
        tuple(".pdbrc .pdbrc.py .irbrc .pryrc .Rprofile .ghci .iex.exs .ocamlinit".split()),
        True,
    ),
    CodeFiles(
        "settings of agents",
        tuple(
            (
                ".hermes/ .mcp.json .claude/settings.json .claude/settings.local.json .claude/hooks/ "
                ".claude/commands/ .claude/agents/ .claude/skills/ .claude/plugins/ .claude/output-styles/ .codex/ "
                ".cursor/ .gemini/ .windsurf/ .roo/ .kiro/ .continue/ .opencode/ opencode.json opencode.jsonc .goose/ "
                ".amp/ .agents/ .agent/ .aider.conf.yml crush.json .crush.json .crush/ .qwen/ .kilocode/ .factory/ "
                ".junie/ .trae/ .augment/ .cline/ .iflow/ .qoder/ .grok/ .openhands/ .warp/ .github/prompts/ "
                ".github/agents/ .github/chatmodes/ .github/hooks/ .github/skills/"
            ).split()
        ),
        True,
    ),
    CodeFiles(
        "instructions of agents",
        tuple(
            (
                "AGENTS.md AGENTS.override.md AGENT.md CLAUDE.md CLAUDE.local.md GEMINI.md .hermes.md .cursorrules "
                ".windsurfrules .clinerules .clinerules/ .roorules .goosehints .github/copilot-instructions.md "
                ".github/instructions/ .rules QWEN.md CRUSH.md IFLOW.md WARP.md .kilocoderules .augment-guidelines"
            ).split()
        ),
    ),
    CodeFiles(
        "git hooks that are kept in the project",
        tuple(
            (
                ".husky/ .githooks/ .pre-commit-config.yaml .pre-commit-config.yml lefthook.yml lefthook.yaml "
                "lefthook.toml lefthook.json .lefthook.yml .lefthook.yaml .lefthook.toml .lefthook.json .lefthook/ "
                "lefthook-local.yml .lefthook-local.yml .overcommit.yml .simple-git-hooks.json .simple-git-hooks.js "
                ".simple-git-hooks.cjs .lintstagedrc .lintstagedrc.json .lintstagedrc.yaml .lintstagedrc.yml "
                ".lintstagedrc.js .lintstagedrc.cjs .lintstagedrc.mjs lint-staged.config.js lint-staged.config.cjs "
                "lint-staged.config.mjs"
            ).split()
        ),
    ),
    CodeFiles(
        "every command of a package or version manager",
        tuple(
            (
                ".npmrc .yarnrc .yarnrc.yml .yarn/releases/ .yarn/plugins/ .pnpmfile.cjs .pnpmfile.mjs .cargo/config "
                ".cargo/config.toml rust-toolchain rust-toolchain.toml mise.toml .mise.toml .mise.local.toml .mise/ "
                ".config/mise/ .config/mise.toml .tool-versions bunfig.toml .bundle/config .bazelrc .bazeliskrc"
            ).split()
        ),
    ),
    CodeFiles("every start of Python", ("sitecustomize.py", "usercustomize.py", "site-packages/*.pth")),
)

#: In the folder of a git repository, such as ``.git``: what git runs, and what says where it looks for that.
GIT_FILES = ("hooks/", "config", "config.worktree", "commondir", "info/attributes")
#: What makes git take a folder for a repository, beside folders that may have any content.
GIT_MARK = "HEAD"

#: In a home folder: what a shell or a login runs.
LOGIN_FILES = tuple(
    (
        ".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .bash.d/ .profile .inputrc .zshrc .zshenv "
        ".zprofile .zlogin .zlogout .kshrc .login .cshrc .tcshrc .xprofile .xinitrc .xsession .pam_environment "
        ".config/fish/ .config/autostart/ .config/systemd/ Library/LaunchAgents/"
    ).split()
)
#: In a home folder: what other programs run when they start.
HOME_FILES = (
    "Library/Application Support/Code/User/",
    *(
        "bin/ .local/bin/ .cargo/bin/ .gitconfig .config/git/ .vimrc .gvimrc .nvimrc .exrc .ideavimrc .vim/ "
        ".config/nvim/ .config/vim/ .config/emacs/ .config/helix/ .config/kak/ .config/micro/ .config/direnv/ "
        ".config/environment.d/ .config/tmux/ .config/kitty/ .config/alacritty/ .config/wezterm/ .config/i3/ "
        ".config/sway/ .config/hypr/ .config/awesome/ .config/openbox/ .config/xfce4/ .config/plasma-workspace/ "
        ".config/karabiner/ .config/kglobalshortcutsrc .config/pip/ .config/ptpython/ .config/gdb/ .config/psql/ "
        ".config/lftp/ .config/mpv/ .config/ranger/ .config/lf/ .config/starship/ .config/zsh/ .config/bash/ "
        ".config/nushell/ .config/mise/ .config/Code/User/ .config/VSCodium/User/ .config/zed/ .emacs .emacs.el "
        ".emacs.d/ .tmux.conf .screenrc .gdbinit .lldbinit .pythonrc .pythonrc.py .pdbrc .pdbrc.py .irbrc .pryrc "
        ".rprofile .psqlrc .sqliterc .my.cnf .mongorc.js .mongoshrc.js .noderc .ghci .iex.exs "
        ".julia/config/startup.jl .octaverc .perldb .mailcap .wgetrc .curlrc .lesskey .dircolors .xsessionrc "
        ".xresources .xmodmaprc .hushlogin .forward .procmailrc .hgrc .yarnrc .yarnrc.yml .bunfig.toml .gemrc "
        ".condarc .bazelrc .rpmmacros .makepkg.conf .k5login .rhosts .shosts .selected_editor .ipython/ .jupyter/ "
        ".pip/pip.conf .local/lib/ .local/share/applications/ .local/share/dbus-1/ .local/share/systemd/ "
        ".local/share/nautilus/scripts/ .cargo/config .cargo/config.toml .m2/settings.xml .gradle/init.gradle "
        ".gradle/init.gradle.kts .gradle/init.d/ .gradle/gradle.properties .docker/cli-plugins/ .oh-my-zsh/custom/ "
        ".zsh/ .claude/settings.json .claude/settings.local.json .claude/hooks/ .claude/commands/ .claude/agents/ "
        ".claude/skills/ .claude/CLAUDE.md .codex/config.toml .codex/AGENTS.md .codex/prompts/ .cursor/mcp.json "
        ".gemini/settings.json .gemini/GEMINI.md .config/opencode/"
    ).split(),
)


def first_parts() -> dict[str, tuple[str, ...]]:
    """The first parts of the names in projects, with the names that begin with each. Patterns are left out."""
    found: dict[str, tuple[str, ...]] = {}
    for files in PROJECT_FILES:
        for name in files.names:
            if "*" not in name:
                first = name.partition("/")[0]
                found[first] = (*found.get(first, ()), name.rstrip("/"))
    return found
