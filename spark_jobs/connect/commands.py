"""What is asked of a Spark Connect server beyond PySpark's public names, which have no way to it (4.0 to 4.3).

``StreamingQuery.explain`` prints its text on the standard output of the whole process. ``removeListener`` waits, with
its lock held, for a thread that needs the lock for each event that is still to come, so that the two may wait for each
other for ever.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.connect import proto
from pyspark.sql.streaming.listener import StreamingQueryListener


def explanation(query: Any) -> str:
    """Return what ``query.explain()`` prints."""
    command = proto.StreamingQueryCommand()
    command.explain.extended = False
    return str(query._execute_streaming_query_cmd(command).explain.result)  # noqa: SLF001 - see the module


def is_listening(spark: SparkSession, listener: StreamingQueryListener) -> bool:
    """Return whether a listener is notified: a broken connection takes all listeners away."""
    bus = _bus(spark)
    thread = bus._execution_thread  # noqa: SLF001 - as above
    return listener in bus._listener_bus and thread is not None and thread.is_alive()  # noqa: SLF001 - as above


def listen_again(spark: SparkSession, listener: StreamingQueryListener) -> None:
    """Add a listener that is not notified any more, with the others that are not."""
    end_events(spark)  # the server may believe that it still sends them
    bus = _bus(spark)
    with bus._lock:  # noqa: SLF001 - as above
        listeners = dict.fromkeys([*bus._listener_bus, listener])  # noqa: SLF001 - as above
        bus._listener_bus.clear()  # noqa: SLF001 - as above
        bus._execution_thread = None  # noqa: SLF001 - as above
    for each in listeners:
        spark.streams.addListener(each)


def end_events(spark: SparkSession) -> None:
    """Let the server send the session's listeners no more events, so that the thread that takes them ends."""
    command = proto.Command()
    command.streaming_query_listener_bus_command.remove_listener_bus_listener = True
    spark.client.execute_command(command)


def _bus(spark: SparkSession) -> Any:
    return spark.streams._sqlb  # type: ignore[attr-defined]  # noqa: SLF001 - as above
