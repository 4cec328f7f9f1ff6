"""Every tuned number of Live and its policy: its unit, its origin and what changing it does."""

from __future__ import annotations

__all__ = [
    "BUDGET_DEVIATIONS",
    "BULK_SHARE",
    "CEILING_ALARM_PPM",
    "CLUMP_MEMORY",
    "CLUMP_SHARE",
    "COHORTS_KEPT",
    "ELAPSED_PER_AGE",
    "ELAPSED_SPANS",
    "FAMILIARITY_KEYS",
    "FORECAST_HALF_LIFE",
    "FUTURE_COHORTS",
    "GRACE_SPANS",
    "HOLD_PRIOR_KEYS",
    "HOLD_PRIOR_SHARE_OF_LATENCY",
    "IDLE_AFTER_GAPS",
    "IDLE_GAPS_KEPT",
    "IDLE_MIN_GAPS",
    "IDLE_UNLEARNED_TRIGGERS",
    "LONGEST_HOLD_MARGIN",
    "LONGEST_HOLD_SHARE_OF_BUDGET",
    "LONGEST_HOLD_SPANS",
    "LOSS_HALF_LIFE_SHARE",
    "MEMORIES",
    "MISSED_FROM_AGE",
    "MISSING_DEVIATIONS",
    "NEEDS_PER_BUDGET",
    "PRICES",
    "PROFILE_HALF_LIFE",
    "RECENT_TRIGGERS",
    "REPAY_IN_GRACE",
    "REPAY_SHARE",
    "SPENT_GAIN",
    "SPENT_LEVEL",
    "SPENT_SHARE",
    "SPENT_WHEN_OVERDRAWN",
    "STRETCH_MIN",
    "STRETCH_ROWS",
    "STRETCH_TRIGGERS",
    "UNEVENNESS_CEILING",
    "UNEVENNESS_COHORTS",
]

# -- the live policy: memories and prices ---------------------------------------------------------------------

MEMORIES = (2.0, 16.0, float("inf"))
"""Half-lives of the straggler counts, in spans (a window, at least ten triggers).

Measured on half of the synthetic seeds: two or three memories did as well as four, and one alone lost a tenth of the
latency where delays drift. Fewer make the policy slower to follow a change; each costs 13 kB a stream.
"""

PRICES = (0.015, 0.025, 0.04, 0.06, 0.09, 0.14, 0.2, 0.3, 0.45, 0.65, 1.0, 1.5, 2.2, 3.3, 5.0, 8.0)
"""Rows that a wait of one trigger must save, as multiples of the error budget of one key.

A geometric grid around 1, where a wait is worth what the budget spends on a key. Steps of 1.5 are the resolution with
which the budget is spent; the ends are where more changed nothing on any stream measured.
"""

# -- the live policy: missing rows ----------------------------------------------------------------------------

FORECAST_HALF_LIFE = 6.0
"""Half-life of a partition's forecast, in spans.

Measured: 16 holds too long when a stream slows down, below 4 a stall of four windows is forgotten while it lasts.
"""

PROFILE_HALF_LIFE = 64.0
"""Half-life of the shares that a partition has delivered by each age, in spans.

Slow, so that a long burst does not become what is normal while it lasts; not endless, so that a lasting change does.
"""

MISSING_DEVIATIONS = 4.0
"""How many standard deviations a cohort must be short before rows count as missing.

Chosen: by chance once in 30,000 cohorts. Fewer hold more often for nothing, more see only total silence.
"""

MISSED_FROM_AGE = -1.5
"""Age in triggers from which on a key that misses rows is marked: its stragglers no longer count as usual.

Chosen: about when the decision is made that closes a key at its end, two triggers ahead. Much earlier, a key in the
midst of filling would be marked for what the next batch brings.
"""

UNEVENNESS_COHORTS = 200.0
"""Half-life, in cohorts, of the estimate of how uneven cohorts are (variance over mean).

Chosen: some twenty windows of ten cohorts, as long as the forecasts take to follow a new rate.
"""

UNEVENNESS_CEILING = 100.0
"""Most that one cohort adds to the estimate of unevenness.

Chosen: one catastrophe must not make the policy blind to the next. Higher, and it is.
"""

COHORTS_KEPT = 4_000
"""Open cohorts that are counted one by one; older ones are no longer missed. Bounds the memory of a partition."""

FUTURE_COHORTS = 1_000
"""How far ahead of the wall clock a row may be dated, in cohorts, to be counted by cohort; what is beyond is ignored.

Chosen: a hundred windows. It bounds what one row of a wrong clock can claim.
"""

RECENT_TRIGGERS = 16
"""Triggers over which the pace at which rows still come is measured. Chosen: more only refines paces below 1 in 16."""

LONGEST_HOLD_SPANS = 10.0
"""How long missing rows are waited for at the least before giving up, in spans, while a stream is young."""

LONGEST_HOLD_MARGIN = 1.25
"""How much longer than the greatest age ever seen missing rows are waited for."""

LONGEST_HOLD_SHARE_OF_BUDGET = 0.02
"""Ages are "seen" while more rows than this share of the budget come at them: single rows do not count."""

