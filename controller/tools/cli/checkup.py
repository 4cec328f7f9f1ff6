"""What is fine and what is missing about a stream, from its status alone, with the next command for each."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tidemark.controller.tools.client.address import TOKEN_VARIABLE, stream_path
from tidemark.models.base.duration import format_duration
from tidemark.models.base.target import PPM, format_share
from tidemark.models.base.text import plural
from tidemark.models.specs.run_end import last_windows

if TYPE_CHECKING:
    from tidemark.controller.tools.client.client import Client

Level = Literal["ok", "warning", "missing"]
"""Result of a check. warning: somebody should look at it, and the job goes on; missing: nothing goes on without it."""

_NEEDED = frozenset({"NoReportYet", "NoSlo"})
"""What is missing beside the critical conditions."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was checked."""

    text: str
    """The result, in words."""
    step: str | None = None
    """What to do next; None when it is fine."""
    needed: bool = False
    """Whether the job cannot be steered as it should without that step."""

    @property
    def fine(self) -> bool:
        """Whether nothing is to be done."""
        return self.step is None

    @property
    def level(self) -> Level:
        """How grave it is."""
        return "ok" if self.fine else "missing" if self.needed else "warning"


@dataclass(frozen=True, slots=True)
class Place:
    """Which stream of which controller, for commands that can be pasted."""

    url: str
    """Address of the controller."""
    job: str
    """Name of the job."""
    stream: str
    """Name of the stream."""
    token_file: Path | None = None
    """File that holds the token; None for none."""
    token_in_environment: bool = False
    """Whether the token is in the environment instead."""

    @classmethod
    def of(cls, client: Client, job: str, stream: str) -> Place:
        """Return the place of a stream on the controller of ``client``."""
        return cls(client.url, job, stream, client.token_file, client.has_token)

    def curl(self, what: str = "") -> str:
        """Return the command that reads a part of what is known of the stream."""
        where = shlex.quote(self.url + stream_path(self.job, self.stream) + what)
        return " ".join(["curl", *self._token(), where])

    def tidemark(self, command: str, *options: str) -> str:
        """Return a tidemark command, with the address and the token."""
        arguments = [*options, "--url", self.url]
        if self.token_file is not None:
            arguments += ["--token-file", str(self.token_file)]
        return " ".join(["tidemark", command, *map(shlex.quote, arguments)])

    def start(self) -> str:
        """Return the command that starts the job, as far as it is known."""
        confs = {"spark.tidemark.job": self.job, "spark.tidemark.controller.url": self.url}
        options = " ".join(f"--conf {shlex.quote(f'{key}={value}')}" for key, value in confs.items())
        return f"spark-submit {options} ..."

    def first_start(self) -> str:
        """Return the same for a job of which nothing has come, with what may have kept it away."""
        return (
            f"{self.start()}; if it runs already, see what its driver's log says of the controller: in Kubernetes a "
            "job of another namespace is shut out until the chart's networkPolicy.from names it"
        )

    def filled(self, text: str) -> str:
        """Return a text in which each part in braces is the command that it stands for.

        That is ``start``, ``first_start``, ``curl`` or a command of tidemark about JOB and STREAM; or ``stream``.
        """
        return re.sub(r"{([^}]*)}", lambda part: self._command(part[1]), text)

    def _command(self, text: str) -> str:
        if text == "stream":
            return self.stream
        if text in {"start", "first_start", "curl"}:
            return str(getattr(self, text)())
        command, about, options = text.partition(" JOB")
        names = {"JOB": self.job, "STREAM": self.stream}
        return self.tidemark(command, *(names.get(word, word) for word in f"{about}{options}".split()))

    def _token(self) -> list[str]:
        if self.token_file is not None:
            return [f'-H "Authorization: Bearer $(cat {shlex.quote(str(self.token_file))})"']
        return [f'-H "Authorization: Bearer ${TOKEN_VARIABLE}"'] if self.token_in_environment else []


