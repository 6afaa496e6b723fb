"""Secrets inside texts: found in every dress, and ordinary text left as it is."""

from __future__ import annotations

import json
import sys
from unittest.mock import patch
from urllib.parse import quote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hermes.base.sanitize import REDACTED, Redactor, assignments, redact_text, sanitise
from hermes.base.sanitize.assignments import MOST_NAMES

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow+IBAAK/CAQEA\nabc=\n-----END RSA PRIVATE KEY-----"

SHAPES = [
    "sk-abcdefghijklmnopqrstuvwx",
    "sk-proj-Abc_def-0123456789",
    "sk-ant-api03-AbCdEf0123456789-_x",
    "sk-or-v1-0123456789abcdef0123456789abcdef",
    "ghp_0123456789abcdefghijABCDEFGHIJ456789",
    "gho_0123456789abcdefghijABCDEFGHIJ456789",
    "github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz",
    "glpat-abcdefghij0123456789",
    "xoxb-123456789012-abcdefghijkl",
    "xoxp-123456789012-abcdefghijkl",
    "AKIAIOSFODNN7EXAMPLE",
    "ASIAIOSFODNN7EXAMPLE",
    "AIzaSyA-abcdefghijklmnopqrstuvwxyz012345",
    "hf_abcdefghijklmnopqrstuvwxyz",
    "gsk_abcdefghijklmnopqrstuvwxyz",
    "sk_live_abcdefghijklmnop1234",
    JWT,
]


@pytest.mark.parametrize("secret", SHAPES)
@pytest.mark.parametrize(
    "frame", ["{}", "use {} now", "({})", '"{}"', "a\n{}\nb", "x={}", "url/{}/y", "\\n{}\\n", "{},"]
)
def test_keys_of_known_kinds_are_masked_wherever_they_stand(secret: str, frame: str) -> None:
    redacted = redact_text(frame.format(secret))
    assert secret not in redacted
    assert secret[-10:] not in redacted
    assert redacted == frame.format(REDACTED)


