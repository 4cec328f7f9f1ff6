"""What becomes of the last windows of a run that ends by itself, in the words of lint, of a start and of the status."""

from __future__ import annotations

from tidemark.models.protocol.messages import RunEnd
from tidemark.models.specs.findings import Finding

NEVER_MOVED = (
    "a checkpoint keeps the query's watermark and not that of each input, so a run that has rows of some inputs only "
    "does not move it"
)
"""Why runs leave the watermark where it is."""

_CLOSE = "set spark.tidemark.close.at.end=true"


def last_windows(run_end: RunEnd | None, mode: str = "append", inputs: int | None = None) -> Finding | None:
    """Return what keeps the last windows of a run open, and what to do; None when nothing does.

    Args:
        run_end: how the run ends by itself; None when it does not.
        mode: the query's output mode; only in append mode anything waits for the watermark.
        inputs: how many watermarks the query has; None when that is not known.
    """
    if mode != "append":
        return None
    if run_end == "Once":
        text = "once=True runs one batch, and the watermark moves after it: what it closes comes out in the next run"
        instead = f"write trigger(availableNow=True), which reads the same, and {_CLOSE}"
        return Finding("warning", "last_windows_open", text, instead)
    if run_end != "AvailableNow":
        return None
    text = (
        "availableNow ends a run where the watermark is the bound behind the newest row: later windows, and outer rows "
        "of joins, stay open until a run has newer rows"
    )
    if inputs == 1:
        return Finding("note", "last_windows_open", text, _CLOSE)
    several = "" if inputs else "with several inputs "
    return Finding("warning", "last_windows_open", f"{text}; and {several}{NEVER_MOVED}", _CLOSE)
