"""Route of what the fleet would save."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter

from tidemark.controller.server.http.authorize import ThePrincipal
from tidemark.controller.server.http.cursors import ThePaging, decode_stream_cursor
from tidemark.controller.server.http.openapi import answers
from tidemark.controller.server.http.parameters import OfJob, TheService
from tidemark.controller.server.schemas.savings import (
    Between,
    SavingsFigures,
    SavingsOfStream,
    SavingsPage,
    SavingsTotal,
    SavingsTotals,
)
from tidemark.controller.view.state.fleet import list_savings
from tidemark.controller.view.state.savings import from_json
from tidemark.models.recommend.savings import Figures, Savings, total_of

router = APIRouter(tags=["streams"])


@dataclass(frozen=True, slots=True)
class _Listed:
    job: str
    stream: str
    updated_us: int | None
    savings: Savings

    @property
    def place(self) -> tuple[int | str, ...]:
        return (*self.savings.place, self.job, self.stream)


@router.get(
    "/v1/savings",
    operation_id="listSavings",
    summary="What the fleet would save",
    responses=answers("SavingsPage", 422, 503),
)
def get_savings(
    service: TheService, principal: ThePrincipal, paging: ThePaging, job: OfJob = None
) -> SavingsPage:
    """Compare the bound in force with the recommended one: waiting for results, late rows and state, by stream.

    Streams in reach that certainly lose more rows than they may come first, those that lose most before the others;
    then those that would save most waiting. Figures are as of each stream's newest snapshot.
    """
    position = decode_stream_cursor(paging.cursor, 4)
    after = None if position is None else (*position[0], *position[1:])
    with service.database.read() as session:
        rows = list_savings(session, job)
    found = sorted(
        (
            _Listed(row.job, row.stream, row.seen_us, from_json(row.savings))
            for row in rows
            if principal.sees_all or principal.sees(row.job)
        ),
        key=lambda each: each.place,
    )
    left = [each for each in found if after is None or each.place > after]
    page, next_cursor = paging.cut(left[: paging.rows], lambda each: each.place)
    return SavingsPage(
        streams=[_stream(each) for each in page],
        totals=_totals([each.savings for each in found]),
        next_cursor=next_cursor,
    )


def _stream(listed: _Listed) -> SavingsOfStream:
    savings = listed.savings
    return SavingsOfStream.of(
        savings,
        job=listed.job,
        stream=listed.stream,
        unknown=list(savings.unknown),
        now=_figures(savings.now),
        recommended=_figures(savings.recommended),
        saved=_figures(savings.saved),
        updated_us=listed.updated_us,
    )


def _totals(streams: list[Savings]) -> SavingsTotals:
    return SavingsTotals(
        streams=len(streams),
        losing=sum(each.loses for each in streams),
        without_recommendation=sum(each.recommended_bound_ms is None for each in streams),
        waiting_ms=_total("waiting_ms", streams),
        late_rows=_total("late_rows", streams),
        state_rows=_total("state_rows", streams),
        state_bytes=_total("state_bytes", streams),
    )


def _total(name: str, streams: list[Savings]) -> SavingsTotal:
    total = total_of(name, streams)
    return SavingsTotal(
        streams=total.streams,
        now=Between.of(total.now),
        recommended=Between.of(total.recommended),
        saved=Between.of(total.saved),
    )


def _figures(figures: Figures | None) -> SavingsFigures | None:
    if figures is None:
        return None
    return SavingsFigures(
        **{name: Between.of(getattr(figures, name)) for name in SavingsFigures.model_fields}
    )
