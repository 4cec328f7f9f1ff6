"""Order statistics with confidence: which rank certifies a quantile, and when no rank can.

Of n independent samples the one of rank r lies at or above the q-quantile with probability
``P(Binomial(n, q) <= r - 1)``, for any distribution (Clopper-Pearson order statistics). Below 299 samples no rank
certifies 99 % at 95 % confidence. Rows that come in bursts are not independent: give an effective number for them.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

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
    rank = int(_binomial_quantiles(np.asarray(samples), share, confidence)) + 1
    return rank if rank <= samples else None


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
    ranks[some] = _binomial_quantiles(different[some], share, confidence) + 1
    ranks[ranks > different] = 0
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


def _binomial_quantiles(samples: NDArray[np.int64], share: float, confidence: float) -> NDArray[np.int64]:
    # Half a second of CPU time that a process which decides nothing need not spend.
    from scipy.stats import binom  # noqa: PLC0415

    return np.asarray(binom.ppf(confidence, samples, share)).astype(np.int64)


def _check(share: float, confidence: float) -> None:
    for name, value in (("share", share), ("confidence", confidence)):
        if not 0 < value < 1:
            raise ValueError(f"{name} must lie between 0 and 1, both excluded, not {value}")
