"""Pins as the API answers them."""

from __future__ import annotations

from tidemark.controller.api.schemas.pins import PinInForce
from tidemark.controller.pins.store import StoredPin


def pin_answer(pin: StoredPin | None) -> PinInForce | None:
    """Return the pin in force as the status has it; None for none."""
    return None if pin is None else PinInForce.of(pin, scope=pin.scope.kind)
