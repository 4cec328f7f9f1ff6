"""The benchmark: Nexmark's bids counted by real Spark, by Spark with Tidemark, and by real Flink; prints its tables.

    make benchmark                      # the short stage
    make benchmark ARGS=day             # a working day, played 30 times as fast
    make benchmark ARGS="day --record"  # keeps them for docs/explanation/proof.md and `make figure`

Systems of one group (``stages.py``) read one stream side by side; the next group reads it again: the same bids at the
same pace.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyspark

from tidemark.spark_jobs.demo.kafka_broker import KafkaBroker
from tidemark.spark_jobs.demo.kafka_jars import KAFKA_VERSION

from bench.nexmark.bids import PARTITIONS, Bids
from bench.nexmark.feed import read_results, send_bids
from bench.nexmark.figures import dropped_by_step, figures_of
from bench.nexmark.in_flink import FLINK_TICK_MS, flink_python, flink_version, running_flink
from bench.nexmark.in_spark import SPARK_TRIGGER_S, Watermark, fixed, running_spark, running_tidemark
from bench.nexmark.stages import STAGES, Stage
from bench.nexmark.systems import TARGET_PPM, Systems, systems_of
from bench.nexmark.tables import benchmark_tables


def main(arguments: Sequence[str]) -> int:
    """Run a stage, print its tables, and keep them when asked to."""
    parser = argparse.ArgumentParser(prog="make benchmark ARGS=", description=__doc__)
    parser.add_argument("stage", nargs="?", choices=STAGES, default="short")
    parser.add_argument("--record", action="store_true", help="keep what is found for the documents")
    asked = parser.parse_args(arguments)
    stage = STAGES[asked.stage]
    record = run_stage(stage)
    if asked.record:
        lines = (f" {json.dumps(name)}: {json.dumps(value)}" for name, value in record.items())
        stage.record.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(benchmark_tables(record))
    return 0


def run_stage(stage: Stage) -> dict[str, Any]:
    """Run a stage and return what was found."""
    began, bids, python = time.monotonic(), stage.make(), flink_python()
    if python is None:
        print("Flink is not in build/flink, so that its lines are missing", file=sys.stderr)
    systems = systems_of(stage, bids, with_flink=python is not None)
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="tidemark-benchmark-") as folder, KafkaBroker() as kafka:
        for number, group in enumerate(systems.groups):
            print(f"{', '.join(group)}: {stage.counted_s / 60 + 2:.0f} minutes", file=sys.stderr)
            found.append(_run_group(stage, bids, systems, group, kafka, Path(folder) / f"{number}"))
    versions = {"Spark": pyspark.__version__, "Kafka": KAFKA_VERSION}
    return {
        "stage": stage.name,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{len(os.sched_getaffinity(0))} cores, {platform.system()} {platform.machine()}",
        "load": round(os.getloadavg()[2], 1),
        "versions": versions if python is None else {**versions, "Flink": flink_version()},
        "target_ppm": TARGET_PPM,
        "speed": stage.speed,
        "counted_s": stage.counted_s,
        "part_s": stage.part_s,
        "step_s": stage.step_s,
        "trigger_s": SPARK_TRIGGER_S,
        "flink_tick_ms": FLINK_TICK_MS,
        "minutes": round((time.monotonic() - began) / 60, 1),
        "behind_s": max(one["behind_s"] for one in found),
        "slowest_batch_s": max(one["slowest_batch_s"] for one in found),
        "slow_batches": max(one["slow_batches"] for one in found),
        "systems": [system for one in found for system in one["systems"]],
    }


def _run_group(
    stage: Stage, bids: Bids, systems: Systems, group: Sequence[str], kafka: KafkaBroker, folder: Path
) -> dict[str, Any]:
    """Run systems side by side."""
    folder.mkdir()
    topic, servers = f"bids-{folder.name}", kafka.bootstrap_servers
    kafka.create_topic(topic, PARTITIONS)
    for name in group:
        kafka.create_topic(name, 1, "LogAppendTime")
    with ExitStack() as running:
        watermarks: dict[str, Watermark] = {
            name: fixed(systems.bound_ms[name]) for name in group if name in systems.bound_ms
        }
        for name in group:
            if (mode := systems.modes.get(name)) is not None:
                steered = running_tidemark(
                    folder / name, mode, round(stage.guess_s * 1_000), TARGET_PPM, stage.speed
                )
                watermarks[name] = running.enter_context(steered)
        batches = running.enter_context(running_spark(folder / "spark", servers, topic, watermarks))
        flinks = {name: systems.flinks[name] for name in group if name in systems.flinks}
        python = flink_python()
        if flinks and python is not None:
            running.enter_context(running_flink(python, folder / "flink", servers, topic, flinks))
        sent = send_bids(bids, topic, servers, list(group))
        found = batches()
    own = {name: [one for one in all_ if one.begin_us >= sent.begin_us] for name, all_ in found.items()}
    took_s = [one.took_s for all_ in own.values() for one in all_]
    return {
        "behind_s": round(sent.behind_s, 3),
        "slowest_batch_s": max(took_s, default=0),
        "slow_batches": sum(one > SPARK_TRIGGER_S for one in took_s) / max(len(took_s), 1),
        "systems": [
            {
                "name": name,
                "system": systems.engine(name),
                "watermark": systems.about[name],
                **figures_of(bids, sent.begin_us, read_results(name, servers), stage.part_s, stage.step_s),
                **dropped_by_step(own.get(name, []), sent.begin_us, stage.counted_s, stage.step_s),
            }
            for name in group
        ],
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
