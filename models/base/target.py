"""Completeness targets without floats: decimal strings at the border, integer parts per million inside.

Floats are rejected: a target that reads back as 0.9990000000000001 is not the one that was set.
"""

from __future__ import annotations

from decimal import Decimal, Inexact, InvalidOperation, localcontext

PPM = 1_000_000
"""Parts per million in the whole."""
_PPM_A_PERCENT = PPM // 100


def parse_target(value: str | int) -> int:
    """Return a completeness target in parts per million, strictly between 0 and 1,000,000.

    ``value`` is a text that is a share (``"0.995"``, ``"99.5%"``) or an integer in parts per million (``995000``).

    Raises:
        TypeError: for a float or a bool.
        ValueError: for a text that is no decimal, a share outside (0, 1), or one finer than a millionth.
    """
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise TypeError(
            f"target {value!r} is a {type(value).__name__}; write a decimal string such as '0.995' "
            "or an integer in parts per million such as 995000"
        )
    try:
        ppm = Decimal(value) if isinstance(value, int) else _exact_ppm(value)
    except ValueError as error:
        raise ValueError(f"target {error}") from None
    if not ppm.is_finite() or not 0 < ppm < PPM:
        # Comparing what is not a number is an error, so that it is asked first whether it is one.
        of_text = isinstance(value, str) and not value.strip().endswith("%") and ppm.is_finite()
        in_percent = of_text and PPM <= ppm < 100 * PPM
        way_out = f"in percent write '{value}%'" if in_percent else "such as '0.995', '99.5%' or 995000 (ppm)"
        ends = "0% and 100%" if isinstance(value, str) and value.strip().endswith("%") else "0 and 1"
        raise ValueError(f"target {value!r} must lie between {ends}, both excluded; {way_out}")
    if ppm != ppm.to_integral_value():
        raise ValueError(f"target {value!r} is finer than one part per million")
    return int(ppm)


def parse_share(text: str) -> int:
    """Return a share of at most 1 in parts per million, from a text such as ``"0.95"``, ``"95%"`` or ``"1"``.

    Raises:
        ValueError: for a text that is no decimal, a share above 1, or one finer than a millionth.
    """
    ppm = _exact_ppm(text)
    if not ppm.is_finite() or ppm != ppm.to_integral_value():
        raise ValueError(f"{text!r} is finer than one part per million, or not a number")
    if ppm > PPM:
        wrong = "100%" if text.strip().endswith("%") else f"1; in percent write '{text.strip()}%'"
        raise ValueError(f"{text!r} is more than {wrong}")
    return int(ppm)


def _exact_ppm(text: str) -> Decimal:
    """Return the parts per million of a share, which may be in percent, exactly."""
    share = text.strip()
    try:
        with localcontext() as context:
            context.traps[Inexact] = True  # past 28 digits the product would be rounded to another share
            return Decimal(share.removesuffix("%").rstrip()) * (
                _PPM_A_PERCENT if share.endswith("%") else PPM
            )
    except Inexact:
        raise ValueError(f"{text!r} is finer than one part per million") from None
    except InvalidOperation:
        raise ValueError(f"{text!r} is not a number such as '99.5%' or '0.995'") from None


def format_target(ppm: int) -> str:
    """Return ``ppm`` as the shortest decimal string of the share, such as ``"0.995"``."""
    return format((Decimal(ppm) / PPM).normalize(), "f")


def format_share(ppm: int) -> str:
    """Return any share in percent with as many decimals as it takes, such as ``"99.5 %"``."""
    return f"{(Decimal(ppm) / 10_000).normalize():f} %"


def burn_rate_ppm(bad: int, counted: int, share_ppm: int) -> int | None:
    """Return the burn rate: the share that was bad over the share that may be, in parts per million, rounded up.

    At 1,000,000 exactly the budget is used up over the SLO's window, at twice as much in half of it.

    Returns:
        The rate; None when nothing counts or nothing may be bad.
    """
    allowed = counted * (PPM - share_ppm)
    return -(-bad * PPM * PPM // allowed) if allowed else None


def exhausted_in_ms(remaining_ppm: int | None, rate_ppm: int | None, window_ms: int) -> int | None:
    """Return when the budget is used up at a burn rate, from now on, in milliseconds.

    What leaves the window again is not counted on, so that this is the earliest time.

    Returns:
        The time; 0 when nothing is left; None when it lasts: at a rate of 1 or less as much leaves the window as comes.
    """
    if remaining_ppm is None or rate_ppm is None:
        return None
    if remaining_ppm <= 0:
        return 0
    return window_ms * remaining_ppm // rate_ppm if rate_ppm > PPM else None
