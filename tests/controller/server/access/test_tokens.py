"""The format of tokens."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.controller.base.principal import ROLES, Role
from tidemark.controller.base.token_format import (
    SECRET_BYTES,
    TOKEN,
    digest_of,
    is_token,
    make_token,
    role_of,
)

BYTES = st.binary(min_size=SECRET_BYTES, max_size=SECRET_BYTES)
SOME_ROLE = st.sampled_from(ROLES)


@given(role=SOME_ROLE, random=BYTES)
def test_a_token_says_its_role_has_one_length_and_is_known_as_one(role: Role, random: bytes) -> None:
    token = make_token(role, random)
    assert token.startswith(f"tdm_{role}_")
    assert len(token) == len(f"tdm_{role}_") + 51
    assert is_token(token)
    assert role_of(token) == role
    found = TOKEN.search(f"see {token}.")
    assert found is not None
    assert found[0] == token


@given(role=SOME_ROLE, random=BYTES, at=st.integers(0, 200), other=st.characters(codec="ascii"))
def test_a_token_with_one_character_changed_is_none(role: Role, random: bytes, at: int, other: str) -> None:
    token = make_token(role, random)
    at %= len(token)
    changed = token[:at] + other + token[at + 1 :]
    assert is_token(changed) is (changed == token)
    assert (role_of(changed) is None) is (changed != token)


@given(role=SOME_ROLE, random=BYTES, cut=st.integers(0, 50))
def test_a_token_cut_short_is_none(role: Role, random: bytes, cut: int) -> None:
    assert not is_token(make_token(role, random)[:cut])


@given(role=SOME_ROLE, one=BYTES, other=BYTES)
def test_different_bytes_make_different_tokens(role: Role, one: bytes, other: bytes) -> None:
    assert (make_token(role, one) == make_token(role, other)) is (one == other)


def test_fewer_random_bytes_than_a_token_needs_are_refused() -> None:
    with pytest.raises(ValueError, match="32 random bytes, not 16"):
        make_token("admin", b"0" * 16)


def test_what_is_kept_of_a_token_is_its_sha_256() -> None:
    token = make_token("job", bytes(SECRET_BYTES))
    assert digest_of(token) == hashlib.sha256(token.encode()).hexdigest()
    assert token == "tdm_job_" + "0" * 43 + token[-8:]
