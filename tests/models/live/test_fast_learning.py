"""What the fast policy learns from, on a stream of seconds."""

from __future__ import annotations

from tidemark.models.live.fast import Order

from support.fast_streams import TEN_SECONDS, FastStream
from support.streams import SECOND

ORDER = Order(bound_us=5 * SECOND, target_ppm=990_000)


def test_what_waited_in_the_source_when_the_run_began_teaches_the_policy_nothing() -> None:
    """It is late because the job was away, and there is no usual lag yet from which that would show."""
    stream = FastStream(TEN_SECONDS, SECOND)

    def pairs() -> int:
        known = stream.policy.learned()
        assert known is not None
        return int(known.arrays["rules.pairs"])

    for second in range(10):
        stream.batch([("a", stream.now_us - (600 - 50 * second) * SECOND)], ORDER, {"a": 9})
    assert not pairs()
    for unread in (0, 0, 5, 5):
        stream.batch([("a", stream.now_us - SECOND)], ORDER, {"a": unread})
    assert pairs() == 4, "and what is unread later does not stop it"
