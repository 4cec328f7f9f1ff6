"""Why a JVM of the tests is gone: its exit code, what it wrote when it crashed, and whether memory ran out."""

from __future__ import annotations

import contextlib
import re
import subprocess
from pathlib import Path

from support.patience import PATIENCE_S

__all__ = ["CRASH", "how_it_ended"]

CRASH = "hs_err.log"
"""Name of the file that a JVM writes when it crashes."""

_CHARACTERS = 4_000


def how_it_ended(java: subprocess.Popen[bytes], crash: Path) -> str:
    """Return what there is to know of a JVM that does not answer any more.

    Args:
        java: its process. A code below 0 is a signal that nobody caught, 128 and more one that Java caught. 0 is
            ``System.exit(0)``, or the end of the pipe that is its input; 52 and 56 are Spark's own, for memory and for
            heartbeats.
        crash: the file that it writes when it crashes.
    """
    with contextlib.suppress(subprocess.TimeoutExpired):
        java.wait(PATIENCE_S)
    code = "it runs" if java.returncode is None else f"it ended with {java.returncode}"
    memory = [
        *re.findall(r"oom_kill \d+", Path("/proc/vmstat").read_text()),
        *re.findall(r"Mem(?:Total|Available).*|Shmem:.*", Path("/proc/meminfo").read_text()),
    ]
    written = crash.read_text(errors="replace")[:_CHARACTERS] if crash.exists() else "no crash file"
    return f"the JVM {java.pid} does not answer: {code}; {', '.join(memory)}; {written}"
