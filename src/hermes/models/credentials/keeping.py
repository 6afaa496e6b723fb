"""Adding credentials to ``auth.json`` and taking them out again."""

from __future__ import annotations

import os

from hermes.errors import CredentialError
from hermes.models.credentials.auth_file import AuthFile, Pool, records_of
from hermes.models.credentials.credential import Credential, Record, read_credential
from hermes.models.credentials.oauth import Tokens

_LONGEST_NAME = 64


def add_key(file: AuthFile, provider: str, key: str, profile: str = "") -> Credential:
    """Store a key. One that is there already, or a name that is taken, is refused."""
    _check_name(profile)
    check_key(key)
    stored: Record = {"id": _new_id(), "label": profile, "auth_type": "api_key", "access_token": key}

    def change(pool: Pool) -> None:
        known = list(records_of(pool, provider))
        for record in known:
            if record.get("access_token") == key:
                raise CredentialError(f"this key is stored for {provider} already, as {record.get('label')!r}")
        _check_that_it_is_free(provider, known, profile)
        stored["label"] = profile or _free_name(known)
        _append(pool, provider, stored)

    file.edit(change)
    return _as_credential(provider, stored)


def check_key(key: str) -> None:
    """Raise ``CredentialError`` for what cannot be a key."""
    if not key:
        raise CredentialError("the key is empty; nothing was stored")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise CredentialError(
            "the key has characters that no key has (a blank, a line break or a non-ASCII letter); copy it again"
        )


def add_sign_in(file: AuthFile, provider: str, tokens: Tokens, profile: str = "") -> Credential:
    """Store what a sign-in gave. A sign-in of the same name is replaced; a key of that name is not."""
    _check_name(profile)
    label = profile or "login"
    fields = {name: value for name, value in tokens.as_fields().items() if value is not None}
    stored: Record = {"id": _new_id(), "label": label, "auth_type": "oauth", **fields}

    def change(pool: Pool) -> None:
        known = [record for record in records_of(pool, provider) if record.get("label") == label]
        _check_that_it_is_free(provider, [one for one in known if one.get("auth_type") != "oauth"], label)
        # A new id, so that what is said of the old sign-in cannot be taken for news of this one.
        _take_out(pool, provider, {str(record.get("id")) for record in known})
        _append(pool, provider, stored)

    file.edit(change)
    return _as_credential(provider, stored)


def remove(file: AuthFile, provider: str, which: str = "") -> Credential:
    """Take out the credential of that name or id; without one the only one there is."""
    removed: list[Credential] = []

    def change(pool: Pool) -> None:
        known = [one for record in records_of(pool, provider) if (one := read_credential(provider, record))]
        found = [one for one in known if not which or which in (one.label, one.id)]
        if len(found) != 1:
            raise CredentialError(_not_one(provider, which, known, found))
        _take_out(pool, provider, {found[0].id})
        removed.append(found[0])

    file.edit(change)
    return removed[0]


def _not_one(provider: str, which: str, known: list[Credential], found: list[Credential]) -> str:
    if not known:
        return f"nothing is stored for {provider}; 'hermes auth list' shows what is"
    if not found:
        return (
            f"no credential {which!r} is stored for {provider}; there is: {', '.join(repr(one.label) for one in known)}"
        )
    names = ", ".join(f"{one.id} ({one.label})" for one in found)
    return f"{provider} has several credentials that could be meant; name one of: {names}"


def _append(pool: Pool, provider: str, record: Record) -> None:
    record.update(source="manual", priority=len(list(records_of(pool, provider))), last_status="ok", request_count=0)
    pool.setdefault(provider, []).append(record)


def _take_out(pool: Pool, provider: str, identities: set[str]) -> None:
    for name in (provider, f"custom:{provider}"):
        if name in pool:
            kept = [record for record in pool[name] if _id_of(record) not in identities]
            pool[name] = kept
            if not kept:
                del pool[name]


def _id_of(record: object) -> str:
    return str(record.get("id")) if isinstance(record, dict) else ""  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def _check_name(profile: str) -> None:
    if profile and (not profile.isprintable() or profile != profile.strip() or len(profile) > _LONGEST_NAME):
        raise CredentialError(f"a profile name has at most {_LONGEST_NAME} characters, and none that cannot be seen")


def _check_that_it_is_free(provider: str, known: list[Record], label: str) -> None:
    if label and any(label in (record.get("label"), record.get("id")) for record in known):
        raise CredentialError(
            f"a credential {label!r} is stored for {provider} already; choose another name, or remove it first with "
            f"'hermes auth remove {provider} --profile {label}'"
        )


def _free_name(known: list[Record]) -> str:
    taken = {record.get("label") for record in known}
    return next(name for number in range(1, len(taken) + 2) if (name := f"key-{number}") not in taken)


def _new_id() -> str:
    return os.urandom(3).hex()


def _as_credential(provider: str, record: Record) -> Credential:
    found = read_credential(provider, record)
    assert found is not None
    return found
