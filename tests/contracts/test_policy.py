"""One suite for every policy of the catalogue: what whoever runs it relies on."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
import pytest

from tidemark.models.backtest.bounds import DEFAULT_SPAN_US, MaxNeed
from tidemark.models.backtest.catalogue import FROM_THE_TRACE, make_policy, policy_names
from tidemark.models.base.operators import tumbling
from tidemark.models.live import cycles
from tidemark.models.live.policy import BoundPolicy, Decision, Observation, Setup

from support.seen import UNKNOWN_US, drawn_batches

SECOND = 1_000_000
DELAY_US = 20 * SECOND
"""From a decision to the batch that it is in force in."""
PARTITIONS = 3
STREAM_BYTES = 480_000
"""What the live policy keeps for a stream, however many partitions it has; each of them adds at most 4 kB.

Measured: 390 kB from the first batch on, three quarters of it the profiles of the hour, the day and the week. While
partitions are silent it keeps what each of them withholds of every open cohort besides.
"""
CONSTANT = ("fixed:5s", "flink:5s")
NAMES = (
    *CONSTANT,
    *(name for name in policy_names() if name not in (*FROM_THE_TRACE, "flink")),
)

Decided = tuple[int | None, int | None]


@dataclass(frozen=True)
class Made:
    """How to make a policy."""

    name: str

    def policy(self, scale: int = 1) -> BoundPolicy:
        """Return a fresh policy; ``scale`` multiplies the times that it is given, not those it observes."""
        if self.name == "max60" and scale != 1:
            return MaxNeed(DEFAULT_SPAN_US * scale)
        name = self.name.replace(":5s", f":{5 * scale}s") if self.name in CONSTANT else self.name
        setup = Setup(
            operator=tumbling(f"{10 * scale} s"),
            trigger_us=10 * SECOND * scale,
            target_ppm=950_000,
        )
        return make_policy(name, setup)

    @cached_property
    def knows_from_the_start(self) -> bool:
        return self.policy().native


every_policy = pytest.mark.parametrize(
    "made",
    [Made(name) for name in NAMES],
    ids=lambda made: made.name,
)


def plain(decision: Decision) -> Decided:
    return decision.bound_us, decision.watermark_us


NOTHING = plain(Decision())


def decided(policy: BoundPolicy, batches: list[Observation], delay_us: int = DELAY_US) -> list[Decided]:
    found = []
    for seen in batches:
        policy.observe(seen)
        found.append(plain(policy.decide(seen.now_us, seen.now_us + delay_us)))
    return found


@cache
def usual() -> list[Observation]:
    """Return the batches of one stream."""
    return drawn_batches(1, 120, partitions=[PARTITIONS])


@cache
def followed(made: Made) -> tuple[list[Decided], bytes]:
    """Return what a policy decided over the usual batches, and what it was then."""
    policy = made.policy()
    return decided(policy, usual()), pickle.dumps(policy)


@every_policy
def test_the_stream_of_this_suite_moves_the_policy(made: Made) -> None:
    """Else the rules below would be held over nothing."""
    assert len(set(followed(made)[0])) > 5 or made.knows_from_the_start


@pytest.mark.slow
@every_policy
def test_a_policy_is_causal(made: Made) -> None:
    """Two streams that are equal up to a batch, whatever follows, are decided alike up to it."""
    one, other = usual(), drawn_batches(2, 120, partitions=[PARTITIONS])
    for cut in (30, 119):
        assert decided(made.policy(), one[:cut] + other[cut:])[:cut] == followed(made)[0][:cut]


@every_policy
def test_the_same_stream_is_decided_alike_each_time(made: Made) -> None:
    """Nothing is drawn, and no policy shares anything with another."""
    again = made.policy()
    assert (decided(again, usual()), pickle.dumps(again)) == followed(made)


@pytest.mark.slow
@every_policy
def test_to_decide_twice_is_to_decide_once(made: Made) -> None:
    """The second answer is the first, and what follows is as if nobody had asked again."""
    batches = drawn_batches(4, 120, partitions=[PARTITIONS])
    asked_once = decided(made.policy(), batches)
    policy = made.policy()
    for seen, expected in zip(batches, asked_once, strict=True):
        policy.observe(seen)
        answers = [plain(policy.decide(seen.now_us, seen.now_us + DELAY_US)) for _ in range(3)]
        assert answers == [expected] * 3


@every_policy
def test_a_policy_does_not_change_what_it_is_shown(made: Made) -> None:
    """Several policies are shown the same arrays, and what one answered stays as it was."""
    batches = drawn_batches(5, 60, partitions=[PARTITIONS])
    before = pickle.dumps(batches)
    policy = made.policy()
    answers = []
    for seen in batches:
        policy.observe(seen)
        answers.append(policy.decide(seen.now_us, seen.now_us + DELAY_US))
    assert [plain(answer) for answer in answers] == decided(made.policy(), batches)
    assert pickle.dumps(batches) == before


@every_policy
def test_before_anything_is_known_nothing_is_decided(made: Made) -> None:
    """Neither an empty batch nor rows that met no base say how late rows are."""
    policy = made.policy()
    if made.knows_from_the_start:
        assert policy.decide(0, DELAY_US).bound_us == 5 * SECOND, "a constant bound is known before any row"
        return
    assert plain(policy.decide(0, DELAY_US)) == NOTHING
    blind = [
        Observation(now_us=SECOND),
        Observation(now_us=2 * SECOND, base_us=np.full(PARTITIONS, SECOND, np.int64)),
        *(
            replace(seen, need_us=np.full_like(seen.need_us, UNKNOWN_US))
            for seen in drawn_batches(6, 40, partitions=[PARTITIONS])
        ),
    ]
    if made.name == "tidemark":
        blind = blind[:2]  # it counts rows by the clock and their keys, against no base
    assert decided(policy, blind) == [NOTHING] * len(blind)


@every_policy
def test_empty_batches_are_fine_at_any_time(made: Made) -> None:
    """They show only the time; a policy that knew something still does."""
    found, policy = followed(made)
    assert found[-1] != NOTHING
    last = usual()[-1]
    silent = [
        replace(Observation(now_us=last.now_us + 10 * SECOND * step), base_us=last.base_us)
        for step in range(1, 100)
    ]
    assert NOTHING not in decided(pickle.loads(policy), silent)


@every_policy
def test_at_most_one_thing_is_decided_also_when_partitions_are_added(made: Made) -> None:
    batches = drawn_batches(8, 120, partitions=[2, 5])
    assert all(None in found for found in decided(made.policy(), batches))


@every_policy
def test_bounds_are_whole_milliseconds(made: Made) -> None:
    """Spark's delay has no smaller unit."""
    assert all((bound_us or 0) % 1_000 == 0 for bound_us, _ in followed(made)[0])


