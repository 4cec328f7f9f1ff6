"""What versions of windows must come to: append mode under the bound first, append mode under bound + grace at last."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tidemark.models.base.operators import TimeWindow

from support.spark_streams import Row

__all__ = ["Window", "WindowVersion", "append_mode", "check_versions", "early_of", "watermarks_of"]

Window = tuple[int, int | None]
"""End of a window in microseconds, and its key: the partition of its rows."""

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WindowVersion:
    """A version as it came out."""

    window: Window
    version: int
    is_final: bool
    ids: Ids
    """Of its rows, ascending."""


def watermarks_of(batches: Sequence[Sequence[Row]], delay_ms: int) -> list[int]:
    """Return W(n) of each batch in milliseconds, by Spark's rule, in one run without idle moments."""
    return early_of(batches, [delay_ms] * len(batches))


def early_of(batches: Sequence[Sequence[Row]], bounds_ms: Sequence[int]) -> list[int]:
    """Return what the watermark of each batch would be if the bound could change with each, in milliseconds."""
    found, base_ms, early_ms = [], 0, 0
    for rows, bound_ms in zip(batches, bounds_ms, strict=True):
        early_ms = max(early_ms, base_ms - bound_ms)
        found.append(early_ms)
        base_ms = max([base_ms, *(row.event_time_us // 1_000 for row in rows)])
    return found


def append_mode(
    batches: Sequence[Sequence[Row]], watermarks_ms: Sequence[int], operator: TimeWindow
) -> tuple[dict[Window, tuple[int, Ids]], dict[Window, Ids]]:
    """Return batch and ids of each window that append mode puts out, and what is in those that stay open.

    Args:
        batches: the rows of each batch.
        watermarks_ms: W(n) of each batch, in milliseconds.
        operator: the windows.
    """
    out: dict[Window, tuple[int, Ids]] = {}
    state: defaultdict[Window, list[int]] = defaultdict(list)
    before_us = 0
    for number, (rows, watermark_ms) in enumerate(zip(batches, watermarks_ms, strict=True)):
        which, ends = operator.keys(np.array([row.event_time_us for row in rows], np.int64))
        for index, end in zip(which.tolist(), ends.tolist(), strict=True):
            if end > before_us:
                state[end, rows[index].partition].append(rows[index].id)
        before_us = watermark_ms * 1_000
        for window in [window for window in state if window[0] <= before_us]:
            assert window not in out
            out[window] = number, tuple(sorted(state.pop(window)))
    return out, {window: tuple(sorted(ids)) for window, ids in state.items()}


def check_versions(
    put_out: Mapping[int, Iterable[WindowVersion]],
    batches: Sequence[Sequence[Row]],
    early_ms: Sequence[int],
    watermarks_ms: Sequence[int],
    operator: TimeWindow,
) -> None:
    """Compare the versions of each batch with append mode under the bound, and under bound + grace."""
    versions: defaultdict[Window, list[tuple[int, WindowVersion]]] = defaultdict(list)
    for number in sorted(put_out):
        for each in put_out[number]:
            versions[each.window].append((number, each))
    first, _ = append_mode(batches, early_ms, operator)
    last, still_open = append_mode(batches, watermarks_ms, operator)

    early = {window: versions[window][0] for window in first}
    assert {window: (number, each.ids) for window, (number, each) in early.items()} == first
    # A window that append mode under the bound does not have: all of its rows came after its end.
    for window in versions.keys() - first.keys():
        assert window[0] <= early_ms[versions[window][0][0] - 1] * 1_000
    finals = {window: found[-1] for window, found in versions.items() if found[-1][1].is_final}
    assert {window: (number, each.ids) for window, (number, each) in finals.items()} == last
    newest = {window: found[-1][1].ids for window, found in versions.items() if window not in finals}
    reached_us = early_ms[-1] * 1_000
    assert newest == {window: ids for window, ids in still_open.items() if window[0] <= reached_us}
    for window, found in versions.items():
        assert [each.version for _, each in found] == list(range(1, len(found) + 1)), window
        assert [each.is_final for _, each in found[:-1]] == [False] * (len(found) - 1), window
