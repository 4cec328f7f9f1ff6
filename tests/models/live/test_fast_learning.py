"""What the fast policy learns from, on a stream of seconds."""

from __future__ import annotations

import pytest

from tidemark.models.live.fast import Order

from support.fast_streams import TEN_SECONDS, FastStream
from support.streams import SECOND

ORDER = Order(bound_us=5 * SECOND, target_ppm=990_000)


@pytest.mark.parametrize(("unread", "learned"), [(0, 9), (5, 0)])
def test_rows_that_are_read_behind_a_backlog_teach_the_policy_nothing(unread: int, learned: int) -> None:
    """They are late because the job was, and the next ones are not."""
    stream = FastStream(TEN_SECONDS, SECOND)

    def pairs() -> int:
        known = stream.policy.learned()
        assert known is not None
        return int(known.arrays["rules.pairs"])

    for _ in range(10):
        stream.batch([("a", stream.now_us - SECOND)], ORDER)
    before = pairs()
    stream.batch([("a", stream.now_us - (20 + k) * SECOND) for k in range(9)], ORDER, {"a": unread})
    assert pairs() - before == learned
