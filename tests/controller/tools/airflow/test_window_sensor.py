"""The sensor in real Airflow, the lowest and a newest, against a real server: DAGs that wait for a window."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from datetime import UTC, datetime

import httpx
import pytest

from support.airflow_process import VERSIONS, AirflowProcess, running_airflow
from support.controller_app import STREAM, Controller
from support.patience import PATIENCE_S, until
from support.reports import START_US, exponential_batches, query_reports
from support.served import served
from support.streams import SECOND
from support.tokens import bearer, make_token

pytestmark = pytest.mark.slow

OLDER, NEWEST = 360, 420
"""Windows that end so many seconds after the stream began: whole minutes, as the runs of the DAGs have them."""


@pytest.fixture(scope="module", params=VERSIONS)
def airflow(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AirflowProcess]:
    with running_airflow(request.param, tmp_path_factory.mktemp("airflow")) as process:
        yield process


def end(seconds: int) -> str:
    return datetime.fromtimestamp(START_US // SECOND + seconds, UTC).isoformat()


def reached(url: str, seconds: int, token: str) -> bool:
    where, query = f"{url}{STREAM}/windows/{START_US + seconds * SECOND}", {"share_ppm": 990_000}
    return bool(httpx.get(where, params=query, headers=bearer(token)).json()["outcome"] == "Reached")


def states(airflow: AirflowProcess, controller: Controller, dag: str, seconds: int) -> dict[str, str]:
    with served(controller.app) as url:
        airflow.start(dag, end(seconds), url)
        return airflow.outcome()


def report(controller: Controller, bound_ms: int = 20_000) -> None:
    """Report a batch a second of 100 rows; partition 3 falls silent ten seconds before the end."""
    batches = [
        [(partition, time) for partition, time in batch if partition != "3" or number < 411]
        for number, batch in enumerate(exponential_batches(421, 100))
    ]
    controller.report_all(query_reports(batches, bound_ms=bound_ms))


@pytest.mark.long
def test_a_dag_waits_also_for_the_controller_and_goes_on_with_the_report_that_reaches_the_share(
    airflow: AirflowProcess, controller: Controller
) -> None:
    reports = query_reports(exponential_batches(460, 100), bound_ms=30_000)
    controller.report_all(reports[:421])
    token = make_token(controller, "viewer")
    with socket.create_server(("127.0.0.1", 0)) as gone:
        gone.settimeout(PATIENCE_S)
        port = gone.getsockname()[1]
        airflow.start("wait", end(NEWEST), f"http://127.0.0.1:{port}", token)
        for _ in ("the worker", "the triggerer"):
            gone.accept()[0].close()
    with served(controller.app, port) as url:
        until(lambda: controller.service.watch.waiting, "the long poll", seen=airflow.log)
        sent = iter(reports[421:])
        while not reached(url, NEWEST, token):
            until(lambda: controller.service.watch.waiting, "that it goes on waiting")
            controller.report_all([next(sent)])
        assert airflow.outcome() == {"complete": "success", "use": "success"}
    assert "is complete to 99 %: " in airflow.log()


def test_a_share_that_cannot_be_reached_any_more_fails_at_once_and_is_not_tried_again(
    airflow: AirflowProcess, controller: Controller
) -> None:
    report(controller, bound_ms=1_000)
    found = states(airflow, controller, "wait_with_retries", OLDER)
    assert found == {"complete": "failed", "use": "upstream_failed"}
    assert airflow.log().count("starting task_id=complete") == 1
    assert "cannot reach 99 % any more: it is closed, and of " in airflow.log()


def test_a_wait_that_takes_too_long_says_how_much_has_come_and_who_is_missing(
    airflow: AirflowProcess, controller: Controller
) -> None:
    report(controller)
    found = states(airflow, controller, "in_three_seconds", NEWEST)
    assert found == {"complete": "failed", "use": "upstream_failed"}
    (line,) = {line for line in airflow.log().splitlines() if "AirflowSensorTimeout: not in time: " in line}
    assert "(at least " in line
    assert "99 % is asked for" in line
    assert "silent: 3 (" in line


def test_with_soft_fail_it_skips_what_needs_the_window(
    airflow: AirflowProcess, controller: Controller
) -> None:
    report(controller)
    assert states(airflow, controller, "or_skip", NEWEST) == {"complete": "skipped", "use": "skipped"}


def test_without_a_triggerer_the_worker_waits_for_the_target_of_the_slo(
    airflow: AirflowProcess, controller: Controller
) -> None:
    report(controller)
    controller.put("/slo", {"target_ppm": 950_000})
    found = states(airflow, controller, "in_the_worker", OLDER)
    assert found == {"complete": "success", "use": "success"}
    assert "is complete to 95 %: " in airflow.log()


def test_a_window_that_does_not_exist_fails_at_once_and_the_log_names_the_next_one(
    airflow: AirflowProcess, controller: Controller
) -> None:
    report(controller)
    found = states(airflow, controller, "off_the_grid", OLDER)
    assert found == {"complete": "failed", "use": "upstream_failed"}
    assert re.search(r"the next one ends \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", airflow.log())
