"""Every tuned number of Live and its policy: its unit, its origin and what changing it does."""

from __future__ import annotations

# -- the live policy: memories and prices ---------------------------------------------------------------------

MEMORIES = (2.0, 16.0, float("inf"))
"""Half-lives of the straggler counts, in spans (a window's slide, ``Setup.span_triggers``).

Measured on half of the synthetic seeds: two or three memories did as well as four, and one alone lost a tenth of the
latency where delays drift. Fewer make the policy slower to follow a change; each costs 13 kB a stream.
"""

PRICES = (
    *(0.0004, 0.00075, 0.0014, 0.0026, 0.0046, 0.0083),
    *(0.015, 0.025, 0.04, 0.06, 0.09, 0.14, 0.2, 0.3, 0.45, 0.65, 1.0, 1.5, 2.2, 3.3, 5.0, 8.0),
)
"""Rows that a wait of ``PRICE_WAIT_SPANS`` must save, as multiples of the error budget of one key.

A geometric grid around 1, where a wait is worth what the budget spends on a key. Steps of 1.5 are the resolution with
which the budget is spent.
"""

CYCLE_PRICES = 2
"""How many of the lowest prices are those of cycles alone: of rows that come at a time that is known.

Chosen: to wait from one evening to the next for four rows of a window. What may not come is not waited for so long.
"""

PATIENT_PRICES = 4
"""How many of the next prices are followed only while all others lose more than the budget.

They are for delays much longer than a span. Measured: where delays of up to two minutes became five times as long
(windows of 10 s, target 99.9 %), 0.18 % of the rows were late without them, and 0.092 % are with them. Followed like
the others they would cost short streams up to 15 % of their latency; so they cost 0.3 %.
"""

PRICE_WAIT_SPANS = 0.1
"""The wait for which prices are stated, in spans: only the unit of the grid.

In spans, because what a wait must save follows from how long rows take, and not from how often batches run. With
triggers of 200 ms and windows of 10 s a grid stated for one trigger ended too soon: at 99.9 % a heavy tail missed.
"""

# -- the live policy: the stream's clock ----------------------------------------------------------------------

USUAL_LAG_SHARE = 0.95
"""Share of the batches before which the stream, or a partition, was at most its usual lag behind the clock.

Chosen: higher, and a few batches of a queue that fills are usual before it is noticed; lower is noise.
"""

BEHIND_USUAL_LAGS = 1.5
"""Multiple of the usual lag, beyond a trigger, from which a feed is behind.

Measured on queues that fill, with two batches to a window: with 2 a spike was noticed two windows late, and 2.9 % of
the rows were lost at 99 % in place of 0.5 %. With 1 single gaps of a feed stop its clock, and a spike missed 99.9 %.
"""

FEED_HALF_LIFE = 64.0
"""Half-life of the usual lags, in spans. Chosen: as that of the profiles."""

SETTLING_SPANS = 4.0
"""How long the feed must not fall behind before its lags count as usual, in spans.

Measured on traffic of five times the usual before a queue that serves four times: lags that count at once are usual
before they are long, and 3.7 % of the rows were lost at 99 %. With more, a feed that became slower is followed later.
"""

NEWEST_ROWS_PPM = 5_000
"""Share of a batch's rows at either end, in parts per million, that do not show how far the stream has come.

Chosen: one row of a batch of two hundred. Without, one wrong date in the past of a backlog would end it.
"""

SILENCE_TRIGGERS = 4
"""Triggers without rows from which on a partition counts as silent, and how many lags make them known.

Chosen: a batch that is late, or one that was empty by chance, is none.
"""

SILENCE_SHARE_OF_LIFE = 0.5
"""How long a silent partition is waited for where partitions deliver after silences, as a share of its life so far.

Measured on producers that hold their rows for minutes: without, what follows a longer outage than before is lost again.
"""

SILENCE_GAPS = 1.5
"""The same as a multiple of the longest silence after which it delivered. Chosen: an upload by the hour may be late."""

TAKES_OVER_FROM = 1.25
"""Multiple of its usual rate from which a partition may have taken over what silent ones sent. Chosen: beyond noise."""

TAKEN_OVER_SHARE = 0.5
"""Share of the rows of silent partitions that others must have taken over for these to be gone. Chosen: half."""

# -- the live policy: missing rows ----------------------------------------------------------------------------

