"""What Linux says that a process uses."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["busy_seconds", "driver_busy_seconds", "memory_mb", "status_of"]


def status_of(process: int, field: str) -> int:
    """Return a number of the kernel's on a process, such as VmRSS in kilobytes."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise KeyError(field)


def memory_mb(process: int) -> tuple[float, float]:
    """Return a process' resident memory, and its proportional share where others have the same pages."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in lines[1:]}
    return kilobytes["Rss"] / 1_000, kilobytes["Pss"] / 1_000


def busy_seconds(process: int) -> float:
    """Return how many seconds of a core a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def driver_busy_seconds(spark: SparkSession) -> float:
    """Return the same of a driver, its JVM and this process together, without their children."""
    jvm = spark._jvm
    assert jvm is not None
    return busy_seconds(jvm.java.lang.ProcessHandle.current().pid()) + time.process_time()
