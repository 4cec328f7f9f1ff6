"""Order statistics with confidence: which rank certifies a quantile, and when no rank can.

Of n independent samples the one of rank r lies at or above the q-quantile with probability
``P(Binomial(n, q) <= r - 1)``, for any distribution (Clopper-Pearson order statistics). Below 299 samples no rank
certifies 99 % at 95 % confidence. Rows that come in bursts are not independent: give an effective number for them.

The probability is a regularized incomplete beta function, which takes as long for 2^53 samples as for ten. The
binomial quantile of scipy searches step by step: for 10^16 samples it does not return.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tidemark.models.base.target import PPM

DEFAULT_CONFIDENCE = 0.95
"""Probability that the certified order statistic truly is at or above the quantile."""


def certified_rank(samples: int, share: float, confidence: float = DEFAULT_CONFIDENCE) -> int | None:
    """Return the lowest rank (1 is the smallest sample) that is at or above the ``share`` quantile with ``confidence``.

    None when no sample certifies it: there is not enough evidence.

    Raises:
        ValueError: when ``share`` or ``confidence`` is not strictly between 0 and 1, or ``samples`` is negative.
    """
    _check(share, confidence)
    if samples < 0:
        raise ValueError(f"samples must be at least 0, not {samples}")
    if samples == 0:
        return None
    return int(_ranks(np.array([samples]), share, confidence)[0]) or None


def certified_ranks(
    samples: NDArray[np.int64], share: float, confidence: float = DEFAULT_CONFIDENCE
) -> NDArray[np.int64]:
    """Return ``certified_rank`` of each of ``samples``, shape (n,), with 0 for None.

    Raises:
        ValueError: when ``share`` or ``confidence`` is not strictly between 0 and 1.
    """
    _check(share, confidence)
    # Many partitions have the same number of rows.
    different, where = np.unique(np.asarray(samples, np.int64), return_inverse=True)
    ranks = np.zeros(len(different), np.int64)
    some = different > 0
    ranks[some] = _ranks(different[some], share, confidence)
    found: NDArray[np.int64] = ranks[where]
    return found


def certified_share(admitted: int, samples: int, confidence: float = DEFAULT_CONFIDENCE) -> float:
    """Return the greatest share that ``admitted`` of ``samples`` certify: the inverse of ``certified_rank``.

    It is 0 when nothing was admitted.

    Raises:
        ValueError: when ``confidence`` is not strictly between 0 and 1, or not 0 <= admitted <= samples.
    """
    _check(0.5, confidence)
    if not 0 <= admitted <= samples:
        raise ValueError(f"admitted must be at least 0 and at most {samples}, not {admitted}")
    if not admitted:
        return 0.0
    from scipy.special import betaincinv  # noqa: PLC0415 - as below

    return float(betaincinv(admitted, samples - admitted + 1, 1 - confidence))


def min_samples(share: float, confidence: float = DEFAULT_CONFIDENCE) -> int:
    """Return the minimum number of independent samples that certify ``share`` with ``confidence``.

    The maximum of n samples is below the quantile with probability ``share ** n``.
    """
    _check(share, confidence)
    return math.ceil(round(math.log(1 - confidence) / math.log(share), 9))


def _ranks(samples: NDArray[np.int64], share: float, confidence: float) -> NDArray[np.int64]:
    """Return the lowest rank that certifies ``share``, of at least one sample each; 0 for none."""
    from scipy.special import betaincc, ndtri  # noqa: PLC0415 - a process that decides nothing need not load it

    none, mean, scale = samples + 1, samples * share, np.sqrt(samples)
    # By Hoeffding's inequality the binomial quantile is at most so far from the mean.
    low = np.floor(mean - scale * math.sqrt(-math.log(confidence) / 2)).astype(np.int64)
    high = np.ceil(mean + scale * math.sqrt(-math.log1p(-confidence) / 2)).astype(np.int64) + 2
    low, high = np.clip(low, 1, none), np.clip(high, 1, none)
    # By the normal approximation, which is nearly right, it is about here: then a few halvings remain.
    about = 1 + (mean + scale * (ndtri(confidence) * math.sqrt(share * (1 - share)))).astype(np.int64)
    probes = [about - 2, about + 3]
    while (low < high).any():
        middle = np.clip(probes.pop() if probes else (low + high) // 2, low, high)
        tried = np.minimum(middle, samples)
        certified = (middle == none) | (betaincc(tried, none - tried, share) >= confidence)
        low, high = np.where(certified, low, np.minimum(middle + 1, high)), np.where(certified, middle, high)
    return np.where(low == none, 0, low)


def _check(share: float, confidence: float) -> None:
    for name, value in (("share", share), ("confidence", confidence)):
        if not 0 < value < 1:
            raise ValueError(f"{name} must lie between 0 and 1, both excluded, not {value}")


def interval_ppm(late: int, rows: int, confidence_ppm: int) -> tuple[int | None, int | None]:
    """Return both ends of the interval of the share of ``rows`` that was admitted, in parts per million; None without
    rows.
    """
    if not rows:
        return None, None
    from scipy.special import betaincinv  # noqa: PLC0415 - a process that decides nothing need not load it

    tail = (1 - confidence_ppm / PPM) / 2
    admitted = rows - late
    lowest = float(betaincinv(admitted, late + 1, tail)) if admitted else 0.0
    highest = float(betaincinv(admitted + 1, late, 1 - tail)) if late else 1.0
    return math.floor(lowest * PPM), math.ceil(highest * PPM)