FORECAST_HALF_LIFE = 6.0
"""Half-life of a partition's forecast, in spans.

Measured: 16 holds too long when a stream slows down, below 4 a stall of four windows is forgotten while it lasts.
"""

PROFILE_HALF_LIFE = 64.0
"""Half-life of the shares that a partition has delivered by each age, in spans.

Slow, so that a long burst does not become normal while it lasts; finite, so that a lasting change does.
"""

MISSING_DEVIATIONS = 4.0
"""How many standard deviations a cohort must be short before rows count as missing.

Chosen: by chance once in 30,000 cohorts. Fewer hold more often for nothing, more detect only total silence.
"""

SILENT_ROWS = 12.0
"""How many independent rows a partition must be expected to have sent in a silence before it is no chance.

Chosen: a gap of independent rows is as long once in 160,000. Fewer hold for nothing where rows are many. Partitions
that are silent together need as many, and more the more ways there are to pick so many of all.
"""

SILENT_SHARE = 0.01
"""Minimum share of a cohort that is outstanding in a silence to count. Less is the far end of its usual stragglers."""

MISSED_FROM_AGE = -1.5
"""Age in triggers from which a key that misses rows is marked: its stragglers no longer count as usual.

Chosen: about when the decision is made that closes a key at its end, a trigger ahead. Much earlier, a key that is
still filling would be marked for rows that the next batch brings.
"""

UNEVENNESS_HALF_LIFE = 20.0
"""Half-life of the estimate of how uneven counts are (variance over mean), in spans.

Chosen: some twenty windows, a few times as long as the forecasts take to follow a new rate.
"""

UNEVENNESS_PRIOR = 10.0
"""How uneven counts are assumed to be before they have shown it.

Measured on streams of 15 minutes whose rows come in packs: assumed to be even (1), they had false alarms for minutes,
and while windows are held nothing is learned of them. With packs of 20 windows wait half as long from 4 on; with packs
of 100 0.89 times as long with 4, 0.65 with 10 and 0.44 with 30. But with 30 a real trace missed 99.9 %.
"""

UNEVENNESS_PRIOR_SPANS = 1.0
"""How many spans of counts that assumption is worth. Measured: with a third of one nothing changes."""

UNEVENNESS_CEILING = 100.0
"""Maximum that one cohort adds to the estimate of unevenness.

Chosen: one extreme cohort must not hide the next.
"""

SHORT_COUNTS_AFTER_SPANS = 2.0
"""After how many spans a short cohort counts with the share of rows that has come by then; it may still rise."""

SHORT_FOLLOWED_SPANS = 6.0
"""For how many spans a short cohort is followed. Chosen: as long as missing rows are waited for in a young stream."""

SHORT_HALF_LIFE = 4.0
"""Half-life of the share that comes, in spans full of short cohorts. Chosen: one episode must not decide alone."""

SHORT_PRIOR_SPANS = 0.5
"""How many spans full of short cohorts the assumption at first is worth that all rows come.

Measured where traffic jumps: with 1 windows wait 3 % longer than with 0.3, with which a real trace misses 99 %.
"""

MAX_COHORTS = 4_000
"""Open cohorts that are counted one by one; older ones no longer count as missing. Limits the memory of a partition."""

FUTURE_COHORTS = 1_000
"""How far ahead of the wall clock a row is still counted by cohort, in cohorts; rows beyond are ignored.

Chosen: a hundred windows. It limits the memory that one row of a wrong clock can claim.
"""

LONGEST_HOLD_SPANS = 6.0
"""Minimum time for which missing rows are waited for, in spans, while a stream is young.

Measured on stalls of up to four windows: with 10 they were held no better, and the first rest of most partitions cost
three times the latency.
"""

LONGEST_HOLD_SPANS_AFTER_STOP = 3.0
"""The same once a partition has stopped: been silent for longer than that, so that its rows were not late but none.

Chosen: half. Fewer let more stalls go, more wait longer at each shift of partitions that rest and return.
"""

LONGEST_HOLD_MARGIN = 1.25
"""Maximum wait for missing rows, as a multiple of the maximum age ever seen."""

LONGEST_HOLD_SHARE_OF_BUDGET = 0.02
"""An age counts as seen when more rows than this share of the budget have it: single rows do not count."""

ELAPSED_PER_AGE = 2.0
"""Minimum age of a stream before any key is closed, as a multiple of the age at which keys close.

Measured: below, the first windows of streams with long delays are lost; above, their latency grows for nothing.
"""

