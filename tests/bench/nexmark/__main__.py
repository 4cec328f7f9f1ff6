"""The benchmark: Nexmark's bids counted by real Spark, by Spark with Tidemark, and by real Flink; prints its tables.

    make benchmark
    make benchmark ARGS=--record    # keeps them for docs/explanation/proof.md

Spark's three queries read one stream side by side, then Flink's two read it again: the same bids at the same pace.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyspark

from tidemark.models.backtest.arrivals import Arrivals
from tidemark.models.backtest.arrivals_builder import ArrivalsBuilder
from tidemark.models.backtest.flink import Flink
from tidemark.models.backtest.yardstick import fixed_hindsight, flink_hindsight
from tidemark.models.base.operators import tumbling
from tidemark.models.live.policy import Setup
from tidemark.spark_jobs.demo.kafka_broker import KafkaBroker
from tidemark.spark_jobs.demo.kafka_jars import KAFKA_VERSION

from bench.nexmark.bids import COUNTED_S, PARTITIONS, WINDOW_S, Bids, make_bids
from bench.nexmark.feed import Sent, read_results, send_bids
from bench.nexmark.figures import BENCHMARK, PART_S, benchmark_tables, figures_of
from bench.nexmark.in_flink import FLINK_TICK_MS, flink_python, flink_version, running_flink
from bench.nexmark.in_spark import SPARK_TRIGGER_S, fixed, running_spark, running_tidemark, slowest_batch_s

TARGET_PPM = 995_000
GUESS_US = 10_000_000
"""The bound of somebody who knows no delays: as long as a window."""


def main(arguments: Sequence[str]) -> int:
    """Run it, print its tables, and keep them when asked to."""
    if arguments not in ([], ["--record"]):
        sys.exit(f"{' '.join(arguments)}: the only option is --record")
    began, bids = time.monotonic(), make_bids()
    with tempfile.TemporaryDirectory(prefix="tidemark-benchmark-") as folder, KafkaBroker() as kafka:
        print("Spark with three watermarks: ten minutes", file=sys.stderr)
        found = _in_spark(Path(folder), kafka, bids)
        versions = {"Spark": pyspark.__version__, "Kafka": KAFKA_VERSION}
        if (python := flink_python()) is None:
            print("Flink is not in build/flink, so that its lines are missing", file=sys.stderr)
        else:
            print("Flink with two watermarks: ten minutes", file=sys.stderr)
            flink = _in_flink(Path(folder), kafka, bids, python)
            versions["Flink"] = flink_version()
            found = {**found, **flink, "systems": found["systems"] + flink["systems"]}
    record = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{len(os.sched_getaffinity(0))} cores, {platform.system()} {platform.machine()}",
        "load": round(os.getloadavg()[2], 1),
        "versions": versions,
        "target_ppm": TARGET_PPM,
        "counted_s": COUNTED_S,
        "part_s": PART_S,
        "trigger_s": SPARK_TRIGGER_S,
        "flink_tick_ms": FLINK_TICK_MS,
        "minutes": round((time.monotonic() - began) / 60, 1),
        **found,
    }
    if arguments:
        BENCHMARK.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(benchmark_tables(record))
    return 0


def _in_spark(folder: Path, kafka: KafkaBroker, bids: Bids) -> dict[str, Any]:
    best_us, _ = fixed_hindsight(*_problem(bids, SPARK_TRIGGER_S * 1_000_000))
    with running_tidemark(folder / "controller", GUESS_US // 1_000, TARGET_PPM) as steered:
        watermarks = {
            "spark-guess": fixed(GUESS_US // 1_000),
            "spark-best": fixed(best_us // 1_000),
            "tidemark": steered,
        }
        topic = _topics(kafka, "bids-spark", watermarks)
        with running_spark(folder / "spark", kafka.bootstrap_servers, topic, watermarks) as queries:
            sent = send_bids(bids, topic, kafka.bootstrap_servers, list(watermarks))
            slowest_s = max(slowest_batch_s(query, sent.begin_us) for query in queries)
    names = {
        "spark-guess": ("Spark", _guess()),
        "spark-best": ("Spark", _best(best_us)),
        "tidemark": (
            "Spark with Tidemark",
            f"steered to {TARGET_PPM / 10_000:g} %, from a start with that guess",
        ),
    }
    return {
        "spark_slowest_batch_s": slowest_s,
        "spark_behind_s": round(sent.behind_s, 3),
        "systems": _figures(kafka, bids, sent, names),
    }


def _in_flink(folder: Path, kafka: KafkaBroker, bids: Bids, python: Path) -> dict[str, Any]:
    best, _ = flink_hindsight(*_problem(bids, FLINK_TICK_MS * 1_000))
    settings = {"flink-guess": Flink(GUESS_US), "flink-best": best}
    topic = _topics(kafka, "bids-flink", settings)
    with running_flink(python, folder / "flink", kafka.bootstrap_servers, topic, settings):
        sent = send_bids(bids, topic, kafka.bootstrap_servers, list(settings))
    idle = "" if best.idle_us is None else f", partitions idle after {best.idle_us / 1e6:g} s"
    names = {"flink-guess": ("Flink", _guess()), "flink-best": ("Flink", _best(best.bound_us) + idle)}
    return {"flink_behind_s": round(sent.behind_s, 3), "systems": _figures(kafka, bids, sent, names)}


def _guess() -> str:
    return f"{GUESS_US / 1e6:g} s, a guess"


def _best(bound_us: int) -> str:
    return f"{bound_us / 1e6:.1f} s, the best constant in hindsight"


def _problem(bids: Bids, tick_us: int) -> tuple[Arrivals, Setup]:
    """Return what the best constant is looked for in."""
    setup = Setup(operator=tumbling(f"{WINDOW_S} seconds"), trigger_us=tick_us, target_ppm=TARGET_PPM)
    builder = ArrivalsBuilder(setup)
    # Any begin that is one of windows and triggers, as that of the stream.
    event_us, arrival_us = ((time_s * 1e6).astype(int) for time_s in (bids.event_s, bids.arrival_s))
    builder.add(event_us, arrival_us, bids.partition, PARTITIONS)
    return builder.build(), setup


def _topics(kafka: KafkaBroker, bids: str, results: Iterable[str]) -> str:
    kafka.create_topic(bids, PARTITIONS)
    for each in results:
        kafka.create_topic(each, 1, "LogAppendTime")
    return bids


def _figures(
    kafka: KafkaBroker, bids: Bids, sent: Sent, names: Mapping[str, tuple[str, str]]
) -> list[dict[str, Any]]:
    return [
        {
            "system": system,
            "watermark": watermark,
            **figures_of(bids, sent.begin_us, read_results(topic, kafka.bootstrap_servers)),
        }
        for topic, (system, watermark) in names.items()
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
