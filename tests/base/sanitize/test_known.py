"""Known secrets: found in every encoding, across line breaks and pieces of a stream; ordinary text stays."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import textwrap
from collections.abc import Callable, Mapping
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.base.sanitize import MaskedStream, Redactor, has_mark, redact_text
from hermes.base.sanitize.known import KnownSecrets
from support.growth import assert_grows_with_the_length

SECRET = "nvapi-Zk9x/7Qm2+Lp4Wn8_Rt5Yv3"
MARK = "<redacted:LAB_KEY>"


def _base64(before: bytes, after: bytes, *, url_safe: bool = False) -> str:
    encode = base64.urlsafe_b64encode if url_safe else base64.b64encode
    return encode(before + SECRET.encode() + after).decode()


ENCODINGS: dict[str, Callable[[], str]] = {
    "plain": lambda: SECRET,
    "upper case": lambda: SECRET.upper(),
    "reversed": lambda: SECRET[::-1],
    "hex": lambda: SECRET.encode().hex(),
    "hex in capitals": lambda: SECRET.encode().hex().upper(),
    "hex with colons": lambda: SECRET.encode().hex(":"),
    "hex with blanks": lambda: SECRET.encode().hex(" "),
    "hex escapes": lambda: "".join(f"\\x{byte:02x}" for byte in SECRET.encode()),
    "percent": lambda: quote(SECRET, safe=""),
    "percent, lower case": lambda: re.sub("%..", lambda code: code[0].lower(), quote(SECRET, safe="")),
    "percent for every byte": lambda: "".join(f"%{byte:02X}" for byte in SECRET.encode()),
    **{f"base64 at {at}": lambda at=at: _base64(b"x" * at, b"yz") for at in range(3)},
    **{f"base64 at {at}, end": lambda at=at: _base64(b"x" * at, b"") for at in range(3)},
    **{f"URL-safe base64 at {at}": lambda at=at: _base64(b"x" * at, b"y", url_safe=True) for at in range(3)},
}


def _pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


DRESSES: dict[str, Callable[[str], str]] = {
    "alone": lambda text: text,
    "in a sentence": lambda text: f"it is {text}, really",
    "in JSON": lambda text: json.dumps({"output": f"first\n{text}\nlast"}),
    "in JSON in JSON": lambda text: json.dumps({"r": json.dumps({"output": f"a\n{text}"})}),
    "wrapped": lambda text: "\n".join(_pieces(text, 20)),
    "wrapped narrowly": lambda text: "\r\n".join(_pieces(text, 7)),
    "wrapped in JSON": lambda text: json.dumps("\n".join(_pieces(text, 13))),
    "wrapped and numbered": lambda text: json.dumps(
        "\n".join(f"{number:6}|{line}" for number, line in enumerate(_pieces(text, 24), 1))
    ),
    "after a backslash": lambda text: f"\\{text}",
    "among other characters": lambda text: f"ü☤é {text} ü",
}


def _is_gone(text: str, encoded: str) -> bool:
    """No eight characters of what was hidden are left, however the text is broken."""
    left = re.sub(r"\\+[nr]|[\s\\|]|[0-9]+(?=\|)", "", text)
    return not any(encoded[at : at + 8] in left for at in range(2, len(encoded) - 10))


@pytest.mark.parametrize("dress", DRESSES)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_encoding_is_masked_in_every_dress(encoding: str, dress: str) -> None:
    encoded = ENCODINGS[encoding]()
    if encoding == "hex escapes" and dress.startswith("wrapped"):
        pytest.skip("no tool breaks a line inside an escape")
    text = DRESSES[dress](encoded)
    masked = Redactor({"LAB_KEY": SECRET}).mask_known(text)
    assert MARK in masked
    assert _is_gone(masked, encoded)
    if "JSON" in dress:
        json.loads(masked)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("size", [1, 3, 16, 1000])
def test_every_encoding_is_masked_across_the_pieces_of_a_stream(encoding: str, size: int) -> None:
    redactor = Redactor({"LAB_KEY": SECRET, "OTHER": "another-secret-value-0815"})
    for dress in ("alone", "in a sentence", "in JSON", "wrapped"):
        text = DRESSES[dress](ENCODINGS[encoding]())
        stream = MaskedStream(redactor)
        shown = "".join(map(stream.feed, _pieces(text, size))) + stream.finish()
        assert shown == redactor.mask_known(text)
        assert MARK in shown


def _numbers(form: str, between: str = " ") -> str:
    return between.join(format(byte, form) for byte in SECRET.encode())


RARE: dict[str, Callable[[], str]] = {
    "HTML entities": lambda: "".join(f"&#{ord(char)};" for char in SECRET),
    "hexadecimal HTML entities": lambda: "".join(f"&#x{ord(char):x};" for char in SECRET),
    "one HTML entity": lambda: SECRET.replace("k", "&#0107;"),
    "JSON escapes": lambda: "".join(f"\\u{ord(char):04x}" for char in SECRET),
    "one JSON escape": lambda: SECRET.replace("k", "\\u006B"),
    "one percent escape": lambda: SECRET.replace("k", "%6b"),
    "invisible characters": lambda: "\u200b".join(SECRET),
    "one invisible character": lambda: SECRET.replace("k", "k\ufeff"),
    "dashes": lambda: "-".join(SECRET),
    "underscores": lambda: "_".join(SECRET),
    "octal": lambda: _numbers("03o"),
    "octal escapes": lambda: "\\" + _numbers("03o", "\\"),
    "decimal": lambda: _numbers("d", ", "),
    "hexadecimal with 0x": lambda: _numbers("#04x"),
    "hexadecimal with 0x and commas": lambda: _numbers("#04x", ", "),
    "reversed base64": lambda: _base64(b"x", b"y")[::-1],
    **{
        f"base64 of base64 at {at}": lambda at=at: base64.b64encode(_base64(b"x" * at, b"yz").encode()).decode()
        for at in range(3)
    },
}


@pytest.mark.parametrize("dress", ["alone", "in a sentence", "in JSON", "in JSON in JSON", "among other characters"])
@pytest.mark.parametrize("encoding", RARE)
def test_rare_encodings_are_masked(encoding: str, dress: str) -> None:
    encoded = RARE[encoding]()
    masked = Redactor({"LAB_KEY": SECRET}).mask_known(DRESSES[dress](encoded))
    assert MARK in masked
    assert _is_gone(masked, encoded)
    if "JSON" in dress:
        json.loads(masked)


@pytest.mark.parametrize("program", ["od", "od -b", "od -x", "od -An -tx1", "od -tu1", "xxd", "xxd -i", "hexdump -C"])
@pytest.mark.parametrize("before", ["", "LAB_KEY=", "x" * 13])
def test_dumps_of_programs_are_masked(program: str, before: str) -> None:
    if shutil.which(program.split()[0]) is None:
        pytest.skip(f"{program} is not installed")
    secret = SECRET + SECRET[::-1]
    done = subprocess.run(program.split(), input=f"{before}{secret}\nmore".encode(), capture_output=True, check=True)
    redactor = Redactor({"LAB_KEY": secret})
    for text in (done.stdout.decode(), json.dumps(done.stdout.decode())):
        assert MARK in redactor.mask_known(text)


@pytest.mark.parametrize(
    "text",
    [
        "50% of 100%, 7%20 and %6b, caf\u00e9 &amp; &#8217; &#107; \\u006b \\u00e9",
        "a-b-c-d-e-f, snake_case_name, 192.168.0.1, 0x12 0x34 0x56, 017 644 755",
        "0000000 156 166 141 160 151 055\n0000006",
        "nvapi-\u200bZk9x and nothing else",
        "Zm9vYmFy " * 50,
    ],
)
def test_text_with_escapes_and_numbers_stays_as_it_is(text: str) -> None:
    assert Redactor({"LAB_KEY": SECRET}).mask_known(text * 20) == text * 20


def test_a_stream_holds_back_no_more_than_could_be_a_secret() -> None:
    stream = MaskedStream(Redactor({"LAB_KEY": "qqqq-wwww-1234-5678"}))
    assert stream.feed("Hello there") == "Hello there"
    assert stream.feed(", qqqq-ww") == ", "
    assert stream.feed("oops") == "qqqq-wwoops"
    assert stream.feed("qqqq\n") == ""
    # More blanks than any wrapping has: this is no secret any more.
    assert stream.feed("\n" * 10_000).startswith("qqqq\n")


def test_short_and_odd_values_are_found_as_they_are_written() -> None:
    redactor = Redactor({"PIN": "hunter-2", "PATH_LIKE": "domain\\new\\table-one", "QUOTED": 'odd "quoted" secret'})
    text = 'hunter-2, domain\\new\\table-one and odd "quoted" secret'
    assert redactor.mask_known(text) == "<redacted:PIN>, <redacted:PATH_LIKE> and <redacted:QUOTED>"
    inner = json.loads(redactor.mask_known(json.dumps({"a": text})))
    assert inner == {"a": "<redacted:PIN>, <redacted:PATH_LIKE> and <redacted:QUOTED>"}
    assert redactor.mask_known("2-retnuh " + b"hunter-2".hex()) == "<redacted:PIN> <redacted:PIN>"
    assert redactor.mask_known("Hunter 2 or hunter2") == "Hunter 2 or hunter2"


def test_a_match_never_reaches_across_two_strings_of_a_document() -> None:
    redactor = Redactor({"LAB_KEY": SECRET})
    text = json.dumps([SECRET[:15], SECRET[15:]])
    assert redactor.mask_known(text) == text


def test_the_name_of_a_secret_counts_where_a_shape_is_found_too() -> None:
    redactor = Redactor({"OPENAI_API_KEY": "sk-abcdefghijklmnopqrstuvwx"})
    assert redactor.redact("api_key=sk-abcdefghijklmnopqrstuvwx") == "api_key=<redacted:OPENAI_API_KEY>"
    assert redactor.redact("token=sk-otherotherotherother1") == "token=<redacted>"
    once = redactor.redact("Authorization: Bearer sk-abcdefghijklmnopqrstuvwx")
    assert redactor.redact(once) == once


def test_marks() -> None:
    assert has_mark("key: <redacted:model.api_key>")
    assert not has_mark("key: <redacted>, <redacted: none>, redacted:NAME")


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=300))
def test_text_without_the_secret_stays_as_it_is(text: str) -> None:
    assert Redactor({"LAB_KEY": SECRET}).mask_known(text) == text


HOSTILE = {
    "names": "key=",
    "computed values": "token=$(",
    "names of two words": "api key=",
    "one long name": "key",
    "open quotes": 'token="<',
    "escaped quotes": 'token=\\"<',
    "logins": "://" + "@" * 290,
    "private keys": "-----BEGIN PRIVATE KEY",
    "tokens of several parts": "eyJaaaaaaaaaaaaa.",
    "cookies": "cookie: ",
    "beginnings of a secret": SECRET[:25] + " ",
    "a piece of a secret": SECRET[8:16],
    "breaks": SECRET[0] + "\\n",
    "entities": "&#107;",
    "percent escapes": "%6b%6",
    "JSON escapes": "\\\\u006b",
    "backslashes": "\\",
    "invisible characters": "\u200b",
    "a dump": " ".join(format(byte, "03o") for byte in SECRET.encode()[:20]) + "\n0000020 ",
    "addresses": "0000020\n",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_the_work_grows_no_faster_than_the_text(kind: str) -> None:
    redactor = Redactor({"LAB_KEY": SECRET})

    def redacting(size: int) -> Callable[[], object]:
        text = HOSTILE[kind] * (size // len(HOSTILE[kind]))
        return lambda: redactor.redact(text)

    assert_grows_with_the_length(redacting, 10_000)  # longer than what is remembered as searched


def test_a_text_that_was_searched_is_searched_again_for_a_new_secret() -> None:
    redactor, text = Redactor({"OTHER_KEY": "0123456789abcdefghij"}), f"Use {SECRET} here."
    for _ in range(2):
        assert (redactor.mask_known(text), redactor.mask_data([text])) == (text, [text])
    redactor.add_secret(SECRET, "LAB_KEY")
    for _ in range(2):
        assert SECRET not in redactor.mask_known(text)
        assert SECRET not in redactor.redact(text)
        assert redactor.mask_data([text]) == [f"Use {MARK} here."]


def test_wrapped_text_of_the_standard_tools_is_masked() -> None:
    text = f"HOST=example\nLAB_KEY={SECRET}\nPORT=1\n"
    for wrapped in (
        "\n".join(textwrap.wrap(base64.b64encode(text.encode()).decode(), 76)),
        "\n".join(textwrap.wrap(base64.b64encode(text.encode()).decode(), 64)),
        "\n".join(textwrap.wrap(text.encode().hex(), 60)),
    ):
        assert MARK in Redactor({"LAB_KEY": SECRET}).mask_known(wrapped)
    assert redact_text("plain") == "plain"


def test_a_secret_that_is_added_while_another_thread_prepares_the_search_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    redactor, added = Redactor(["first-secret-value"]), "second-secret-value"

    class Slow(KnownSecrets):
        def __init__(self, secrets: Mapping[str, str]) -> None:
            super().__init__(secrets)
            redactor.add_secret(added)  # as another thread would at this moment

    monkeypatch.setattr("hermes.base.sanitize.known.KnownSecrets", Slow)
    text = f"it is {added}"
    redactor.redact(text)
    assert redactor.redact(text) == "it is <redacted>"
    assert redactor.mask_known(text) == "it is <redacted>"
