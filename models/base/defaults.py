"""Every tuned number of a decision and of a rollout: its unit, its origin and what changing it does."""

from __future__ import annotations

BOUND_DIGITS = 3
"""Digits to which a bound is rounded up.

Chosen: three digits widen by at most 1 %, about what the needs' sketch does, and the last digits of a sample should not
cause a new generation. One digit fewer widens by up to 10 %.
"""

NARROW_DEAD_BAND_PPM = 100_000
"""Share of the bound, in parts per million, by which a new one must be narrower to be worth a change, and by which one
is wider at least that takes a restart.

10 % is the tolerance of the Kubernetes HPA and the change threshold of the VPA. Widening has no dead band: it protects
rows. Without the least step, a job that falls behind restarts up to twice as often. Doubling it halves the restarts of
a stream whose delays fall slowly, and its windows wait up to a tenth longer.
"""

RESTART_SPENT_PPM = 800_000
"""Share of the error budget, in parts per million, that a bound may have spent before a job restarts for a wider one.

Chosen: a fifth is left for what is lost until the job is back. At all of it the bench's bursts miss 99.9 %; at 65 % a
stream with six outages takes 27 restarts in two hours, where it takes one.
"""

RESTART_LEAVES_SPENT_PPM = 250_000
"""Share of the error budget, in parts per million, that a bound may have spent on the rows counted so far to be changed
to where a change takes a restart.

Chosen: it takes a while until the rest is spent. At a third a stream with six outages misses 99.9 %. Without it for
narrowings, each widening is undone at once, and three days of swing take 31 restarts for five.
"""

RESTART_COST_MS = 60_000
"""For how long a restart makes windows wait, in milliseconds, which a narrowing has to save twice.

Chosen: half a minute without batches, and as long again until the job has caught up. At half of it a narrowing comes
in four times as many steps: of a stream with six outages ten restarts in two hours, for three.
"""

UNKNOWN_SHARE_OF_BUDGET_PPM = 100_000
"""Share of the error budget, in parts per million, that rows of unknown need may take before nothing is narrowed.

Chosen: a tenth of the budget can make a stream miss its target only by little, and one odd row a day must not hold a
bound for ever. Doubling it lets uncounted rows make a stream miss its SLO by a fifth of the budget.
"""

# -- guard rails and predictions ------------------------------------------------------------------------------

NARROW_STABILISATION_MS = 300_000
"""How long an earlier, wider recommendation delays a narrowing, in milliseconds of the stream's own batches.

300 s is the Kubernetes HPA's stabilisation window for scaling down. Doubling it keeps a bound wide for twice as long
after the rows stop requiring it; 0 narrows as soon as the horizon allows it.
"""

NO_DATA_GAPS = 10
"""Typical gaps between batches after which a stream without a report counts as silent.

Chosen: a few missed triggers are a slow batch, ten are an outage. Doubling it lets a bound be narrowed on evidence that
is twice as old.
"""

REPLAY_PACE_PPM = 100_000_000
"""Event time per wall time, in parts per million, above which the order in which rows are read may be that of files.

Chosen: a backlog that is worked off, or a demonstration, reaches some 10,000,000; a day that is read in a minute has
1,440,000,000.
"""

CATCH_UP_PACE_PPM = 1_500_000
"""Event time per wall time, in parts per million, above which a stream is catching up or being replayed.

Chosen: a stream that keeps up has 1,000,000 at any rate, and one that works off a backlog at its usual capacity rarely
has less than half as much again. Lower, and the noise in a sparse stream's maximum event time holds its bound.
"""

CATCH_UP_LAG_GAPS = 10
"""Typical gaps between batches by which a stream may be further behind the clock than usual before nothing is narrowed.

Chosen, as ``NO_DATA_GAPS``. Doubling it accepts the delays of a longer stall as the stream's own.
"""

SILENT_PARTITION_GAPS = 10
"""Mean gaps of a partition (at least the stream's typical gap) after which it counts as silent.

Chosen: where rows come at random, one of 22,000 gaps is ten times the mean. Doubling it notices a stall half as fast.
"""

MIN_BATCHES_OF_A_PARTITION = 5
"""Batches that must have contained a partition before its silence counts.

Chosen: fewer give no mean gap. Doubling it overlooks partitions that are rarely seen.
"""

MIN_BATCHES_OF_A_PACE = 3
"""Minimum number of batches for a typical gap and a pace; with fewer, nothing is narrowed.

A median takes at least two gaps. More only delay a new stream's first narrowing.
"""

RECENT_BATCHES = 20
"""Batches over which the current pace is measured.

Chosen: the maximum event time of a batch is off by about one row's delay, which twenty gaps outweigh. Doubling it
detects a catch-up half as fast and mistakes noise for one less often.
"""

PACE_BATCHES = 1_000
"""Newest batches of the horizon over which the usual gap, lag and pace are measured.

Chosen: a quarter of an hour of batches a second, and as many rows as a decision reads in milliseconds. Doubling it
makes the usual values change more slowly.
"""

