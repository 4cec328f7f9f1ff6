"""What a fleet of 50 made streams would save, against a replay of the same rows under both bounds."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from tidemark.controller.server.http.cursors import encode_cursor
from tidemark.controller.tools.cli import app
from tidemark.models.backtest.arrivals_builder import ArrivalsBuilder
from tidemark.models.backtest.run import run_native
from tidemark.models.base.operators import row_level, tumbling
from tidemark.models.live.policy import Setup

from support.controller_app import Controller
from support.policies import at_once
from support.reports import START_US, query_reports
from support.served import served
from support.streams import SECOND, Row

pytestmark = pytest.mark.slow

OPERATOR = tumbling("10 seconds")
INTERVAL_US = 10 * SECOND
BATCHES = 80
ROWS = 60
TARGET_PPM = 990_000
BATCH_MS = 100
"""Duration of a batch."""
DAY_US = 86_400_000_000
SPAN_US = BATCHES * INTERVAL_US
KEYS = 100
"""Rows of state behind each open window."""
KEY_BYTES = 1_000


@dataclass(frozen=True)
class Made:
    """A stream: its rows by batch, and the bound in its job."""

    name: str
    bound_ms: int
    has_slo: bool
    batches: list[list[Row]]


def made(number: int) -> Made:
    rng = random.Random(number)
    mean_s = rng.uniform(0.5, 12)
    batches = [
        [
            (
                "0",
                START_US
                + n * INTERVAL_US
                - round((rng.expovariate(1 / mean_s) + rng.uniform(0, 10)) * SECOND),
            )
            for _ in range(ROWS)
        ]
        for n in range(BATCHES)
    ]
    bound_ms = (2_000, 10_000, 30_000, 60_000, 90_000, 300_000)[number % 6]
    return Made(f"stream-{number:02}", bound_ms, number % 5 != 4, batches)


def open_windows(stream: Made, bound_ms: int) -> list[int]:
    """Return how many windows are open after each batch."""
    ends: set[int] = set()
    base_us, found = None, []
    for rows in stream.batches:
        mark_us = -(2**62) if base_us is None else base_us // 1_000 * 1_000 - bound_ms * 1_000
        ends |= {time // INTERVAL_US * INTERVAL_US + INTERVAL_US for _, time in rows}
        ends = {end for end in ends if end > mark_us}
        found.append(len(ends))
        newest_us = max(time for _, time in rows)
        base_us = newest_us if base_us is None else max(base_us, newest_us)
    return found


@dataclass(frozen=True)
class Truth:
    """What a replay of a stream under a bound did."""

    rows_a_day: float
    late_a_day: float
    latency_ms: float
    state_rows: int


def truth(stream: Made, bound_ms: int) -> Truth:
    setup = Setup(operator=OPERATOR, trigger_us=INTERVAL_US, target_ppm=990_000)
    builder = ArrivalsBuilder(setup)
    for n, rows in enumerate(stream.batches):
        times = np.array([time for _, time in rows], np.int64)
        arrived = np.full(len(times), START_US + (n - 1) * INTERVAL_US)
        builder.add(times, arrived, np.zeros(len(times), np.int64), 1)
    arrivals = builder.build()
    done = run_native(arrivals, setup, bound_ms * 1_000)
    ends_us, base_us = arrivals.keys_us, max(time for rows in stream.batches[:-1] for _, time in rows)
    # As in the evidence: windows that began and ended within what was reported.
    first_us = max(time for _, time in stream.batches[0])
    counted = (ends_us > first_us) & (ends_us <= base_us - bound_ms * 1_000)
    latency_us = done.emit_wall_us[counted] - ends_us[counted]
    return Truth(
        ROWS * BATCHES * DAY_US / SPAN_US,
        done.late * DAY_US / SPAN_US,
        float(latency_us.mean()) / 1_000 if counted.any() else 0,
        open_windows(stream, bound_ms)[-1] * KEYS,
    )


def savings(controller: Controller, **query: Any) -> dict[str, Any]:
    answer = controller.http.get("/v1/savings", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def streams_in(page: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**row, **row["savings"]} for row in page["streams"]]


def tidemark(controller: Controller, *arguments: str) -> list[str]:
    with served(controller.app) as url:
        environment = {"TIDEMARK_URL": url, "TIDEMARK_TOKEN": "", "COLUMNS": "300"}
        done = CliRunner().invoke(app, ["savings", *arguments], env=environment)
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


def fill(controller: Controller, stream: Made) -> None:
    if stream.has_slo:
        controller.http.put(f"/v1/jobs/job/streams/{stream.name}/slo", json={"target_ppm": TARGET_PPM})
    reports = query_reports(
        stream.batches, OPERATOR, bound_ms=stream.bound_ms, interval_us=INTERVAL_US, stream=stream.name
    )
    rows = [windows * KEYS for windows in open_windows(stream, stream.bound_ms)]
    controller.clock.now_us = reports[-1].started_us + SECOND
    controller.report_all(
        replace(report, state_rows=held, state_bytes=held * KEY_BYTES)
        for report, held in zip(reports, rows, strict=True)
    )


def filled(controller: Controller, *streams: Made) -> None:
    for stream in streams:
        fill(controller, stream)
    controller.tick()
    controller.snapshot()


def holds(between: dict[str, int | None], number: float) -> bool:
    least, most = between["min"], between["max"]
    return (least is None or least <= number) and (most is None or number <= most)


def wider(between: dict[str, int | None], by: float) -> dict[str, Any]:
    least, most = between["min"], between["max"]
    return {"min": None if least is None else least - by, "max": None if most is None else most + by}


def assert_as_in_replay(figures: dict[str, Any], of: Truth, windows_a_day: int) -> None:
    """Compare: late rows exactly, latency within a hundredth and a batch, state within one and a half windows."""
    assert holds(figures["late_rows"], of.late_a_day)
    latency_by = of.latency_ms / 100 + BATCH_MS
    assert holds(wider(figures["latency_ms"], latency_by), of.latency_ms)
    assert holds(wider(figures["waiting_ms"], latency_by * windows_a_day), of.latency_ms * windows_a_day)
    assert holds(wider(figures["state_rows"], 1.5 * KEYS), of.state_rows)
    assert holds(wider(figures["state_bytes"], 1.5 * KEYS * KEY_BYTES), of.state_rows * KEY_BYTES)


@pytest.mark.long
def test_what_fifty_streams_would_save_is_what_a_replay_of_their_rows_saves(controller: Controller) -> None:
    fleet = {stream.name: stream for stream in map(made, range(50))}
    filled(controller, *fleet.values())
    page = savings(controller)
    rows, totals = streams_in(page), page["totals"]
    assert len(rows) == totals["streams"] == len(fleet)
    losing, late_saved = [], 0.0
    for row in rows:
        stream = fleet[row["stream"]]
        before = truth(stream, stream.bound_ms)
        assert row["bound_ms"] == stream.bound_ms
        assert row["windows_a_day"] == DAY_US // INTERVAL_US
        assert_as_in_replay(row["now"], before, row["windows_a_day"])
        allowed = before.rows_a_day * (1 - TARGET_PPM / 1_000_000) if stream.has_slo else 0
        assert row["loses"] == (before.late_a_day > allowed)
        if row["loses"]:
            losing.append(before.late_a_day)
        assert (row["recommended_bound_ms"] is None) == (not stream.has_slo)
        if not stream.has_slo:
            assert row["saved"] is None
            assert row["reason"] == "nothing is recommended: no SLO is set"
            continue
        after = truth(stream, row["recommended_bound_ms"])
        assert_as_in_replay(row["recommended"], after, row["windows_a_day"])
        late_saved += before.late_a_day - after.late_a_day
        assert holds(row["saved"]["late_rows"], before.late_a_day - after.late_a_day)
        # A narrower bound saves waiting, and a wider one costs some; unless no batch can tell them apart.
        saved_ms, narrowed_ms = (
            row["saved"]["waiting_ms"]["min"],
            row["bound_ms"] - row["recommended_bound_ms"],
        )
        assert saved_ms is None or saved_ms * narrowed_ms >= 0
    assert losing
    assert losing == sorted(losing, reverse=True)
    assert [row["loses"] for row in rows] == [True] * len(losing) + [False] * (len(rows) - len(losing))
    others = [row["saved"]["waiting_ms"]["min"] or 0 for row in rows if not row["loses"] and row["saved"]]
    assert others == sorted(others, reverse=True)
    assert totals["losing"] == len(losing)
    assert totals["without_recommendation"] == sum(not stream.has_slo for stream in fleet.values())
    assert totals["late_rows"]["streams"] == len(fleet) - totals["without_recommendation"]
    assert holds(totals["late_rows"]["saved"], late_saved)
    # Page after page it is the same list.
    paged, cursor = [], None
    while True:
        part = savings(controller, limit=7, **({} if cursor is None else {"cursor": cursor}))
        assert part["totals"] == totals
        paged += streams_in(part)
        cursor = part["next_cursor"]
        if cursor is None:
            break
    assert paged == rows


def test_a_recommended_bound_is_provisional_until_something_puts_it_into_force(
    controller: Controller,
) -> None:
    filled(controller, replace(made(3), name="stream"))

    def row() -> dict[str, Any]:
        controller.tick()
        controller.snapshot()
        (found,) = streams_in(savings(controller, job="job"))
        return {name: found[name] for name in ("provisional", "reason", "awaits_approval")}

    assert row() == {
        "provisional": True,
        "reason": "its mode is Off, so nothing is rolled out",
        "awaits_approval": None,
    }
    controller.put("/policy", at_once(approval="all"))
    waits = row()
    number = waits["awaits_approval"]
    assert number is not None
    assert waits["reason"].startswith(f"rollout {number} is ")
    assert not waits["provisional"]
    said = tidemark(controller)
    assert said[0].split()[:2] == ["stream", "bound"]
    assert said[1].startswith("job/stream  60 s -> 0 s  80.1 s -> 20.1 s  144 h ")
    assert said[1].endswith(f"; tidemark approve {number} --reason ...")
    assert said[3] == "streams          1: 0 losing rows, 0 without a recommended bound"
    assert said[4] == "waiting a day    192 h -> 48.2 h, saves 144 h (1 of 1 stream)"
    controller.put("/policy", at_once(paused=True))
    paused = row()
    assert paused["provisional"]
    assert paused["reason"].endswith("held: the policy is paused; resume it")


def test_what_is_not_known_has_limits_and_reasons(controller: Controller) -> None:
    controller.put("/policy", at_once("Off"))
    filled(controller, replace(made(5), name="stream"))
    (row,) = streams_in(savings(controller))
    # Too many windows would still be open under five minutes: it saves at least so much, and nobody knows how much.
    assert row["now"]["latency_ms"]["max"] is None
    assert row["saved"]["waiting_ms"]["min"] > 0
    assert row["saved"]["waiting_ms"]["max"] is None
    assert row["unknown"] == [
        "latency: at least, because too many windows would still be open under 5 min",
    ]
    said = tidemark(controller, "job")
    assert said[-1] == f"stream: {row['unknown'][0]}"
    (waiting,) = (line for line in said if line.startswith("waiting a day"))
    assert re.fullmatch(
        r"waiting a day +at least [\d.]+ h -> [\d.]+ h, saves at least [\d.]+ h \(1 of 1 stream\)", waiting
    )


def test_a_stream_that_spark_drops_nothing_of_loses_no_row_whatever_its_needs(controller: Controller) -> None:
    controller.put("/policy", at_once("Off"))
    controller.put("/slo", {"target_ppm": TARGET_PPM})
    reports = query_reports(made(1).batches, OPERATOR, bound_ms=10_000, interval_us=INTERVAL_US)
    controller.clock.now_us = reports[-1].started_us + SECOND
    controller.report_all([replace(report, output_mode="complete") for report in reports])
    controller.tick()
    controller.snapshot()
    (row,) = streams_in(savings(controller))
    assert row["now"]["late_rows"] == {"min": 0, "max": 0}


def test_rows_that_are_judged_one_by_one_have_no_latency(controller: Controller) -> None:
    stream = replace(made(1), name="stream")
    controller.put("/slo", {"target_ppm": TARGET_PPM})
    reports = query_reports(stream.batches, row_level(), bound_ms=10_000, interval_us=INTERVAL_US)
    controller.clock.now_us = reports[-1].started_us + SECOND
    controller.report_all(reports)
    controller.tick()
    controller.snapshot()
    (row,) = streams_in(savings(controller))
    assert row["windows_a_day"] is None
    assert row["saved"]["waiting_ms"] == {"min": None, "max": None}
    assert row["saved"]["state_rows"] == {"min": None, "max": None}
    late = (row[when]["late_rows"]["min"] for when in ("now", "recommended"))
    assert holds(row["saved"]["late_rows"], next(late) - next(late))
    assert row["unknown"] == [
        "latency: not known, because no window of this stream has come out",
        "state: not known, because the job reports none",
    ]


def test_a_stream_that_never_reported_would_save_nothing_that_is_known(controller: Controller) -> None:
    assert streams_in(savings(controller)) == []
    assert tidemark(controller) == ["there are no streams yet: none has reported"]
    controller.put("/slo", {"target_ppm": TARGET_PPM})
    (before,) = streams_in(savings(controller))
    assert before["reason"].startswith("nothing is computed yet")
    controller.snapshot()
    (row,) = streams_in(savings(controller))
    assert row["reason"] == "no batch has been reported"
    assert (row["loses"], row["now"], row["saved"]) == (False, None, None)
    assert streams_in(savings(controller, job="other")) == []


def test_a_cursor_of_another_list_is_refused(controller: Controller) -> None:
    for cursor in ("x", encode_cursor("1", "2", "3", "many", "job", "stream")):
        answer = controller.http.get("/v1/savings", params={"cursor": cursor})
        assert answer.status_code == 422
        assert "this is not a cursor of this list" in answer.text
