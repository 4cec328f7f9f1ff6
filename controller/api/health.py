"""Health: liveness, readiness and metrics."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from tidemark.controller.api.dependencies import TheService
from tidemark.controller.api.documented import answers, text_answer
from tidemark.controller.api.schemas.service import Health, HealthCheck
from tidemark.controller.errors import (
    ErrorItem,
    NotAliveError,
    NotReadyError,
    StoreUnavailableError,
    TidemarkError,
)
from tidemark.controller.service import Service

router = APIRouter(tags=["health"])

_STUCK_TICKS = 3
"""For how many intervals between two ticks the loop may make no progress before it counts as stuck."""

_STUCK_SECONDS = 60
"""Seconds that one step may take beyond that. A tick over many streams has many steps."""

_Verbose = Annotated[str | None, Query(description="List what was checked; any value will do.")]


@router.get("/livez", operation_id="getLiveness", summary="Liveness", responses=answers("Health", 422, 503))
async def livez(service: TheService, verbose: _Verbose = None) -> Health:
    """Report whether the decision loop makes progress; if not, restart the process."""
    # Asynchronous: it needs no thread, of which slow requests may take all.
    return _health([_loop(service)], NotAliveError, verbose)


@router.get(
    "/readyz", operation_id="getReadiness", summary="Readiness", responses=answers("Health", 422, 503)
)
def readyz(service: TheService, verbose: _Verbose = None) -> Health:
    """Report whether requests can be served: the store takes writes and has this release's schema, nothing stops."""
    stopping = HealthCheck(
        name="stopping", ok=False, detail="the controller is stopping; call another replica"
    )
    checks = [stopping] if service.watch.released else []
    return _health([*checks, _store(service)], NotReadyError, verbose)


@router.get(
    "/metrics",
    operation_id="getMetrics",
    summary="Metrics",
    response_class=Response,
    responses=text_answer("Metrics for Prometheus."),
)
def metrics(service: TheService) -> Response:
    """Return the metrics in Prometheus' text format."""
    return Response(service.scrape.text(), media_type=CONTENT_TYPE_LATEST)


# Some load balancers and monitors probe with HEAD. The document has GET alone: HEAD is the same without the body.
for _path, _endpoint, _operation in (
    ("/livez", livez, "getLiveness"),
    ("/readyz", readyz, "getReadiness"),
    ("/metrics", metrics, "getMetrics"),
):
    router.add_api_route(_path, _endpoint, methods=["HEAD"], operation_id=_operation, include_in_schema=False)


def _health(checks: list[HealthCheck], error: type[TidemarkError], verbose: str | None) -> Health:
    failed = [check for check in checks if not check.ok]
    if failed:
        raise error(failed[0].detail, errors=tuple(ErrorItem(check.name, check.detail) for check in failed))
    return Health(status="ok", checks=None if verbose is None else checks)


def _loop(service: Service) -> HealthCheck:
    ticker = service.ticker
    idle_seconds = ticker.watchdog.idle_seconds
    stuck = idle_seconds > _STUCK_TICKS * service.settings.tick_seconds + _STUCK_SECONDS
    if not ticker.alive:
        return HealthCheck(name="loop", ok=False, detail="the decision loop does not run")
    detail = f"{ticker.ticks} ticks, the last step ended {idle_seconds:.0f} s ago"
    return HealthCheck(name="loop", ok=not stuck, detail=detail)


def _store(service: Service) -> HealthCheck:
    database = service.database
    try:
        database.prove_writable()
    except StoreUnavailableError as error:
        return HealthCheck(name="store", ok=False, detail=error.detail)
    except DBAPIError as error:
        said = (str(error.orig).strip().splitlines() or [type(error.orig).__name__])[0]
        return HealthCheck(name="store", ok=False, detail=f"the database takes no writes: {said}")
    except SQLAlchemyError as error:
        detail = f"the database cannot be reached ({type(error).__name__})"
        return HealthCheck(name="store", ok=False, detail=detail)
    detail = f"the database takes writes, its schema is at migration {database.release_version}"
    return HealthCheck(name="store", ok=True, detail=detail)
