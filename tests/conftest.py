"""Fixtures that more than one folder uses."""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from support import class_archive
from support.early_failures import EarlyFailures
from support.ended_java import CRASH, how_it_ended
from support.examples import USUAL
from support.fast_run import is_fast, is_slow_throughout, starts_another_program
from support.faults import Compared, Survived, recorder, week_recorder
from support.patience import PATIENCE_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemark.spark_jobs.demo.kafka_broker import KafkaBroker


SPARK_LANES = ("tests/spark_jobs/live/", "tests/spark_jobs/")
"""Tests that run in one process each, so that one JVM (and one broker) serves all of a lane.

They take longest. One lane would leave the second core half idle."""

WITH_SESSION = frozenset(
    f"tests/e2e/{name}.py"
    for name in ("test_joined_slo", "test_live_on_kafka", "test_loop", "test_page", "test_restart_loop")
)
"""Files elsewhere whose tests have the session too: a JVM of their own would only have to warm up once more."""

OWN_SPARK = frozenset(
    f"tests/spark_jobs/{name}.py"
    for name in (
        "attach/test_cluster",
        "attach/test_front_ends",
        "attach/test_watched_jobs",
        "connect/test_connect",
        "connect/test_pipelines",
        "restart/test_restart_from_outside",
        "test_spark_submit",
    )
)
"""Files among them whose tests have no session and start Spark in other processes: they need not wait for it."""

PAGE_LANE = "tests/controller/server/page/"
"""Tests that run in one process, so that one browser serves them all."""

LAYOUT_LANE = "tests/layout/"
"""Tests that run in one process, so that the product's source is read once."""

MEMORY = Path("/dev/shm")
"""Where Linux keeps files in memory: stores and checkpoints of tests need no disk to wait for."""

MEMORY_BYTES = 4 * 2**30
"""Free space below which the tests' files stay on disk."""

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m"
"""For a JVM that ends after minutes: its second compiler and its collector's threads cost more than they give. Compiled
code stays: what the first compiler alone is given fills up, and then methods are compiled again and again."""


# Tests share the cores with each other, so how long an example takes says nothing; `timeout` ends what hangs.
# Each run draws other examples, so many runs see many; `--hypothesis-profile=thorough` searches in one.
settings.register_profile("fast", deadline=None, max_examples=10)
settings.register_profile("shared cores", deadline=None, max_examples=USUAL)
settings.register_profile("thorough", deadline=None, max_examples=1_000)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Keep the tests' files in memory where there is room, collect garbage rarely, and draw few examples in brief.

    Modules, tests and their parameters are a million objects that stay; going through them took a tenth of the time.
    """
    gc.set_threshold(100_000, 50, 100)
    settings.load_profile("fast" if is_fast(config) else "shared cores")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(EarlyFailures(config))
    os.environ.pop("COLUMNS", None)  # pytest-xdist sets it, and tables behind a pipe would be broken to it
    if "TMPDIR" in os.environ or config.option.basetemp is not None or hasattr(config, "workerinput"):
        return
    if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > MEMORY_BYTES:
        folder = tempfile.mkdtemp(prefix="tidemark-tests-", dir=MEMORY)
        Path(folder).chmod(0o755)  # PostgreSQL runs as another user
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files of slow tests alone when none will be run: importing them and what they need takes seconds."""
    return (is_fast(config) and is_slow_throughout(collection_path)) or None


def pytest_collection_finish() -> None:
    """Leave what was collected out of every later collection of garbage."""
    gc.freeze()


class Lanes(LoadScopeScheduling):  # type: ignore[misc]  # xdist ships no types
    """Keeps each file in one process, and all files of a lane in the same one."""

    def _split_scope(self, nodeid: str) -> str:
        return _lane_of(nodeid)


