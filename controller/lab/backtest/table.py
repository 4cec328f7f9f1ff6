"""A backtest as a table for people."""

from __future__ import annotations

import math

import numpy as np

from tidemark.controller.lab.backtest.trial import TIDEMARK, ConstantBound, PolicyResult, Trial
from tidemark.controller.tools.cli.show import say, table
from tidemark.models.backtest.arrivals import MINUTE_US
from tidemark.models.backtest.catalogue import FIXED_HINDSIGHT
from tidemark.models.backtest.run import BacktestScore, late_budget
from tidemark.models.base.duration import format_about, format_duration
from tidemark.models.base.operators import TimeWindow
from tidemark.models.base.target import PPM, format_share, format_target
from tidemark.models.base.text import plural
from tidemark.models.live.learning import learning_of
from tidemark.models.rollout.evidence import evidence_span
from tidemark.models.specs.slo import Policy, Slo

_COLUMNS = (
    *("policy", "target", "admitted\n%", "windows\nok %", "minutes\nok %", "worst\nminute %"),
    *("mean\nlatency", "p95\nlatency", "mean\nbound", "moves", "x hind-\nsight", "x clair-\nvoyant"),
)

LEGEND = (
    "windows ok, minutes ok: share of the windows, and of the minutes of event time, that each meet the target. "
    "worst minute: minimum completeness of a minute. moves: changes of the bound. x hindsight, x clairvoyant: "
    "mean latency as a multiple of that of the best fixed bound, and of what no policy that meets the target can beat."
)
"""What the headings mean."""


def show(trial: Trial) -> None:
    """Print the table of one trace, and why each policy stands where it does in the end."""
    for line in heading(trial):
        say(line)
    say("")
    table(_COLUMNS, ((outcome.policy, *_cells(trial, outcome)) for outcome in trial.outcomes), figures=True)
    say("")
    for outcome in trial.outcomes:
        if outcome.reasons:
            say(f"{outcome.policy}, in the end: {'; '.join(outcome.reasons)}")


def heading(trial: Trial) -> list[str]:
    """Return the lines above a table: what was replayed, the question, and the two yardsticks."""
    setup, yardstick = trial.setup, trial.yardstick
    if setup.mode == "live":
        reach = f"trigger {format_duration(setup.trigger_us)}, live"
    else:
        reach = f"trigger {format_duration(setup.trigger_us)}, restarts of {format_duration(setup.restart_cost_us)}"
    how = f"{setup.operator}; {reach}"
    question = f"target {format_target(setup.target_ppm)}"
    if setup.objective == "timeslices":
        question += f" in {format_target(setup.good_windows_ppm)} of the windows (timeslices)"
    else:
        question += " of all rows (occurrences)"
    arrivals = trial.arrivals
    size = f"{plural(arrivals.rows, 'row')}, {plural(arrivals.partitions, 'partition')}"
    span = f"{format_about(arrivals.last_us - arrivals.first_us)}, {plural(arrivals.slots, 'slot')}"
    fixed = _bound_and_latency(yardstick.fixed)
    return [
        f"{trial.path}: {size}, {span}",
        f"{how}; {question}",
        f"fixed-hindsight: {fixed}; clairvoyant: mean latency {format_latency(yardstick.clairvoyant_us)}",
    ]


def _bound_and_latency(constant: ConstantBound) -> str:
    latency = format_latency(constant.score.latency_mean_us)
    return f"bound {format_duration(constant.bound_us)}, mean latency {latency}"


def ratio(latency_us: float | None, yardstick_us: float | None) -> str:
    """Return a latency as a multiple of that of a yardstick; a dash where that says nothing."""
    if latency_us is None or yardstick_us is None:
        return "-"
    if not yardstick_us:
        return "-" if latency_us else "1.00"
    return f"{latency_us / yardstick_us:.2f}"


