"""How fast a budget is used up."""

from __future__ import annotations

from tidemark.models.target import PPM


def burn_rate_ppm(bad: int, counted: int, share_ppm: int) -> int | None:
    """Return the burn rate: the share that was bad over the share that may be, in parts per million, rounded up.

    At 1,000,000 exactly the budget is used up over the SLO's window, at twice as much in half of it.

    Args:
        bad: how many were bad.
        counted: how many count.
        share_ppm: the share that must be good, in parts per million.

    Returns:
        The rate; None when nothing counts or nothing may be bad.
    """
    allowed = counted * (PPM - share_ppm)
    return -(-bad * PPM * PPM // allowed) if allowed else None


def exhausted_in_ms(remaining_ppm: int | None, rate_ppm: int | None, window_ms: int) -> int | None:
    """Return when the budget is used up at a burn rate, from now on, in milliseconds.

    What leaves the window again is not counted on, so that this is the earliest time.

    Args:
        remaining_ppm: share of the budget that is left, in parts per million; negative when overdrawn.
        rate_ppm: the burn rate, in parts per million.
        window_ms: the SLO's window, in milliseconds.

    Returns:
        The time; 0 when nothing is left; None when it lasts: at a rate of 1 or less as much leaves the window as comes.
    """
    if remaining_ppm is None or rate_ppm is None:
        return None
    if remaining_ppm <= 0:
        return 0
    return window_ms * remaining_ppm // rate_ppm if rate_ppm > PPM else None
