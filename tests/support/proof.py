"""The document of what was shown, docs/explanation/proof.md, from what `make benchmark` and `make soak` recorded.

    make docs

writes it anew; a test fails when the records have moved on.
"""

from __future__ import annotations

import json
import sys
import textwrap
from typing import Any

from bench.nexmark.bids import PARTITIONS, RATE, WINDOW_S
from bench.nexmark.stages import DAY, SHORT
from bench.nexmark.tables import systems_table, table
from support.faults import FAULTS
from support.tree import ROOT

__all__ = ["PROOF", "fault_table", "proof_document", "week_text"]

PROOF = ROOT / "docs" / "explanation" / "proof.md"

_DOCUMENT = """<!-- Written by `make docs`, from what `make benchmark` and `make soak` recorded. -->

# Proof

What Tidemark promises, measured on real engines. Each table has the command that makes it.

## Spark, Tidemark and Flink on one stream

Nexmark's bids are counted by auction in windows of {window} s, with the highest price. They come from real Kafka, in
{partitions} partitions, at their own pace. The target is {target} % of the bids.

### A working day

```sh
make benchmark ARGS=day
make figure
```

A day is played {speed} times as fast. All times below are times of that day: a window of 10 s counts as {window_min}
minutes. It has a quiet night, a morning rise, a deployment that stops all regions for 3 minutes, a region up to 5
minutes slow at noon, a spike of three times the traffic, a link cut for 15 minutes, and phones offline for up to 12
(`tests/bench/nexmark/day.py`, with a fixed seed).

![Bids counted and how long results waited, over the day](../day-light.svg)

{day}
{day_made}

### Eight minutes of one kind

```sh
make benchmark
```

{rate} bids a second whose delays stay alike, where a constant is best: a network, phones offline for up to 40 s, a slow
region, and its link cut once for 15 s (`tests/bench/nexmark/bids.py`).

{short}
{short_made}

### How to read them

*Bids counted* are those in the results, of all that were sent; bold is below the target, as are the {day_part}s of the
day that *hours below target* names. *As Spark says* sums `numRowsDroppedByWatermark`, which counts what is left when
a batch has added up its bids. *Latency* is from a window's end to each of its results in Kafka, by the broker's clock.
*State* is how many counts, one an auction and window, a system held at most.

- A *guess* knows no delays. *Best in hindsight* is the smallest constant that a replay of this very stream finds to
  meet the target: a yardstick, which nobody has beforehand. The real run may miss it.
- Tidemark runs in Spark. It starts cold, with the target and the guess, and waits for no approval and no hours of
  evidence. Nothing was tuned on these streams.
- Spark's queries have a trigger of {trigger:g} s as played. Flink moves its watermark every {tick:g} ms and writes at
  once; it also has a watermark for each partition.
- Systems run side by side, in the short stage Flink's after Spark's.

## A simulated week

```sh
make soak
```

{week}
## Faults

```sh
make soak
```

On real Spark, Kafka, PostgreSQL and controllers. *Rows lost* are neither in the sink nor counted as late. *Verdicts*
are counts of the ledger, each compared with rows, watermarks in the checkpoint and sink.

{faults}
Recorded on {fault_date} by {by}: {tests}.

[Versions of Spark](../reference/spark.md) has the same comparison of ledger and sink for each version, and
[Limits](limits.md) what is not covered.
"""


def proof_document() -> str:
    """Return the document."""
    day, short, faults = (
        json.loads(path.read_text(encoding="utf-8")) for path in (DAY.record, SHORT.record, FAULTS)
    )
    return _DOCUMENT.format(
        rate=RATE,
        window=WINDOW_S,
        window_min=WINDOW_S * day["speed"] // 60,
        partitions=PARTITIONS,
        target=f"{day['target_ppm'] / 10_000:g}",
        speed=day["speed"],
        day=systems_table(day),
        day_made=_made(day),
        day_part="hour" if day["part_s"] * day["speed"] == 3_600 else "part",
        short=systems_table(short, losses=False),
        short_made=_made(short),
        trigger=day["trigger_s"],
        tick=day["flink_tick_ms"],
        faults=fault_table(faults["faults"]),
        week=week_text(faults.get("week")),
        fault_date=faults["date"],
        by=faults["by"],
        tests=f"{faults['passed']} tests passed and {faults['failed']} failed",
    )


def _made(record: dict[str, Any]) -> str:
    """Say where and when a stage ran, and whether the machine kept up."""
    slow = record["slow_batches"]
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    text = (
        f"Made on {record['date']}, on {record['machine']}, with {versions}, in {record['minutes']:g} minutes. The "
        f"machine's load average was {record['load']:g}. Bids were sent at most {record['behind_s']:.1f} s after their "
        f"time, and Spark's longest batch took {record['slowest_batch_s']:.1f} s as played"
        + (f"; {slow * 100:.1f} % of the batches took longer than the trigger." if slow else ".")
    )
    return textwrap.fill(text, 120)


def fault_table(faults: dict[str, dict[str, int]]) -> str:
    """Return a line for each fault."""
    numbers = ("times", "rows", "lost", "verdicts", "wrong")
    rows = [[fault, *(f"{found[name]:,}" for name in numbers)] for fault, found in sorted(faults.items())]
    return table(("fault", "times", "rows", "rows lost", "verdicts", "wrong"), rows)


_WEEK = """
{streams} streams of {kinds} kinds live through {days} days in minutes, on a clock that the test moves half an hour at a
time: {batches:,} batches, {rows:,} rows, of which {late:,} come late, and {runs:,} runs of their jobs, in all four
modes. The drivers are simulated by Spark's rules (`tests/support/week_job.py`) and send by the real sender to
{replicas} replicas of the real controller, on PostgreSQL with a standby. What they say is compared with what became of
the rows, computed by none of Tidemark's code (`tests/support/week_truth.py`).

{lost_batches:,} batches were never reported, because their drivers were killed first: they have to be shown as missing.

Of {certified} streams whose delays stay the same, {certified_failed} had a bound, at any time of the week, that was
certified and admits fewer rows than the target. The confidence is 95 %, so that up to {certified_may_fail} could be
chance.
"""


def week_text(week: dict[str, Any] | None) -> str:
    """Return what a simulated week was like, what was compared in it, and its faults; None: there was none."""
    if week is None:
        return "None is recorded; it needs PostgreSQL.\n"
    compared = ", ".join(
        f"{what} ({times:,}{f', of which {wrong:,} wrong' if wrong else ''})"
        for what, (times, wrong) in sorted(week["verdicts"].items())
    )
    faults = ", ".join(f"{fault} ({times:,})" for fault, times in sorted(week["faults"].items()))
    like, lost, certified = (textwrap.fill(part, 120) for part in _WEEK.format(**week).strip().split("\n\n"))
    never = not any(wrong for _, wrong in week["verdicts"].values())
    verdicts = f"Compared with the truth{', and never wrong' if never else ''}: {compared}."
    faults = f"Faults, with their times: {faults}."
    parts = (like, textwrap.fill(verdicts, 120), lost, certified, textwrap.fill(faults, 120))
    return "\n\n".join(parts) + "\n"


def _main() -> None:
    PROOF.write_text(proof_document(), encoding="utf-8")
    sys.stdout.write(f"{PROOF.relative_to(ROOT)}\n")


if __name__ == "__main__":
    _main()
