"""Names and addresses that mean this machine, and those that only seem to."""

from __future__ import annotations

import pytest

from tidemark.controller.base.principal import is_foreign_name


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "localhost",
        "localhost:8642",
        "LOCALHOST.",
        "a.localhost",
        "127.0.0.1:8642",
        "[::1]:8642",
        "::1",
        "host:1",
    ],
)
def test_requests_for_this_machine_are_known_by_their_host(header: str | None) -> None:
    assert not is_foreign_name(header)


@pytest.mark.parametrize(
    "header",
    [
        "evil.example",
        "evil.example:8642",
        "evil.example.",
        "127.0.0.1.evil.example",
        "192.0.2.1:8642",
        "localhost.evil.example",
    ],
)
def test_a_name_that_somebody_else_may_have_made_is_foreign(header: str) -> None:
    assert is_foreign_name(header)
