"""What earlier reports of a stream teach its live policy, whatever mode its job ran in.

A tap counts rows before any is dropped, so reports show what each rule of the policy would have lost and how long its
windows would have waited, also where nothing was steered. The policy is run over them as if it had steered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from tidemark.models.live.defaults import PILED_UP_TRIGGERS
from tidemark.models.live.fast import FastPolicy, Order
from tidemark.models.live.learned import Learned
from tidemark.models.live.policy import Setup
from tidemark.models.live.tidemark import without_debt
from tidemark.models.protocol.messages import Report


def learned_from(
    reports: Iterable[Report],
    setup: Setup,
    ceiling_us: int,
    due_us: Callable[[int], int] = lambda started_us: started_us,
) -> Learned | None:
    """Return what the policy for ``setup`` learns from reports; None when none of them is of its operator.

    The account of what was lost comes out even: what was lost under other bounds is neither the policy's debt nor its
    credit.

    Args:
        reports: reports of the stream, the oldest batch first; a restart between two of them is seen by their runs.
        setup: the problem: operator, trigger and target.
        ceiling_us: the static bound that the plan holds, in microseconds.
        due_us: returns when a batch was due that started at a wall time, in microseconds.
    """
    order = Order(bound_us=0, target_ppm=setup.target_ppm)
    run_id, began_us, learned = "", 0, None
    policy = FastPolicy(setup.operator, ceiling_us)
    for report in reports:
        if report.operator != setup.operator or report.contradiction is not None:
            continue
        if report.run_id != run_id:
            learned = policy.learned() or learned
            policy = FastPolicy(setup.operator, ceiling_us)
            if learned is not None:
                policy.resume(learned)
            run_id, began_us = report.run_id, report.started_us
        planned_us = due_us(report.started_us)
        names, edges = report.counts.partitions, report.counts.edges()
        policy.observe(
            report,
            {names[place]: last for place, _, last in edges},
            None,
            setup.trigger_us,
            order,
            due_us=planned_us,
            representative=report.started_us > began_us + PILED_UP_TRIGGERS * setup.trigger_us,
        )
        policy.decide(planned_us, order)
    learned = policy.learned() or learned
    if learned is None:
        return None
    return replace(learned, arrays=without_debt(learned.arrays, learned.target_ppm))
