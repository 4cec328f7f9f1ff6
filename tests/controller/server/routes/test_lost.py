"""Who is lost, over HTTP and as a command: counted once, by the hour, and gone with the stream."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from sqlalchemy import func, select

from tidemark.controller.base.db.tables import LateSlotRow, LateStepRow, StreamRow
from tidemark.controller.control.retention.upkeep import Upkeep
from tidemark.controller.tools.cli import app
from tidemark.models.evidence.late_counts import ByValue, LateCounts, LossCounts, late_counts
from tidemark.models.evidence.slots import Retention

from support.controller_app import Controller
from support.reports import START_US
from support.rolled_job import RolledJob
from support.served import served

HOUR_US = 3_600_000_000
FIRST_HOUR_US = START_US // HOUR_US * HOUR_US
ADDRESS = "/v1/jobs/job/streams/{stream}"


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def controller(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Controller]:
    url = f"sqlite:///{tmp_path_factory.mktemp('lost') / 'tidemark.db'}"
    if request.param == "postgresql":
        url = request.getfixturevalue("module_postgres_url")
    with Controller(url) as started:
        started.clock.now_us = FIRST_HOUR_US + 100 * HOUR_US
        yield started


def step(first: int, hours: int, **counted: tuple[int, int]) -> LateCounts:
    """Return the counts of two batches, as (rows, late rows) by value; ``null`` and ``other`` are themselves."""
    by = {
        name: LossCounts(
            rows=rows, late=late, max_late_ms=late * 10 if late else None, late_by_age=(late,) if late else ()
        )
        for name, (rows, late) in counted.items()
    }
    other = by.pop("other", LossCounts(rows=0))
    return late_counts(
        ByValue({None if name == "null" else name: counts for name, counts in by.items()}, other),
        query_id="query",
        source="0",
        first_batch=first,
        last_batch=first + 1,
        hour_us=FIRST_HOUR_US + hours * HOUR_US,
        dimension="region",
    )


def send(controller: Controller, stream: str, counts: LateCounts) -> int:
    address = f"{ADDRESS.format(stream=stream)}/late-rows"
    status: int = controller.http.post(address, json=counts.to_json_object()).status_code
    return status


def answer(controller: Controller, stream: str, **params: Any) -> dict[str, Any]:
    got = controller.http.get(f"{ADDRESS.format(stream=stream)}/lost", params=params)
    assert got.status_code == 200, got.text
    found: dict[str, Any] = got.json()
    return found


def stream_id(controller: Controller, job: str, name: str) -> int:
    with controller.service.database.read() as session:
        return session.scalars(
            select(StreamRow.id).where(StreamRow.job == job, StreamRow.stream == name)
        ).one()


def upkeep_of(controller: Controller) -> Upkeep:
    controller.service.decider.leases.keep(now=True)
    return Upkeep(controller.service.database, controller.service.decider.leases, Retention())


def held(controller: Controller, stream: int) -> tuple[int, int]:
    """Return how many steps, and how many hours and days, are stored of a stream."""
    with controller.service.database.read() as session:
        steps, slots = (
            session.scalars(select(func.count()).select_from(row).where(row.stream_id == stream)).one()
            for row in (LateStepRow, LateSlotRow)
        )
    return steps, slots


STEPS = (
    step(0, 0, north=(5_000, 50), south=(500, 40), null=(100, 0)),
    step(2, 1, north=(5_000, 40), south=(500, 30), other=(7, 1)),
    step(4, 30, north=(1_000, 10)),
)


def test_each_batch_counts_once_however_often_it_is_sent_and_however_it_is_cut(
    controller: Controller,
) -> None:
    assert [send(controller, "once", each) for each in (*STEPS, *STEPS)] == [201] * 3 + [200] * 3
    assert send(controller, "once", step(1, 0, north=(10, 10))) == 200, "batch 1 is counted already"
    assert send(controller, "once", step(3, 1, north=(10, 10))) == 200

    found = answer(controller, "once")
    rows = {
        (each["value"], each["other"]): (each["rows"], each["lost"], each["max_late_ms"])
        for each in found["values"]
    }
    assert rows == {
        ("north", False): (11_000, 100, 500),
        ("south", False): (1_000, 70, 400),
        (None, False): (100, 0, None),
        (None, True): (7, 1, 10),
    }
    (north, *_) = found["values"]
    assert (north["median_late_ms"], north["p99_late_ms"]) == (500, 500), "they were at most 500 ms late"
    assert found["total"]["rows"] == 12_107
    assert found["total"]["lost"] == 171
    assert [each["value"] for each in found["values"] if each["biased"]] == ["south"]
    assert (found["from_us"], found["to_us"]) == (
        FIRST_HOUR_US + 31 * HOUR_US - 30 * 24 * HOUR_US,
        FIRST_HOUR_US + 31 * HOUR_US,
    )


def test_it_counts_the_hours_of_the_window_up_to_the_newest_and_lists_no_more_than_asked(
    controller: Controller,
) -> None:
    for each in STEPS:
        send(controller, "window", each)
    day = answer(controller, "window", window_ms=30 * 3_600_000, limit=1)
    assert [(each["value"], each["rows"], each["other"]) for each in day["values"]] == [
        ("north", 6_000, False),
        (None, 7, True),
    ]
    assert day["more_values"] == 1
    assert answer(controller, "window", dimension="country")["dimension"] is None
    # The hour of a driver whose clock is ahead is this one.
    assert send(controller, "window", step(6, 5_000, north=(1, 0))) == 201
    assert answer(controller, "window")["to_us"] == FIRST_HOUR_US + 101 * HOUR_US


def test_a_window_of_whole_days_and_parts_of_them_is_the_sum_of_its_hours(controller: Controller) -> None:
    dice = np.random.default_rng(3)
    rows = dice.integers(1, 100, 90).tolist()
    for hour, number in enumerate(rows):
        send(controller, "days", step(2 * hour, hour, north=(number, 0)))
    for hours in (1, 5, 24, 25, 47, 48, 49, 71, 77, 90, 700):
        found = answer(controller, "days", window_ms=hours * 3_600_000)
        assert found["total"]["rows"] == sum(rows[-hours:]), hours


def test_a_body_that_cannot_be_added_up_is_refused(controller: Controller) -> None:
    good = STEPS[0].to_json_object()
    for change in (
        {"first_batch": 9},
        {"hour_us": good["hour_us"] + 1},
        {"schema_version": 2},
        {"values": [*good["values"], good["values"][0]]},
        {"values": [{**good["values"][0], "late": 6_000}]},
        {"values": [{**good["values"][0], "value": "a\0b"}]},
        {"partitions": [{**good["values"][0], "value": "a\0b"}]},
        {"partitions": [good["values"][0]], "dimension": "partition"},
    ):
        got = controller.http.post(f"{ADDRESS.format(stream='bad')}/late-rows", json={**good, **change})
        assert got.status_code == 422, change
    assert controller.http.get(f"{ADDRESS.format(stream='bad')}/lost").status_code == 404


def test_its_counts_go_with_the_stream(controller: Controller) -> None:
    for each in STEPS:
        send(controller, "deleted", each)
    gone = stream_id(controller, "job", "deleted")
    deleted = controller.http.delete(
        ADDRESS.format(stream="deleted"), params={"reason": "old"}, headers={"If-Match": "*"}
    )
    assert deleted.status_code == 200, deleted.text
    assert send(controller, "deleted", STEPS[0]) == 201, "another stream of its name begins anew"
    assert answer(controller, "deleted")["total"]["rows"] == 5_600
    upkeep = upkeep_of(controller)
    while upkeep.empty(gone, controller.clock()):
        pass
    assert held(controller, gone) == (0, 0)
    assert held(controller, stream_id(controller, "job", "deleted")) == (1, 2)


def test_its_counts_age_with_the_ledger(controller: Controller) -> None:
    RolledJob(controller, job="aged").run(1, 1.0)
    address = "/v1/jobs/aged/streams/stream/late-rows"
    for days in (0, 30, 40):
        counts = step(days, -24 * days, north=(days + 1, 0))
        assert controller.http.post(address, json=counts.to_json_object()).status_code == 201
    aged = stream_id(controller, "aged", "stream")
    assert held(controller, aged) == (3, 6)
    upkeep_of(controller).run_upkeep(aged)
    assert held(controller, aged) == (2, 4)


def test_a_biased_loss_is_a_condition_and_each_value_has_a_series(controller: Controller) -> None:
    job = RolledJob(controller, job="biased")
    job.run(1, 1.0)
    for each in STEPS:
        by_partition = tuple(replace(one, value=f"of {one.value}") for one in each.values)
        counts = replace(each, partitions=by_partition).to_json_object()
        sent = controller.http.post(f"{job.path}/late-rows", json=counts)
        assert sent.status_code == 201
    controller.snapshot()
    (biased,) = (each for each in job.status()["conditions"] if each["type"] == "LossIsBiased")
    assert biased["detail"].startswith("region 'south' loses rows at least ")
    assert biased["detail"].endswith(
        ": 7 % of its rows, and 40.94 % of all lost rows, with 8.26 % of all rows"
    )
    text = controller.http.get("/metrics").text
    labels = '{spark_job="biased",stream="stream"'
    for line in (
        f"tidemark_loss_biased{labels}}} 1",
        f'tidemark_value_rows{{dimension="region",{labels[1:]},value="south"}} 1000',
        f'tidemark_value_rows_lost{{dimension="region",{labels[1:]},value="north"}} 100',
        f'tidemark_value_rows{{dimension="partition",{labels[1:]},value="of south"}} 1000',
        f'tidemark_value_rows_lost{{dimension="partition",{labels[1:]},value="of north"}} 100',
    ):
        assert line in text, line
    assert 'value="(null)"' not in text, "it lost nothing"


def test_the_command_shows_who_is_lost(controller: Controller) -> None:
    for each in STEPS:
        send(controller, "shown", each)
    with served(controller.http.app) as url:
        runner = CliRunner()
        shown = runner.invoke(app, ["lost", "job", "shown", "--url", url], env={"COLUMNS": "200"})
        as_json = runner.invoke(app, ["lost", "job", "shown", "--url", url, "--json"])
    assert shown.exit_code == 0, shown.output
    lines = shown.output.splitlines()
    assert lines[1] == "12,107 rows, 171 lost (1.4124 %): 171 late"
    assert [line.split()[0] for line in lines[3:]] == ["north", "south", "(null)", "(all"]
    assert "biased: at least" in lines[4]
    assert json.loads(as_json.output) == answer(controller, "shown")


def test_what_the_job_has_not_counted_yet_is_said_because_the_budget_counts_it(
    controller: Controller,
) -> None:
    """The job counts by a dimension some batches after it reported them."""
    job = RolledJob(controller, job="lagging", stream="clicks")
    job.at_us = controller.clock.now_us
    job.run(6, 5.0, tick=False)
    query = job.status()["coverage"][0]["query_id"]

    def answer() -> Any:
        return controller.http.get(f"{job.path}/lost").json()["counted"]

    def send(first: int) -> None:
        counts = replace(step(first, 0, north=(10, 1)), query_id=query)
        assert controller.http.post(f"{job.path}/late-rows", json=counts.to_json_object()).status_code == 201

    assert answer() is None, "nothing is counted by a dimension"
    send(0)
    assert answer() == {
        "last_batch": 1,
        "newest_batch": 5,
        "text": "counted up to batch 1 of 5; what was lost since then is not in it",
    }
    with served(controller.app) as url:
        result = CliRunner().invoke(app, ["lost", "lagging", "clicks"], env={"TIDEMARK_URL": url})
        assert "counted up to batch 1 of 5; what was lost since then is not in it" in result.stdout
    send(2)
    send(4)
    assert answer()["text"] == "counted up to batch 5, the newest one"
