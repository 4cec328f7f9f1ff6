"""A real issuer for the tests of access, and a controller that trusts it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.issuer import Issuer, running_issuer
from support.trusting import Trusting


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with running_issuer() as running:
        yield running


@pytest.fixture
def trusting(tmp_path: Path, issuer: Issuer) -> Iterator[Trusting]:
    with Trusting(tmp_path, issuer) as running:
        yield running
