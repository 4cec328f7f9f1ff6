"""The tables of a stage's record, in Markdown; times are multiplied by the speed at which the stage was played."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tidemark.models.base.target import PPM

__all__ = ["benchmark_tables", "clock_text", "share_text", "systems_table", "table", "time_text"]

_MINUTE_S, _HOUR_S = 60, 3_600


def benchmark_tables(record: dict[str, Any]) -> str:
    """Return the table of the systems and that of the parts."""
    return systems_table(record) + "\n" + _parts(record)


def systems_table(record: dict[str, Any], *, losses: bool = True) -> str:
    """Return the table of the systems, with or without what was lost, as Spark has it, and when."""
    systems, speed, target_ppm = record["systems"], record["speed"], record["target_ppm"]
    columns: dict[str, Callable[[dict[str, Any]], str]] = {
        "system": lambda each: each["system"],
        "watermark": lambda each: each["watermark"],
        "bids counted": lambda each: _marked_share(each, target_ppm),
        "lost": lambda each: f"{each['sent'] - each['counted']:,}",
        "as Spark says": lambda each: f"{each['dropped']:,}" if "dropped" in each else "",
        "hours below target": lambda each: _missed(record, each["parts"]),
        "latency, mean": lambda each: time_text(each["latency_mean_s"], speed),
        "95 %": lambda each: time_text(each["latency_p95_s"], speed),
        "state": lambda each: f"{each['state']:,}",
    }
    if not losses:
        del columns["lost"], columns["as Spark says"], columns["hours below target"]
    return table(tuple(columns), [[column(each) for column in columns.values()] for each in systems])


def _missed(record: dict[str, Any], parts: Sequence[dict[str, Any]]) -> str:
    """Return when the parts begin that miss the target."""
    begins = [
        clock_text(number * record["part_s"] * record["speed"])
        for number, part in enumerate(parts)
        if not _meets(part, record["target_ppm"])
    ]
    return ", ".join(begins) or "none"


def _parts(record: dict[str, Any]) -> str:
    systems, speed = record["systems"], record["speed"]
    rows = []
    for number, parts in enumerate(zip(*(each["parts"] for each in systems), strict=True)):
        begin_s = number * record["part_s"] * speed
        between = (clock_text(time_s) for time_s in (begin_s, begin_s + record["part_s"] * speed))
        rows.append([" to ".join(between), *(_cell(one, record["target_ppm"], speed) for one in parts)])
    return table(("bids counted, mean latency", *map(_name, systems)), rows)


def _cell(part: dict[str, Any], target_ppm: int, speed: int) -> str:
    return f"{_marked_share(part, target_ppm)}, {time_text(part['latency_mean_s'], speed)}"


def _marked_share(counts: dict[str, Any], target_ppm: int) -> str:
    return share_text(counts) if _meets(counts, target_ppm) else f"**{share_text(counts)}**"


def _name(system: dict[str, Any]) -> str:
    return f"{system['system']}, {system['watermark']}"


def _meets(counts: dict[str, Any], target_ppm: int) -> bool:
    """Whether enough of the bids were counted."""
    return bool((counts["sent"] - counts["counted"]) * PPM <= (PPM - target_ppm) * counts["sent"])


def time_text(played_s: float | None, speed: int) -> str:
    """Return a time that passes while the stage is played, as it is shown."""
    if played_s is None:
        return "none"
    shown_s = played_s * speed
    return f"{shown_s:.1f} s" if speed == 1 or shown_s < _MINUTE_S else f"{shown_s / _MINUTE_S:.1f} min"


def clock_text(shown_s: float) -> str:
    """Return a time since the begin as hours and minutes."""
    return f"{int(shown_s) // _HOUR_S:02}:{int(shown_s) % _HOUR_S // _MINUTE_S:02}"


def share_text(counts: dict[str, Any]) -> str:
    """Return the share of the bids that were counted, rounded down: a target that is missed is not shown as met."""
    return f"{np.floor(counts['counted'] / counts['sent'] * 1e4) / 100:.2f} %"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
