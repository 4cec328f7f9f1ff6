"""What a driver holds and logs over batches of 96,000 distinct pairs of partition and second, with the tap and without.

TIDEMARK_BENCH_BATCHES says how many. The heap is measured after a collection, the event log as it is written.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.bench, pytest.mark.spark, pytest.mark.timeout(7200)]

BATCHES = int(os.environ.get("TIDEMARK_BENCH_BATCHES", "60"))


def test_what_wide_batches_leave_in_a_driver(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = []
    for variant in ("plain", "off"):
        command = [
            sys.executable,
            "-m",
            "support.wide_batches_job",
            str(tmp_path / variant),
            str(BATCHES),
            variant,
        ]
        ran = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        *samples, last = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
        lines.append(f"  {variant}, a progress of {last['progress_kb']:.0f} kB")
        lines += [
            f"    batch {sample['batch']:4}  heap {sample['heap_mb']:5.0f} MB  Python {sample['python_mb']:4.0f} MB"
            f"  event log {sample['log_mb']:6.1f} MB"
            for sample in samples
        ]
    with capsys.disabled():
        print(f"\nbatches of 96,000 distinct pairs, {BATCHES} of them")
        print("\n".join(lines))
