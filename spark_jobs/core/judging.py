"""How the rows of a stream are judged in one run of a query, given what its call says and what the plan shows."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from tidemark.models.base.duration import format_duration
from tidemark.models.base.granules import Granules, default_granule_us
from tidemark.models.base.operators import Operator, TimeWindow, call_for, row_level
from tidemark.models.protocol.messages import LOSES_NONE, RunEnd
from tidemark.spark_jobs.core.binding import Binding, Judging, QueryRun, not_in_real_time
from tidemark.spark_jobs.spark.query_plan import Found, NoOperator

_log = logging.getLogger("tidemark.spark")


class PlanRejectedError(Exception):
    """A query must not run with this call; the message says why, and what to write."""


def judge(run: QueryRun, operators: Mapping[str, Found]) -> list[str]:
    """Settle how the rows of each stream of a run are judged; return why its query must not run."""
    rejected = []
    run.is_real_time = run.query.is_real_time()
    run.spark_ui = run.query.page_url(run.run_id)
    names = Counter(binding.key for binding in run.bindings.values())
    for metric, operator in operators.items():
        binding = run.bindings[metric]
        try:
            judging = judging_of(binding, operator)
            _check(run, metric, judging)
            if run.plan is not None:
                # Spark reports one of several watermarks, and has event times that were set back.
                compared = len(run.plan.watermarks) == 1 and binding.tap.allowance_us is None
                judging = replace(judging, compared=compared, drops_late=metric not in run.plan.undropped)
            elif run.query.output_mode() == "complete":
                judging = replace(judging, drops_late=False)
                if not isinstance(judging.operator, TimeWindow):
                    why = "only the plan says which operator drops late rows in complete mode, and it cannot be read"
                    judging = not_judged(binding, why)
        except PlanRejectedError as error:
            if binding.settings.called:
                rejected.append(f"stream {binding.settings.stream}: {error}")
            judging = not_judged(binding, str(error))
        if (number := names[binding.key]) > 1:
            stream = binding.settings.stream
            why = (
                f"{number} inputs of the query are called {stream!r}, and a batch is reported once for a name"
            )
            judging = not_judged(
                binding, _with_way_out(binding, why, "give each a name of its own: stream=...")
            )
        run.streams[metric] = judging
    # Live steers no stream whose rows it cannot judge, and does not close it.
    may_close = [
        binding
        for metric, binding in run.bindings.items()
        if binding.chosen.mode != "Live" or run.streams[metric].contradiction is None
    ]
    run.run_end = run_end_with(
        run.query.run_end(), may_close, 0 if run.plan is None else len(run.plan.watermarks)
    )
    return rejected


def run_end_with(run_end: RunEnd | None, bindings: Iterable[Binding], watermarks: int) -> RunEnd | None:
    """Return how a run ends with the closing steps of its inputs, each of which has to have one.

    Args:
        run_end: how its trigger ends it.
        bindings: the streams that may close.
        watermarks: how many its plan has.
    """
    closing = [rule for binding in bindings if (rule := binding.settings.close_at_end) is not None]
    if run_end != "AvailableNow" or not watermarks or len(closing) < watermarks:
        return run_end
    return "AtBound" if any(rule.delay_us is None for rule in closing) else "Closed"


def _check(run: QueryRun, metric: str, judging: Judging) -> None:
    """Raise if a stream's query must not run with what its call adds."""
    binding = run.bindings[metric]
    for extension in binding.extensions:
        if (why := extension.why_not(run, metric, judging)) is not None:
            raise PlanRejectedError(why)
    if run.is_real_time and binding.chosen.mode == "Restart" and binding.settings.called:
        raise PlanRejectedError(
            not_in_real_time("mode Restart has not been tried in it", "use mode OnRestart")
        )


def warn_of_other_queries(run: QueryRun, others: Iterable[QueryRun]) -> None:
    """Log which streams of a query that starts are reported by another query of this driver already."""
    reported = {binding.key for peer in others for binding in map(peer.bindings.get, peer.streams) if binding}
    for binding in run.bindings.values():
        if binding.key in reported:
            what = (
                "another query of this driver reports it, too, so that each row counts once for each of them"
            )
            instead = "call adaptive_watermark once for each query, with a stream= of its own"
            if not binding.settings.called:
                instead = "give each query a name, or a checkpoint, of its own"
            _log.warning("stream %s: %s; %s", binding.settings.stream, what, instead)


