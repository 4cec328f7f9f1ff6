"""Registers a Python data source with a session so that every session of the driver can have it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pyspark import cloudpickle
from pyspark.sql import SparkSession

from tidemark.spark_jobs.private_names import SESSION, find

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSource


def register_source(spark: SparkSession, source: type[DataSource]) -> None:
    """Make ``source`` known to a session. Its class travels by value: it needs pyspark and nothing of ours.

    Spark (4.2, ``DataSourceManager``) looks for a source of that name in the *active* session instead of the one that
    is to have it, and so refuses a second session what the first one has. Therefore this one is active meanwhile.
    """
    cloudpickle.register_pickle_by_value(sys.modules[source.__module__])  # type: ignore[no-untyped-call]
    sessions = find(SESSION)
    if sessions is None:
        spark.dataSource.register(source)
        return
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)  # noqa: SLF001 - PySpark sets no active session
    try:
        spark.dataSource.register(source)
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()
