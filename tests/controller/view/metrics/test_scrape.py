"""What /metrics says: every metric, of every stream, read once for all, and as the status says it."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import event, text, update

from tidemark.controller.base.counters import HELP, IN_DETAIL, LABELS, OF_STREAMS, PARTITION, ZERO_IN_DETAIL
from tidemark.controller.base.db.tables import PartitionRow

from support.controller_app import Controller
from support.databases import on_sqlite_alone
from support.policies import at_once
from support.reports import exponential_batches, query_reports
from support.rolled_job import RolledJob
from support.whole_stream import run_partitions, whole_controller

pytestmark = pytest.mark.slow

Samples = dict[str, list[tuple[dict[str, str], float]]]


def scraped(controller: Controller, query: str = "?detail=all") -> Samples:
    """Return the samples by name, as (labels, value)."""
    found: defaultdict[str, list[tuple[dict[str, str], float]]] = defaultdict(list)
    for family in text_string_to_metric_families(controller.http.get(f"/metrics{query}").text):
        for sample in family.samples:
            found[sample.name].append((sample.labels, sample.value))
    return found


def value(samples: Samples, name: str, **labels: str) -> float | None:
    """Return the one value of a metric under some of its labels; None without any."""
    found = [number for named, number in samples[name] if labels.items() <= named.items()]
    assert len(found) <= 1, found
    return found[0] if found else None


def partitions_of(samples: Samples, name: str) -> dict[str, float]:
    return {labels["partition"]: number for labels, number in samples[name]}


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    name = "database_url" if request.param == "sqlite" else "new_postgres_url"
    found: str = request.getfixturevalue(name)
    return found


@pytest.fixture(params=["sqlite", "postgresql"])
def whole(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Controller]:
    gates_file = tmp_path / "gates.toml"
    gates_file.write_text('[calendar]\nwebhook = "http://127.0.0.1:9/"\n')
    url = request.getfixturevalue("database_url" if request.param == "sqlite" else "postgres_url")
    with whole_controller(url, gates_file=gates_file, notify_url="http://127.0.0.1:9/") as controller:
        yield controller


@on_sqlite_alone("whole")
def test_every_metric_is_exposed_with_its_labels_where_all_is_known(whole: Controller) -> None:
    samples = scraped(whole)
    of_histograms = {name.removesuffix("_bucket") for name in samples if name.endswith("_bucket")}
    for name, labels in LABELS.items():
        if name in of_histograms:
            assert {*samples[f"{name}_bucket"][0][0]} == {*labels, "le"}
            continue
        assert samples[name], f"{name} has no sample"
        for found, _ in samples[name]:
            assert tuple(sorted(found)) == tuple(sorted(labels)), name
    others = {name for name in samples if name not in HELP}
    ends = ("_bucket", "_count", "_sum")
    assert {name for name in others if not name.endswith(ends)} == set()


@on_sqlite_alone("whole")
def test_a_scrape_leaves_out_by_default_what_is_0_or_no_rule_asks_for_and_says_nothing_else(
    whole: Controller,
) -> None:
    every, found = scraped(whole), scraped(whole, "")
    odd = {
        (*labels.values(),)
        for name in ("skewed", "idle", "behind", "rows_future_total", "rows_misdated_total")
        for labels, number in every[f"tidemark_partition_{name}"]
        if number
    }
    for name in (name for name in every if name in (*OF_STREAMS, "tidemark_rollouts")):
        wanted = [
            (labels, number)
            for labels, number in every[name]
            if name not in IN_DETAIL
            and (number or name not in ZERO_IN_DETAIL)
            and (LABELS[name] != PARTITION or (*labels.values(),) in odd)
        ]
        assert found[name] == wanted, name


@on_sqlite_alone("whole")
@pytest.mark.parametrize("query", ["", "?detail=all"])
def test_prometheus_own_linter_finds_nothing(whole: Controller, query: str) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("there is no promtool here; `make services` installs it")
    text = whole.http.get(f"/metrics{query}").text
    done = subprocess.run(
        [promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_metrics_say_what_the_status_says(whole: Controller) -> None:
    status, samples = whole.status(), scraped(whole)
    said = {
        "tidemark_bound_in_use_seconds": status["in_use_bound_ms"],
        "tidemark_bound_effective_seconds": status["effective_bound_ms"],
        "tidemark_bound_applied_seconds": status["applied"]["bound_ms"],
        "tidemark_bound_published_seconds": status["published"]["bound_ms"],
        "tidemark_bound_max_seconds": 600_000,
        "tidemark_slo_window_seconds": 30 * 86_400_000,
    }
    for name, bound_ms in said.items():
        assert value(samples, name, spark_job="job") == bound_ms / 1_000, name
    assert value(samples, "tidemark_generation", spark_job="job") == status["published"]["generation"]
    assert (
        value(samples, "tidemark_generation_acknowledged", spark_job="job") == status["applied"]["generation"]
    )
    assert value(samples, "tidemark_rows_judged_total", spark_job="job") == status["completeness"]["rows"]
    assert value(samples, "tidemark_budget_remaining_ratio", spark_job="job") == pytest.approx(
        status["budget"]["remaining_ppm"] / 1e6
    )
    assert value(samples, "tidemark_stream_info", mode="OnRestart", objective="occurrences") == 1
    assert value(samples, "tidemark_rollout_state", spark_job="job", state=status["rollout"]["state"]) == 1
    kinds = {condition["type"] for condition in status["conditions"]}
    assert (value(samples, "tidemark_bound_adopted", spark_job="job") == 0) == ("WaitsForStart" in kinds)


def test_needs_are_quantiles_of_the_newest_minutes(controller: Controller) -> None:
    controller.report_all(query_reports(exponential_batches(120, 40, mean_delay_s=2)))
    samples = scraped(controller)
    needs = {labels["quantile"]: number for labels, number in samples["tidemark_need_seconds"]}
    assert list(needs) == ["0.5", "0.9", "0.99", "0.999", "1"]
    assert sorted(needs.values()) == list(needs.values())
    assert needs["1"] > needs["0.5"] + 5


def test_the_gap_between_batches_is_the_mean_of_the_newest(controller: Controller) -> None:
    reports = query_reports(exponential_batches(60, 8))
    controller.report(reports[0])
    assert value(scraped(controller), "tidemark_batch_gap_seconds") is None
    controller.report_all(reports[1:])
    assert value(scraped(controller), "tidemark_batch_gap_seconds") == 1


def test_a_stream_that_is_only_expected_has_unknowns_left_out_and_not_zero(controller: Controller) -> None:
    controller.put("/slo", {"target_ppm": 990_000})
    samples = scraped(controller)
    assert value(samples, "tidemark_reports_received_total") == 0
    assert value(samples, "tidemark_slo_target_ratio") == 0.99
    for name in ("in_use", "effective", "wanted", "recommended", "published", "applied"):
        assert value(samples, f"tidemark_bound_{name}_seconds") is None
    for name in ("missing_batches", "watermark_timestamp_seconds", "last_report_timestamp_seconds"):
        assert value(samples, f"tidemark_{name}") is None
    assert value(samples, "tidemark_bound_adopted") is None


def test_a_bound_is_adopted_once_the_job_says_so(controller: Controller) -> None:
    job = RolledJob(controller)
    run_partitions(job, 2)
    controller.put("/slo", {"target_ppm": 990_000})
    controller.put("/policy", at_once("Restart"))
    run_partitions(job, 20)
    assert value(scraped(controller), "tidemark_bound_adopted") == 0
    assert "BoundNotAcknowledged" in str(controller.status()["conditions"])
    job.restart(mode="Restart")
    assert value(scraped(controller), "tidemark_bound_adopted") == 1
    assert "BoundNotAcknowledged" not in str(controller.status()["conditions"])


def test_a_bound_at_the_policys_maximum_is_saturated(controller: Controller) -> None:
    job = RolledJob(controller)
    controller.put("/slo", {"target_ppm": 990_000})
    run_partitions(job, 20, slow=1)
    assert value(scraped(controller), "tidemark_bound_saturated") == 0
    controller.put("/policy", at_once("Off", max_bound_ms=10_000))
    controller.tick()
    samples = scraped(controller)
    assert value(samples, "tidemark_bound_saturated") == 1
    wanted = value(samples, "tidemark_bound_required_seconds")
    assert wanted is not None
    assert wanted > 10


def test_a_conflict_of_target_and_cap_is_a_metric(controller: Controller) -> None:
    job = RolledJob(controller)
    controller.put("/slo", {"target_ppm": 990_000, "latency_cap_ms": 5_000})
    run_partitions(job, 30, slow=1)
    assert value(scraped(controller), "tidemark_constraints_conflict") == 1
    assert "ConstraintsConflict" in str(controller.status()["conditions"])


def test_a_slow_partition_is_skewed_and_costs_and_the_others_do_not(controller: Controller) -> None:
    job = RolledJob(controller, bound_ms=120_000)
    controller.put("/slo", {"target_ppm": 990_000})
    run_partitions(job, 30, slow=2)
    controller.snapshot()
    samples = scraped(controller)
    assert partitions_of(samples, "tidemark_partition_skewed") == {"0": 0, "1": 0, "2": 1, "3": 0}
    costs = partitions_of(samples, "tidemark_partition_skew_cost_seconds")
    # Its rows are 30 s later, against the end of a window of 10 s.
    assert costs["2"] == pytest.approx(20, abs=3)
    assert abs(costs["0"]) < 1
    assert value(samples, "tidemark_partitions_skewed") == 1
    assert value(samples, "tidemark_partitions") == 4


@pytest.mark.parametrize(
    ("what", "partitions", "slow"), [("two partitions", 2, 1), ("a whole fleet that is late", 4, None)]
)
def test_no_partition_is_skewed_among(
    controller: Controller, what: str, partitions: int, slow: int | None
) -> None:
    job = RolledJob(controller, bound_ms=600_000)
    controller.put("/slo", {"target_ppm": 990_000})
    run_partitions(job, 30, partitions=partitions, slow=slow)
    if slow is None:
        rows = [(str(n), job.at_us - (60 + n) * 1_000_000 - k) for n in range(4) for k in range(200)]
        job.report(rows)
        job.report(rows)
    controller.snapshot()
    assert set(partitions_of(scraped(controller), "tidemark_partition_skewed").values()) == {0}, what


def test_a_partition_of_ten_rows_is_not_skewed(controller: Controller) -> None:
    job = RolledJob(controller, bound_ms=600_000)
    controller.put("/slo", {"target_ppm": 990_000})
    run_partitions(job, 10)
    job.report([("ten", job.at_us - 60_000_000) for _ in range(10)])
    run_partitions(job, 2)
    controller.snapshot()
    assert partitions_of(scraped(controller), "tidemark_partition_skewed")["ten"] == 0


def test_a_partition_that_is_gone_has_no_series(whole: Controller) -> None:
    with whole.service.database.write() as session:
        session.execute(update(PartitionRow).where(PartitionRow.partition == "0").values(state="Gone"))
    samples = scraped(whole)
    assert "0" not in partitions_of(samples, "tidemark_partition_idle")
    assert "1" in partitions_of(samples, "tidemark_partition_idle")


@pytest.mark.parametrize(("most", "exposed", "left_out"), [(4, 4, 0), (2, 2, 2), (0, 0, 4)])
def test_partitions_are_capped_with_the_skewed_ones_first_and_the_rest_is_counted(
    database_url: str, most: int, exposed: int, left_out: int
) -> None:
    with Controller(database_url, metrics_partitions=most) as controller:
        controller.put("/slo", {"target_ppm": 990_000})
        run_partitions(RolledJob(controller, bound_ms=120_000), 30, slow=2)
        controller.snapshot()
        samples = scraped(controller)
    named = partitions_of(samples, "tidemark_partition_skewed")
    assert len(named) == exposed
    assert value(samples, "tidemark_partitions_not_exposed") == left_out
    assert most == 0 or named["2"] == 1
    assert value(samples, "tidemark_partitions_skewed") == 1


HOSTILE = 'a"b\\c\nd{e}=f,ü'


def test_names_with_quotes_backslashes_and_line_ends_are_read_back_as_they_are(
    controller: Controller,
) -> None:
    rows = [(HOSTILE, 1_767_225_600_000_000)] * 4
    controller.report_all(query_reports([rows, rows, rows]))
    controller.snapshot()
    named = {labels["partition"] for labels, _ in scraped(controller)["tidemark_partition_skewed"]}
    assert named == {HOSTILE}


def test_uncounted_rows_are_counted_where_the_report_was_taken(controller: Controller) -> None:
    reports = query_reports(exponential_batches(3, 40))
    controller.report_all(reports)
    assert value(scraped(controller), "tidemark_rows_uncounted_total") == 0
    more = replace(reports[-1], batch_id=3, rows=reports[-1].rows + 5)
    controller.report(more)
    controller.report(more)
    samples = scraped(controller)
    assert value(samples, "tidemark_rows_uncounted_total") == 5
    assert value(samples, "tidemark_rows_unjudged_total") == 5


def test_postgresql_compiles_no_query_to_machine_code(new_postgres_url: str) -> None:
    """It takes seconds for the queries of a scrape, which then run for milliseconds."""
    with Controller(new_postgres_url) as controller, controller.service.database.read() as session:
        assert session.scalar(text("SHOW jit")) == "off"


def test_each_step_is_timed(controller: Controller) -> None:
    controller.report_all(query_reports(exponential_batches(5, 40)))
    scraped(controller)
    samples = scraped(controller)
    counts = {
        step: samples[f"tidemark_{step}_duration_seconds_count"][0][1]
        for step in ("report", "commit", "tick", "upkeep", "scrape")
    }
    assert counts["report"] == 5
    assert counts["tick"] >= counts["upkeep"] >= 1
    assert counts["scrape"] == 1
    assert samples["tidemark_reports_waiting"][0][1] == 0


def test_a_scrape_asks_as_often_whatever_the_number_of_streams(url: str) -> None:
    with Controller(url) as controller:
        RolledJob(controller).run(3, 2)
        few = _statements(controller)
        for number in range(20):
            RolledJob(controller, job=f"job {number}").run(3, 2, tick=False)
        assert _statements(controller) == few


def test_nobody_waits_for_the_store_while_a_scrape_is_written_out(url: str) -> None:
    """What is read is let go before the text is made, which takes most of the time."""
    taken: list[int] = []
    held_then: list[int] = []
    with Controller(url) as controller:
        database, scrape = controller.service.database, controller.service.scrape
        seconds, here = scrape._seconds, threading.get_ident()

        def count(change: int) -> None:
            # The controller's own threads take connections as well.
            if threading.get_ident() == here:
                taken.append(change)

        class Watched:
            def observe(self, amount: float) -> None:
                held_then.append(sum(taken))
                seconds.observe(amount)

        event.listen(database._engine, "checkout", lambda *_: count(1))
        event.listen(database._engine, "checkin", lambda *_: count(-1))
        scrape._seconds = Watched()  # type: ignore[assignment]
        scrape.text()
    assert taken
    assert held_then == [0]


def _statements(controller: Controller) -> int:
    engine, asked, here = controller.service.database._engine, [], threading.get_ident()

    def note(*given: Any) -> None:
        # The controller's own threads speak to the store as well.
        if threading.get_ident() == here:
            asked.append(given[2])

    event.listen(engine, "before_cursor_execute", note)
    try:
        controller.service.scrape.text()
    finally:
        event.remove(engine, "before_cursor_execute", note)
    return len(asked)