@pytest.mark.slow
@every_policy
def test_the_state_does_not_grow_with_the_rows(made: Made) -> None:
    """A driver runs for months: at most 4 kB a partition."""
    batches = drawn_batches(10, 1_500, partitions=[PARTITIONS], step_us=SECOND)
    policy = made.policy()
    decided(policy, batches[:300])
    early = len(pickle.dumps(policy))
    sizes = []
    for start in range(300, 1_500, 100):
        decided(policy, batches[start : start + 100])
        sizes.append(len(pickle.dumps(policy)))
    if made.name == "tidemark":
        # Keys that are waited for are open, so it swells while rows are missing, and shrinks again: its size after 300
        # batches is no measure, but what it swells to is the same in the second half.
        assert max(sizes) <= STREAM_BYTES + PARTITIONS * 4_000
        assert max(sizes[len(sizes) // 2 :]) <= max(sizes[: len(sizes) // 2]) + 2_000
    else:
        assert max(sizes) <= early + 1_000
        assert max(sizes) <= 4_000


@pytest.mark.slow
@every_policy
def test_times_a_thousand_make_bounds_a_thousand_times_as_wide(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Milliseconds or hours, where cycles are as much longer too: the rule is the same; bounds are rounded to one."""
    scale = 1_000
    monkeypatch.setattr(cycles, "PERIODS_US", [scale * period_us for period_us in cycles.PERIODS_US])
    small = decided(made.policy(), drawn_batches(12, 120, partitions=[PARTITIONS]))
    large = decided(
        made.policy(scale), drawn_batches(12, 120, partitions=[PARTITIONS], scale=scale), DELAY_US * scale
    )
    for narrow, wide in zip(small, large, strict=True):
        for one, other in zip(_bounds(narrow), _bounds(wide), strict=True):
            assert abs(other - one * scale) <= scale * 1_000


def _bounds(found: Decided) -> list[int]:
    return [value for value in found if value is not None]
