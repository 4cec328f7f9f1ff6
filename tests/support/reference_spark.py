"""The document of what works on which version of Spark: docs/reference/spark.md."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from support.front_ends import FOUND
from support.front_ends import MODES as RAN
from support.plain_jobs import KINDS
from support.private_names import PRIVATE_NAMES, TRIED
from support.spark_cluster import FOUND as CLUSTER
from support.spark_versions import MATRIX, MODES, OPERATORS

__all__ = ["front_end_rows", "matrix_rows", "private_rows", "spark_document"]

CONNECT_TRIED = ("4.0.5", "4.1.4", "4.3.0")
"""The versions of PySpark, beside the pinned one, on which the comparison passed."""

_DOCUMENT = """# Versions of Spark

Each cell is a run of real queries: four operators ({operators}), over restarts,
no-data batches and, in Live, a driver that dies in a batch. *exact* means that the ledger, on every batch, partition
and key, equals what the sink got, and that every watermark is the one that the mode requires. *refused* means that the
log says why, and the job goes on with its own watermark.

{matrix}
`make matrix` makes this table and the next two, on Java 17 and Python 3.11. On Python 3.14, which takes PySpark 4.1 or
newer, 4.2.0 was exact too in Off and in Live. The other tests, of Kafka, late rows and corrected windows among them,
run on 4.2.0 alone, the newest version for which the Kafka connector is published.

## Front ends

