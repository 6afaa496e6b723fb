"""Ways into the prompt besides typing: pasted blocks, shell commands, the editor, the clipboard."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

from hermes.base.config.schema.sections import DisplayConfig
from hermes.base.errors import HermesError
from hermes.base.scope import Interrupt
from hermes.surfaces.cli.chat.notifier import Notifier
from hermes.surfaces.cli.chat.theme import DARK, LIGHT, NO_COLOUR, ThemeName, theme_for
from hermes.surfaces.cli.repl.prompt.desktop import (
    MAX_OSC_BYTES,
    clipboard_image,
    copy_sequence,
    copy_with_program,
    edited_text,
    editor_command,
    run_shell_command,
    user_environment,
)
from hermes.surfaces.cli.repl.prompt.pasted import MOST_CHARACTERS, MOST_LINES, PastedBlocks
from support.programs import write_program

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 16


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))  # programs in a temporary folder do not count
    return folder


class TestPastedBlocks:
    def test_a_long_text_is_folded_and_comes_back_whole(self) -> None:
        blocks = PastedBlocks()
        text = "\n".join(f"line {number}" for number in range(300))
        placeholder = blocks.fold(text.replace("\n", "\r\n"))
        assert placeholder == "[pasted 300 lines]"
        assert blocks.expand(f"see {placeholder}!") == f"see {text}!"
        assert blocks.fold("a" * (MOST_CHARACTERS + 1)) == "[pasted 1,001 characters]"

    def test_a_short_text_stays_as_it_is(self) -> None:
        text = "\n".join("x" * MOST_LINES)
        assert PastedBlocks().fold(text) == text

    def test_two_texts_of_one_length_are_told_apart(self) -> None:
        blocks = PastedBlocks()
        first, second = "a\n" * 20, "b\n" * 20
        names = [blocks.fold(first), blocks.fold(second), blocks.fold(first)]
        assert names == ["[pasted 20 lines]", "[pasted 20 lines, 2]", "[pasted 20 lines]"]
        assert blocks.expand(f"{names[1]} {names[0]}") == f"{second} {first}"
        assert blocks.placeholder_before(f"x {names[1]}") == names[1]
        assert blocks.placeholder_before(f"{names[1]} ") == ""

    def test_an_image_is_a_file_until_the_prompt_ends(self) -> None:
        blocks = PastedBlocks()
        assert [blocks.add_image(PNG), blocks.add_image(PNG)] == ["[image 1]", "[image 2]"]
        path = Path(blocks.expand("[image 1]").strip('@"'))
        assert (
            path.read_bytes() == PNG and path.stat().st_mode & 0o077 == 0
        ) or path.parent.stat().st_mode & 0o077 == 0
        blocks.close()
        assert not path.exists()


class TestClipboard:
    def test_text_goes_to_the_first_program_that_takes_it(self, programs: Path, tmp_path: Path) -> None:
        write_program(programs, "wl-copy", "exit 1")
        write_program(programs, "xclip", f"cat > {tmp_path}/copied")
        assert not copy_with_program("text", {})
        assert copy_with_program("Übung", {"WAYLAND_DISPLAY": "wayland-0", "DISPLAY": ":0"})
        assert (tmp_path / "copied").read_text("utf-8") == "Übung"

    def test_the_terminal_takes_text_unless_it_is_too_long(self) -> None:
        sequence = copy_sequence("\x1b]0;evil\x07")
        assert sequence is not None and sequence.count("\x1b") == 1
        assert base64.b64decode(sequence.removeprefix("\x1b]52;c;").removesuffix("\x07")) == b"\x1b]0;evil\x07"
        assert copy_sequence("x" * MAX_OSC_BYTES) is None

    def test_an_image_is_read_and_its_absence_explained(self, programs: Path, tmp_path: Path) -> None:
        (tmp_path / "shot").write_bytes(PNG)
        with pytest.raises(HermesError, match=r"wl-clipboard or xclip|pngpaste"):
            clipboard_image({})
        write_program(programs, "xclip", "echo text")
        with pytest.raises(HermesError, match="the clipboard has no image"):
            clipboard_image({"DISPLAY": ":0"})
        write_program(programs, "wl-paste", f"cat {tmp_path}/shot")
        assert clipboard_image({"DISPLAY": ":0", "WAYLAND_DISPLAY": "wayland-0"}) == PNG


class TestEditor:
    def test_the_text_is_what_the_editor_leaves(self, programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (programs / "work").mkdir()
        write_program(programs, "my-editor", 'cp "$2" seen; printf "%s, then more\\n\\n" "$1" >> "$2"')
        monkeypatch.chdir(programs / "work")
        monkeypatch.setenv("EDITOR", "my-editor --flag")
        monkeypatch.delenv("VISUAL", raising=False)
        assert edited_text("before ") == "before --flag, then more"
        assert (programs / "work" / "seen").read_text() == "before "

    def test_a_failing_or_missing_editor_is_an_error(self, programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("VISUAL", "false")
        with pytest.raises(HermesError, match="ended with code 1; the text is unchanged"):
            edited_text("x")
        monkeypatch.setenv("VISUAL", "no-such-editor")
        with pytest.raises(HermesError, match="cannot be run"):
            edited_text("x")
        monkeypatch.delenv("VISUAL")
        monkeypatch.delenv("EDITOR", raising=False)
        monkeypatch.setenv("PATH", str(programs))
        with pytest.raises(HermesError, match="set EDITOR"):
            editor_command()


class TestShellCommand:
    def test_lines_are_shown_as_they_come_and_kept_for_the_model(self, tmp_path: Path) -> None:
        shown: list[str] = []
        environment = {"SHELL": "/bin/sh", "PATH": os.environ["PATH"], "NAME": "Ada"}
        done = run_shell_command('pwd; echo "I am $NAME"; exit 3', tmp_path, environment, Interrupt(), shown.append)
        assert shown == [str(tmp_path), "I am Ada"]
        assert done.exit_code == 3
        command = 'pwd; echo "I am $NAME"; exit 3'
        output = f"{tmp_path}\nI am Ada"
        assert done.as_context() == f'<user_command exit_code="3">\n$ {command}\n{output}\n</user_command>'

    def test_it_is_stopped_with_everything_it_started(self, tmp_path: Path) -> None:
        interrupt = Interrupt()
        done = run_shell_command(
            "sleep 600 & echo started; wait", tmp_path, os.environ, interrupt, lambda _: interrupt.cancel()
        )
        assert done.exit_code < 0 and done.output == "started"

    def test_long_output_is_cut_in_the_middle(self, tmp_path: Path) -> None:
        done = run_shell_command("seq 20000", tmp_path, os.environ, Interrupt(), lambda _: None)
        context = done.as_context()
        assert len(context) < 21_000 and "\n1\n2\n" in context and "characters left out" in context
        assert context.endswith("\n20000\n</user_command>")

    def test_a_folder_that_is_gone_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(HermesError, match="cannot be run in"):
            run_shell_command("ls", tmp_path / "gone", os.environ, Interrupt(), lambda _: None)

    def test_what_hermes_read_from_its_own_file_is_not_passed_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SOME_API_KEY", "from the file")
        monkeypatch.setenv("OTHER_TOKEN", "from the shell")
        environment = user_environment({"SOME_API_KEY": "from the file", "OTHER_TOKEN": "another"})
        assert "SOME_API_KEY" not in environment and environment["OTHER_TOKEN"] == "from the shell"


class TestNotifier:
    def notifier(self, monkeypatch: pytest.MonkeyPatch, term: str = "xterm", **display: object) -> Notifier:
        monkeypatch.setenv("TERM", term)
        self.now = 0.0
        return Notifier(DisplayConfig(**display), lambda: self.now)  # pyright: ignore[reportArgumentType]

    def test_only_long_work_is_signalled(self, monkeypatch: pytest.MonkeyPatch) -> None:
        notifier = self.notifier(monkeypatch)
        notifier.work_begins()
        self.now = 9
        assert notifier.signal("done") == ""
        self.now = 19
        assert notifier.signal("done") == "\x07"
        assert notifier.signal("done") == ""

    @pytest.mark.parametrize(
        ("notify", "term", "signal"),
        [("off", "xterm", ""), ("osc9", "xterm", "\x1b]9;hermes: done\x07"), ("osc9", "linux", "\x07")],
    )
    def test_the_setting_chooses_the_signal(
        self, monkeypatch: pytest.MonkeyPatch, notify: str, term: str, signal: str
    ) -> None:
        notifier = self.notifier(monkeypatch, term, notify=notify, notify_after=0)
        assert notifier.signal("done") == signal

    def test_the_title_is_set_once_and_given_back(self, monkeypatch: pytest.MonkeyPatch) -> None:
        notifier = self.notifier(monkeypatch)
        assert notifier.restore_title() == ""
        assert notifier.title("a\x07b - hermes") == "\x1b[22;2t\x1b]2;ab - hermes\x07"
        assert notifier.title("a\x07b - hermes") == ""
        assert notifier.title("c") == "\x1b]2;c\x07"
        assert notifier.restore_title() == "\x1b[23;2t"
        assert self.notifier(monkeypatch, title=False).title("a") == ""
        assert self.notifier(monkeypatch, "linux").title("a") == ""


@pytest.mark.parametrize(
    ("name", "environ", "theme"),
    [
        ("auto", {}, DARK),
        ("auto", {"COLORFGBG": "0;15"}, LIGHT),
        ("auto", {"COLORFGBG": "15;0"}, DARK),
        ("dark", {"COLORFGBG": "0;15"}, DARK),
        ("light", {}, LIGHT),
        ("none", {}, NO_COLOUR),
        ("light", {"NO_COLOR": "1"}, NO_COLOUR),
        ("dark", {"NO_COLOR": ""}, DARK),
    ],
)
def test_the_theme_is_that_of_the_setting_and_the_terminal(
    name: ThemeName, environ: dict[str, str], theme: object
) -> None:
    assert theme_for(name, environ) is theme