ELAPSED_SPANS = 1.0
"""Minimum age of a stream before any key is closed, in spans, for each nine of the target after the first.

Chosen: before, every age seen is a young one, and at 99.9 % one partition that comes late takes the budget of an hour.
"""

# -- the live policy: the budget ------------------------------------------------------------------------------

REPAY_SHARE = 0.5
"""Share of the mass so far over which the account must be balanced.

Chosen: a stream may end at any time, so not more than half; below a quarter the price oscillates.
"""

SPENT_WHEN_OVERDRAWN = 0.3
"""Share of the budget that may be spent while the account is overdrawn.

Measured: nothing at all (the rule that loses the fewest rows) waits several times as long for a handful of rows.
"""

BUDGET_DEVIATIONS = 0.45
"""Margin of the budget in standard deviations of independent losses.

Measured: with 0.3 one of 115 streams missed 99.9 % by 3 rows in 1.4 million; 0.45 costs no more latency than 0.3, and
0.6 up to 4 %.
"""

CLUMP_SHARE = 0.3
"""Share of a rule's largest clump of losses that must still be free in the budget.

Measured: losses come in clumps; without this margin the SLO was missed on a real trace.
"""

CLUMP_MEMORY = 0.98
"""How much of the largest clump is remembered after each span."""

LOSS_HALF_LIFE_SHARE = 0.1
"""Half-life of a rule's recent losses, as a share of all pairs so far. The worse of recent and total losses counts.

Measured: with 0.25 a five-fold step at half time was followed too slowly, and one seed of five missed 99.9 % by 4 rows.
"""

FAMILIARITY_KEYS = 8.0
"""Keys for which a new rule is assumed to spend as its price says."""

AT_STAKE_PRIOR_KEYS = 0.5
"""Keys' worth of missing rows that are assumed to have been let go before any were, half of which came.

Missing rows that a rule does not wait for count for the share that came before. Measured over 56 streams with stalls,
bursts, steps or nights that end after 15 minutes: 16 of 112 targets were missed when the budget kept no room for them,
and nine with 0.5; with 0.25 three more. A transit feed whose vehicles just stop is 8 % faster with 0.2.
"""

# -- live: the ceiling ----------------------------------------------------------------------------------------

CEILING_ALARM_PPM = 800_000
"""Share of the ceiling, in parts per million, at which the distance between base and watermark raises an alarm.

Chosen: a fifth is left for somebody to act before the ceiling takes over and rows are lost. A higher share warns later;
a lower one warns of ceilings that are merely well chosen.
"""

# -- live: idle partitions ------------------------------------------------------------------------------------

IDLE_REMEMBERED_GAPS = 16
"""Remembered gaps between batches with rows of a partition.

Chosen: where gaps are alike, the next one exceeds the maximum of 16 about once in 17 times. With more, a partition that
fell silent once holds the watermark longer; with fewer, one that only paused counts as idle.
"""

IDLE_MIN_GAPS = 4
"""Gaps that must have been seen before a partition's own count; until then the longest of the others' does.

Chosen: one or two say little. With more, a new partition holds the watermark longer when it falls silent at once.
"""

IDLE_AFTER_GAPS = 3
"""Silence after which a partition without a backlog is idle, as a multiple of its longest remembered gap.

Chosen: with 16 remembered gaps, about one exponential gap in 20,000 exceeds three times the longest. Ten times would
keep the last windows of a stopped partition open three times as long; once would take pauses for idleness.
"""

IDLE_UNLEARNED_TRIGGERS = 60
"""Triggers of silence after which a partition is idle while no partition's gaps are known.

Chosen: a minute at a trigger of a second: longer than a slow start, shorter than anyone waits for the last windows.
"""

# -- live: after a start ---------------------------------------------------------------------------------------

PILED_UP_TRIGGERS = 2
"""Triggers from the start of a run whose batches do not show how late rows usually come.

Chosen: the first batch reads what waited for the job, and the second what came while the first one ran. Measured on a
feed whose first batch was a snapshot: counted, its old rows kept windows open for a quarter of an hour.
"""

HISTORY_BATCHES = 2_000
"""Earlier batches from which a policy that begins anew learns, the newest ones.

Chosen: at a trigger of a second half an hour, or 200 windows of 10 s, which takes the driver two or three seconds.
"""

HISTORY_CELLS = 2_000_000
"""Maximum number of counts (batch, partition, granule) among them. It limits the driver's time and memory."""
