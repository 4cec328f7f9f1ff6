"""Silence: which partitions have sent nothing for longer than chance explains, alone or together.

Where partitions have few rows, or send them in packs, a stall of several shows long before each of them is silent for
long enough. So what all of them should have sent since the last one fell silent counts together, less the logarithm of
the number of ways in which so many partitions can be picked (a scan statistic).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidemark.models.live_defaults import SILENT_ROWS
from tidemark.models.policies.ages import Float64s

_LITTLE = 0.01
"""A partition that should have sent fewer rows shows nothing: it has just sent some, or has long stopped."""


def silent_partitions(unsent: Float64s, silence: Float64s) -> NDArray[np.intp]:
    """Return the partitions that are silent for longer than chance explains, ascending.

    They are those that are so alone, and those whose silence together is the least likely if that is no chance.

    Args:
        unsent: independent rows that each should have sent in its silence, shape (partitions,).
        silence: how long each has been silent, shape (partitions,).
    """
    silent = unsent > SILENT_ROWS
    expecting = np.flatnonzero(unsent > _LITTLE)
    if len(expecting):
        longest_first = expecting[np.argsort(-silence[expecting], kind="stable")]
        shortest = silence[longest_first]
        count = np.arange(1, len(longest_first) + 1)
        sending = len(longest_first) + int((silence == 0).sum())
        choices = np.cumsum(np.log((sending - count + 1) / count))
        evidence = shortest * np.cumsum(unsent[longest_first] / shortest) - choices
        most = int(evidence.argmax())
        if evidence[most] > SILENT_ROWS:
            silent[longest_first[: most + 1]] = True
    return np.flatnonzero(silent)