def judging_of(binding: Binding, operator: Found) -> Judging:
    """Return how the rows of a stream are judged, given its operator in the plan.

    Raises:
        PlanRejectedError: when the ledger would be wrong, or nobody knows the operator.
    """
    declared = binding.operator
    if not isinstance(operator, NoOperator):
        if declared is not None and declared != operator:
            raise PlanRejectedError(
                f"the call declares a {declared}, but the query has a {operator}; write {call_for(operator)}"
            )
        return Judging(operator, granules_of(binding, operator))
    if operator.kind == "Unsupported":
        raise PlanRejectedError(
            _with_way_out(binding, operator.why, "give it a fixed gap, or write withWatermark")
        )
    if operator.kind == "Uncounted":
        return not_judged(binding, operator.why)
    if operator.kind == "NothingLate":
        return not_judged(binding, f"{LOSES_NONE}: {operator.why}")
    if declared is not None:
        return Judging(declared, granules_of(binding, declared), doubt=operator.why)
    if operator.kind == "Unreadable":
        return not_judged(
            binding, f"{'the call declares no operator, and ' * binding.settings.called}{operator.why}"
        )
    raise PlanRejectedError(
        _with_way_out(
            binding,
            f"the operator cannot be read from the plan: {operator.why}",
            "declare it after the bound, with tumbling(size), sliding(size, slide), session(gap) or row_level()",
        )
    )


def _with_way_out(binding: Binding, why: str, instead: str) -> str:
    """Return why a stream is not as it should be, and to a job that makes a call what to write there."""
    return f"{why}; {instead}" if binding.settings.called else why


def not_judged(binding: Binding, why: str) -> Judging:
    """Return that no row of a stream is judged. A report names an operator all the same."""
    operator = binding.operator or row_level()
    closed = binding.tap.closed or operator.closed
    return Judging(operator, Granules(binding.tap.granule_us, closed), contradiction=why)


def log_judging(binding: Binding, judging: Judging) -> None:
    """Log how the rows of a stream are judged."""
    if judging.contradiction is not None:
        level = logging.ERROR if binding.settings.called else logging.WARNING
        level = logging.INFO if judging.contradiction.startswith(LOSES_NONE) else level
        what = "stream %s: %s; its rows are not judged and it is not steered"
        _log.log(level, what, binding.settings.stream, judging.contradiction)
    elif judging.doubt is not None:
        why = "stream %s: the declared %s is trusted, since the plan does not show it: %s"
        _log.warning(why, binding.settings.stream, judging.operator, judging.doubt)
    elif binding.operator is None:
        _log.info("stream %s: the query has a %s", binding.settings.stream, judging.operator)


def granules_of(binding: Binding, operator: Operator) -> Granules:
    """Return the granules of reports: the tap's, or without a declaration the operator's default made of them.

    Raises:
        PlanRejectedError: when the tap's granules do not fit the operator.
    """
    tap = binding.tap
    if tap.closed is not None:
        return Granules(tap.granule_us, tap.closed)
    if not operator.granule_fits(tap.granule_us):
        counted, called = format_duration(tap.granule_us), binding.settings.called
        raise PlanRejectedError(
            f"{'without an operator in the call ' * called}rows are counted by {counted}, which does not divide the "
            f"query's {operator}; {_fitting(operator, called=called)}"
        )
    granule_us = (
        tap.granule_us
        if binding.settings.granule is not None
        else default_granule_us(operator, tap.granule_us)
    )
    return Granules(granule_us, operator.closed)


def _fitting(operator: Operator, *, called: bool) -> str:
    try:
        granule = format_duration(default_granule_us(operator))
    except ValueError as error:
        return str(error)
    if not called:
        return f"set spark.tidemark.granule={granule}"
    return f'write {call_for(operator)} after the bound, or granule="{granule}"'
