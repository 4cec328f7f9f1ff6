"""Fixtures of the tests of Live."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.live_comparisons import LiveCompared, print_table


@pytest.fixture(scope="module")
def table(request: pytest.FixtureRequest) -> Iterator[dict[str, LiveCompared]]:
    """Return what each test compared, to be printed in the end."""
    rows: dict[str, LiveCompared] = {}
    yield rows
    print_table(request, "live", rows)
