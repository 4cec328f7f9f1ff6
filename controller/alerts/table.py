"""The alerts: one table for the notifier, for Prometheus' rules and for the reference.

``deploy/prometheus/rules/tidemark-alerts.yaml`` says the same in PromQL. A test compares names, severities, labels, how
long each must hold, and the texts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

AlertSeverity = Literal["page", "ticket"]
"""page wakes somebody; ticket waits for the morning."""

_MINUTE_US = 60_000_000
_STREAM = ("spark_job", "stream")
_PARTITION = (*_STREAM, "partition")
_SLOTH = ("sloth_id", "sloth_service", "sloth_severity", "sloth_slo")

MIN_LATE_ROWS = 10
"""Minimum number of late rows for an alert on a budget: nobody is woken for three rows."""


@dataclass(frozen=True, slots=True)
class Burn:
    """A pair of windows over which the budget burns too fast."""

    long_s: int
    """The long window, in seconds: it shows that enough is lost to matter."""
    short_s: int
    """The short one, in seconds: it shows that the loss goes on."""
    budget_ppm: int
    """Share of the whole budget that may be used up in the long window, in parts per million."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One alert."""

    name: str
    """Its name."""
    severity: AlertSeverity = "ticket"
    """How urgent it is."""
    hold_us: int
    """How long it must hold before it fires, in microseconds."""
    labels: tuple[str, ...] = _STREAM
    """Its labels beside ``alertname`` and ``severity``."""
    summary: str
    """What is wrong, with the labels in braces."""
    description: str
    """The same at length, with the labels and ``{value}`` in braces."""
    meaning: str
    """When it fires, for a table."""
    burns: tuple[Burn, ...] = ()
    """For a budget: pairs of windows, any of which is enough."""
    notified: bool = True
    """Whether the notifier sends it; a controller cannot notify anybody of its own failure."""


BURN_PAGE = Alert(
    name="TidemarkCompletenessBudgetBurn",
    severity="page",
    hold_us=2 * _MINUTE_US,
    labels=(*_SLOTH, *_STREAM),
    summary="{spark_job}/{stream} loses rows far faster than its SLO allows",
    description=(
        "{value} of the rows came too late to be counted. At this pace the budget of the SLO is gone within "
        "days."
    ),
    meaning="rows are lost at a pace that takes 2 % of the budget in an hour, or 5 % in six",
    burns=(Burn(3_600, 300, 20_000), Burn(21_600, 1_800, 50_000)),
)

BURN_TICKET = Alert(
    name="TidemarkCompletenessBudgetBurn",
    hold_us=15 * _MINUTE_US,
    labels=(*_SLOTH, *_STREAM),
    summary="{spark_job}/{stream} loses more rows than its SLO allows",
    description="{value} of the rows came too late to be counted, more than the budget allows if it goes on.",
    meaning="rows are lost at a pace that takes 10 % of the budget in a day or in three",
    burns=(Burn(86_400, 7_200, 100_000), Burn(259_200, 21_600, 100_000)),
)

SPENT = Alert(
    name="TidemarkCompletenessBudgetSpent",
    hold_us=15 * _MINUTE_US,
    summary="{spark_job}/{stream} has missed its SLO",
    description="{value} of the error budget over the SLO's window is left.",
    meaning="more is lost than the SLO allows over its window; for `timeslices` the only alert on the budget",
)

PARTITION_SKEWED = Alert(
    name="TidemarkPartitionSkewed",
    hold_us=5 * _MINUTE_US,
    labels=_PARTITION,
    summary="Partition {partition} slows {spark_job}/{stream} down",
    description="Without partition {partition} the bound would be {value} narrower.",
    meaning="without one partition the bound would be narrower by 20 % and 1 s; resolved below half of both",
)

PARTITION_IDLE = Alert(
    name="TidemarkPartitionIdle",
    hold_us=10 * _MINUTE_US,
    labels=_PARTITION,
    summary="Partition {partition} of {spark_job}/{stream} is silent",
    description=(
        "Partition {partition} used to report and has been silent for more than ten of its usual gaps, while "
        "others deliver. Its rows may come late, so the bound is not narrowed meanwhile."
    ),
    meaning="one partition is silent for ten of its usual gaps, while others deliver",
)

REPORTS_ABSENT = Alert(
    name="TidemarkReportsAbsent",
    hold_us=_MINUTE_US,
    summary="{spark_job}/{stream} has stopped reporting",
    description=(
        "No report has come for {value}, far longer than the usual gap between batches. Completeness is unknown"
        " meanwhile, and the bound is held."
    ),
    meaning="no report for ten usual gaps and five minutes; not while the stream is paused",
)