def test_a_private_key_is_masked_as_a_whole_even_when_its_end_is_missing() -> None:
    assert redact_text(f"before\n{PEM}\nafter") == f"before\n{REDACTED}\nafter"
    assert redact_text(f"before {PEM[:60]}") == f"before {REDACTED}"
    assert redact_text(json.dumps({"k": PEM})) == f'{{"k": "{REDACTED}"}}'
    public = "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----"
    assert redact_text(public) == public


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("OPENAI_API_KEY=abc123 next", f"OPENAI_API_KEY={REDACTED} next"),
        ("export DB_PASSWORD='two words' # x", f"export DB_PASSWORD='{REDACTED}' # x"),
        ("password: hunter2", f"password: {REDACTED}"),
        ("password:\thunter2", f"password:\t{REDACTED}"),
        ("Password = hunter", f"Password = {REDACTED}"),
        ('{"api_key": "zzz", "n": 1}', f'{{"api_key": "{REDACTED}", "n": 1}}'),
        (r"{\"api_key\": \"zzz\", \"n\": 1}", rf"{{\"api_key\": \"{REDACTED}\", \"n\": 1}}"),
        ("{'client_secret': 'zzz'}", f"{{'client_secret': '{REDACTED}'}}"),
        ("API key: abcd1234", f"API key: {REDACTED}"),
        ("line\\ntoken=abc\\nnext", f"line\\ntoken={REDACTED}\\nnext"),
        ("GET /x?token=abc&page=2", f"GET /x?token={REDACTED}&page=2"),
        ("Authorization: Bearer abc", f"Authorization: {REDACTED}"),
        ("with authorization: Bearer abc", f"with authorization: {REDACTED}"),
        ("sent authorization: k3yk3y", f"sent authorization: {REDACTED}"),
        ("curl -H 'Authorization: Basic dXNlcjpwYXNz' x", f"curl -H 'Authorization: {REDACTED}' x"),
        ("sent Bearer abcdefghijklmnop.qrs/tuv== ok", f"sent Bearer {REDACTED} ok"),
        ("Cookie: a=b; c=d\nHost: x", f"Cookie: {REDACTED}\nHost: x"),
        ("Set-Cookie: sid=1; Path=/", f"Set-Cookie: {REDACTED}"),
        ("https://user:pa55@host/x", f"https://user:{REDACTED}@host/x"),
        ("postgres://u:p@ss@h/db", f"postgres://u:{REDACTED}@h/db"),
        ("https://0123456789abcdef0123@github.com/x", f"https://{REDACTED}@github.com/x"),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG", f"aws_secret_access_key = {REDACTED}"),
        ("DB_PASSWORD=a,b;c)d&e\nNEXT=1", f"DB_PASSWORD={REDACTED}\nNEXT=1"),
        ("export DB_PASSWORD=a,b", f"export DB_PASSWORD={REDACTED}"),
        ("connect(password=abc, port=5)", f"connect(password={REDACTED}, port=5)"),
        ("x=1\\nDB_PASSWORD=a,b\\nNEXT=1", f"x=1\\nDB_PASSWORD={REDACTED}\\nNEXT=1"),
        ("Bearer abc123", f"Bearer {REDACTED}"),
        ("token=ünïcödé-tökén", f"token={REDACTED}"),
        ("İİİİ password=hunter2", f"İİİİ password={REDACTED}"),
    ],
)
def test_named_secrets_are_masked(text: str, expected: str) -> None:
    assert redact_text(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "max_tokens=100, token_count: 5, total_tokens: 7",
        "def f(token: str, password: str | None = None) -> None",
        "the secret: it is simple",
        "Denied by Vinctor authorization: unmapped_tool.",
        "sorted(items, key=lambda item: item)",
        "api_key=${OPENAI_API_KEY} token=$TOKEN",
        'api_key = os.environ["KEY"]',
        "PWD=/root OLDPWD=/tmp",
        "mail me@example.com or git@github.com:x/y.git, ssh://git@github.com/x",
        "see https://example.com:8080/path?x=1#y",
        "npm_config_registry_url hf_model_name_or_path pypi-attestations-model ASIAN_COUNTRIES_LIST_ALL",
        "basic internationalization, token classification_pipeline, the bearer certificate",
        '{"token": {"type": "string"}, "password": [1]}',
        "a-long-identifier-with-many-words and_another_long_identifier",
        "a ruler --------------------------------------------",
        "d41d8cd98f00b204e9800998ecf8427e is a checksum",
        "task-management-is-a-word, risk-assessment-too",
        f"password={REDACTED}",
        "password=****",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert redact_text(text) == text


def test_secrets_it_was_told_about() -> None:
    redactor = Redactor(("abcdefgh", "abcdefgh-longer", "short", "   "))
    assert redactor.redact("x abcdefgh-longer y abcdefgh z short") == f"x {REDACTED} y {REDACTED} z short"
    assert redact_text("abcdefgh") == "abcdefgh"
    redactor.add_secret("later-on-1")
    assert redactor.redact("later-on-1later-on-1") == REDACTED * 2


_names = st.sampled_from(["API_KEY", "my_token", "password", "clientSecret", "Authorization", "db-password"])
_values = st.text("abcdefghijklmnopqrstuvwxyz0123456789ABCDEF/+._-", min_size=8, max_size=60).map(
    lambda text: f"z9{text}"
)


def _named(pair: tuple[str, str], frame: str) -> tuple[str, str]:
    return pair[1], frame.replace("NAME", pair[0]).replace("VALUE", pair[1])


_pairs = st.tuples(_names, _values)
_planted = st.one_of(
    st.sampled_from([(shape, shape) for shape in SHAPES]),
    _pairs.map(lambda pair: _named(pair, "NAME=VALUE")),
    _pairs.map(lambda pair: _named(pair, "NAME: VALUE")),
    _pairs.map(lambda pair: _named(pair, '{"NAME": "VALUE"}')),
    _values.map(lambda value: (value.replace("/", ""), f"http://user:{value.replace('/', '')}@host/")),
)
_around = st.text(max_size=40).map(lambda text: f"{text} ")


@settings(max_examples=300, deadline=None)
@example("", ("AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"), "", 3)
@example("Limit ", ("z900000000", "password=z900000000"), " ", 0)
@given(_around, _planted, st.text(max_size=40).map(lambda text: f" {text}"), st.integers(0, 3))
def test_a_planted_secret_never_survives(before: str, planted: tuple[str, str], after: str, dressing: int) -> None:
    secret, text = planted
    whole = f"{before}{text}{after}"
    for _ in range(dressing):
        whole = json.dumps({"text": whole})
    assert secret not in redact_text(whole)
    copy = json.dumps(sanitise({"messages": [{"content": whole}]}), ensure_ascii=False)
    assert secret not in copy


@settings(max_examples=200, deadline=None)
@given(st.text() | st.text("=: \"'\\/@-_.keytokenpassword\n", max_size=80))
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once = redact_text(text)
    assert redact_text(once) == once


_NAME_PARTS = ["key", "Token", "SECRET", "pass", "word", "cookie", "authorization", "credential", "api", "x" * 59, "é"]
_SIGNS = ["_", "-", " ", "\t", "\\t", "\\", "\\" * 40, '"', "'", ",", "\n", "=", ":", "=", ":", "hunter2", "$(x)"]
_fragments = st.sampled_from([*_NAME_PARTS, *_SIGNS])


@settings(max_examples=300, deadline=None)
@example(["api", "_", "key", "\\" * 40, '"', " ", "\\t", ":", "hunter2"], 400)
@given(st.lists(_fragments, max_size=30), st.sampled_from([0, 100, 400, 5_000]))
def test_the_quick_look_for_names_misses_none(fragments: list[str], filler: int) -> None:
    text = f"{'prose ' * (filler // 12)}{''.join(fragments)}{' prose' * (filler // 12)}"
    raw = text.encode("latin-1", "replace")
    found = list(assignments.find_assignments(text, raw))
    with patch.object(assignments, "_is_likely", return_value=True):
        assert found == list(assignments.find_assignments(text, raw))


def test_percent_encoded_keys_are_found() -> None:
    assert "abcdefghijklmnop" not in redact_text("next=" + quote("=sk-abcdefghijklmnopqrst"))


@given(st.lists(st.text("ab", min_size=8, max_size=11), max_size=3), st.lists(st.text("ab-", max_size=12), max_size=8))
def test_known_secrets_are_masked_the_same_however_the_text_is_cut(secrets: list[str], pieces: list[str]) -> None:
    redactor = Redactor(tuple(secrets))
    shown, held = "", ""
    for piece in pieces:
        certain, held = redactor.split_known(held + piece)
        shown += certain
    shown += redactor.mask_known(held)
    assert shown == redactor.mask_known("".join(pieces))
    assert not any(secret in shown for secret in secrets)


def test_only_known_secrets_are_masked_in_what_is_said() -> None:
    redactor = Redactor(("open-sesame-123",))
    said = "token=open-sesame-123, and sk-proj-abcdefghijklmnopqrstuvwxyz0123456789 is how others look"
    assert redactor.mask_known(said) == said.replace("open-sesame-123", "<redacted>")
    assert redactor.split_known("say open-ses") == ("say ", "open-ses")
    assert redactor.split_known("say open-sesame!") == ("say open-sesame!", "")


HOSTILE = [
    *("key=", "api key=", "api key = ", "ssh.key= ", "password=x "),
    *("secret='", 'key=\\"', "token: ", "://a@", "a pass=b;"),
]


def steps(text: str) -> int:
    """How many calls of functions the redaction of a text takes."""
    count = 0

    def note(_frame: object, event: str, _arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        redact_text(text)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("unit", HOSTILE)
def test_the_steps_grow_with_the_length_and_are_few(unit: str) -> None:
    short, long = (unit * (length // len(unit)) for length in (100_000, 400_000))
    few, many = steps(short), steps(long)
    assert many <= 4.1 * few + 100, "linear"
    assert many <= 1.6 * len(long), "few calls for each character"


def test_a_text_with_very_many_names_is_masked_to_its_end() -> None:
    """Beyond ten thousand names nothing is looked at closely: what follows is masked rather too much."""
    before = "api key=None, " * MOST_NAMES
    after = 'the password: "hunter2", max_tokens=5 DB_PASSWORD=swordfish&x=1\ncredentials=abc'
    redacted = redact_text(before + after)
    assert redacted.startswith(before)
    assert redacted[len(before) :] == (
        "the password: <redacted>, max_tokens=5 DB_PASSWORD=<redacted>&x=1\ncredentials=<redacted>"
    )
