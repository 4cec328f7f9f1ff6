"""A job under a scheduler: every five minutes it counts what has arrived (`availableNow`) and ends.

The stream's mode is OnRestart: each run asks for its bound when it starts, so nothing has to be restarted. Runs must
not overlap, because they share a checkpoint. The job ends with `run_and_exit`, which first sends the last reports.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

CONF = {
    "spark.tidemark.job": "shop",
    "spark.tidemark.controller.url": "http://tidemark.tidemark:8642",
    "spark.tidemark.token.file": "/run/tidemark/token",
    "spark.tidemark.cache.dir": "/var/lib/tidemark/bounds",
}
JOB = (
    "/opt/job/kafka_counts.py --bootstrap-servers kafka.kafka:9092 --topic clicks --event-time ts"
    " --bound '10 minutes' --output-topic counts --checkpoint s3a://checkpoints/shop-clicks --trigger available-now"
)

with DAG(
    "shop_clicks",
    schedule=timedelta(minutes=5),
    start_date=datetime(2026, 1, 1),  # noqa: DTZ001 - Airflow reads it in its own time zone
    catchup=False,
    max_active_runs=1,
) as dag:
    BashOperator(
        task_id="count",
        bash_command=" ".join(
            [
                "spark-submit --py-files /opt/job/tidemark-pyfiles.zip",
                *(f"--conf {key}={value}" for key, value in CONF.items()),
                JOB,
            ]
        ),
        retries=3,
        retry_delay=timedelta(minutes=1),
    )
