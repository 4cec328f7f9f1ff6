"""A local Kafka broker without a container engine: for tests and for the demonstration.

    with KafkaBroker() as broker:
        broker.create_topic("clicks", partitions=4)
        ... broker.bootstrap_servers ...

It is Apache Kafka in KRaft mode, broker and controller in one JVM that has only Kafka's jars, on free loopback ports,
in a folder of its own. Nothing of it outlives the ``with`` block or this process.
"""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # forgotten in its types

from tidemark.spark_jobs.demo import guard
from tidemark.spark_jobs.demo.kafka_jars import broker_jars
from tidemark.spark_jobs.spark.java import find_java

TimestampType = Literal["CreateTime", "LogAppendTime"]
"""What a message's timestamp is: the producer's clock at sending, or the broker's clock at appending."""

_START_SECONDS, _STOP_SECONDS, _ASK_SECONDS, _TRY_SECONDS = 180, 60, 60, 5
_STARTS = 5
"""How often it is started at most: a port that was free may be taken when the broker binds it."""
# Small, and started for minutes: most of the time goes into compiling, so the quick compiler has to do.
_JVM = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)

_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}/data
# A topic that is not there is an error, not an empty topic.
auto.create.topics.enable=false
# Messages may carry very old times and stay all the same.
log.retention.ms=-1
# By default half of the heap.
log.cleaner.dedupe.buffer.size=4194304
# One broker cannot keep three copies.
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
num.network.threads=2
num.io.threads=2
"""


class BrokerError(RuntimeError):
    """The broker did not start or rejected a request; the message holds its output."""


class KafkaBroker:
    """A broker that runs inside a ``with`` block.

    Args:
        jars: the jars of Kafka and all that it needs; those of ``jars.broker_jars()`` unless given.

    Raises:
        JarsNotFound: on entering, when the jars are neither here nor to be had.
        JavaNotFound: on entering, when there is no Java.
        BrokerError: on entering, when it does not start.
    """

    def __init__(self, jars: Sequence[Path] | None = None) -> None:
        self._jars = jars
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0
        # An id as Kafka makes them. By it another broker that took the port is not mistaken for this one.
        self._cluster = base64.urlsafe_b64encode(b"tidemark" + os.urandom(8)).decode().rstrip("=")

    @property
    def bootstrap_servers(self) -> str:
        """Address to give to clients, as ``host:port``."""
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        """Process group of the broker and of what guards it.

        Raises:
            BrokerError: when the broker does not run.
        """
        if self._process is None:
            raise BrokerError("the broker does not run")
        return self._process.pid

    def __enter__(self) -> Self:
        """Start the broker and wait until it answers."""
        jars = broker_jars() if self._jars is None else self._jars
        java = str(find_java().home / "bin" / "java")
        command = [java, *_JVM, "-cp", ":".join(str(jar) for jar in jars)]
        for left in reversed(range(_STARTS)):
            self._folder = Path(tempfile.mkdtemp(prefix="tidemark-kafka-"))
            log = self._folder / "broker.log"
            try:
                self._start(command, self._folder)
                self._wait_until_ready(log)
                break
            except BaseException as error:
                again = left and isinstance(error, BrokerError) and _port_was_taken(log)
                self._stop()
                if not again:
                    raise
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the broker and remove its folder."""
        self._stop()

    def create_topic(self, name: str, partitions: int = 1, timestamps: TimestampType = "CreateTime") -> None:
        """Create a topic.

        Raises:
            BrokerError: when the broker rejects it.
        """
        topic = NewTopic(name, partitions, 1, config={"message.timestamp.type": timestamps})
        admin = self._admin()  # the request dies with the client, so the client has a name
        try:
            admin.create_topics([topic])[name].result(_ASK_SECONDS)
        except KafkaException as error:
            raise BrokerError(f"topic {name!r}: {error.args[0].str()}") from None

    # -- its life -----------------------------------------------------------------------------------------------

    def _start(self, java: list[str], folder: Path) -> None:
        self._port, controller_port = _free_ports()
        properties = folder / "server.properties"
        properties.write_text(
            _PROPERTIES.format(port=self._port, controller_port=controller_port, folder=folder),
            encoding="utf-8",
        )
        log = folder / "broker.log"
        with log.open("wb") as output:
            form = [*java, "kafka.tools.StorageTool", "format", "-t", self._cluster, "-c", str(properties)]
            formatted = subprocess.run(
                form,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                check=False,
                timeout=_START_SECONDS,
            )
            if formatted.returncode:
                raise BrokerError(f"the broker's storage could not be made; it said:\n{_tail(log)}")
            # Its own session: Ctrl-C is for this process, which ends the broker when it is done with it.
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    guard.__file__,
                    str(folder),
                    *java,
                    "kafka.Kafka",
                    str(properties),
                ],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                cwd=folder,
                start_new_session=True,
            )

    def _wait_until_ready(self, log: Path) -> None:
        assert self._process is not None
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(OSError, KafkaException):
                # A client that cannot connect waits longer and longer, so it is made only when the port is open.
                socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
                cluster: object = self._admin().list_topics(timeout=_TRY_SECONDS).cluster_id
                if cluster == self._cluster:
                    return
            if _port_was_taken(log):
                break
            time.sleep(0.05)
        raise BrokerError(f"the broker did not start; it said:\n{_tail(log)}")

    def _stop(self) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        for free in (one, other):
            free.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


def _port_was_taken(log: Path) -> bool:
    return log.exists() and "BindException" in log.read_text(encoding="utf-8", errors="replace")


def _tail(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-2_000:]
