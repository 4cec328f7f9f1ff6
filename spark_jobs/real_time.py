"""Which streams can run in real-time mode: those whose watermark is Spark's own, with a bound that is set at the start.

Spark 4.3 runs windowed counts and ``dropDuplicates`` in it, in update mode; 4.1 and 4.2 run no stateful operator. Rows
are processed as they come, but a batch still ends with each interval of the trigger: metrics are observed, listeners
are notified and the watermark moves once a batch, by the same rule as elsewhere (tried on 4.3.0).
"""

from __future__ import annotations

from tidemark.spark_jobs.binding import Binding


def why_not_real_time(binding: Binding) -> str | None:
    """Return why a stream cannot run in real-time mode, and what to do about it; None where it can."""
    if binding.ceiling_ms is not None:
        why, instead = "its control stream is a source that Spark does not read in it", "take ceiling= out"
    elif binding.late is not None or binding.revised is not None:
        why, instead = "late= has not been tried in it", "take late= out"
    elif binding.mode == "Restart":
        why, instead = "mode Restart has not been tried in it", "use mode OnRestart"
    else:
        return None
    return f"{why} (Spark 4.3.0); {instead}, or use a processing-time trigger"
