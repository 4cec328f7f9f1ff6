"""The marker: a small file that says for which bound a job ended, for whoever starts it again."""

from __future__ import annotations

import json
import logging
from pathlib import Path

from tidemark.spark_jobs.restart_rule import Change
from tidemark.spark_jobs.whole_file import write_whole

_log = logging.getLogger("tidemark.spark")


def write_marker(path: Path, change: Change, now_us: int) -> None:
    """Write the marker, whole or not at all; a marker that cannot be written is logged and stops nothing.

    It is one line of JSON: ``job`` and ``stream`` that the bound is of, its ``generation``, the bound and the one it
    replaces in milliseconds (``bound_ms``, ``before_ms``), and the wall time in microseconds since the epoch
    (``ended_us``).

    Args:
        path: where to write it.
        change: what the job ended for.
        now_us: the wall time in microseconds since the epoch.
    """
    found = {
        "job": change.job,
        "stream": change.stream,
        "generation": change.generation,
        "bound_ms": change.bound_ms,
        "before_ms": change.before_ms,
        "ended_us": now_us,
    }
    try:
        write_whole(path, json.dumps(found) + "\n")
    except OSError as error:
        _log.error("the marker %s cannot be written: %s", path, error)
