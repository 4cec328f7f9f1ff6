"""The tables of ``support.policy_bench``: each kind, then the means, and what is missed or slow, cell by cell.

The *better* of a cell is the lower latency of the two best constants in hindsight that meet its target: the bound of
Spark's one watermark for the stream, and Flink's minimum over partitions with its best bound and idle timeout.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from tidemark.models.base.duration import format_duration
from tidemark.models.base.target import PPM

from support.synthetic import KINDS
from support.system_kinds import SYSTEM_KINDS

__all__ = ["geometric", "grouped", "ratio", "table"]

Item = TypeVar("Item")
Key = TypeVar("Key")
Record = dict[str, Any]
"""What a policy did in one cell (a trace at a trigger and a target), with the yardsticks of the cell."""

COLUMNS = (
    "trace",
    "trigger",
    "target",
    "policy",
    "met",
    "lowest",
    "latency",
    "x better",
    "worst",
    "x clairvoyant",
)
BEHIND = 1.05
"""Multiple of the better from which on a cell is named."""
NAMED = 20
"""Maximum number of cells that are named as slow."""
JUDGED = "tidemark"
"""The policy whose cells are named."""


def table(records: Sequence[Record]) -> str:
    """Return the tables of what is done.

    ``lowest`` is the lowest completeness, ``worst`` the highest multiple of the better; the multiples of the better and
    of the clairvoyant are geometric means, also over cells that are missed.
    """
    policies = list(dict.fromkeys(one["policy"] for one in records))
    by_kind = grouped(
        records, lambda one: (one["name"], -one["trigger_us"], one["target_ppm"], one["policy"])
    )
    lines = [f"| {' | '.join(COLUMNS)} |", "| --- " * len(COLUMNS) + "|"]
    for key in sorted(by_kind, key=lambda key: (*key[:3], policies.index(key[3]))):
        name, trigger_us, target_ppm, policy = key
        lines.append(_line(name, format_duration(-trigger_us), _percent(target_ppm), policy, by_kind[key]))
    by_group = grouped(records, lambda one: (_group(one["name"]), one["policy"]))
    for (group, policy), found in by_group.items():
        by_target = grouped(found, lambda one: one["target_ppm"])
        lines += [
            _line(group, "all", _percent(target_ppm), policy, by_target[target_ppm])
            for target_ppm in sorted(by_target)
        ]
        lines.append(_line(group, "all", "both", policy, found))
    own = [one for one in records if one["policy"] == JUDGED]
    missed = sorted((one for one in own if not one["met"]), key=lambda one: one["completeness"])
    slow = sorted((one for one in own if _to_better(one) > BEHIND), key=_to_better, reverse=True)
    beyond = sum(_is_beyond(one) for one in missed)
    said = (
        f"missed by {JUDGED}: {len(missed)} of {len(own)} cells, {beyond} of them beyond what was seen before"
    )
    lines += ["", said, *map(_cell, missed)]
    lines += ["", f"above {BEHIND} x better: {len(slow)} of {len(own)} cells", *map(_cell, slow[:NAMED])]
    return "\n".join(lines) + "\n"


def _group(name: str) -> str:
    if name in KINDS:
        return "all synthetic kinds"
    return "all system kinds" if name in SYSTEM_KINDS else "all recorded"


def _line(name: str, trigger: str, target: str, policy: str, found: Sequence[Record]) -> str:
    better = [_to_better(one) for one in found]
    to_clairvoyant = [ratio(one["latency_us"], one["clairvoyant_us"]) for one in found]
    cells = (
        *(name, trigger, target, policy),
        f"{sum(one['met'] for one in found)} of {len(found)}",
        f"{_floor(min(one['completeness'] for one in found))} %",
        f"{sum(one['latency_us'] for one in found) / len(found) / 1e6:.3g} s",
        *(f"{geometric(better):.2f}", f"{max(better):.2f}", f"{geometric(to_clairvoyant):.2f}"),
    )
    return f"| {' | '.join(cells)} |"


def _cell(one: Record) -> str:
    return (
        f"- {one['name']}, seed {one['seed']}, {format_duration(one['trigger_us'])}, {_percent(one['target_ppm'])}: "
        f"{'met' if one['met'] else 'missed'} with {_floor(one['completeness'])} % at {one['latency_us'] / 1e6:.3g} s; "
        f"Spark's best constant {one['hindsight_us'] / 1e6:.3g} s, Flink {one['flink_us'] / 1e6:.3g} s, "
        f"clairvoyant {one['clairvoyant_us'] / 1e6:.3g} s; as careful as was ever needed before: "
        f"{_floor(one['careful'])} %"
    )


def _is_beyond(one: Record) -> bool:
    """Return whether nobody who waits as long as the longest delay yet seen meets the target either."""
    return bool(one["careful"] < one["target_ppm"] / PPM)


def _to_better(one: Record) -> float:
    return ratio(one["latency_us"], min(one["hindsight_us"], one["flink_us"]))


def ratio(latency_us: float, yardstick_us: float) -> float:
    """Return the multiple of a yardstick: 1 where both are 0."""
    if yardstick_us:
        return latency_us / yardstick_us
    return math.inf if latency_us else 1.0


def geometric(ratios: Iterable[float]) -> float:
    """Return the geometric mean."""
    logs = [math.log(max(each, 1e-9)) for each in ratios]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Return the items by key, keys in order of appearance."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def _floor(share: float) -> str:
    """Return a share in percent, rounded down: what is missed must not read as met."""
    return f"{math.floor(share * 1e5 + 1e-6) / 1e3:.3f}"


def _percent(target_ppm: int) -> str:
    return f"{target_ppm / 10_000:g} %"
