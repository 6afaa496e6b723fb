"""Principals of the configuration: one list for every server, and its older place in the section of A2A."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.base.config import A2AConfig, Config, PrincipalConfig
from hermes.base.errors import ConfigError
from hermes.base.http_server.principals import Principal, read_principals, workspace_of
from hermes.base.sanitize import Redactor

ALICE = "token-of-alice-0123456789"
BOB = "token-of-bob-0123456789abc"
ENV = {"ALICE": ALICE, "BOB": BOB}


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def test_both_places_of_principals_are_read() -> None:
    older = A2AConfig(principals={"bob": PrincipalConfig(token_env="BOB", scopes=["read"])})
    config = Config(principals={"alice": PrincipalConfig(token_env="ALICE", scopes=["send", "approve"])}, a2a=older)

    known = read_principals(config, ENV, Redactor())

    alice, bob = known.authenticate(bearer(ALICE)), known.authenticate({"x-api-key": BOB})
    assert alice == Principal("alice", frozenset({"send", "approve"}))
    assert alice is not None and alice.may_approve
    assert bob == Principal("bob", frozenset({"read"}))
    assert bob is not None and not bob.may_approve
    assert known.authenticate(bearer("token-of-another-0123456")) is None


def test_a_caller_has_one_entry() -> None:
    older = A2AConfig(principals={"alice": PrincipalConfig(token_env="BOB")})
    config = Config(principals={"alice": PrincipalConfig(token_env="ALICE")}, a2a=older)

    with pytest.raises(ConfigError, match=r"principals\.alice and a2a\.principals\.alice are the same caller"):
        read_principals(config, ENV, Redactor())


def test_each_server_may_have_a_variable_of_its_own_for_a_single_caller() -> None:
    known = read_principals(Config(), {"OTHER_KEY": ALICE, "HERMES_A2A_TOKEN": BOB}, Redactor(), "OTHER_KEY")

    assert known.token_variable == "OTHER_KEY"
    assert known.authenticate(bearer(BOB)) is None
    assert known.authenticate(bearer(ALICE)) is not None


def test_a_workspace_is_that_of_the_configuration_or_a_private_one(home: Path, workdir: Path) -> None:
    own = workspace_of(Principal("alice"), home, workdir)
    assert own == home / "principals" / "alice" / "workspace"
    assert own.stat().st_mode & 0o777 == 0o700
    assert workspace_of(Principal("alice", workspace="."), home, workdir) == workdir.resolve()
    with pytest.raises(ConfigError, match=r"principals\.alice\.workspace: .*gone is not a folder; make it"):
        workspace_of(Principal("alice", workspace="gone"), home, workdir)
