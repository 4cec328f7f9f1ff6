"""Times as users write them: timestamps, dates, ISO text, and numbers in a unit that the caller states."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidemark.controller.traces.format import MAX_TIME_US, TraceError, one_line
from tidemark.models.base.operators import Int64s
from tidemark.models.base.text import format_number

Unit = Literal["s", "ms", "us", "ns"]

_PER_SECOND: dict[str, int] = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_ZONED = r"[T ]\d{2}:.*(Z|[+-]\d{2}(:?\d{2})?)$"
_ISO = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}(:?\d{2})?)?)?$"
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"

Times = tuple[Int64s, NDArray[np.bool_], bool]
"""Times in microseconds, which of them are known, and whether all had a zone."""


class UnitMissingError(TraceError):
    """Times are numbers without a stated unit; a guessed unit could make delays of fifty years."""


def times_us(column: pa.Array, unit: Unit | None, where: str, first_row: int) -> Times:
    """Return the times that ``column`` holds.

    Args:
        column: timestamps, dates, text or numbers.
        unit: of times that are numbers, also in text; None rejects them.
        where: name of the column in errors.
        first_row: number of its first row, for errors.

    Raises:
        UnitMissingError: when it holds numbers and ``unit`` is None.
        TraceError: when a value is not a time.
    """
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if pa.types.is_null(kind):
        return np.zeros(len(column), np.int64), np.zeros(len(column), np.bool_), True
    if pa.types.is_timestamp(kind):
        values, known = _numbers(column.cast(pa.int64()))
        return _scaled(values, known, kind.unit, where), known, kind.tz is not None
    if pa.types.is_date(kind):
        values, known = _numbers(column.cast(pa.timestamp("us")).cast(pa.int64()))
        return values, known, False
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _of_text(pc.utf8_trim_whitespace(column.cast(pa.string())), unit, where, first_row)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _of_numbers(column, unit, where)
    raise TraceError(f"{where} is of type {kind}, which is not a time")


def _of_numbers(column: pa.Array, unit: Unit | None, where: str) -> Times:
    if unit is None:
        raise UnitMissingError(f"{where} holds numbers: give their unit with --unit s, ms, us or ns")
    whole = pa.types.is_integer(column.type)
    try:
        values, known = _numbers(column.cast(pa.int64() if whole else pa.float64()))
    except pa.ArrowException as error:
        raise TraceError(f"{where}: {one_line(error)}") from None
    if whole:
        return _scaled(values, known, unit, where), known, True
    known &= ~np.isnan(values)
    exact = np.where(known, values, 0.0) * (1e6 / _PER_SECOND[unit])
    _check_range(exact, where, unit)
    return np.round(exact).astype(np.int64), known, True


def _of_text(column: pa.Array, unit: Unit | None, where: str, first_row: int) -> Times:
    column = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
    known: NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    if not known.any():
        return np.zeros(len(column), np.int64), known, True
    if pc.all(pc.match_substring_regex(column, _NUMBER)).as_py():
        try:
            return _of_numbers(column.cast(pa.int64()), unit, where)
        except pa.ArrowException:
            return _of_numbers(column.cast(pa.float64()), unit, where)
    iso = pc.match_substring_regex(column, _ISO).fill_null(True).to_numpy(zero_copy_only=False)
    if not iso.all():
        wrong = int(np.argmin(iso))
        raise TraceError(f"{where}: {column[wrong].as_py()!r} at row {first_row + wrong} is not a time")
    # Arrow accepts no more digits than the unit has; digits finer than a microsecond are cut off.
    column = pc.replace_substring_regex(column, r"(\.\d{6})\d+", r"\1")
    zoned = pc.match_substring_regex(column, _ZONED).fill_null(True)
    nothing = pa.scalar(None, pa.string())
    try:
        with_zone = pc.if_else(zoned, column, nothing).cast(pa.timestamp("us", "UTC"))
        without = pc.if_else(zoned, nothing, column).cast(pa.timestamp("us"))
    except pa.ArrowException as error:
        raise TraceError(f"{where}: {one_line(error)}") from None
    values, _ = _numbers(pc.coalesce(with_zone.cast(pa.int64()), without.cast(pa.int64())))
    return values, known, bool(pc.all(zoned).as_py())


def _numbers(column: pa.Array) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the values, 0 where null, and which are not null."""
    known = column.is_valid().to_numpy(zero_copy_only=False).copy()
    return column.fill_null(0).to_numpy(zero_copy_only=False), known


def _scaled(values: Int64s, known: NDArray[np.bool_], unit: str, where: str) -> Int64s:
    per_second = _PER_SECOND[unit]
    if per_second > 1_000_000:
        return values // (per_second // 1_000_000)
    factor = 1_000_000 // per_second
    _check_range(np.where(known, values, 0).astype(np.float64) * factor, where, unit)
    return values * factor


def _check_range(times_us: NDArray[np.float64], where: str, unit: str) -> None:
    if len(times_us) and not np.abs(times_us).max() <= MAX_TIME_US:
        worst = times_us[np.argmax(np.abs(times_us))] / 1e6 * _PER_SECOND[unit]
        raise TraceError(
            f"{where} holds {format_number(worst)}, which is not a time in {unit}: is the unit right?"
        )
