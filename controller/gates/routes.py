"""The outside gates that policies can name."""

from __future__ import annotations

from fastapi import APIRouter

from tidemark.controller.api.dependencies import TheService
from tidemark.controller.api.documented import answers
from tidemark.controller.api.schemas.rollouts import GateList, GateOffered
from tidemark.controller.runtime.operator_file import PrometheusGate

router = APIRouter(tags=["specifications"])


@router.get(
    "/v1/gates",
    operation_id="listGates",
    summary="List outside gates",
    responses=answers("GateList", 422, 503),
)
def list_gates(service: TheService) -> GateList:
    """List the outside gates that the controller's operators have set up, without addresses; policies can name them."""
    return GateList(
        gates=[
            GateOffered(
                name=name,
                kind="prometheus" if isinstance(gate, PrometheusGate) else "webhook",
                asks=gate.asks,
            )
            for name, gate in service.gates.gates.items()
        ]
    )