def checkup(status: Mapping[str, Any], place: Place) -> list[Check]:
    """Return the checks of a stream, in the order in which to mend what is missing.

    Args:
        status: its status, as the controller answers it.
        place: where it is.
    """
    return list(_Checkup(status, place).checks())


@dataclass(frozen=True, slots=True)
class _Checkup:
    status: Mapping[str, Any]
    place: Place

    def checks(self) -> Iterator[Check]:
        missing = {condition["type"]: condition["detail"] for condition in self.status["conditions"]}
        reported = bool(self.status["evidence"]["batches"])
        yield from self._reports(missing)
        yield from self._slo(missing)
        yield from self._mode(missing)
        yield from self._fine_unless(missing, "Pinned", "it is not pinned")
        if reported:
            yield from self._fine_unless(missing, "CoverageGap", "every batch was reported")
            yield from self._fine_unless(missing, "PartitionsSilent", "no partition has fallen silent")
            yield from self._fine_unless(missing, "PartitionSkewed", "no partition is skewed")
            yield from self._fine_unless(missing, "FutureRows", "no rows were future-dated")
            yield from self._fine_unless(missing, "MisdatedRows", "no rows were misdated")
        yield from self._notified()
        # What is left: rarer conditions, and those of a newer controller.
        for kind, detail in missing.items():
            yield Check(detail) if self._severity(kind) == "ok" else self._lack(detail, kind)

    def _reports(self, missing: dict[str, str]) -> Iterator[Check]:
        evidence = self.status["evidence"]
        for kind in ("NoReportYet", "NoRecentReport"):
            if kind in missing:
                yield self._lack(missing.pop(kind), kind)
                return
        yield Check(
            f"reports {'came' if 'Paused' in missing else 'come'}: {plural(evidence['batches'], 'batch', 'batches')}, "
            f"{plural(evidence['partitions'], 'partition')}, {plural(evidence['rows'], 'row')} with a known need"
        )

    def _slo(self, missing: dict[str, str]) -> Iterator[Check]:
        slo, evidence = self.status["slo"], self.status["evidence"]
        if slo is None:
            yield self._lack(missing.pop("NoSlo", "no SLO is set"), "NoSlo")
            return
        target, confidence = format_share(slo["target_ppm"]), format_share(slo["confidence_ppm"])
        yield Check(f"the SLO requires {target} of the rows at a confidence of {confidence}")
        rows, needed = evidence["rows"], evidence.get("rows_needed")
        problem = missing.pop("NotEnoughEvidence", None)
        if problem is None and needed is not None and rows < needed:
            problem = f"not enough evidence: {rows:,} of {needed:,} rows"
        if problem is not None:
            yield self._lack(problem, "NotEnoughEvidence")
            return
        yield Check(f"there is enough evidence: {plural(rows, 'row')}, and {needed or 0:,} are needed")
        recommended = self.status["recommended"]
        if recommended is not None and recommended["bound_ms"] is not None:
            yield Check(f"the recommended bound is {_bound(recommended['bound_ms'])}")

    def _mode(self, missing: dict[str, str]) -> Iterator[Check]:
        mode = self.status["mode"]
        if mode == "Off":
            text = "the mode is Off: Tidemark only watches, and the job keeps its own bound"
            yield self._lack(text, "Off")
            return
        yield Check(f"the mode is {mode}")
        for kind in ("LiveWithoutCeiling", "SkewBeyondCeiling"):
            if kind in missing:
                yield self._lack(missing.pop(kind), kind)
        waits = missing.pop("WaitsForStart", None)
        unacknowledged = missing.pop("BoundNotAcknowledged", None)
        if waits is not None:
            yield self._lack(waits, "WaitsForStart")
        elif unacknowledged is not None:
            yield self._lack(unacknowledged, f"BoundNotAcknowledged in {mode}")
        elif not {"Pinned", "Paused"} & missing.keys() and (
            (applied := self.status["applied"]) is not None and applied["generation"] is not None
        ):
            yield Check(f"the job has taken it up: it acknowledged {_bound(applied['bound_ms'])}")
        if "NarrowingFrozen" in missing:
            # Nothing is to be done: it ends by itself.
            yield Check(missing.pop("NarrowingFrozen"))
        live = self.status.get("live")
        if live is not None:
            used = f"the watermark trails by {live['ceiling_used_ppm'] / PPM:.0%} of the ceiling"
            yield from self._fine_unless(missing, "CeilingNear", f"{used}, {_bound(live['ceiling_ms'])}")

    def _notified(self) -> Iterator[Check]:
        notified = self.status.get("notified")
        if notified is None:
            return
        labels = ", ".join(f"{name}={value}" for name, value in notified["labels"].items()) or "none"
        if not notified["unrouted"]:
            yield Check(f"its alerts go to {', '.join(notified['destinations'])}; its labels are {labels}")
            return
        text = (
            f"no destination takes these alerts: {', '.join(notified['unrouted'])}; its labels are {labels}"
        )
        step = self.place.tidemark("policy set", self.place.job, self.place.stream, "--label", "team=...")
        yield Check(text, f"{step}, or have the controller's operators add a destination without match")

    def _fine_unless(self, missing: dict[str, str], kind: str, fine: str) -> Iterator[Check]:
        problem = missing.pop(kind, None)
        yield Check(fine) if problem is None else self._lack(problem, kind)

    def _lack(self, text: str, kind: str) -> Check:
        return Check(text, self._step(kind), kind in _NEEDED or self._severity(kind) == "critical")

    def _severity(self, kind: str) -> str | None:
        return next((one.get("severity") for one in self.status["conditions"] if one["type"] == kind), None)

    def _step(self, kind: str) -> str:
        step = STEPS.get(kind, "{curl}")
        return self.place.filled(step if isinstance(step, str) else step(self.status))


