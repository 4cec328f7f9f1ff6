"""The last line of a job: its query runs to its end, under the runner.

def build() -> StreamingQuery:
return counts(read(spark)).writeStream.option("checkpointLocation", ...).start()

run_adaptive(build)  # was: build().awaitTermination()
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from pyspark.sql.streaming.query import StreamingQuery

from tidemark.spark_jobs.core.arguments import checked
from tidemark.spark_jobs.core.connections import flush
from tidemark.spark_jobs.restart.restart_rule import DEFAULT_COOLDOWN_S
from tidemark.spark_jobs.restart.runner import AdaptiveQuery

_log = logging.getLogger("tidemark.spark")


@checked()
def run_adaptive(
    build: Callable[[], StreamingQuery],
    *,
    cooldown_s: float = DEFAULT_COOLDOWN_S,
    exit_on_new_bound: bool = False,
    marker: Path | None = None,
) -> int:
    """Run a query to its end, restarting it between batches for new bounds; return the code to exit with.

    The arguments and what is raised are those of ``AdaptiveQuery``, which is for those who want to stop the query or
    get hold of it.
    """
    return AdaptiveQuery(
        build, cooldown_s=cooldown_s, exit_on_new_bound=exit_on_new_bound, marker=marker
    ).run()


@checked()
def run_and_exit(
    build: Callable[[], StreamingQuery],
    *,
    exit_on_new_bound: bool = True,
    cooldown_s: float = DEFAULT_COOLDOWN_S,
    marker: Path | None = None,
) -> NoReturn:
    """Be the last line of a job: run its query, let the reports go out, and exit.

    The contract with whatever starts the job, such as Airflow or Kubernetes: when a new bound is due in mode
    ``Restart``, the query ends between two batches and the process exits with 75 (``EXIT_NEW_BOUND``). The job is to be
    started again, with the same checkpoint, and takes the bound then. 0 means that the query ended by itself, and
    everything else is a failure. ``spark-submit`` in client mode exits with the same code. Before it exits with 75 the
    job writes the file that ``spark.tidemark.restart.marker`` names, if it is set; nobody removes it
    (``restart_marker.write_marker`` says what is in it).

    A run lasts at least ``cooldown_s`` seconds before it ends for a bound, except for a kill switch. A bound that makes
    the job fail goes unnoticed, since the next start knows nothing of this one; ``spark.tidemark.pin=off`` helps.

    Args:
        build: makes the plan, starts the query and returns it; see ``AdaptiveQuery``.
        exit_on_new_bound: False for a job that nobody starts again: the query restarts in place, and the code is 0.
        cooldown_s: minimum time between two restarts, and how long a narrower bound must be published, in seconds.
        marker: file to write; ``spark.tidemark.restart.marker`` unless given.

    Raises:
        SystemExit: with the code.
        Exception: what ``AdaptiveQuery.run`` raises.
    """
    try:
        code = run_adaptive(build, cooldown_s=cooldown_s, exit_on_new_bound=exit_on_new_bound, marker=marker)
    finally:
        if not flush():
            _log.warning("some reports did not reach the controller")
    sys.exit(code)
