"""The sentence that a backtest says first, in each case that it has to tell apart."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tidemark.controller.lab.backtest.table import short_trace_warning, verdict
from tidemark.controller.lab.backtest.trial import choose_policies, judge, read
from tidemark.controller.lab.traces.format import OpenTrace, PlausibleRows, Trace, write_trace
from tidemark.models.base.operators import tumbling
from tidemark.models.live.policy import Setup
from tidemark.models.specs.slo import Objective

from support.streams import SECOND
from support.synthetic import synthetic

START_US = 1_700_000_000 * SECOND
SETUP = Setup(operator=tumbling("10 s"), trigger_us=SECOND, target_ppm=990_000)
BEST = "the best constant bound, known only afterwards,"


def said(path: Path, policy: str, **asked: Any) -> tuple[str, str | None]:
    """Return the sentence and the warning."""
    setup = replace(SETUP, **asked)
    opened = OpenTrace(path)
    arrivals = read(opened, setup, PlausibleRows(0), lambda _: None)
    trial = judge(path, arrivals, setup, choose_policies([policy], setup), lambda *_: None)
    return verdict(trial), short_trace_warning(trial)


def save(path: Path, event_us: NDArray[np.int64], arrival_us: NDArray[np.int64]) -> Path:
    order = np.argsort(arrival_us, kind="stable")
    write_trace(path, Trace(event_us[order], arrival_us[order], np.zeros(len(order), np.int32), ("p",)))
    return path


def even(seconds: int, rows_a_second: int = 10) -> NDArray[np.int64]:
    step = SECOND // rows_a_second
    return START_US + np.arange(0, seconds * SECOND, step, dtype=np.int64)


def punctual(path: Path, seconds: int) -> Path:
    """A stream whose rows all come half a second late."""
    return save(path, even(seconds), even(seconds) + SECOND // 2)


def straggling(path: Path, share: float) -> Path:
    """Ten minutes of which a share of the rows, spread evenly, comes twenty seconds late."""
    event = even(600)
    late = np.arange(len(event)) % round(1 / share) == 0
    return save(path, event, event + np.where(late, 20 * SECOND, SECOND // 2))


@pytest.mark.slow
def test_met_and_faster_than_any_constant_bound(tmp_path: Path) -> None:
    drawn = synthetic("stalls", 3, rate=50, seconds=1_800)
    names = tuple(f"p{number}" for number in range(int(drawn.partition.max()) + 1))
    write_trace(tmp_path / "t", Trace(*drawn, names))
    sentence, warning = said(tmp_path / "t", "tidemark")
    assert sentence.startswith("On this trace Tidemark keeps 99.")
    assert f"s; {BEST} needs " in sentence
    assert "less" not in sentence
    assert warning is None


def test_met_but_a_constant_bound_would_have_been_faster(tmp_path: Path) -> None:
    """A bound of 30 s, where 20 are enough."""
    sentence, _ = said(straggling(tmp_path / "t", 0.1), "fixed:30s")
    assert sentence.startswith("On this trace fixed:30s keeps 100.00 % of the rows at a mean latency of ")
    assert f"; {BEST} needs less, " in sentence


def test_met_with_just_the_best_constant_bound(tmp_path: Path) -> None:
    sentence, _ = said(punctual(tmp_path / "t", 600), "fixed:0")
    assert sentence.endswith(f"; {BEST} needs as long.")


def test_missed(tmp_path: Path) -> None:
    sentence, _ = said(straggling(tmp_path / "t", 0.1), "fixed:1s")
    assert sentence.startswith("On this trace fixed:1s misses the target of 99 % and keeps 9")
    assert re.search(f"; {BEST} needs [0-9.]+ s to meet it.$", sentence)


@pytest.mark.slow
def test_missed_for_the_sake_of_the_latency_cap(tmp_path: Path) -> None:
    sentence, _ = said(straggling(tmp_path / "t", 0.1), "tidemark", latency_cap_us=2 * SECOND)
    assert "misses the target of 99 %, with no window waiting for more than 2 s, and keeps 9" in sentence


def test_no_constant_bound_is_of_any_use(tmp_path: Path) -> None:
    """The rows of the first window come when the trace ends, so a bound that admits them lasts as long."""
    event = even(300)
    path = save(
        tmp_path / "t",
        event,
        np.where(event < START_US + 10 * SECOND, event[-1] + SECOND, event + SECOND // 2),
    )
    sentence, _ = said(path, "fixed:1s")
    assert f"; {BEST} is 4 min 4" in sentence
    assert sentence.endswith(", under which nearly all windows are still open when the trace ends.")


def test_a_latency_of_windows_that_are_still_open_is_a_minimum(tmp_path: Path) -> None:
    sentence, _ = said(punctual(tmp_path / "t", 300), "fixed:1m")
    assert "keeps 100.00 % of the rows at a mean latency of at least " in sentence


def test_no_window_can_be_scored(tmp_path: Path) -> None:
    sentence, _ = said(punctual(tmp_path / "t", 60), "fixed:0", operator=tumbling("1 day"))
    assert sentence.endswith("; no window of it can be scored, so no latency is known.")


def test_the_constant_bound_itself_is_compared_with_nothing(tmp_path: Path) -> None:
    sentence, _ = said(straggling(tmp_path / "t", 0.1), "fixed-hindsight")
    assert sentence.startswith("On this trace the best constant bound, 1")
    assert sentence.count("constant") == 1


@pytest.mark.parametrize(
    ("objective", "kept"), [("occurrences", " % of the rows"), ("timeslices", " % of the windows")]
)
def test_what_is_kept_is_what_the_objective_counts(tmp_path: Path, objective: Objective, kept: str) -> None:
    sentence, _ = said(straggling(tmp_path / "t", 0.1), "fixed:1s", objective=objective)
    assert kept in sentence


@pytest.mark.slow
def test_with_restarts_it_says_by_how_much_live_would_help(tmp_path: Path) -> None:
    """After a five-fold step each restart comes too late for the rows that asked for it."""
    drawn = synthetic("step", 1, rate=20, seconds=1_200)
    names = tuple(f"p{number}" for number in range(int(drawn.partition.max()) + 1))
    write_trace(tmp_path / "step", Trace(*drawn, names))
    restarts, _ = said(tmp_path / "step", "tidemark", mode="restart")
    live, _ = said(tmp_path / "step", "tidemark")
    assert restarts.startswith("On this trace Tidemark misses the target of 99 % and keeps ")
    found = re.search(r"Restarts alone did not keep the target here; Live would, with (.*)[.]$", restarts)
    assert found is not None
    assert live.startswith(f"On this trace Tidemark keeps {found[1]}; ")
    assert "Live" not in said(tmp_path / "step", "max60", mode="restart")[0]


@pytest.mark.slow
def test_where_restarts_keep_the_target_it_says_what_live_would_keep(tmp_path: Path) -> None:
    path = punctual(tmp_path / "even", 600)
    met, _ = said(path, "tidemark", mode="restart")
    assert re.search(r"[.] Live would keep 100.00 % of the rows at a mean latency of [0-9.]+ m?s[.]$", met)
    assert "Live" not in said(path, "max60", mode="restart")[0]


@pytest.mark.slow
def test_a_trace_that_is_too_short_to_learn_from_is_said_to_be(tmp_path: Path) -> None:
    """With what it would take; only where something learns."""
    short, long = punctual(tmp_path / "short", 200), punctual(tmp_path / "long", 600)
    warning = said(short, "tidemark")[1]
    assert warning is not None
    assert warning.startswith("warning: this trace is too short to learn from: Tidemark needs 3")
    assert warning.endswith(" before it trusts what it has seen, and the trace has 19")
    assert said(short, "max60")[1] is None
    assert said(long, "tidemark")[1] is None


def test_a_policy_that_never_decided_did_not_meet_anything(tmp_path: Path) -> None:
    """Nothing is late while nothing comes out: that is no completeness of 100 %."""
    event = START_US + np.arange(100, dtype=np.int64) * 36 * SECOND
    sentence, _ = said(save(tmp_path / "few.parquet", event, event), "tidemark", mode="restart")
    assert sentence == (
        "On this trace Tidemark never decided, so that no window came out: not enough evidence: 98 rows; 417 "
        "rows are needed to certify 99 % at 95 % confidence at every look; counted over the horizon of 1 d, of which "
        "59 min 24 s has been reported: more rows are to come."
    )


@pytest.mark.slow
def test_a_feed_of_few_rows_a_day_is_decided_over_as_many_days_as_it_takes(tmp_path: Path) -> None:
    """150 rows a day, polled every 20 minutes: a bound of 0 s keeps them all."""
    poll_us = 1_200 * SECOND
    event = START_US + np.arange(6 * 150, dtype=np.int64) * (86_400 * SECOND // 150)
    polled = save(tmp_path / "polled.parquet", event, (event // poll_us + 1) * poll_us)
    asked = {"mode": "restart", "operator": tumbling("1 h"), "trigger_us": poll_us}
    assert said(polled, "tidemark", **asked)[0].startswith(
        "On this trace Tidemark keeps 100.00 % of the rows at a mean"
    )
    short = said(polled, "tidemark", horizon_ms=86_400_000, **asked)[0]
    assert "over the horizon of 1 d: lengthen horizon_ms to 4 d" in short


@pytest.mark.long
@pytest.mark.slow
def test_a_target_missed_by_what_was_not_seen_yet_is_said_to_be(tmp_path: Path) -> None:
    """A fifth of the rows comes once an hour: who decides in the first minutes loses those of the first hour."""
    event = even(13 * 3_600, 1)
    hourly = np.arange(len(event)) % 5 == 0
    uploaded = START_US + ((event - START_US) // (3_600 * SECOND) + 1) * 3_600 * SECOND + 300 * SECOND
    trace = save(tmp_path / "hourly.parquet", event, np.where(hourly, uploaded, event))
    asked = {"mode": "restart", "operator": tumbling("1 min"), "trigger_us": 30 * SECOND}
    sentence, _ = said(trace, "tidemark", **asked)
    assert "misses the target of 99 %" in sentence
    assert re.search(
        r"It misses it by what it had not seen yet: after the first 10 h, for which the controller observes a "
        r"job under its own bound, it keeps 99\.\d\d %\.",
        sentence,
    )
