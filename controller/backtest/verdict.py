"""What a backtest says first: one sentence, and a warning where the trace is too short to learn from."""

from __future__ import annotations

from tidemark.controller.backtest.table import floor_percent, format_latency
from tidemark.controller.backtest.trial import TIDEMARK, PolicyResult, Trial
from tidemark.models.backtest.catalogue import FIXED_HINDSIGHT
from tidemark.models.backtest.run import BacktestScore
from tidemark.models.base.duration import format_about, format_duration
from tidemark.models.base.operators import TimeWindow
from tidemark.models.base.target import format_share
from tidemark.models.base.text import plural
from tidemark.models.live.learning import learning_of

_OPEN = 0.1
"""Share of the windows that may be open for their mean latency to count as measured."""


def verdict(trial: Trial) -> str:
    """Return how Tidemark, or else the first policy, compares with the target and with the best constant bound."""
    outcome = _judged(trial)
    constant = (
        f"the best constant bound, {format_duration(trial.yardstick.fixed_bound_us)}, known only afterwards,"
    )
    name = {TIDEMARK: "Tidemark", FIXED_HINDSIGHT: constant}.get(outcome.policy, outcome.policy)
    kept = f"keeps {_kept(trial, outcome.score)}"
    if not outcome.meets:
        cap_us = trial.setup.latency_cap_us if outcome.policy == TIDEMARK else None
        capped = (
            "" if cap_us is None else f", with no window waiting for more than {format_duration(cap_us)},"
        )
        kept = f"misses the target of {_goal(trial)}{capped} and {kept}"
    if outcome.score.latency_mean_us is None:
        return f"On this trace {name} {kept}; no window of it can be scored, so no latency is known."
    said = f"On this trace {name} {kept} at a mean latency of {_latency(outcome.score)}"
    if outcome.policy == FIXED_HINDSIGHT:
        return f"{said}."
    return f"{said}; {_constant(trial, outcome)}.{_with_live(trial, outcome)}"


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
    found = learning_of(setup, arrivals.pairs, arrivals.last_us - arrivals.first_us)
    if found is None or found.enough:
        return None
    needed, seen = (format_about(keys * found.key_us) for keys in (found.needed, found.seen))
    if isinstance(setup.operator, TimeWindow):
        needed, seen = f"{plural(found.needed, 'window')} ({needed})", f"{found.seen:,}"
    return (
        f"warning: this trace is too short to learn from: Tidemark needs {needed} before it trusts what it has seen, "
        f"and the trace has {seen}"
    )


def _judged(trial: Trial) -> PolicyResult:
    """Return the result that the sentence is about."""
    return next((one for one in trial.outcomes if one.policy == TIDEMARK), trial.outcomes[0])


def _constant(trial: Trial, outcome: PolicyResult) -> str:
    """Return how the best constant bound compares, which meets the target by its definition."""
    fixed = trial.yardstick.fixed_score
    best = "the best constant bound, known only afterwards,"
    if fixed.windows_open > (1 - _OPEN) * fixed.windows:
        bound = format_duration(trial.yardstick.fixed_bound_us)
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
