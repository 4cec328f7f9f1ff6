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
from bench.nexmark.figures import BENCHMARK, benchmark_tables, table
from support.faults import FAULTS
from support.tree import ROOT

__all__ = ["PROOF", "fault_table", "proof_document", "week_text"]

PROOF = ROOT / "docs" / "explanation" / "proof.md"

_DOCUMENT = """<!-- Written by `make docs`, from what `make benchmark` and `make soak` recorded. -->

# Proof

What Tidemark promises, measured on real engines. Each table has the command that makes it.

## Spark, Tidemark and Flink on one stream

```sh
make benchmark
```

{rate} of Nexmark's bids a second, for {counted} minutes, are counted by auction in windows of {window} s, with the
highest price. They come from real Kafka, in {partitions} partitions, at their own pace. The delays are those of a real
source: a network, phones that are offline for up to 40 s, a region that is slow, and whose link is cut once for 15 s
(`tests/bench/nexmark/bids.py`, with a fixed seed). The target is {target} % of the bids.

{benchmark}
*Bids counted* are those in the results, of all that were sent. *Latency* is from a window's end to each of its results
in Kafka, by the broker's clock. *State* is how many counts, one an auction and window, a system held at most.

{made}

How the comparison is kept fair:

- A *guess* is as long as a window. The *best constant in hindsight* is the smallest that a replay of this very stream
  finds to meet the target: a yardstick, which nobody has beforehand. The real run may miss the target by a hair.
- Tidemark starts cold, with the target and the guess, and waits for no approval and no hours of evidence.
  Nothing was tuned on this stream. Where the bids that warm the systems were all on time, it was taught wrongly, and
  counted 99.4 % and 99.6 % in two runs of three minutes.
- Spark's queries have a trigger of {trigger:g} s. Flink moves its watermark every {tick:g} ms and writes at once; it
  also has a watermark for each partition.
- Spark's queries run side by side, then Flink's on the same bids again. State is in memory.
- It is one stream, and short: `make bench-policy` replays hours of many kinds.

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
    benchmark, faults = (json.loads(path.read_text(encoding="utf-8")) for path in (BENCHMARK, FAULTS))
    return _DOCUMENT.format(
        rate=RATE,
        counted=benchmark["counted_s"] // 60,
        window=WINDOW_S,
        partitions=PARTITIONS,
        target=f"{benchmark['target_ppm'] / 10_000:g}",
        benchmark=benchmark_tables(benchmark),
        made=_made(benchmark),
        trigger=benchmark["trigger_s"],
        tick=benchmark["flink_tick_ms"],
        faults=fault_table(faults["faults"]),
        week=week_text(faults.get("week")),
        fault_date=faults["date"],
        by=faults["by"],
        tests=f"{faults['passed']} tests passed and {faults['failed']} failed",
    )


def _made(benchmark: dict[str, Any]) -> str:
    """Say where and when the benchmark ran, and whether the machine kept up."""
    versions = ", ".join(f"{name} {version}" for name, version in benchmark["versions"].items())
    behind_s = max(benchmark[name] for name in ("spark_behind_s", "flink_behind_s") if name in benchmark)
    text = (
        f"Made on {benchmark['date']}, on {benchmark['machine']}, with {versions}, in {benchmark['minutes']:g} "
        f"minutes. The machine's load average was {benchmark['load']:g}. Bids were sent at most {behind_s:.1f} s "
        f"after their time, and Spark's longest batch took {benchmark['spark_slowest_batch_s']:.1f} s, where the "
        f"trigger has {benchmark['trigger_s']:g} s."
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
modes. The drivers are simulated by Spark's rules (`tests/support/week_job.py`) and send by the real sender; the
controller is the real one, on PostgreSQL. What it says is compared with what became of the rows, computed by none of
Tidemark's code (`tests/support/week_truth.py`).

{lost_batches:,} batches were never reported, because their drivers were killed first: they have to be shown as missing.

Of {certified} streams whose delays stay the same, {certified_failed} had a bound, at any time of the week, that was
certified and admits fewer rows than the target. The confidence is 95 %, so that up to {certified_may_fail} could be
chance.
"""


def week_text(week: dict[str, Any] | None) -> str:
    """Return what a simulated week was like, what was compared in it, and its faults; None: there was none."""
    if week is None:
        return "None is recorded; it needs PostgreSQL.\n"
    compared = [
        [what, f"{times:,}", f"{wrong:,}"] for what, (times, wrong) in sorted(week["verdicts"].items())
    ]
    faults = [[fault, f"{times:,}"] for fault, times in sorted(week["faults"].items())]
    like, lost, certified = (textwrap.fill(part, 120) for part in _WEEK.format(**week).strip().split("\n\n"))
    verdicts = table(("what Tidemark says", "compared with the truth", "wrong"), compared)
    return "\n".join(
        (like, "", verdicts, lost, "", certified, "", table(("fault in that week", "times"), faults))
    )


def _main() -> None:
    PROOF.write_text(proof_document(), encoding="utf-8")
    sys.stdout.write(f"{PROOF.relative_to(ROOT)}\n")


if __name__ == "__main__":
    _main()
