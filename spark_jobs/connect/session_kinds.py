"""What differs between a session in the driver and a client of Spark Connect, of which one has a JVM and one has not.

A session is asked whether it has its Java side, and not of which version or platform it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import SparkSession

from tidemark.spark_jobs.core.connections import listen
from tidemark.spark_jobs.core.listener import TidemarkListener
from tidemark.spark_jobs.spark.jvm import is_since


@dataclass(frozen=True, slots=True)
class SessionKind:
    """What a kind of session can do."""

    listen: Callable[[SparkSession], TidemarkListener]
    """Returns a new listener, which is added to the session."""
    no_live: str | None = None
    """Why the watermark of a running query cannot be moved, as a clause; None where it can."""
    has_java_classes: bool = False
    """Whether Spark can be given classes of ours in Java."""
    no_late: str | None = None
    """Why late rows cannot be kept, nor windows corrected, as a clause; None where they can."""


def kind_of(spark: SparkSession) -> SessionKind:
    """Return the kind of a session.

    Raises:
        NotImplementedError: for a client of Spark Connect before PySpark 4.0.
    """
    if hasattr(spark, "_jsparkSession"):
        return _DRIVER
    if not is_since(4, 0):
        raise NotImplementedError(
            "adaptive_watermark works over Spark Connect from PySpark 4.0 on: before, listeners run in the server and "
            "not in the client; take PySpark 4.0 or withWatermark"
        )
    return _CONNECT


def _over_connect(spark: SparkSession) -> TidemarkListener:
    from tidemark.spark_jobs.connect.listening import listener_over_connect  # noqa: PLC0415 - it needs gRPC

    return listener_over_connect(spark)


_DRIVER = SessionKind(listen, has_java_classes=True)
_CONNECT = SessionKind(
    _over_connect,
    no_live="over Spark Connect the watermark that is to be moved is in the server, out of reach of its client",
    no_late="it needs the offset log and files beside the checkpoint, which a client of Spark Connect does not reach; "
    "run the job with a session in the driver",
)