SAMPLED_BATCHES = 300
"""Newest batches whose reports are read again when a bound is published, to see which needs of one bucket it admits.

Chosen: it takes a tenth of a second per bound. Triggers and windows in step put needs in clumps, and one clump may be
1 % of the rows. Doubling it costs twice as much and resolves clumps of half the size.
"""

PREDICTION_MIN_ROWS = 10_000
"""(Row, key) pairs that must have been judged under a bound in effect before its prediction is scored.

By the binomial: at 99 % completeness the ledger's own share then has a standard error of 0.1 points. Halving it scores
sooner and makes that 0.14 points.
"""

# -- rollouts -------------------------------------------------------------------------------------------------

LISTENING_MS = 3_600_000
"""How long after its last report or acknowledgement a job still counts as listening, in milliseconds.

Chosen: longer than the slowest usual trigger. Longer rolls jobs that are gone; shorter holds jobs with rare batches.
"""

ACKNOWLEDGE_MS = 3_600_000
"""How long a job in Restart or Live has to acknowledge what was published, in milliseconds.

Chosen: a restart waits for the batch under way to end and for a cooldown of minutes. Longer keeps a dead job's place
in the fleet's share; shorter rolls back what a slow batch only delays.
"""

RESTART_LOSS_MS = 600_000
"""Over how long the rows that a job lost are summed up, to let those that lose most restart first, in milliseconds.

Chosen: several windows of most streams. Longer forgets slowly who lost rows an hour ago; shorter orders by chance.
"""

RESTART_LOOK_MS = 60_000
"""How often it is noted that a job still waits for its turn to restart, in milliseconds; three times as long it keeps
its place.

Chosen: some decisions of a stream. Longer lets a place stand empty whose job fell silent; shorter writes more often.
"""

ACKNOWLEDGE_ON_RESTART_MS = 14 * 86_400_000
"""The same in OnRestart, where a job acknowledges when it starts. Chosen: longer than one skipped weekly restart."""

APPROVE_MS = 7 * 86_400_000
"""How long a rollout waits for approval, in milliseconds. Chosen: a week's evidence is old by then."""

VERIFY_MS = 7 * 86_400_000
"""How long after its acknowledgement a rollout may take to be verified, in milliseconds.

Chosen: a stream that does not bring enough rows within a week cannot tell its budget from noise. Then a narrowing is
rolled back.
"""

VERIFY_BATCHES = 10
"""Typical batches whose rows must be judged until a bound is verified.

Chosen: the rows of one batch share their fate, because the watermark's position between two window ends decides about
many of them at once. Fewer let one unlucky batch undo a good bound; more only take longer.
"""

VERIFY_LATE_ROWS = 10
"""Late rows that the budget must allow among the rows that verify a bound: 1,000 rows at 99 %.

By the binomial: 10 have a standard deviation of 3.2, so that twice the budget is three of them away. Doubling it needs
twice the rows and sees losses of 1.7 budgets.
"""

VERIFY_WINDOWS = 10
"""Windows of event time that must pass under a bound, beyond the bound itself, until it is verified.

Chosen: a row can be late only once the watermark has passed its window, and stragglers come up to a bound later. Ten
windows outweigh the one in which the watermark jumped. Doubling it only takes longer; one or two verify an untested
bound.
"""

GATE_ASK_MS = 30_000
"""Time between two questions to an outside gate about one rollout, in milliseconds.

Chosen: what a gate looks at changes with scrapes of 15 to 60 s. Halving it doubles the requests and notices a change
15 s sooner.
"""

GATE_VALID_MS = 2 * GATE_ASK_MS
"""How long the answer of an outside gate counts, in milliseconds.

Chosen: one question may fail. Longer publishes on an answer that may no longer be true.
"""

GATE_FAILURES = 3
"""How often in a row an outside gate says no until the narrowing that is being verified is rolled back.

Chosen: with ``GATE_ASK_MS`` that is a minute, which a single bad scrape does not last. More react later; with one, a
glitch undoes a good bound.
"""

EVIDENCE_SHARE_OF_HORIZON_PPM = 800_000
"""Maximum evidence that a narrowing waits for to see enough windows, as a share of the horizon, in parts per million.

Chosen: 100 windows of an hour are more than a horizon of a day can hold; a fifth is left for pauses of the stream.
Higher, and such a stream is never narrowed.
"""

FAILED_MS = 3_600_000
"""How long a bound is not tried again after its first rollback, in milliseconds.

It doubles with each failure under the same SLO and policy.

Chosen, as the default cooldown. Longer keeps the wide bound after a disturbance has passed.
"""

FAILED_LONGEST_MS = 7 * 86_400_000
"""Maximum time for which a failed bound is not tried again, in milliseconds."""

FLOOR_STEP_PPM = 250_000
"""By how much the bound in use is widened when single windows lose too much, as a share of it, in parts per million.

Chosen: needs are not known by window, so the bound is widened step by step; 2 steps add half of it. A larger step
overshoots, a smaller one takes more restarts.
"""
