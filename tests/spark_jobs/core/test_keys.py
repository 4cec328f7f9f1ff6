"""Keys in a job's conf that mean nothing to it are named, with what to write."""

from __future__ import annotations

import pytest

from tidemark.spark_jobs.attach.settings import ATTACH_SETTINGS
from tidemark.spark_jobs.core.settings import OF_THE_CALL, OF_THE_JAR, PREFIX, keys_without_effect

NONE = "is no key of Tidemark, and has no effect"
CALLS = "has no effect on a job that calls adaptive_watermark"


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("spark.tidemark.mode", f"spark.tidemark.mode {CALLS}: write mode= there"),
        ("spark.tidemark.idle.timeout", f"spark.tidemark.idle.timeout {CALLS}: write idle_timeout= there"),
        (
            "spark.tidemark.controler.url",
            f"spark.tidemark.controler.url {NONE}: write spark.tidemark.controller.url",
        ),
        ("spark.tidemark.colour", f"spark.tidemark.colour {NONE}"),
        ("spark.tidemark.job", None),
        ("spark.tidemark.python", None),
        ("spark.tidemark.stream.clicks.mode", None),
        ("spark.sql.shuffle.partitions", None),
        ("mode", None),
    ],
)
def test_a_key_that_a_job_does_not_read_is_answered_with_what_to_write(key: str, says: str | None) -> None:
    assert [*keys_without_effect([key])] == ([] if says is None else [says])


def test_every_key_of_jobs_that_were_not_edited_is_of_the_call_or_of_the_jar() -> None:
    assert {f"{PREFIX}{name}" for name in OF_THE_CALL | OF_THE_JAR} == {one.key for one in ATTACH_SETTINGS}
    assert not OF_THE_CALL & OF_THE_JAR
