"""Who is lost: which values of a dimension lose rows more often than the rest. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.models.late_counts import ByValue, LossCounts
from tidemark.models.target import PPM

FACTOR = 2
"""A value is biased when it loses rows more often than the rest by more than this factor."""

MIN_ROWS = 100
"""Minimum number of rows of a value, and of the rest, for a verdict."""

MIN_LOST = 10
"""Minimum number of lost rows of a value for a verdict of bias: three are no evidence."""

CONFIDENCE_PPM = 990_000
"""Confidence, in parts per million, that no value of a stream is called biased by chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueLoss:
    """What a value loses, compared with all other rows."""

    value: str | None
    """The value; None is a value too, unless it is ``other``."""
    other: bool = False
    """Whether these are the rows of all values that are not counted by themselves."""
    counts: LossCounts
    """Its counts."""
    lost_ppm: int | None
    """Share of its rows that were lost, in parts per million; None without rows."""
    of_rows_ppm: int | None
    """Its share of all rows."""
    of_lost_ppm: int | None
    """Its share of all lost rows; None when none is lost."""
    factor_ppm: int | None = None
    """Lower limit of its rate of loss against that of all other rows, in parts per million; None of too few rows."""
    biased: bool = False
    """Whether it loses rows more than ``FACTOR`` times as often as the rest."""


def losses(counted: ByValue) -> list[ValueLoss]:
    """Return what each value loses, those with most lost rows first, and the rest of the values last.

    Rows are lost at two rates, a value's and that of all other rows. Given how many are lost in all, the value's part
    of them is binomial, which gives an exact lower confidence limit of the ratio of the two rates (J. Przyborowski and
    H. Wilenski, "Homogeneity of results in testing samples from Poisson series", Biometrika 31, 1940; the limit of the
    binomial share is that of C. J. Clopper and E. S. Pearson, Biometrika 26, 1934). The confidence is divided among the
    values that are tested (Bonferroni), so that a thousand devices do not make some biased by chance. Rows are taken to
    be independent; where they come in bursts the limit is too high.
    """
    total = counted.total
    tested = sum(_enough(counts, total) for counts in counted.values.values())
    found = [_loss(value, counts, total, tested) for value, counts in counted.values.items()]
    found.sort(key=lambda each: (-each.counts.lost, -each.counts.rows, each.value is None, each.value or ""))
    if counted.other.rows:
        found.append(_share(None, counted.other, total, other=True))
    return found


def _loss(value: str | None, counts: LossCounts, total: LossCounts, tested: int) -> ValueLoss:
    if not _enough(counts, total):
        return _share(value, counts, total)
    limit = _limit(counts, total, (1 - CONFIDENCE_PPM / PPM) / tested)
    return _share(value, counts, total, factor_ppm=int(limit * PPM), biased=limit > FACTOR)


def _enough(counts: LossCounts, total: LossCounts) -> bool:
    return min(counts.rows, total.rows - counts.rows) >= MIN_ROWS and counts.lost >= MIN_LOST


def _limit(counts: LossCounts, total: LossCounts, tail: float) -> float:
    """Return the lower limit of the ratio of the value's rate to that of all other rows."""
    from scipy.special import betaincinv  # noqa: PLC0415 - a driver only counts, and need not load it

    lost, rest = counts.lost, total.lost - counts.lost
    # Below 1 even when the rest lost none: then it is tail ** (1 / lost).
    share = float(betaincinv(lost, rest + 1, tail))
    return share / (1 - share) * (total.rows - counts.rows) / counts.rows


def _share(
    value: str | None,
    counts: LossCounts,
    total: LossCounts,
    *,
    other: bool = False,
    factor_ppm: int | None = None,
    biased: bool = False,
) -> ValueLoss:
    return ValueLoss(
        value=value,
        other=other,
        counts=counts,
        lost_ppm=_ppm(counts.lost, counts.rows),
        of_rows_ppm=_ppm(counts.rows, total.rows),
        of_lost_ppm=_ppm(counts.lost, total.lost),
        factor_ppm=factor_ppm,
        biased=biased,
    )


def _ppm(part: int, whole: int) -> int | None:
    return part * PPM // whole if whole else None
