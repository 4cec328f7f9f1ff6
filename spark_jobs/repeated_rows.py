"""Whether what was observed of a batch holds rows more than once: a stage that ran again is observed again.

Spark adds up what each task observed, of a stage that it runs again too (an executor was lost, with what others were
still to read), and of a batch that ``foreachBatch`` reads twice. ``numInputRows`` is no yardstick: it is counted in the
same tasks (tried on 3.5.9 and 4.2.0: 100 rows, 200 of both).

So each row draws a number from a generator that begins with the number of the task's partition, as ``rand(seed)`` does:
the n-th row of a partition draws the same number whenever the partition is read, whatever row it is then. As many
distinct numbers as rows means that no row was counted twice. They are counted by a sketch (HyperLogLog).
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

_SEED = 35
_DRAWS = 1 << 53
"""Different numbers; a double has as many."""

_LOG_CELLS = 16
"""Of the sketch: 64 kB in each task."""

_EXACT_ROWS = 4_096
"""Up to so many distinct numbers the sketch keeps each, and misses one where it cannot tell two apart."""

_ROWS = 5
"""How many it may miss then: six are missed once in 200 million batches."""

_TOLERANCE = 0.025
"""Six standard errors of the sketch beyond that."""


def drawn() -> Column:
    """Return the numbers that the rows of a frame draw."""
    return (F.rand(_SEED) * _DRAWS).cast("long")


def distinct(draws: Column) -> Column:
    """Return how many different numbers were drawn, about."""
    return F.hll_sketch_estimate(F.hll_sketch_agg(draws, F.lit(_LOG_CELLS)))


def are_repeated(rows: int, different: int) -> bool:
    """Return whether some rows were surely counted more than once.

    Args:
        rows: all that were counted.
        different: the distinct numbers that they drew.
    """
    return rows > different + _ROWS + (_TOLERANCE * rows if rows > _EXACT_ROWS else 0)