def _bound(bound_ms: int) -> str:
    return format_duration(bound_ms * 1_000)


def _unpin(status: Mapping[str, Any]) -> str:
    scope = (status.get("pin") or {}).get("scope", "stream")
    return {"fleet": "{unpin --fleet}", "job": "{unpin JOB}"}.get(scope, "{unpin JOB STREAM}")


def _gaps(status: Mapping[str, Any]) -> str:
    gaps = [gap for query in status["coverage"] for gap in query["missing"][-1:]]
    newest = ""
    if gaps:
        first, last = gaps[-1]["first"], gaps[-1]["last"]
        newest = (
            f"the newest is batch {first}; "
            if first == last
            else f"the newest are batches {first} to {last}; "
        )
    until = "nothing is narrowed before they leave the horizon"
    return f"{newest}{until}; see what the driver's log says of reports; {{curl}}"


def _approve(status: Mapping[str, Any]) -> str:
    rollout = status.get("rollout") or {}
    if rollout.get("state") != "AwaitingApproval":
        return f"let it wait, or change what holds it: {_ROLLOUTS}"
    return f"{{approve {rollout['id']} --reason ...}}"


def _last_windows(status: Mapping[str, Any]) -> str:
    """Return what closes the last windows of a job whose runs end by themselves; empty for other jobs."""
    finding = last_windows((status.get("applied") or {}).get("run_end"))
    return "" if finding is None else finding.instead


def _is_called(status: Mapping[str, Any]) -> bool:
    """Return whether the job calls ``adaptive_watermark``."""
    return bool((status.get("applied") or {}).get("called", True))


def _say(status: Mapping[str, Any], what: str, which: str) -> str:
    """Return where a job says something else of a stream: in its call, or by conf where nobody edited it."""
    where = f"spark.tidemark.stream.{{stream}}.{what}"
    step = f"give the job's call {which} {what}=" if _is_called(status) else f"set {which} {where}"
    return f"{step}, {_STARTED_AGAIN}"


_ROLLOUTS = "{rollouts JOB STREAM --all}"
_PARTITIONS = "{partitions JOB STREAM}"
_STARTED_AGAIN = "and start it again: {start}"

