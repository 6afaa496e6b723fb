"""What holds for any command: no exception, no escape by wrapping, no alarm about mere words."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from shlex import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hermes.policy import judge_command
from hermes.policy.judge import analyse
from hermes.policy.paths import PathContext
from hermes.policy.shell.syntax import readings
from hermes.policy.verdict import Findings
from policy.corpus import CORPUS, judge
from policy.scripts import ScriptWriter

HARDLINE = [
    "rm -rf /",
    "rm -rf ~",
    "mkfs.ext4 /dev/sda",
    "dd if=/dev/zero of=/dev/sda",
    "kill -9 -1",
    "shutdown -h now",
    "systemctl poweroff",
    "cat x > /dev/sda",
    "find / -delete",
]

SHELL_WRAPPERS: dict[str, Callable[[str], str]] = {
    "bash -c": lambda text: f"bash -c {quote(text)}",
    "sh -lc": lambda text: f"sh -lc {quote(text)}",
    "eval": lambda text: f"eval {quote(text)}",
    "subshell": lambda text: f"( {text} )",
    "group": lambda text: f"{{ {text}\n}}",
    "substitution": lambda text: f"echo $({text}\n)",
    "condition": lambda text: f"if true; then {text}\nfi",
    "loop": lambda text: f"for i in 1 2; do {text}\ndone",
    "function": lambda text: f"f() {{ {text}\n}}\nf",
    "list": lambda text: f"ls && {text}",
    "pipeline": lambda text: f"ls | {text}",
    "background": lambda text: f"{text} &",
    "here-document": lambda text: f"bash <<'END'\n{text}\nEND\n",
    "here-string": lambda text: f"sh <<< {quote(text)}",
    "pipe to shell": lambda text: f"echo {quote(text)} | sh",
    "sudo": lambda text: f"sudo bash -c {quote(text)}",
    "env": lambda text: f"env A=1 sh -c {quote(text)}",
    "nohup": lambda text: f"nohup sh -c {quote(text)} > /dev/null 2>&1",
    "time": lambda text: f"time -p sh -c {quote(text)}",
    "timeout": lambda text: f"timeout -k 1 5 bash -c {quote(text)}",
    "xargs": lambda text: f"echo x | xargs -I% sh -c {quote(text)}",
    "find": lambda text: f"find . -exec sh -c {quote(text)} \\;",
    "ssh": lambda text: f"ssh host {quote(text)}",
    "base64": lambda text: f"echo {b64encode(text.encode()).decode()} | base64 -d | sh",
    "variable": lambda text: f'{{ x={quote(text)}; eval "$x"\n}}',
    "trap": lambda text: f"trap {quote(text)} EXIT",
    "process substitution": lambda text: f"source <(echo {quote(text)})",
}


@given(st.text())
@example("\ud800")
@example("\ufdd0 $x")
@example("`" * 50)
@example("$(" * 300)
@example("((" * 300)
@example("{" * 300)
@example("<<" * 100)
@example("${x:0:9999999999999999999999}")
@example("echo {1..99999999}")
@example("printf '%99999999999d'")
@example("echo \\U7fffffff | sh; printf '\\777'")
@example("0$\u00b9")
@example("${" + "9" * 5_000 + "}")
@example("nft2 flush; zfs3 x")
@example("!{\U0007715b\x19l")
@example("P\x83{\x90\U00075d38\U000b7a49")
@example("\x11e9\x12 \x11 \x12")
def test_no_text_makes_it_fail(text: str) -> None:
    read_unguarded(text)


def read_unguarded(text: str) -> None:
    """Judge a text so that a mistake shows: asking about the command would hide it."""
    for reading in readings(text):
        analyse(reading, PathContext("/home/user/project", "/home/user", "/home/user/.hermes"), Findings())


SNIPPETS = (
    "rm|-rf|/|$x|${x}|$(|)|`|'|\"|\\|&|;|&&|<|>|>>|<<|<<<|E|\n|{|}|(|)|[|]|[[|]]|#|=|*|?|~|!|case|esac|in|for|do|done|if|then|fi"
    "|function|sh|-c|eval|sudo|echo|xargs|a|b|1|$'"
)


@given(st.lists(st.sampled_from([*SNIPPETS.split("|"), "|", "||"]), max_size=25), st.sampled_from([" ", ""]))
def test_no_pile_of_shell_syntax_makes_it_fail(parts: list[str], between: str) -> None:
    read_unguarded(between.join(parts))


@given(st.integers(0, 10_000))
def test_no_script_makes_it_fail(seed: int) -> None:
    read_unguarded(ScriptWriter(seed).script())


def test_no_command_of_the_corpus_makes_it_fail() -> None:
    for case in CORPUS:
        read_unguarded(case.command)


@given(st.sampled_from(HARDLINE), st.lists(st.sampled_from(sorted(SHELL_WRAPPERS)), min_size=1, max_size=3))
def test_wrapping_does_not_hide_a_hardline_command(command: str, wrappers: list[str]) -> None:
    for name in wrappers:
        command = SHELL_WRAPPERS[name](command.replace("END", "END-INSIDE"))
    assert judge(command).decision == "hardline", command


PREFIXES = ["sudo", "env", "nice -n 5", "nohup", "exec", "command"]


@given(st.sampled_from(HARDLINE[:7]), st.lists(st.sampled_from(PREFIXES), min_size=1, max_size=30))
def test_programs_in_front_do_not_hide_a_hardline_command(command: str, programs: list[str]) -> None:
    assert judge(" ".join([*programs, command])).decision == "hardline"


@given(st.text())
@example("rm -rf /")
@example("$(rm -rf /)")
@example("`reboot`; rm -rf ~ #")
@example("\x1b]")
def test_quoted_words_of_echo_are_harmless(text: str) -> None:
    verdict = judge(f"echo {quote(text.replace(chr(0), ''))}")
    rules = {finding.rule for finding in verdict.findings}
    if "hidden-text" in rules:
        rules -= {"hidden-text", "unreadable"}  # a terminal may swallow the closing quote
    assert not rules


@given(st.text(st.characters(codec="ascii", exclude_characters="\0\n'"), max_size=60))
def test_a_comment_is_harmless(text: str) -> None:
    if not any(mark in text for mark in "\x08\x1b\r"):
        assert judge(f"ls # {text}").decision == "allow"


@given(st.text(st.characters(codec="ascii", exclude_characters="\0\x08\x1b\r"), max_size=80))
@example('\\$x "q\n`ls`')
def test_a_quoted_here_document_into_a_file_is_harmless(text: str) -> None:
    assert judge(f"cat > notes.md <<'END-OF-NOTES'\n{text}\nEND-OF-NOTES").decision == "allow"


@pytest.mark.parametrize("command", [case.command for case in CORPUS if case.decision == "hardline"][::7])
def test_what_follows_harmless_commands_is_seen(command: str) -> None:
    assert judge(f"ls -la\ncd .\n{command}").decision == "hardline"


def test_depth_is_bounded_and_then_asks() -> None:
    assert judge("eval " * 10 + "ls").decision == "allow"
    assert {finding.rule for finding in judge("eval " * 14 + "ls").findings} == {"unreadable"}


def test_length_is_bounded_and_then_asks() -> None:
    verdict = judge("ls\n" * 30_000)
    assert verdict.decision == "ask"
    assert {finding.rule for finding in verdict.findings} == {"unreadable"}


def test_a_hardline_command_behind_much_text_is_still_seen() -> None:
    assert judge("ls\n" * 1_000 + "rm -rf /").decision == "hardline"


def test_nested_loops_do_not_take_for_ever() -> None:
    words = " ".join("abcdefgh")
    command = "rm x; " * 3
    for _ in range(6):
        command = f"for i in {words}; do {command}\ndone"
    assert judge(command).decision in ("allow", "ask")


def test_the_place_decides_what_relative_paths_mean() -> None:
    def decision(command: str, cwd: str, home: str = "/home/user") -> str:
        return judge_command(command, cwd=cwd, home=home).decision

    assert decision("rm -rf *", "/home/user/project") == "ask"
    assert decision("rm -rf *", "/home/user") == "hardline"
    assert decision("rm -rf ..", "/home/user/project") == "hardline"
    assert decision("rm -rf ..", "/home/user/desk/project") == "ask"
    assert decision("rm -rf etc", "/") == "hardline"
    assert decision("rm -rf ~", "/tmp", home="/srv/people/ann") == "hardline"
    assert decision("rm -rf /srv/people", "/tmp", home="/srv/people/ann") == "hardline"
    assert decision("rm -rf /data/people", "/tmp", home="/srv/people/ann") == "ask"


def test_the_runtime_home_is_guarded_wherever_it_is() -> None:
    def rules(command: str) -> set[str]:
        verdict = judge_command(command, cwd="/home/user/desk", home="/home/user", hermes_home="/srv/agent")
        return {finding.rule for finding in verdict.findings}

    assert rules("echo x > /srv/agent/config.yaml") == {"write-hermes-config"}
    assert rules("echo x > ~/.hermes/config.yaml") == {"write-autorun"}  # as in any other folder


def test_the_finding_names_the_part_and_the_hardline_ones_come_first() -> None:
    verdict = judge("git push --force; sudo rm -rf /etc")
    assert [finding.hardline for finding in verdict.findings] == [True, False, False, False]
    first, second, *_ = verdict.findings
    assert (first.rule, first.part) == ("delete-system-tree", "sudo rm -rf /etc")
    assert (second.rule, second.part) == ("git-force-push", "git push --force")
    assert first.description == "deletes the system, a system directory or a home directory"


def test_long_parts_are_shortened() -> None:
    (finding,) = judge("rm -rf " + "x" * 1_000).findings
    assert len(finding.part) == 160
    assert finding.part.endswith("…")


def test_what_a_terminal_would_act_on_is_shown_as_escapes() -> None:
    parts = [finding.part for finding in judge("rm -rf x \x1b[2K\u202e $'\\ud800'").findings]
    assert parts
    assert all("\x1b" not in part and "\u202e" not in part for part in parts)
    assert any("\\x1b[2K\\u202e" in part for part in parts)


def test_what_runs_in_a_container_is_asked_about_at_most() -> None:
    assert judge("docker exec web rm -rf /").decision == "ask"
    assert judge("docker exec web rm -rf / && rm -rf /").decision == "hardline"