One job of 240 rows in each front end, on 4.2.0, without an edit but in the first: {fronts}.
*12=12* means that the ledger has 12 late rows, and that 12 rows are missing in the sink. Where the ledger is [an
interval](../explanation/late-rows.md#the-ledger), the sink is in it. In OnRestart and Live the bound comes from a
controller.

{front_ends}
## In a cluster

The windowed count once more, in a standalone cluster of Spark 4.2.0 on one machine. Executors are processes of two
workers, and so is the driver where it is *supervised* (`--deploy-mode cluster --supervise`). State is in RocksDB, the
checkpoint in a folder that all reach. The fault comes amid the fourth of eight files; each query has 240 rows.

{cluster}
[A driver that moves](../how-to/deployment.md#a-driver-that-moves) says what the controller sees of it.

## What is different

| PySpark | what it lacks | what that means |
| --- | --- | --- |
| 3.5.0 | a `dropDuplicatesWithinWatermark` after which the event time may be dropped | Spark fails the query |
| 3.5 | observed metrics in batches without rows | nothing: such a batch is reported from its progress |
| 3.5, 4.0 | `approx_top_k_accumulate` | where rows are observed, keys are counted by `histogram_numeric`, see below |
| before 4.0 | listeners in a client of Spark Connect | `adaptive_watermark` is rejected there |
| before 4.3 | stateful operators in real-time mode | Spark fails such a query; the rows of others are counted |
| all | offsets in the log, and a clock that moves, within a batch in real-time mode | no Live in it, see below |

`histogram_numeric` takes numbers alone. Where rows are observed, and with `late=side(...)`, partitions with names are
counted as one, and the log says so: give a column of type int. A key has 53 bits and not 63, so that with granules of
1 ms partitions are numbered up to 254 (up to 510 with a declared operator), with 100 ms up to 32,766 (65,534), and
others are counted as `other`; times before 1828 and after 2112 are not counted by granule.

A batch needs about 40 bytes for each distinct pair of partition and granule, in the driver and in each task that has
it, and its time grows with them. Limit what a batch reads (`maxOffsetsPerTrigger`, `maxFilesPerTrigger`) before a job
works off days of backlog.

## Spark Connect

[Jobs](../how-to/jobs.md#spark-connect) says how to run one. These were tried with a server from the PySpark wheel and
clients without a JVM, over restarts with other bounds; "exact" is as above. {connect}

{connect_table}
Unknown rows and missing batches make a ledger that is never exact, and completeness is not known for them.

## Real-time mode

With `trigger(realTime="5 minutes")`, in PySpark from 4.2 on, the watermark still moves once an interval. So a narrow
bound closes windows no sooner.

| PySpark | what Spark runs in it | what Tidemark does |
| --- | --- | --- |
| 4.1.4 | nothing from Python: it has no such trigger | |
| 4.2.0 | queries without state; `OPERATOR_OR_SINK_NOT_IN_ALLOWLIST` for others | rows are counted and not judged |
| 4.3.0 | windowed counts and `dropDuplicates`, in update mode | Off and OnRestart: exact, over a restart, too |

`transformWithState` of Scala and Java, which 4.3.0 allows in it, is not tried.

Live is rejected (4.3.0, seen with batches of 20 s):

- `current_timestamp()` is one time for the whole batch, that of its start. A row that comes later in the interval is
  ahead of it, and `future_rows=` would set its event time back or take it out.
- Spark writes a batch's offsets when the batch ends. So a batch that runs again could have another watermark.

Mode Restart and `late=` are rejected, too; they are not tried. Off and OnRestart were tried on 4.3.0 with Spark's
source in memory and, by hand, with Kafka by the connector of 4.2.0.

## Private names

Tidemark uses these classes of Spark's JVM beyond its public interfaces (their methods are in
`spark_jobs/spark/jvm.py`). All were found on {tried}. Where one is missing, the log
says "running without" and the job goes on without what stands in the first column.

{private}"""


_CONNECT = (
    ("`Off`, `OnRestart`", "exact"),
    ("`Restart`", "exact; where batches run back to back, a restart may cut one off, which then runs again"),
    (
        "`Live`",
        ("refused: a client cannot give the server the Java class that moves the watermark"),
    ),
    (
        "`late=side(...)`, `late=revise(...)`",
        "refused: a client reaches neither the offset log nor files beside the checkpoint",
    ),
    (
        "the operator",
        (
            "it must be declared, and is trusted; without it no row is judged. `start()` checks neither it nor joins "
            "nor stateful operators: run `tidemark lint` where there is a JVM"
        ),
    ),
    (
        "the output mode",
        "from the text of `query.explain()`; where that shows no stateful operator, no row is judged",
    ),
    (
        "the first batch of a run, and after a gap",
        (
            "by the watermark that the offset log has of the batch before, which the server reads as text; where the "
            "session's user may not read the checkpoint, the batch's rows are unknown"
        ),
    ),
    (
        "no client",
        "the query goes on in the server, and its batches are missing until a client starts it again",
    ),
    (
        "a broken connection",
        (
            "the client adds its listener again within 30 s, and makes up for up to 100 batches "
            "(`spark.sql.streaming.numRecentProgressUpdates`); others are missing"
        ),
    ),
)
"""What is different over Spark Connect."""


def spark_document() -> str:
    """Return the document, without the head that all of them have."""
    return _DOCUMENT.format(
        operators=", ".join(operator.partition(",")[0] for operator in OPERATORS),
        matrix=_table(("PySpark", *MODES), matrix_rows()),
        front_ends=_table(("mode", "front ends", *KINDS), front_end_rows(FOUND, KINDS)),
        cluster=_table(("fault", "front ends", *RAN), front_end_rows(CLUSTER, RAN)),
        fronts="; ".join(json.loads(FOUND.read_text(encoding="utf-8"))),
        tried=", ".join(TRIED),
        connect_table=_table(("", "over Spark Connect"), _CONNECT),
        connect=f"Four operators on\n4.2.0, windows on {', '.join(CONNECT_TRIED)} as well.",
        private=_table(("running without", "where one of these is missing"), private_rows()),
    )


def matrix_rows() -> Iterator[list[str]]:
    """Return a row for each version: in each mode what came of all operators, or of which of them what."""
    matrix: dict[str, dict[str, dict[str, str]]] = json.loads(MATRIX.read_text(encoding="utf-8"))
    for version, operators in matrix.items():
        cells = []
        for mode in MODES:
            found = {operator: modes[mode] for operator, modes in operators.items()}
            same = set(found.values())
            each = (f"{operator}: {what}" for operator, what in found.items())
            cells.append(same.pop() if len(same) == 1 else "; ".join(each))
        yield [version, *cells]


def front_end_rows(found: Path, columns: Sequence[str]) -> Iterator[list[str]]:
    """Return a row for each mode, or fault, and what came of each query in it, with the front ends of which it did."""
    kept: dict[str, dict[str, dict[str, str]]] = json.loads(found.read_text(encoding="utf-8"))
    fronts: dict[tuple[str, ...], list[str]] = {}
    for front, groups in kept.items():
        for group, said in groups.items():
            came = (said[column].replace(" = ", "=").replace(" to ", "-") for column in columns)
            fronts.setdefault((group, *came), []).append(front)
    for (group, *cells), names in fronts.items():
        yield [group, "all" if len(names) == len(kept) else "; ".join(names), *cells]


def private_rows() -> Iterator[list[str]]:
    """Return a row for each part of Tidemark that needs private names."""
    by_use = sorted(PRIVATE_NAMES, key=lambda name: name.without)
    for without, names in groupby(by_use, key=lambda name: name.without):
        listed = (f"`{name.places[0].rpartition('.')[2]}`" for name in names)
        yield [without, ", ".join(listed)]


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heads = list(heads)
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