def _lane_of(nodeid: str) -> str:
    file = nodeid.split("::", 1)[0]
    if file in OWN_SPARK:
        return file
    if file in WITH_SESSION:
        return SPARK_LANES[0]
    return next((lane for lane in (*SPARK_LANES, PAGE_LANE, LAYOUT_LANE) if file.startswith(lane)), file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Lanes:
    """Return how pytest-xdist shares the tests out."""
    return Lanes(config, log)


_BEHIND = 10
"""How far a process that does not run Spark's tests stands back from those that do."""


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let the processes with other tests stand back while Spark's run."""
    if (
        hasattr(item.config, "workerinput")
        and item.config.stash.setdefault(_FIRST, item.nodeid) == item.nodeid
    ):
        os.nice(0 if _lane_of(item.nodeid) in SPARK_LANES else _BEHIND)


_FIRST = pytest.StashKey[str]()
"""The first test of a process."""


_SOAK_SECONDS = 1_800
"""What ends a soak test that does not say how long it may last; beside the others it takes many times its own time."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what starts another program and what records a fault, put long lanes first, and let JVMs start fast.

    A long file that begins last would leave the other processes idle, so files with a slow test come first, and among
    them those with more text.
    """
    if not any(mark in config.option.markexpr for mark in ("soak", "versions", "fault")):
        soak = [item for item in items if item.get_closest_marker("soak")]
        config.hook.pytest_deselected(items=soak)
        items[:] = [item for item in items if not item.get_closest_marker("soak")]
    long = set()
    for item in items:
        if starts_another_program(item) or item.get_closest_marker("long"):
            item.add_marker(pytest.mark.slow)
        if "survived" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.fault)
        if item.get_closest_marker("slow"):
            long.add(item.path)
        if item.get_closest_marker("soak") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(_SOAK_SECONDS))
    sizes = {item.path: item.path.stat().st_size for item in items}
    items.sort(
        key=lambda item: (
            _lane_of(item.nodeid) not in SPARK_LANES,
            _lane_of(item.nodeid) != PAGE_LANE,
            item.nodeid.split("::", 1)[0] not in OWN_SPARK,
            "e2e" not in item.path.parts,
            item.path not in long,
            -sizes[item.path],
        )
    )
    if not any(item.get_closest_marker("bench") for item in items):
        os.environ.setdefault("SPARK_SUBMIT_OPTS", SHORT_LIVED + class_archive.options())


@pytest.fixture
def survived(record_property: Callable[[str, object], None]) -> Survived:
    """Return what records a fault for docs/explanation/proof.md."""
    return recorder(record_property)


@pytest.fixture
def compared(record_property: Callable[[str, object], None]) -> Compared:
    """Return what records a simulated week for docs/explanation/proof.md."""
    return week_recorder(record_property)


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Return one real Spark session for the whole run, small enough for two cores."""
    from pyspark.sql import SparkSession

    from tidemark.spark_jobs.spark.checkpoint import LOCAL_SPARK
    from tidemark.spark_jobs.spark.java import ensure_java

    ensure_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    folder = tmp_path_factory.mktemp("spark")
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("tidemark-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.driver.memory", "2g")
        .config("spark.driver.extraJavaOptions", f"-XX:ErrorFile={folder / CRASH}")
        # A query that waits for rows asks its sources less often than a hundred times a second.
        .config("spark.sql.streaming.pollingDelay", "50ms")
        .config("spark.tidemark.cache.dir", str(folder / "bounds"))
        # A controller that is only slow is not away.
        .config("spark.tidemark.timeout.ms", str(round(PATIENCE_S * 1_000)))
        .config("spark.python.authenticate.socketTimeout", f"{round(PATIENCE_S)}s")
        .config(map=LOCAL_SPARK)
    )
    # A JVM that runs takes no more jars, so they are there from the start when a test of this run will want them.
    if any("kafka_spark" in getattr(item, "fixturenames", ()) for item in request.session.items):
        from tidemark.spark_jobs.demo.kafka_jars import with_kafka
        from tidemark.spark_jobs.spark.jar import JarsNotFound

        with contextlib.suppress(JarsNotFound):
            builder = with_kafka(builder)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    java = session.sparkContext._gateway.proc  # type: ignore[union-attr]
    yield session
    try:
        session.stop()
    except Exception as error:
        raise AssertionError(how_it_ended(java, folder / CRASH)) from error


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """Return the URL of an empty PostgreSQL. It is skipped where there is none, but never in CI."""
    from support.postgres import postgres_or_skip, running_postgres

    with running_postgres(postgres_or_skip()) as url:
        yield url


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaBroker]:
    """Return a running Kafka broker. It is skipped where Maven or Java cannot be had, but never in CI."""
    from support.kafka import running_kafka

    with running_kafka() as broker:
        yield broker


@pytest.fixture(scope="session")
def kafka_spark(spark: SparkSession) -> SparkSession:
    """Return the session, with Spark's Kafka connector. It is skipped where Maven cannot be had, but never in CI."""
    from tidemark.spark_jobs.demo.kafka_jars import connector_jars

    from support.kafka import or_skip

    or_skip(connector_jars)
    return spark