def floor_percent(part: int, whole: int, target_ppm: int) -> str:
    """Return ``part`` of ``whole`` in percent, rounded down, because a target that is missed must not read as met.

    It has two decimals, or as many as the target; only the whole is 100.
    """
    if not whole:
        return "-"
    decimals = max(2, len(format_target(target_ppm).partition(".")[2]) - 2)
    cut = part * 10 ** (decimals + 2) // whole
    return f"{cut // 10**decimals}.{cut % 10**decimals:0{decimals}d}"


def _cells(trial: Trial, outcome: PolicyResult) -> list[str]:
    score, yardstick, target_ppm = outcome.score, trial.yardstick, trial.setup.target_ppm
    if not score.decided:
        return ["never decided", *"-" * (len(_COLUMNS) - 2)]
    return [
        "met" if outcome.meets else "MISSED",
        floor_percent(score.pairs - score.late, score.pairs, target_ppm),
        floor_percent(score.windows_met, score.windows, target_ppm),
        _share(score.minutes_meeting_target, target_ppm),
        _share(score.worst_minute, target_ppm),
        format_latency(score.latency_mean_us),
        format_latency(score.latency_p95_us),
        format_latency(score.bound_mean_us),
        f"{score.bound_changes:,}",
        ratio(score.latency_mean_us, yardstick.fixed.score.latency_mean_us),
        ratio(score.latency_mean_us, yardstick.clairvoyant_us),
    ]


def _share(share: float | None, target_ppm: int) -> str:
    """Return a share in percent; a last bit that a float is off by does not count."""
    if share is None or not math.isfinite(share):
        return "-"
    return floor_percent(math.floor(share * PPM * PPM + 0.5), PPM * PPM, target_ppm)


def format_latency(duration_us: float | None) -> str:
    """Return a measured duration; a dash where there is none."""
    return "-" if duration_us is None or not math.isfinite(duration_us) else format_about(duration_us)


_OPEN = 0.1
"""Share of the windows that may be open for their mean latency to count as measured."""


def verdict(trial: Trial) -> str:
    """Return how Tidemark, or else the first policy, compares with the target and with the best constant bound."""
    outcome = _judged(trial)
    constant = (
        f"the best constant bound, {format_duration(trial.yardstick.fixed.bound_us)}, known only afterwards,"
    )
    name = {TIDEMARK: "Tidemark", FIXED_HINDSIGHT: constant}.get(outcome.policy, outcome.policy)
    if not outcome.score.decided:
        why = "".join(f": {reason}" for reason in outcome.reasons)
        return f"On this trace {name} never decided, so that no window came out{why}."
    kept = f"keeps {_kept(trial, outcome.score)}"
    if not outcome.meets:
        cap_us = trial.setup.latency_cap_us if outcome.policy == TIDEMARK else None
        capped = (
            "" if cap_us is None else f", with no window waiting for more than {format_duration(cap_us)},"
        )
        kept = f"misses the target of {_goal(trial)}{capped} and {kept}"
    if outcome.score.latency_mean_us is None:
        return f"On this trace {name} {kept}; no window of it can be scored, so no latency is known."
    text = f"On this trace {name} {kept} at a mean latency of {_latency(outcome.score)}"
    if outcome.policy == FIXED_HINDSIGHT:
        return f"{text}."
    return f"{text}; {_constant(trial, outcome)}.{_once_known(trial, outcome)}{_with_live(trial, outcome)}"


def _once_known(trial: Trial, outcome: PolicyResult) -> str:
    """Return what is kept after the time for which the controller observes first, where the target is missed before."""
    setup, arrivals = trial.setup, trial.arrivals
    if outcome.meets or outcome.policy != TIDEMARK or setup.mode == "live" or setup.objective == "timeslices":
        return ""
    horizon_ms = Slo(target_ppm=setup.target_ppm, horizon_ms=setup.horizon_ms).horizons_ms[0]
    size_us = setup.operator.size_us if isinstance(setup.operator, TimeWindow) else 0
    nothing = np.empty(0, np.int64)
    observed = evidence_span(Policy(), size_us, horizon_ms, nothing, nothing)
    assert observed is not None, "the default policy asks for evidence"
    after = arrivals.minutes * MINUTE_US >= arrivals.first_us + observed.needed_us
    rows, late = (
        int(counts[after].sum()) for counts in (outcome.run.rows_by_minute, outcome.run.late_by_minute)
    )
    if not rows or late > late_budget(setup, rows):
        return ""
    kept = floor_percent(rows - late, rows, setup.target_ppm)
    return (
        f" It misses it by what it had not seen yet: after the first {format_about(observed.needed_us)}, for which the "
        f"controller observes a job under its own bound, it keeps {kept} %."
    )


