"""DAGs that wait for windows, and a process that runs them, which has Airflow and no test tools.

It reads lines of standard input, each a JSON list of the name of a DAG, the end of a window, and an Airflow connection;
for each it prints ``OUTCOME`` and the states of the tasks. All else that it prints is Airflow's log.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import airflow

from tidemark.controller.tools.airflow import WindowSensor

try:
    from airflow.sdk import DAG, task
except ImportError:  # Airflow 2
    from airflow import DAG
    from airflow.decorators import task

ASKED: dict[str, dict[str, Any]] = {
    "wait": {},
    "wait_with_retries": {"retries": 2, "retry_delay": timedelta(0)},
    "in_three_seconds": {"timeout": 3},
    "or_skip": {"timeout": 3, "soft_fail": True},
    "in_the_worker": {"deferrable": False, "share": None},
    "off_the_grid": {"window": "2026-01-01T00:06:01Z"},
}
"""Arguments of the sensor, by the name of its DAG."""

WHEN = "execution_date" if airflow.__version__.startswith("2.") else "logical_date"


def _dag(name: str, arguments: dict[str, Any]) -> DAG:
    with DAG(dag_id=name, schedule="* * * * *", start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        sensor = WindowSensor(task_id="complete", job="job", stream="stream", **{"share": "99%", **arguments})

        @task  # type: ignore[untyped-decorator]  # Airflow is not there where types are checked
        def use() -> None:
            """Do what needs the window."""

        sensor >> use()
    return dag


DAGS = {name: _dag(name, arguments) for name, arguments in ASKED.items()}
globals().update(DAGS)  # where Airflow looks for them


def _states(name: str, window: str, connection: str) -> dict[str, str]:
    os.environ["AIRFLOW_CONN_TIDEMARK_DEFAULT"] = connection
    run = DAGS[name].test(**{WHEN: datetime.fromisoformat(window)})
    return {one.task_id: str(one.state) for one in run.get_task_instances()}


if __name__ == "__main__":
    print("OUTCOME {}", flush=True)
    for line in sys.stdin:
        print("OUTCOME", json.dumps(_states(*json.loads(line))), flush=True)
