"""The side process: ``python -m tidemark.spark_jobs.attach.side``, started by ``tidemark.attach.Side`` in the driver.

It attaches to the driver's context as notebooks' kernels do, answers for each watermark of a query that starts, and
ends when its stdin does, which is when the JVM has closed it or is gone.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any, ClassVar

from py4j.clientserver import ClientServer
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import ensure_callback_server_started, launch_gateway
from pyspark.sql import SparkSession

from tidemark.spark_jobs.attach.watermark import adapted
from tidemark.spark_jobs.core.connections import flush, forget_listener, listener_of
from tidemark.spark_jobs.core.listener import TidemarkListener

_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
_IDLE_S = 600.0
"""After which time a session without a query is forgotten."""

_LAST_REPORTS_S = 8.0
"""Less than the JVM waits for the answer."""

_log = logging.getLogger("tidemark.spark")


@dataclass(slots=True)
class _Session:
    spark: SparkSession
    asked: float = 0.0
    """When a query was last started in it, by the monotonic clock."""


class Driver:
    """The driver that this process stands beside.

    Args:
        gateway: the way to its JVM, whose entry point is ``Side``.
    """

    def __init__(self, gateway: ClientServer) -> None:
        self._side = gateway.entry_point
        java = gateway.jvm.JavaSparkContext(self._side.context())
        self._conf = SparkConf(_jconf=java.getConf())
        self._context = SparkContext(gateway=gateway, jsc=java, conf=self._conf)
        self._lock = threading.Lock()
        # PySpark makes the session that it meets first the default one of the JVM: let it be the one that is.
        SparkSession(self._context)
        self._sessions: dict[str, _Session] = {}

    def conf(self, key: str, default: str | None) -> str | None:
        """Return the value of a conf key of the context."""
        return self._conf.get(key, default)

    def session(self, java_session: Any) -> SparkSession:
        """Return a session of the driver, with a listener; the same one for each call while it has queries."""
        with self._lock:
            key, now = str(java_session.sessionUUID()), time.monotonic()
            if key not in self._sessions:
                self._forget_idle(now - _IDLE_S)
                self._sessions[key] = _Session(SparkSession(self._context, jsparkSession=java_session))
            session = self._sessions[key]
            session.asked = now
            listener_of(session.spark, self._listen)
            return session.spark

    def _forget_idle(self, before: float) -> None:
        """Forget the sessions that have no query any more: a Connect server has a new one for each client."""
        for key, session in list(self._sessions.items()):
            spark, asked = session.spark, session.asked
            if asked < before and not spark.streams.active and listener_of(spark).wait_for_ended_runs(0):
                del self._sessions[key]
                forget_listener(spark)
                self._side.forget(spark._jsparkSession)  # noqa: SLF001 - Spark's own session

    def _listen(self, spark: SparkSession) -> TidemarkListener:
        """Return a new listener, before which stands one in Java: no query waits for this process without a limit."""
        listener = TidemarkListener(spark)
        self._side.listen(spark._jsparkSession, listener._jlistener)  # noqa: SLF001 - what PySpark registers itself
        return listener


class Planner:
    """What the JVM calls: with ``[session, query, watermark, names that are taken]``, or a word."""

    END = "end"

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def apply(self, request: Any) -> Any:
        """Return the new plan of a watermark; None to leave it as it is."""
        if request == self.END:
            flush(_LAST_REPORTS_S)
            return None
        try:
            session, write, node, taken = request
            return adapted(self._driver.session(session), self._driver.conf, write, node, taken)
        except Exception as error:  # noqa: BLE001 - whatever it is, the job comes first
            why = (str(error) or type(error).__name__).splitlines()[0]
            _log.warning("a watermark is left as it is: %s", why, exc_info=not isinstance(error, ValueError))
            return None

    class Java:
        """As what the JVM sees it."""

        implements: ClassVar[list[str]] = ["java.util.function.Function"]


def main() -> None:
    """Answer until the JVM closes stdin, or is gone."""
    logging.basicConfig(
        level=logging.WARNING,
        format="%(asctime)s %(levelname)s tidemark: %(message)s",
        datefmt="%y/%m/%d %H:%M:%S",
    )
    port, secret = sys.stdin.readline().split()
    os.environ |= {_PORT: port, _SECRET: secret, "PYSPARK_PIN_THREAD": "true"}  # where PySpark looks for it
    gateway = launch_gateway()  # type: ignore[no-untyped-call]
    del os.environ[_SECRET]
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    gateway.entry_point.ready(Planner(Driver(gateway)))
    sys.stdin.read()


if __name__ == "__main__":
    main()