ELAPSED_PER_AGE = 2.0
"""How many times as old as the age at which keys close a stream must be, before any key is closed.

Measured: below, the first windows of streams with long delays are lost; above, their latency grows for nothing.
"""

ELAPSED_SPANS = 1.0
"""Spans that a stream must be old, for each nine of the target after the first, before any key is closed.

Chosen: before, every age seen is a young one, and at 99.9 % one partition that comes late takes the budget of an hour.
"""

# -- the live policy: the budget ------------------------------------------------------------------------------

REPAY_SHARE = 0.5
"""Over how much of the past's mass the account must come out even.

Chosen: a stream may end at any time, so not more than half; below a quarter the price swings.
"""

REPAY_IN_GRACE = 1.0
"""The same while the account is overdrawn for a short time."""

GRACE_SPANS = 4.0
"""How long the account may be overdrawn before the policy turns to what loses least, in spans.

Measured: a burst overdraws it for some windows; without grace the policy waits for a burst twice.
"""

SPENT_WHEN_OVERDRAWN = 0.3
"""Share of the budget that may be spent while the account is overdrawn.

Measured: nothing at all (the rule that loses least) waits several times as long for a handful of rows.
"""

BUDGET_DEVIATIONS = 0.3
"""Margin of the budget in standard deviations of independent losses. Measured: more costs latency at 99.9 %."""

CLUMP_SHARE = 0.3
"""Share of a rule's greatest clump of losses that must still be free in the budget.

Measured: losses come in clumps; without this margin the SLO was missed on a real trace.
"""

CLUMP_MEMORY = 0.98
"""How much of the greatest clump is remembered after each span."""

LOSS_HALF_LIFE_SHARE = 0.1
"""Half-life of a rule's recent losses, as a share of all pairs so far. The worse of recent and ever counts.

Measured: with 0.25 a five-fold step at half time was believed too slowly, and one seed of five missed 99.9 % by 4 rows.
"""

FAMILIARITY_KEYS = 8.0
"""Keys for which a new rule is believed to spend as its price says."""

HOLD_PRIOR_KEYS = 0.5
"""Keys' worth of rows that a rule without the hold is believed to have lost already.

A stall that has not been seen yet may take a whole budget at 99.9 %, so the hold is there from the start.
"""

HOLD_PRIOR_SHARE_OF_LATENCY = 0.3
"""Most that this belief may weigh, as a share of the rule's latency: a hold that costs more than it is dropped."""

# -- the live policy for row-level keys -----------------------------------------------------------------------

NEEDS_PER_BUDGET = 40.0
"""Late rows that the memory of needs holds on average: 4,000 rows at 99 %, 40,000 at 99.9 %.

Literature S1 and S5: a ring of 4,096 rows was the best of those that follow drift at 99 %.
"""

SPENT_LEVEL = 0.05
"""Least share of the budget that the quantile spends, however much is overdrawn. Less would be the greatest need."""

SPENT_GAIN = 5.0
"""By how much the share of the budget that the quantile spends falls for each budget's worth that is overdrawn.

Chosen: an account overdrawn by a fifth is repaid at once, and noise of some percent moves the bound by as little.
"""

SPENT_SHARE = 0.98
"""Share of the budget from which on it counts as nearly all spent."""

BULK_SHARE = 0.8
"""Quantile that stands for the bulk of the delays. Higher is too noisy for few rows, lower sees less of a change."""

STRETCH_TRIGGERS = 2.0
"""Half-life of the newest needs, in triggers. On a five-fold step longer learns too late, and shorter is noise."""

STRETCH_ROWS = 100.0
"""Rows it takes at the least to compare the bulk."""

STRETCH_MIN = 1.2
"""Least stretch that is believed. Three standard deviations of the bulk's quantile at 600 rows are 16 %."""

# -- live: the ceiling ----------------------------------------------------------------------------------------

CEILING_ALARM_PPM = 800_000
"""Share of the ceiling, in parts per million, at which the distance between base and watermark is alarmed.

Chosen: a fifth is left for somebody to act before the ceiling takes over and rows are lost. Less warns later; more
warns of ceilings that are merely well chosen.
"""

# -- live: idle partitions ------------------------------------------------------------------------------------

IDLE_GAPS_KEPT = 16
"""Gaps between batches with rows of a partition that are remembered.

Chosen: the greatest of 16 is passed by the next one about once in 17 times where gaps are alike. More make a partition
that fell silent once hold the watermark longer; fewer call one idle that only paused.
"""

IDLE_MIN_GAPS = 4
"""Gaps that must have been seen before a partition's own are believed; until then the longest of the others' counts.

Chosen: one or two say little. More let a new partition hold the watermark longer when it falls silent at once.
"""

IDLE_AFTER_GAPS = 3
"""How many times its longest remembered gap a partition without a backlog must be silent to be idle.

Chosen: with 16 gaps kept, three times the longest of exponential gaps is passed by about one gap in 20,000. Ten times
would keep the last windows of a stopped partition open three times as long; once would call pauses idleness.
"""

IDLE_UNLEARNED_TRIGGERS = 60
"""Triggers of silence after which a partition is idle while no partition's gaps are known.

Chosen: a minute at a trigger of a second: longer than a slow start, shorter than anybody waits for the last windows.
"""
