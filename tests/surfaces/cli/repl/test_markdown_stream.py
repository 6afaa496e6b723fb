"""Markdown while it streams: every block, every width, whatever a model writes and however it is cut."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from hermes.surfaces.cli.repl.markdown.stream import MarkdownStream
from hermes.surfaces.cli.terminal import plain
from support.growth import assert_grows_with_the_length
from support.screen import Screen

DOCUMENT = """\
# The **plan** ##

Some *text* with `code`, a [link](http://x.example/y) and <http://z.example>.
A second line, snake_case_name, 2 * 3 * 4, List<String>.

- one
- two
  goes on
  - nested
    1. deep

- after a blank

7. seven
8. eight

   in eight

   ```python
   def f(x):
       return x
   ```
> quoted
goes on lazily
>
> - in it

| name | value | 名前 |
|------|:-----:|-----:|
| a \\| b | `c` | 中文 |
| long | x | 3 | 4 |

Underlined
----------
***
~~~ sh deploy.sh
$ make\tall
"""

AT_EIGHTY = """\
# The plan

Some text with `code`, a link (http://x.example/y) and http://z.example.
A second line, snake_case_name, 2 * 3 * 4, List<String>.

• one
• two
  goes on
  • nested
    1. deep

• after a blank

7. seven
8. eight

   in eight

     def f(x):
         return x
│ quoted
│ goes on lazily
│
│ • in it

name    value    名前
─────────────────────
a | b    `c`     中文
long      x     3 | 4

## Underlined
────────────────────────────────────────────────────────────────────────────────
  deploy.sh
  $ make  all
"""

SGR = re.compile(r"\x1b\[[0-9;]*m")


def shown(text: str, width: int = 80, *, colour: bool = False, unicode: bool = True) -> str:
    stream = MarkdownStream(width, colour, unicode=unicode)
    return stream.feed(text) + stream.finish()


def test_every_block_at_eighty_columns() -> None:
    assert shown(DOCUMENT) == AT_EIGHTY
    assert Screen(shown(DOCUMENT), 80).rows == AT_EIGHTY.rstrip().split("\n")


@pytest.mark.parametrize("width", [80, 40, 20])
@pytest.mark.parametrize("colour", [True, False])
@pytest.mark.parametrize("unicode", [True, False])
def test_no_line_is_wrapped_by_the_terminal(width: int, colour: bool, unicode: bool) -> None:
    text = shown(DOCUMENT + "中文字符" * 30 + "\n```\n" + "👍x" * 60, width, colour=colour, unicode=unicode)
    lines = [line.rstrip() for line in SGR.sub("", text).rstrip().split("\n")]
    assert Screen(text, width).rows == lines


def test_a_table_without_room_for_its_columns_becomes_records() -> None:
    table = "| first | second | third |\n|--|--|--|\n| 1 | 2 | 3 |\n| 4 | 5 | 6 | 7 |\n"
    assert shown(table, 20) == "first: 1\nsecond: 2\nthird: 3\n\nfirst: 4\nsecond: 5\nthird: 6 | 7\n"
    assert shown("|a|b|c|\n|-|-|-|\n", 20) == "a\nb\nc\n"


def test_a_dumb_terminal_gets_ascii_only() -> None:
    text = shown(DOCUMENT.replace("名前", "n").replace("中文", "c"), 40, unicode=False)
    assert text.isascii() and "\x1b" not in text
    assert "- one" in text and "| quoted" in text


def test_colour_is_style_on_the_same_words() -> None:
    text = shown("# Title\n\nplain **bold** `code`\n```python\ndef f(): pass\n```\n", colour=True)
    screen = Screen(text, 80)
    assert screen.rows == ["Title", "", "plain bold code", "  def f(): pass"]
    assert screen.looks(0, 0)[:2] == ("T", True)
    assert screen.looks(2, 0) == ("p", False, "default")
    assert screen.looks(2, 6)[:2] == ("b", True)
    assert screen.looks(2, 11) == ("c", False, "cyan")
    assert screen.looks(3, 2)[2] != "default"  # a keyword
    assert SGR.sub("", text).count("\x1b") == 0


def test_blocks_leave_as_soon_as_they_are_complete() -> None:
    stream = MarkdownStream(80, colour=False)
    assert stream.feed("Hello **wor") == ""
    assert stream.pending == "Hello **wor"
    assert stream.feed("ld**.\nMore") == ""
    assert stream.pending == "Hello **world**.\nMore"
    assert stream.feed(".\n\n# Next") == "Hello world.\nMore.\n"
    assert stream.pending == "# Next"
    assert stream.feed("\n- a\n") == "\n# Next\n"
    assert stream.feed("- b\n") == "• a\n"
    assert stream.feed("```sh\nls") == "• b\n"
    assert stream.feed(" -l\n") == "  ls -l\n"
    assert stream.pending == ""
    assert stream.feed("pwd") == ""
    assert stream.finish() == "  pwd\n"
    assert stream.feed("again") + stream.finish() == "again\n"


def test_code_within_a_list_item_leaves_line_by_line() -> None:
    stream = MarkdownStream(80, colour=False)
    assert stream.feed("1. Run:\n   ```\n") == "1. Run:\n"
    assert stream.feed("   make\n") == "     make\n"
    assert stream.feed("\n") == "\n"
    assert stream.feed("   done\n   ```\n2. Next\n") == "     done\n"


def test_a_width_that_changes_holds_from_the_next_block_on() -> None:
    stream = MarkdownStream(80, colour=False)
    words = "word " * 10
    assert stream.feed(words + "\n\n").count("\n") == 1
    stream.width = 20
    assert stream.feed(words + "\n\n").count("\n") == 4


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("C# ##", "C# ##\n"),
        ("## C#", "## C#\n"),
        ("a\n===", "# a\n"),
        ("* * *", "─" * 20 + "\n"),
        ("It is\n1984. A year", "It is\n1984. A year\n"),
        ("-\n- b", "•\n• b\n"),
        ("- \n  c", "• c\n"),
        ("    code *as is*", "  code *as is*\n"),
        ("a | b", "a | b\n"),
        ("| a |\n| - | - |", "| a |\n| - | - |\n"),
        ("[x]: http://q.y", "[x]: http://q.y\n"),
        ("![cat](c.png)", "cat (c.png)\n"),
        ('[a](b "c")', "a (b c)\n"),
        ("<b>x</b> &amp; \\*", "<b>x</b> & *\n"),
        ("> a\n\n> b", "│ a\n\n│ b\n"),
        ("```\na\n\n\nb\n```\n\n\nc", "  a\n\n\n  b\n\nc\n"),
        ("````\n```\n````", "  ```\n"),
        ("\n\n\na\n\n\n\n", "a\n"),
        ("```a``` b", "`a` b\n"),
        ("- [ ] open\n- [x] done", "• [ ] open\n• [x] done\n"),
    ],
)
def test_small_things(source: str, expected: str) -> None:
    assert shown(source, 20) == expected


def test_marks_that_are_nested_without_end_stay_text() -> None:
    assert shown(">" * 50 + " deep", 20).replace("\n", "").replace(" ", "").endswith("deep")
    assert "deep" in shown("- " * 200 + "deep", 40)


# -- wild input -----------------------------------------------------------------------------------------------------

BLOCKS = ["\n", "\n\n", "# ", "- ", "* ", "1. ", "2) ", "> ", ">", "```\n", "```python\n", "~~~\n", "---", "==="]
SPANS = ["**", "*", "_", "~~", "`", "``", "[", "](", "](http://x.y)", ")", "!", "<", "<http://a.b>", "<div>", "[x]: u"]
BLANKS = ["    ", "  ", "\t", "\u2028", "\xa0", "\u3000", "\\", "&", "&amp;", "&#27;", "&#x202e;"]
CONTROLS = ["\x1b[31m", "\x1b]0;t\x07", "\x1b", "\r", "\x00", "\x9b31m", "\ud800", "\u202e"]
SIGNS = ["中文", "\U0001f469\u200d\U0001f469", "\u2764\ufe0f", "e\u0301"]
TABLES = ["|", "| a | b |\n|--|:-:|\n", "|---|"]
PIECES = st.one_of(
    st.sampled_from(BLOCKS + SPANS + BLANKS + CONTROLS + SIGNS + TABLES), st.text(max_size=4), st.just("WORD")
)


@st.composite
def documents(draw: st.DrawFn) -> str:
    """Words that can be told apart among every mark that means something."""
    pieces = draw(st.lists(PIECES, max_size=40))
    return "".join(f"w{number}q" if piece == "WORD" else piece for number, piece in enumerate(pieces))


@settings(max_examples=150)
@given(documents(), st.sampled_from([80, 40, 20]), st.booleans(), st.lists(st.integers(0, 150), max_size=20))
@example("| a | b |\n|--|:-:|\n| w1q", 20, True, [3, 9])
def test_any_split_gives_the_same_text(document: str, width: int, colour: bool, cuts: list[int]) -> None:
    stream = MarkdownStream(width, colour)
    streamed = ""
    edges = [0, *sorted(min(cut, len(document)) for cut in cuts), len(document)]
    for start, end in pairwise(edges):
        streamed += stream.feed(document[start:end])
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", stream.pending)
    assert streamed + stream.finish() == shown(document, width, colour=colour)


def in_order(word: str, text: str) -> bool:
    """Whether the text has the letters of the word, one after the other."""
    rest = iter(text)
    return all(letter in rest for letter in word)


@settings(max_examples=150)
@given(documents(), st.sampled_from([80, 40, 20]), st.booleans())
@example("~~~~w2qw3q", 80, False)
@example("| a | b |\n|--|:-:|\nw1q>---w4qw5q| a | b |\n|--|:-:|\n", 20, False)
def test_nothing_is_lost_nothing_is_too_wide_and_nothing_drives_the_terminal(
    document: str, width: int, colour: bool
) -> None:
    text = shown(document, width, colour=colour)
    bare = SGR.sub("", text) if colour else text
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", bare)
    assert all(cell_len(line) <= width for line in bare.split("\n"))
    # Long words are folded, at the margin of what they are in.
    words = "".join(re.findall(r"[a-z0-9]+", bare))
    # Text inside an escape sequence is removed with it.
    source = plain(document)
    for found in re.finditer(r"(.*?)(w\d+q)", source):
        # The word after a fence is a language, which is shown as colour or not at all; it may contain several of these.
        is_language = re.search(r"(?:``|~~)\S*$", source[: found.start(2)]) is not None
        # A word that is folded in a cell has the text of other cells between its parts.
        is_cell = "|" in source[source.rfind("\n", 0, found.start()) + 1 :].partition("\n")[0]
        is_shown = in_order(found[2], words) if is_cell else found[2] in words
        assert is_shown or "``" in found[1] or "~~" in found[1] or is_language


@pytest.mark.parametrize("unit", ["[", "word ", "a\n", "> a\n", "`", "\x1b]0;"])
def test_time_is_linear_in_the_length(unit: str) -> None:
    def showing(length: int) -> Callable[[], object]:
        text = unit * (length // len(unit))

        def show() -> None:
            stream = MarkdownStream(80, colour=True)
            for start in range(0, length, 8):
                stream.feed(text[start : start + 8])
            stream.finish()

        return show

    assert_grows_with_the_length(showing, 500)


def test_a_preview_of_a_long_block_is_its_end() -> None:
    stream = MarkdownStream(80, colour=False)
    stream.feed("line of text\n" * 5_000 + "the end")
    assert stream.pending.endswith("line of text\nthe end") and len(stream.pending) < 10_000
    assert stream.finish().count("\n") == 5_001
