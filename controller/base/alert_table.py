"""The alerts: one table for the notifier, for Prometheus' rules and for the reference.

``deploy/prometheus/rules/tidemark-alerts.yaml`` says the same in PromQL. A test compares names, severities, labels, how
long each must hold, and the texts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

AlertSeverity = Literal["page", "ticket"]
"""page wakes somebody; ticket waits for the morning."""

_MINUTE_US = 60_000_000
_STREAM = ("spark_job", "stream")
_PARTITION = (*_STREAM, "partition")
_SLOTH = ("sloth_id", "sloth_service", "sloth_severity", "sloth_slo")

MIN_LATE_ROWS = 10
"""Minimum number of late rows for an alert on a budget: nobody is woken for three rows."""

MIN_FUTURE_ROWS = 10
"""Minimum number of future-dated rows in a quarter of an hour for an alert on them."""

MIN_MISDATED_ROWS = 10
"""Minimum number of misdated rows in a quarter of an hour for an alert on them."""

MIN_SKEW_MS = 5_000
"""Minimum that a skewed partition adds to the bound for an alert on it, in milliseconds."""

ROLLED_BACK_US = 86_400_000_000
"""How long an automatic rollback is an alert, unless another rollout begins."""


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
    """The same at length, with the labels, ``{value}`` and, for a budget, ``{lasts}`` in braces."""
    meaning: str
    """When it fires, for a table."""
    burns: tuple[Burn, ...] = ()
    """For a budget: pairs of windows, any of which is enough."""
    notified: bool = True
    """Whether the notifier sends it; a controller cannot notify anybody of its own failure."""


def _twice(*, meaning: str, **same: Any) -> tuple[Alert, Alert]:
    """Return a page for fleets in which a stream is live, and a ticket for others: their jobs need no controller."""
    page = Alert(severity="page", meaning=f"{meaning}, and a stream is in `Live`", notified=False, **same)
    return page, Alert(meaning="the same, and no stream is in `Live`", notified=False, **same)


BURN_PAGE = Alert(
    name="TidemarkCompletenessBudgetBurn",
    severity="page",
    hold_us=2 * _MINUTE_US,
    labels=(*_SLOTH, *_STREAM),
    summary="{spark_job}/{stream} loses rows far faster than its SLO allows",
    description=(
        "Rows come too late at {value} times the pace that the SLO allows. At this pace what is left of its budget "
        "lasts {lasts}."
    ),
    meaning="rows are lost at a pace that takes 2 % of the budget in an hour, or 5 % in six",
    burns=(Burn(3_600, 300, 20_000), Burn(21_600, 1_800, 50_000)),
)

BURN_TICKET = Alert(
    name="TidemarkCompletenessBudgetBurn",
    hold_us=15 * _MINUTE_US,
    labels=(*_SLOTH, *_STREAM),
    summary="{spark_job}/{stream} loses more rows than its SLO allows",
    description=(
        "Rows come too late at {value} times the pace that the SLO allows. At this pace what is left of its budget "
        "lasts {lasts}."
    ),
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

WINDOW_MISSED = Alert(
    name="TidemarkWindowBelowTarget",
    hold_us=30 * _MINUTE_US,
    summary="A window of {spark_job}/{stream} closed below the target",
    description="Of the window that ended at {value} more rows than the target allows came after it was closed.",
    meaning="the newest window that is closed and settled lost more than the target allows, and at least ten rows",
)

PARTITION_SKEWED = Alert(
    name="TidemarkPartitionSkewed",
    hold_us=5 * _MINUTE_US,
    labels=_PARTITION,
    summary="Partition {partition} slows {spark_job}/{stream} down",
    description="Without partition {partition} the bound would be {value} narrower.",
    meaning="without one partition the bound would be narrower by 20 % and 5 s; resolved below half of it",
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
    meaning="no report for ten usual gaps and five minutes",
)

NOT_ADOPTED = Alert(
    name="TidemarkBoundNotAdopted",
    hold_us=5 * _MINUTE_US,
    summary="{spark_job}/{stream} does not use the published bound",
    description="The bound was published {value} ago and the job has not acknowledged it.",
    meaning="a bound is not acknowledged after half an hour, or a week in `OnRestart`",
)

SATURATED = Alert(
    name="TidemarkBoundSaturated",
    hold_us=30 * _MINUTE_US,
    summary="The bound of {spark_job}/{stream} cannot grow as far as its rows need",
    description=(
        "The policy's maximum bound holds it or, in Live, the watermark trails by nearly the whole ceiling. Rows "
        "beyond that are lost."
    ),
    meaning="the policy's maximum bound, or the ceiling, is too small for the rows",
)

CONFLICT = Alert(
    name="TidemarkConstraintsConflict",
    hold_us=30 * _MINUTE_US,
    summary="The SLO of {spark_job}/{stream} and a cap cannot both hold",
    description=(
        "The bound that meets the target has a latency or a state above its cap. The SLO says which of the two may be "
        "missed; where it says nothing, the bound in use is held."
    ),
    meaning="the target and a cap cannot both be met",
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
    hold_us=5 * _MINUTE_US,
    summary="{spark_job}/{stream} gets future-dated rows",
    description=(
        "{value} rows in a quarter of an hour were future-dated. Outside of Live one of them makes every "
        "honest row after it late."
    ),
    meaning="ten future-dated rows or more in a quarter of an hour",
)

MISDATED_ROWS = Alert(
    name="TidemarkMisdatedRows",
    hold_us=5 * _MINUTE_US,
    summary="{spark_job}/{stream} gets misdated rows",
    description=(
        "{value} rows in a quarter of an hour have event times that no delay explains, such as those of 1970 or of "
        "tomorrow. No bound is meant for them."
    ),
    meaning="ten misdated rows or more in a quarter of an hour",
)

OVERFLOW = Alert(
    name="TidemarkTelemetryOverflow",
    hold_us=5 * _MINUTE_US,
    summary="{spark_job}/{stream} cannot count all of its rows",
    description=(
        "Of {value} rows in a quarter of an hour it is unknown whether they were late: the job's tap had no room for "
        "their partitions and times."
    ),
    meaning="the job's tap had no room to count some rows",
)

LOSS_BIASED = Alert(
    name="TidemarkLossIsBiased",
    hold_us=15 * _MINUTE_US,
    summary="{spark_job}/{stream} loses the rows of some values far more often than all others",
    description=(
        "A value of its dimension, such as a region, loses rows more than twice as often as all other rows: what is "
        "computed from the rest is biased."
    ),
    meaning="a value of the stream's dimension loses rows more than twice as often as all other rows",
)

APPROVAL_PENDING = Alert(
    name="TidemarkApprovalPending",
    hold_us=15 * _MINUTE_US,
    summary="A rollout of {spark_job}/{stream} waits for approval",
    description="A person has to approve or discard it; it has waited for {value}. Until then the bound in use stays.",
    meaning="a rollout waits for a person's approval",
)

ROLLED_BACK = Alert(
    name="TidemarkRolledBack",
    hold_us=0,
    summary="The newest bound of {spark_job}/{stream} was rolled back",
    description=(
        "It did not do what was predicted, so {value} ago the controller published the bound from before again. No row "
        "is lost by that; it tries again later."
    ),
    meaning="the controller rolled back a rollout within the last day, and no other one has begun",
)

PREDICTION_WRONG = Alert(
    name="TidemarkPredictionWrong",
    hold_us=15 * _MINUTE_US,
    summary="{spark_job}/{stream} admits fewer rows than was predicted",
    description=(
        "{value} of the rows were admitted under the published bound, fewer than the prediction allows: the rows of "
        "today are not like those that it rests on."
    ),
    meaning="under the published bound fewer rows are admitted than the predicted interval allows",
)

ALERTS: tuple[Alert, ...] = (
    BURN_PAGE,
    BURN_TICKET,
    SPENT,
    WINDOW_MISSED,
    PARTITION_SKEWED,
    PARTITION_IDLE,
    REPORTS_ABSENT,
    NOT_ADOPTED,
    SATURATED,
    CONFLICT,
    STANDS_STILL,
    FUTURE_ROWS,
    MISDATED_ROWS,
    OVERFLOW,
    LOSS_BIASED,
    APPROVAL_PENDING,
    ROLLED_BACK,
    PREDICTION_WRONG,
    Alert(
        name="TidemarkLimitNearlyFull",
        hold_us=5 * _MINUTE_US,
        labels=("limit",),
        summary="A limit of Tidemark is nearly full: {limit}",
        description=(
            "{value} of it is used, or of the share that one job or caller has of it. What comes beyond is answered "
            "with 429; drivers keep it and try again, until their queues are full."
        ),
        meaning="more than 80 % of a limit is used, or of the share that one job, caller or stream has of it",
        notified=False,
    ),
    Alert(
        name="TidemarkIssuerUnavailable",
        hold_us=5 * _MINUTE_US,
        labels=("issuer",),
        summary="Tidemark cannot read the keys of the issuer {issuer}",
        description=(
            "Those that it has are {value} old, +Inf for none. New keys of it are not accepted meanwhile, nobody signs "
            "in there on the page, and after a day all of its tokens are answered with 503: of people and of jobs."
        ),
        meaning="the keys of an issuer of tokens were not read for a quarter of an hour",
        notified=False,
    ),
    Alert(
        name="TidemarkSnapshotsOld",
        hold_us=5 * _MINUTE_US,
        labels=(),
        summary="A Tidemark controller is too slow for its streams",
        description=(
            "The oldest snapshot of a stream is from {value} ago. Lists, budgets and counts of partitions are of then, "
            "and so are the alerts that follow from them."
        ),
        meaning="the oldest snapshot of a stream is more than two minutes old",
        notified=False,
    ),
    *_twice(
        name="TidemarkControllerStalled",
        hold_us=_MINUTE_US,
        labels=("instance", "job"),
        summary="The decision loop of a Tidemark controller stands still",
        description=(
            "{instance} has made no progress for {value}. The streams that it holds get no decisions; jobs keep the "
            "bounds that they have."
        ),
        meaning="a replica's decision loop has made no progress for a minute and three intervals",
    ),
    *_twice(
        name="TidemarkControllerDown",
        hold_us=5 * _MINUTE_US,
        labels=(),
        summary="No Tidemark controller answers",
        description=(
            "No replica could be scraped. Jobs keep the bounds that they have and queue their reports; nothing "
            "is decided, and no other alert of Tidemark can fire."
        ),
        meaning="no replica can be scraped",
    ),
    *_twice(
        name="TidemarkStoreDown",
        hold_us=5 * _MINUTE_US,
        labels=(),
        summary="The store of Tidemark takes no writes",
        description=(
            "No replica can write to the database. Reports are not taken and nothing is decided; where the database "
            "does not answer at all, alerts on streams cannot fire."
        ),
        meaning="no replica can write to the database",
    ),
)
"""Every alert, in the order of the rules."""
