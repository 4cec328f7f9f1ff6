"""What a live stream has to do now: by its own pin, by the controller's newest answer, else by the job itself."""

from __future__ import annotations

from tidemark.models.live.fast import Order
from tidemark.spark_jobs.core.watch import Orders, mode_of


def order_now(orders: Orders) -> Order:
    """Return what a stream has to do now."""
    answer = orders.newest
    pin = orders.own_pin or (None if answer is None else answer.pin)
    own_us = orders.own_bound_ms * 1_000
    if pin is not None:
        return Order(follow="ceiling" if pin == "Ceiling" else "stream", bound_us=own_us, pin=pin)
    given_ms = None if answer is None else answer.bound_ms
    bound_us = own_us if given_ms is None else given_ms * 1_000
    mode = mode_of(answer, orders.own_mode)
    if mode != "Live":
        return Order(follow="stream", bound_us=own_us if mode == "Off" else bound_us)
    envelope = None if answer is None else answer.envelope
    if envelope is None:
        return Order(bound_us=bound_us)
    return Order(
        bound_us=bound_us,
        target_ppm=envelope.target_ppm,
        latency_cap_us=_micros(envelope.latency_cap_ms),
        min_bound_us=_micros(envelope.min_bound_ms),
        max_bound_us=_micros(envelope.max_bound_ms),
    )


def _micros(time_ms: int | None) -> int | None:
    return None if time_ms is None else time_ms * 1_000