STEPS: Mapping[str, str | Callable[[Mapping[str, Any]], str]] = {
    "NoReportYet": "{first_start}",
    "NoRecentReport": (
        "if the job has ended, {start}, or when it should stay so, {pause JOB STREAM --reason ...}; else see the "
        "driver's log"
    ),
    "NoSlo": "{slo set JOB STREAM --target 0.99}",
    "NotEnoughEvidence": "let the job run, then {doctor JOB STREAM}",
    "ConstraintsConflict": (
        "say which of the two may be missed, or raise the cap: {slo set JOB STREAM --on-conflict ...}"
    ),
    "Off": "{policy set JOB STREAM --mode OnRestart}",
    "WaitsForStart": "the job takes it when it next starts: {start}",
    "BoundNotAcknowledged in Restart": (
        "the job takes it by itself where its query is started by run_adaptive(build); else start it again: {start}"
    ),
    "BoundNotAcknowledged in Live": "a job takes it by itself once it was started in Live: {start}",
    **dict.fromkeys(
        ("LiveFailed", "LiveWithoutCeiling"), f"read the job's log for what is in the way, {_STARTED_AGAIN}"
    ),
    **dict.fromkeys(
        ("SkewBeyondCeiling", "CeilingNear"),
        lambda status: f"see what is behind: {_PARTITIONS}; else {_say(status, 'ceiling', 'a larger')}",
    ),
    "Pinned": _unpin,
    "Paused": "{resume JOB STREAM --reason ...}",
    "RolloutHeld": _approve,
    "TargetMissed": f"see its outcome, and what is recommended now: {_ROLLOUTS}",
    "JoinMissesTarget": "see which stream loses most, and what holds its bound: {join get JOB ...}",
    "RolledBack": f"see why, and whether the SLO or the policy should change: {_ROLLOUTS}",
    "CoverageGap": _gaps,
    # It is of lists alone: what is asked for one stream is worked out then.
    "VerdictOld": "{status JOB STREAM}",
    "ClockWrong": (
        "set the clocks of the driver, of the senders of its rows and of the controller right; then see "
        "{status JOB STREAM}"
    ),
    **dict.fromkeys(("PartitionsSilent", "PartitionSkewed", "FutureRows", "MisdatedRows"), _PARTITIONS),
    "LossIsBiased": "{lost JOB STREAM}",
    "LatePolicyNotFollowed": "make the job able to, or {policy set JOB STREAM --late call}",
    "RowsNotCounted": lambda status: _say(status, "granule", "a coarser"),
    "OperatorContradicted": lambda status: (
        f"declare the operator that the query has, {_STARTED_AGAIN}"
        if _is_called(status)
        else f"nothing, or {_say(status, 'enabled', 'no')}, which leaves it alone"
    ),
    "SeveralQueries": lambda status: (
        f"give each query a stream of its own ({'stream=...' if _is_called(status) else 'by its name or checkpoint'}), "
        f"{_STARTED_AGAIN}"
    ),
    "AdoptionAsked": "see above, or {slo set JOB STREAM --target 0.99}",
    "ConfLeftOut": "set what it names, or take it out, and start the job again: {start}",
    "LastWindowsOpen": _last_windows,
    "StateGrows": "tidemark lint JOB.py says what to write instead",
    "WatermarkStandsStill": lambda status: (
        _last_windows(status)
        or (
            "tidemark lint JOB.py names a withWatermark behind an aggregate; else see which input has no rows: "
            "{status JOB STREAM}"
        )
    ),
    "BatchesRanAgain": "this ends when those batches leave the horizon; see them: {curl}",
    **dict.fromkeys(
        ("NeedsUnknown", "CountsExcessive", "ReadOutOfOrder"),
        "this ends when those rows leave the horizon; the stream's batches: {curl}",
    ),
}
"""What to do next, by what is missing; in braces what a place makes commands of."""
