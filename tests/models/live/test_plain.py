"""What plain Spark at a bound of 0 s would lose: the live policy counts it exactly, whatever it decides itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidemark.models.backtest.run import run, run_native
from tidemark.models.live.tidemark import Tidemark

from support.short_streams import counted, setup, short_trace
from support.streams import SECOND

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", ["bursts", "slow", "stalls", "night", "shifts"])
@pytest.mark.parametrize("trigger_s", [1, 5])
def test_it_counts_exactly_the_rows_that_plain_spark_loses(kind: str, trigger_s: int) -> None:
    asked = replace(setup(), trigger_us=trigger_s * SECOND)
    arrivals = counted(short_trace(kind), asked)
    policy = Tidemark(asked)
    run(arrivals, asked, policy)
    plain = run_native(arrivals, asked, 0)
    assert plain.late > 0 or kind in {"night", "shifts"}
    assert policy.learned()["plain.late"] == plain.late
