"""Route of what the fleet would save."""

from __future__ import annotations

from fastapi import APIRouter

from tidemark.controller.server.http.authorize import ThePrincipal
from tidemark.controller.server.http.cursors import ThePaging, decode_stream_cursor
from tidemark.controller.server.http.openapi import says
from tidemark.controller.server.http.parameters import OfJob, TheService
from tidemark.controller.server.schemas.savings import SavingsOfStream, SavingsPage, SavingsTotals
from tidemark.controller.view.state.fleet import list_savings
from tidemark.controller.view.state.savings import UNSEEN
from tidemark.models.recommend.savings import Savings, total_of

router = APIRouter(tags=["streams"])


@router.get("/v1/savings", **says("listSavings", "What the fleet would save", "SavingsPage"))
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
            _stream(row.job, row.stream, row.seen_us, row.savings or UNSEEN)
            for row in rows
            if principal.sees_all or principal.sees(row.job)
        ),
        key=_place,
    )
    left = [each for each in found if after is None or _place(each) > after]
    page, next_cursor = paging.cut(left[: paging.rows], _place)
    return SavingsPage(
        streams=[*page], totals=_totals([each.savings for each in found]), next_cursor=next_cursor
    )


def _stream(job: str, stream: str, updated_us: int | None, savings: Savings) -> SavingsOfStream:
    return SavingsOfStream(
        job=job, stream=stream, savings=savings, saved=savings.saved, updated_us=updated_us
    )


def _place(row: SavingsOfStream) -> tuple[int | str, ...]:
    return (*row.savings.place, row.job, row.stream)


def _totals(streams: list[Savings]) -> SavingsTotals:
    return SavingsTotals(
        streams=len(streams),
        losing=sum(each.loses for each in streams),
        without_recommendation=sum(each.recommended_bound_ms is None for each in streams),
        waiting_ms=total_of("waiting_ms", streams),
        late_rows=total_of("late_rows", streams),
        state_rows=total_of("state_rows", streams),
        state_bytes=total_of("state_bytes", streams),
    )
