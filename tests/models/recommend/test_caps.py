"""The latency cap: which bounds it allows, and how a conflict is resolved."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.evidence.curve import Curve, Emissions, ExactNeeds
from tidemark.models.protocol.downstream import Downstream
from tidemark.models.recommend.recommendation import recommend
from tidemark.models.recommend.steps import Conflict
from tidemark.models.specs.slo import Policy, Slo

from support.examples import examples
from support.recommendations import MS, STEADY, THOUSAND, capped, inputs, step


def test_a_cap_that_is_met_changes_nothing_and_shows_both_figures() -> None:
    """998 ms wait 1.998 s."""
    found = recommend(inputs(THOUSAND, slo=capped(None, cap_ms=1_998)))
    assert found.bound_ms == 998
    assert step(found, "latency cap").reason == "the mean latency is 1.998 s, the cap 1.998 s"


def test_a_conflict_that_the_slo_does_not_resolve_holds_the_bound_in_use() -> None:
    """Neither constraint is broken silently; the chain ends there."""
    found = recommend(inputs(THOUSAND, slo=capped(None), in_use_bound_ms=700))
    assert found.bound_ms is None
    assert found.steps[-1].kind.label == "latency cap"
    assert found.steps[-1].reason == (
        "998 ms has a mean latency of 2 s, above the cap of 1.5 s, "
        "and the SLO does not say which gives way: the bound in use is held"
    )


def test_where_the_target_may_be_missed_the_widest_bound_within_the_cap_is_taken() -> None:
    """500 ms wait 1.5 s and admit 500 of 1,000 rows; the reason says so."""
    found = recommend(inputs(THOUSAND, slo=capped("miss_target")))
    assert found.bound_ms == 500
    assert step(found, "latency cap").reason.endswith(
        "the target is missed, as the SLO says: 500 ms admits 50.00 %"
    )


def test_where_the_target_may_be_missed_and_even_0_waits_too_long_the_bound_is_0() -> None:
    """The minimum; the reason says that it is not enough."""
    found = recommend(inputs(THOUSAND, slo=capped("miss_target", cap_ms=900)))
    assert found.bound_ms == 0
    assert step(found, "latency cap").reason.endswith("even a bound of 0 is above the cap")


def test_where_the_latency_cap_may_be_exceeded_the_target_is_kept() -> None:
    """The reason names the exceeded cap."""
    found = recommend(inputs(THOUSAND, slo=capped("exceed_latency_cap")))
    assert found.bound_ms == 998
    assert step(found, "latency cap").reason.endswith("above the cap of 1.5 s, which the SLO allows")


def test_an_operator_without_windows_breaks_no_cap() -> None:
    """No latency is known, which is not a latency of 0."""
    found = recommend(inputs(THOUSAND, slo=capped(None), windows=False))
    assert found.bound_ms == 998
    assert step(found, "latency cap").reason == ("no latency is known yet to compare with the cap of 1.5 s")


def test_windows_behind_a_join_wait_for_its_retention_too() -> None:
    """With 0.5 s more only 500 ms are within a cap of 2 s: they wait 1.5 s before the join."""
    given = inputs(THOUSAND, slo=capped("miss_target", cap_ms=2_000))
    found = recommend(replace(given, downstream=Downstream(retention_ms=500)))
    assert found.bound_ms == 500
    assert step(found, "downstream").reason == "windows close at bound + 500 ms behind the join: 1 s"


@pytest.mark.parametrize(("cap_ms", "bound_ms"), [(1_498, 998), (1_497, None)])
def test_without_windows_of_its_own_a_stream_waits_at_least_until_those_behind_it_close(
    cap_ms: int, bound_ms: int | None
) -> None:
    given = inputs(THOUSAND, slo=capped(None, cap_ms=cap_ms), windows=False)
    found = recommend(replace(given, downstream=Downstream(retention_ms=500)))
    assert found.bound_ms == bound_ms
    assert "the mean latency is at least 1.498 s" in step(found, "latency cap").reason or bound_ms is None


@pytest.mark.parametrize("on_conflict", [None, "exceed_state_cap"])
def test_a_margin_that_crosses_the_latency_cap_is_a_conflict_unless_the_slo_settles_it(
    on_conflict: Any,
) -> None:
    """The rows require 998 ms, which wait 1.998 s; with half as much again they wait 2.5 s, and the cap is 2.1 s."""
    policy = Policy(margin_ppm=500_000)
    found = recommend(inputs(THOUSAND, slo=capped(on_conflict, cap_ms=2_100), policy=policy))

    assert (found.bound_ms, found.required_ms) == (None, 998)
    assert found.steps[-1].conflict == Conflict("latency", required_bound_ms=1_500)
    assert found.conflicts == (found.steps[-1].conflict,)


@pytest.mark.parametrize("on_conflict", [None, "exceed_latency_cap", "miss_target"])
def test_a_required_bound_above_the_cap_is_a_conflict_however_it_is_resolved(on_conflict: Any) -> None:
    """The step that finds it says so, with the bound; nobody has to know what the step is called."""
    found = recommend(inputs(THOUSAND, slo=capped(on_conflict)))

    assert found.conflicts == (Conflict("latency", required_bound_ms=998),)
    assert not recommend(inputs(THOUSAND, slo=capped(on_conflict, cap_ms=1_998))).conflicts


@pytest.mark.slow
@given(
    margin=st.integers(0, 2_000_000),
    cap=st.none() | st.integers(0, 3_000),
    in_use=st.none() | st.integers(0, 3_000),
    on_conflict=st.sampled_from([None, "miss_target", "exceed_latency_cap"]),
    silent=st.integers(0, 1),
)
@examples(200)
def test_with_evidence_there_is_a_bound_or_a_conflict(
    *, margin: int, cap: int | None, in_use: int | None, on_conflict: Any, silent: int
) -> None:
    found = recommend(
        inputs(
            THOUSAND,
            slo=Slo(target_ppm=990_000, latency_cap_ms=cap, on_conflict=on_conflict),
            policy=Policy(margin_ppm=margin),
            in_use_bound_ms=in_use,
            progress=replace(STEADY, silent_partitions=silent),
        )
    )

    assert found.bound_ms is not None or found.conflicts


def test_a_latency_of_open_windows_is_a_conflict_only_once_it_is_above_the_cap() -> None:
    """A floor of 4 s is above a cap of 3 s for sure; below one of 5 s it decides nothing, and the reason says so.

    The base reaches 8 s: under a bound of 4 s two windows of five are open, and wait for as much at least.
    """
    ends, steps = np.arange(0, 10, 2, dtype=np.int64) * 1_000 * MS, np.arange(9, dtype=np.int64) * 1_000 * MS
    need = np.full(1_000, 4_000 * MS)
    open_windows = replace(
        inputs([1]),
        curve=Curve(ExactNeeds(need, np.ones_like(need)), Emissions(ends, steps, steps)),
        evidence=replace(inputs([1]).evidence, rows=1_000),
    )

    below = recommend(replace(open_windows, slo=capped(None, cap_ms=5_000)))
    above = recommend(replace(open_windows, slo=capped(None, cap_ms=3_000)))

    assert (below.bound_ms, below.conflicts) == (4_000, ())
    assert step(below, "latency cap").reason == (
        "the mean latency is at least 4 s, and too many windows are still open to compare it with the cap of 5 s"
    )
    assert (above.bound_ms, above.conflicts) == (None, (Conflict("latency", 4_000),))