def _with_live(trial: Trial, outcome: PolicyResult) -> str:
    """Return what Live would have done where Tidemark had only restarts, as a further sentence."""
    live = trial.live
    if live is None or outcome.policy != TIDEMARK:
        return ""
    latency = f"{_kept(trial, live.score)} at a mean latency of {_latency(live.score)}"
    if outcome.meets:
        return f" Live would keep {latency}{'' if live.meets else ', short of the target'}."
    if live.meets:
        return f" Restarts alone did not keep the target here; Live would, with {latency}."
    return f" Live would miss the target too, with {latency}."


def short_trace_warning(trial: Trial) -> str | None:
    """Return a warning when Tidemark was replayed on too short a trace to learn from it; None when it was not."""
    arrivals, setup = trial.arrivals, trial.setup
    if not any(outcome.policy == TIDEMARK for outcome in trial.outcomes):
        return None
    learning = learning_of(setup, arrivals.pairs, arrivals.last_us - arrivals.first_us)
    if learning is None or learning.enough:
        return None
    needed, seen = (format_about(keys * learning.key_us) for keys in (learning.needed, learning.seen))
    if isinstance(setup.operator, TimeWindow):
        needed, seen = f"{plural(learning.needed, 'window')} ({needed})", f"{learning.seen:,}"
    return (
        f"warning: this trace is too short to learn from: Tidemark needs {needed} before it trusts what it has seen, "
        f"and the trace has {seen}"
    )


def _judged(trial: Trial) -> PolicyResult:
    """Return the result that the sentence is about."""
    return next((one for one in trial.outcomes if one.policy == TIDEMARK), trial.outcomes[0])


def _constant(trial: Trial, outcome: PolicyResult) -> str:
    """Return how the best constant bound compares, which meets the target by its definition."""
    fixed = trial.yardstick.fixed.score
    best = "the best constant bound, known only afterwards,"
    if fixed.windows_open > (1 - _OPEN) * fixed.windows:
        bound = format_duration(trial.yardstick.fixed.bound_us)
        return f"{best} is {bound}, under which nearly all windows are still open when the trace ends"
    latency = _latency(fixed)
    if not outcome.meets:
        return f"{best} needs {latency} to meet it"
    own, other = outcome.score.latency_mean_us or 0.0, fixed.latency_mean_us or 0.0
    if latency == _latency(outcome.score):
        return f"{best} needs as long"
    return f"{best} needs {latency}" if own < other else f"{best} needs less, {latency}"


def _kept(trial: Trial, score: BacktestScore) -> str:
    target_ppm = trial.setup.target_ppm
    if trial.setup.objective == "timeslices":
        share = floor_percent(score.windows_met, score.windows, target_ppm)
        return f"{format_share(target_ppm)} in {share} % of the windows"
    return f"{floor_percent(score.pairs - score.late, score.pairs, target_ppm)} % of the rows"


def _goal(trial: Trial) -> str:
    setup = trial.setup
    goal = format_share(setup.target_ppm)
    if setup.objective == "timeslices":
        goal += f" in {format_share(setup.good_windows_ppm)} of the windows"
    return goal


def _latency(score: BacktestScore) -> str:
    """Return a mean latency; a minimum while too many windows are open at the end."""
    shown = format_latency(score.latency_mean_us)
    return f"at least {shown}" if score.windows_open > _OPEN * score.windows else shown
