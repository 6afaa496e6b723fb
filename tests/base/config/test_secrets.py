"""The secrets of a home: found in every place that can hold one, and ordinary values left out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hermes.base.config import load_config
from hermes.base.config.secrets import home_secrets, is_plain, is_unnamed_secret

CONFIG = """
model:
  base_url: https://gateway-user:Userinfo-Pa55word@models.example/v1?api_key=Query-Value-0001
  api_key: Inline-Key-000001
  extra_headers:
    X-Lab: Header-Value-9Zt81
    Authorization: Bearer Header-Bearer-77
    X-Title: my application
providers:
  lab:
    base_url: http://localhost:1234/v1
    key_env: ODD_NAME
delegation: {api_key: Delegation-Key-01}
plugins:
  entries:
    thing: {client_secret: Plugin-Secret-001, title: ordinary words here}
a2a:
  principals:
    alice: {token_env: ALICE}
  push: {secret_env: HOOK_SIGN}
"""

ENV = """
ODD_NAME=odd-name
ALICE=alice alice alice
HOOK_SIGN=plain-words
SETTING=Zx81kQ-unnamed-value
DATABASE_URL=postgres://app:Database-Pa55@db.example/app
EDITOR_NAME=visual editor mode
REGION=eu-central-1
DATA_DIR=/srv/data/folder/of/mine
SITE=https://example.org/some/page
PHONE=0123456789012
LAB_KEY=short
"""

AUTH = {
    "version": 1,
    "credential_pool": {
        "openai": [
            {
                "id": "1",
                "label": "work at home",
                "access_token": "Stored-Access-01",
                "refresh_token": "Stored-Refresh-01",
            }
        ]
    },
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "config.yaml").write_text(CONFIG)
    (tmp_path / ".env").write_text(ENV)
    (tmp_path / ".env").chmod(0o600)
    (tmp_path / "auth.json").write_text(json.dumps(AUTH))
    return tmp_path


def test_every_secret_of_a_home_is_found_and_named(home: Path) -> None:
    environ = {
        "SHELL_TOKEN": "Shell-Token-0001",
        "HERMES_A2A_TOKEN": "the one token of all",
        "HTTPS_PROXY": "http://me:Proxy-Pa55word@proxy:3128",
        "PATH": "/usr/bin:/bin",
        "SSH_KEY": "/home/me/.ssh/id_ed25519",
    }
    found = home_secrets(home, load_config(home, environ=environ).config, environ)
    assert found == {
        "ODD_NAME": "odd-name",
        "ALICE": "alice alice alice",
        "HOOK_SIGN": "plain-words",
        "SETTING": "Zx81kQ-unnamed-value",
        "DATABASE_URL": "postgres://app:Database-Pa55@db.example/app",
        "DATABASE_URL.2": "Database-Pa55",
        "SHELL_TOKEN": "Shell-Token-0001",
        "HERMES_A2A_TOKEN": "the one token of all",
        "HTTPS_PROXY": "Proxy-Pa55word",
        "model.base_url": "Userinfo-Pa55word",
        "model.base_url.2": "Query-Value-0001",
        "model.api_key": "Inline-Key-000001",
        "model.extra_headers.X-Lab": "Header-Value-9Zt81",
        "model.extra_headers.Authorization": "Bearer Header-Bearer-77",
        "model.extra_headers.Authorization.2": "Header-Bearer-77",
        "delegation.api_key": "Delegation-Key-01",
        "plugins.entries.thing.client_secret": "Plugin-Secret-001",
        "auth.json:openai": "Stored-Access-01",
        "auth.json:openai.2": "Stored-Refresh-01",
    }


def test_a_home_without_files_has_no_secrets(tmp_path: Path) -> None:
    assert home_secrets(tmp_path / "none", load_config(tmp_path).config, {"PATH": "/usr/bin"}) == {}


def test_damaged_files_of_a_home_are_no_failure(tmp_path: Path) -> None:
    (tmp_path / "auth.json").write_text("{not json")
    (tmp_path / ".env").mkdir()
    assert home_secrets(tmp_path, load_config(tmp_path).config, {}) == {}


@pytest.mark.parametrize(
    "value",
    [
        "development mode",
        "claude-sonnet-4-5-20250929",
        "1234567890123456",
        "2026-11-15T10:00:00",
        "~/some/folder/with.name",
        "C:\\Users\\me\\folder",
        "https://example.org/a/b?page=2",
        "postgresql://hermes@db.example.org/hermes",
        "person.name@example.org",
        "localhost:8080",
        "${OTHER_NAME_HERE}",
    ],
)
def test_plain_values(value: str) -> None:
    assert is_plain(value)
    assert not is_unnamed_secret(value)


@pytest.mark.parametrize(
    "value",
    [
        "a9f3c1d2e4b5a6f7",
        "Tr0ub4dor&3-horse",
        "550e8400-e29b-41d4-a716-446655440000",
        "abcdefghijklmnopqrstuvwxyzabc",
        "https://user:Pa55word@example.org/",
        "https://Token-0123456789@example.org/",
        "postgresql://hermes:Pa55word@db.example.org/hermes",
        "/Zk9x7Qm2Lp4Wn8Rt5Yv3Ub6Hd1Fc0",
        "QUJDREVGR0hJSktMTU5PUA==",
    ],
)
def test_long_values_that_are_nothing_plain(value: str) -> None:
    assert is_unnamed_secret(value)
