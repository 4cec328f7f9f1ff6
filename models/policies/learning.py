"""How much of a stream the policy ``tidemark`` must have seen before it decides on what it saw.

Each form of the policy has its own rule: the live policy trusts its fastest rules only after some keys, however well
they do, and the recommendation needs enough rows to certify the target.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tidemark.models.operators import TimeWindow
from tidemark.models.policies.budget import keys_until_trusted
from tidemark.models.policies.rules import triggers_before_any_close
from tidemark.models.policies.setup import Setup
from tidemark.models.quantile import min_samples
from tidemark.models.slo import Slo
from tidemark.models.target import PPM


@dataclass(frozen=True, slots=True)
class Learning:
    """How long a stream is, and how long it has to be."""

    seen: int
    """Keys of the stream: its windows, or its triggers where it has no windows."""
    needed: int
    """Keys that it takes."""
    key_us: int
    """Time from one key to the next, in microseconds."""

    @property
    def enough(self) -> bool:
        """Whether the stream is long enough."""
        return self.seen >= self.needed


def learning_of(setup: Setup, pairs: int, span_us: int) -> Learning | None:
    """Return whether ``tidemark`` can learn from a stream; None where it keeps no such rule.

    Args:
        setup: the problem.
        pairs: (row, key) pairs of the stream, at least 1.
        span_us: time from its first arrival to its last, in microseconds.
    """
    key_us = setup.key_spacing_us
    keys = max(span_us / key_us, 1.0)
    if setup.mode == "restart":
        rows = min_samples(setup.target_ppm / PPM, Slo(target_ppm=setup.target_ppm).confidence_ppm / PPM)
        return Learning(int(keys), math.ceil(rows * keys / pairs), key_us)
    if setup.engine == "per-row" and not isinstance(setup.operator, TimeWindow):
        return None
    late_share = (PPM - setup.target_ppm) / PPM
    young = triggers_before_any_close(setup.span_triggers, late_share) * setup.trigger_us / key_us
    if setup.objective == "timeslices":
        trusted = keys_until_trusted((PPM - setup.good_windows_ppm) / PPM, 1.0)
    else:
        trusted = keys_until_trusted(late_share, pairs / keys)
    return Learning(int(keys), max(trusted, math.ceil(young)), key_us)