NOT_ADOPTED = Alert(
    name="TidemarkBoundNotAdopted",
    hold_us=5 * _MINUTE_US,
    summary="{spark_job}/{stream} does not use the published bound",
    description="The bound was published {value} ago and the job has not acknowledged it.",
    meaning="a bound is not acknowledged after half an hour, or a week in `OnRestart`; not while the stream is paused",
)

SATURATED = Alert(
    name="TidemarkBoundSaturated",
    hold_us=30 * _MINUTE_US,
    summary="The bound of {spark_job}/{stream} cannot grow as far as its rows need",
    description=(
        "The policy's maximum bound holds it or, in Live, the watermark trails by nearly the whole ceiling. Rows "
        "beyond that are lost."
    ),
    meaning="the policy's maximum bound, or the ceiling, is too small for the rows for half an hour",
)

CONFLICT = Alert(
    name="TidemarkConstraintsConflict",
    hold_us=30 * _MINUTE_US,
    summary="The SLO of {spark_job}/{stream} and a cap cannot both hold",
    description=(
        "The bound that meets the target has a latency or a state above its cap. The SLO says which of the two may be "
        "missed; where it says nothing, the bound in use is held."
    ),
    meaning="the target and a cap cannot both be met, for half an hour",
)

STANDS_STILL = Alert(
    name="TidemarkWatermarkStandsStill",
    hold_us=10 * _MINUTE_US,
    summary="The watermark of {spark_job}/{stream} stands still while rows arrive",
    description=(
        "It has stood at {value} for more than a quarter of an hour: no window closes, and rows behind it are "
        "lost."
    ),
    meaning="rows arrive and the watermark has not moved for 25 minutes, though no wider bound explains it",
)

FUTURE_ROWS = Alert(
    name="TidemarkFutureDatedRows",
    hold_us=0,
    summary="{spark_job}/{stream} gets future-dated rows",
    description=(
        "{value} rows in a quarter of an hour were future-dated. Outside of Live one of them makes every "
        "honest row after it late."
    ),
    meaning="future-dated rows came in the last quarter of an hour",
)

OVERFLOW = Alert(
    name="TidemarkTelemetryOverflow",
    hold_us=5 * _MINUTE_US,
    summary="{spark_job}/{stream} cannot count all of its rows",
    description=(
        "Of {value} rows in a quarter of an hour it is unknown whether they were late: the job's tap had no room for "
        "their partitions and times."
    ),
    meaning="the job's tap had no room to count some rows, so that it is unknown whether they were late",
)

LOSS_BIASED = Alert(
    name="TidemarkLossIsBiased",
    hold_us=15 * _MINUTE_US,
    summary="{spark_job}/{stream} loses the rows of some values far more often than all others",
    description=(
        "A value of its dimension, such as a region, loses rows more than twice as often as all other rows: what is "
        "computed from the rest is biased."
    ),
    meaning="a value of the stream's dimension loses rows more than twice as often as all other rows, for 15 minutes",
)

ALERTS: tuple[Alert, ...] = (
    BURN_PAGE,
    BURN_TICKET,
    SPENT,
    PARTITION_SKEWED,
    PARTITION_IDLE,
    REPORTS_ABSENT,
    NOT_ADOPTED,
    SATURATED,
    CONFLICT,
    STANDS_STILL,
    FUTURE_ROWS,
    OVERFLOW,
    LOSS_BIASED,
    Alert(
        name="TidemarkControllerStalled",
        severity="page",
        hold_us=_MINUTE_US,
        labels=("instance", "job"),
        summary="The decision loop of a Tidemark controller stands still",
        description=(
            "{instance} has made no progress for {value}. The streams that it holds get no decisions; jobs keep the "
            "bounds that they have."
        ),
        meaning="a replica's decision loop has made no progress for a minute and three intervals",
        notified=False,
    ),
    Alert(
        name="TidemarkControllerDown",
        severity="page",
        hold_us=5 * _MINUTE_US,
        labels=(),
        summary="No Tidemark controller answers",
        description=(
            "No replica could be scraped. Jobs keep the bounds that they have and queue their reports; nothing "
            "is decided, and no other alert of Tidemark can fire."
        ),
        meaning="no replica could be scraped for five minutes",
        notified=False,
    ),
    Alert(
        name="TidemarkStoreDown",
        severity="page",
        hold_us=5 * _MINUTE_US,
        labels=(),
        summary="The store of Tidemark takes no writes",
        description=(
            "No replica can write to the database. Reports are not taken and nothing is decided; where the database "
            "does not answer at all, alerts on streams cannot fire."
        ),
        meaning="no replica has been able to write to the database for five minutes",
        notified=False,
    ),
)
"""Every alert, in the order of the rules."""
