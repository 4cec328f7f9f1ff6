"""How the time and the memory of a decision grow with the partitions and the open cohorts of a stream.

Aims: a decision of at most 5 ms with 1,000 partitions x 1,000 open cohorts, and at most 4 kB a partition.
"""

from __future__ import annotations

import pickle
import sys
import time
from itertools import product

import numpy as np
import pytest

from tidemark.models.base.operators import tumbling
from tidemark.models.live.policy import Observation, Setup
from tidemark.models.live.tidemark import Tidemark

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1800)]

SECOND = 1_000_000
PARTITIONS = (10, 100, 1_000)
COHORTS = (10, 100, 1_000)
ROWS = 20
"""Rows of a partition in a cohort, enough that each cohort of each partition can be missed."""
DECISIONS = 30


def batch(now_s: int, sending: int, newest: int, oldest: int) -> Observation:
    """Return a batch of a second: rows of the cohorts of a second from ``newest`` to ``oldest`` seconds ago."""
    back = np.unique(np.array([newest, newest, newest, oldest]))
    partition, ago = (index.ravel() for index in np.meshgrid(np.arange(sending), back, indexing="ij"))
    event = (now_s - ago) * SECOND
    return Observation(
        now_us=now_s * SECOND,
        partition=partition,
        key_us=(event // (10 * SECOND) + 1) * 10 * SECOND,
        event_us=event,
        count=np.full(len(ago), ROWS // 2),
        need_us=ago * SECOND,
        base_us=np.full(sending, event.max(), np.int64),
    )


class Lived:
    """A policy of which half of the rows come so late that about ``cohorts`` cohorts stay open."""

    def __init__(self, partitions: int, cohorts: int) -> None:
        self._cohorts = cohorts
        self._now_s = 1_000_000
        self.policy = Tidemark(Setup(operator=tumbling("10 s"), trigger_us=SECOND, target_ppm=990_000))
        self.decided(2 * cohorts + DECISIONS, partitions)

    def decided(self, batches: int, sending: int) -> float:
        """Return the CPU seconds of a decision; the partitions after the first ``sending`` are silent."""
        taken = []
        for _ in range(batches):
            now_us = self._now_s * SECOND
            self.policy.observe(batch(self._now_s, sending, 1, self._cohorts))
            began = time.process_time()
            self.policy.decide(now_us, now_us + 2 * SECOND)
            taken.append(time.process_time() - began)
            self._now_s += 1
        return float(np.median(taken[-DECISIONS:]))

    @property
    def size(self) -> int:
        """Bytes of a pickle of the policy."""
        return len(pickle.dumps(self.policy))


def test_how_a_decision_grows(capsys: pytest.CaptureFixture[str]) -> None:
    """Printed: CPU time of a decision, and what a pickle of the policy has for each partition."""
    lines = ["", "              open  all partitions send        a third is silent"]
    lines.append("partitions  cohorts  decision  a partition  decision  a partition")
    for cohorts, partitions in product(COHORTS, PARTITIONS):
        one, all_ = Lived(1, cohorts), Lived(partitions, cohorts)
        line = f"{partitions:10,}  {len(all_.policy._missing.start_us):7,}"
        for sending in (partitions, partitions - partitions // 3):
            took = all_.decided(DECISIONS + 10, sending)
            each = (all_.size - one.size) / (partitions - 1)
            line += f"  {took * 1e3:5.2f} ms  {each:9,.0f} B"
        lines.append(line)
    with capsys.disabled():
        sys.stdout.write("\n".join(lines) + "\n")
