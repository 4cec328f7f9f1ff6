"""Limits on restarts: a slow source that many jobs share must not restart them all together.

Wherever the mode is ``Restart``, a bound that the controller publishes by itself restarts the job, a wider one at once.
So of the fleet, and of the jobs that share a label, only a share restarts at a time, those that lose most rows first.
What a person does (a pin, a limit, a rollback) waits for nobody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidemark.models.base.target import PPM
from tidemark.models.rollout.machine import restores_previous
from tidemark.models.rollout.states import CANDIDATE, Move, Rollout

FLEET = ""
"""The group that all jobs are in; no label has an empty value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetLimits:
    """What limits how many jobs are changed at once."""

    narrowing_ppm: int
    """Share of the streams that may be narrowed at once, in parts per million; one always may."""
    restarting_ppm: int
    """Share of the jobs in mode Restart that may restart at once, in parts per million; one always may."""
    restart_label: str | None
    """Name of the label of streams by whose value that share limits each group, too; None for the fleet alone."""


@dataclass(frozen=True, slots=True)
class RestartingJob:
    """A job in mode Restart that restarts, or that would."""

    name: str
    lost_rows: int
    """(Row, key) pairs that it lost of late."""
    label: str | None = None
    """Value of the label of its group; None without one."""

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that it is in."""
        return (FLEET,) if self.label is None else (FLEET, self.label)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartLine:
    """The jobs in mode Restart beside one of them that would restart."""

    limits: FleetLimits
    jobs: Mapping[str, int]
    """How many jobs each group has, the one included."""
    restarting: Sequence[RestartingJob]
    """Those that restart now."""
    waiting: Sequence[RestartingJob]
    """Those that wait for their turn; a job may stand here once for each of its streams, and so may the one."""

    def why_waiting(self, own: RestartingJob, *, waits: bool) -> str | None:
        """Return why a job may not restart yet, as a clause; None when it may, or restarts already.

        Args:
            own: the job.
            waits: whether it waits already, so that others could be compared with it.
        """
        served = {each.name for each in self.restarting}
        if own.name in served:
            return None
        if not waits:
            # Where all may restart at once nobody has to wait for a comparison.
            return self._why_full([group for group in own.groups if self.jobs[group] > self._at_once(group)])
        taken = Counter(group for each in self.restarting for group in each.groups)
        line = sorted({own, *self.waiting}, key=lambda each: (-each.lost_rows, each.name))
        for each in line[: line.index(own)]:
            if each.name not in served | {own.name} and not self._full(each, taken):
                served.add(each.name)
                taken.update(each.groups)
        return self._why_full(self._full(own, taken))

    def _at_once(self, group: str) -> int:
        return max(self.jobs[group] * self.limits.restarting_ppm // PPM, 1)

    def _full(self, job: RestartingJob, taken: Mapping[str, int]) -> list[str]:
        return [group for group in job.groups if taken[group] >= self._at_once(group)]

    def _why_full(self, full: Sequence[str]) -> str | None:
        if not full:
            return None
        group = full[-1]
        among = "of the fleet" if group == FLEET else f"with {self.limits.restart_label}={group}"
        return (
            f"held: at most {self._at_once(group)} of the {self.jobs[group]} jobs {among} that are in mode Restart "
            "may restart at once, those that lose most rows first"
        )


def restarts_job(rollout: Rollout, move: Move) -> bool:
    """Return whether the controller restarts a job in mode Restart by a move of a rollout."""
    if rollout.mode != "Restart" or rollout.cause != "Decision" or move.state == rollout.state:
        return False
    taken_up = rollout.state not in CANDIDATE | {"Published"}
    return move.state == "Published" or (taken_up and restores_previous(rollout.state, move, rollout))


def limited(rollout: Rollout, move: Move, waits: str | None) -> Move:
    """Return a move that restarts a job, or a wait in its place before the job's turn."""
    if waits is None:
        return move
    if rollout.state in CANDIDATE:
        return Move("Recommended", waits, "Restarts")
    return Move(rollout.state, f"{move.reason}; {waits}", "Restarts", move.failure)
