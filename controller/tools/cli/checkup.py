"""What is fine and what is missing about a stream, from its status alone, with the next command for each."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from tidemark.controller.tools.client.address import TOKEN_VARIABLE, stream_path
from tidemark.controller.view.state.condition_types import CONDITION_TYPES, ConditionType
from tidemark.models.base.duration import format_duration
from tidemark.models.base.target import PPM, format_share
from tidemark.models.base.text import plural

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
            yield self._lack(detail, kind)

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
            yield Check(text, self.place.filled("{policy set JOB STREAM --mode OnRestart}"))
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
            yield self._lack(unacknowledged, "BoundNotAcknowledged")
        elif not {"Pinned", "Paused"} & missing.keys() and (
            (applied := self.status["applied"]) is not None and applied["generation"] is not None
        ):
            yield Check(f"the job has taken it up: it acknowledged {_bound(applied['bound_ms'])}")
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

    def _step(self, kind: str) -> str | None:
        """Return what to do about a condition; None where nothing is to be done, as of a rollout under way."""
        its_type = CONDITION_TYPES.get(cast("ConditionType", kind))
        newer = None if self._severity(kind) == "ok" else "{curl}"
        step = newer if its_type is None else its_type.step
        return (
            None if step is None else self.place.filled(step if isinstance(step, str) else step(self.status))
        )


def _bound(bound_ms: int) -> str:
    return format_duration(bound_ms * 1_000)
