"""Pins as the API answers them."""

from __future__ import annotations

from tidemark.controller.api import schemas
from tidemark.controller.pins.store import StoredPin


def pin_answer(pin: StoredPin | None) -> schemas.PinInForce | None:
    """Return the pin in force as the status has it; None for none."""
    if pin is None:
        return None
    return schemas.PinInForce(to=pin.to, scope=pin.scope.kind, reason=pin.reason, since_us=pin.since_us)
