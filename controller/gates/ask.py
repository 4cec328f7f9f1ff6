"""Asking one outside gate: one request with one deadline, and what its answer means."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidemark.controller.gates.configuration import Gate, PrometheusGate, WebhookGate
from tidemark.controller.runtime.fetch import NoAnswer, fetch
from tidemark.controller.runtime.token_file import TokenFileError, bearer
from tidemark.models.base.text import format_number
from tidemark.models.rollout.states import Phase, Verdict

TIMEOUT_SECONDS = 5.0
"""How long a gate may take from the connection to the end of its answer."""

_MAX_SHOWN = 200
"""Characters of an answer that a reason repeats."""

_NO_ANSWER = frozenset({429, 502, 503, 504})
"""HTTP statuses by which whatever stands before a gate says that the gate was not asked."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a gate answered."""

    verdict: Verdict
    """Its answer."""
    said: str
    """The same in words; it shows neither the address nor the token."""


@dataclass(frozen=True, slots=True)
class GateQuestion:
    """What a gate is asked."""

    gate: str
    """Name of the gate."""
    phase: Phase
    """What about."""
    rollout: Mapping[str, Any]
    """The rollout, as the API answers it."""


def ask(gate: Gate, question: GateQuestion) -> Reply:
    """Ask a gate and return what it answers; it takes at most ``TIMEOUT_SECONDS``, and a failure is an answer too."""
    try:
        headers = bearer(gate.token_file)
        match gate:
            case WebhookGate():
                body = {"gate": question.gate, "phase": question.phase, "rollout": question.rollout}
                return _of_webhook(*fetch("POST", gate.webhook, TIMEOUT_SECONDS, headers=headers, json=body))
            case PrometheusGate():
                url = f"{gate.prometheus.rstrip('/')}/api/v1/query"
                query = {"query": _filled(gate.query, question.rollout)}
                return _of_prometheus(
                    gate, *fetch("GET", url, TIMEOUT_SECONDS, headers=headers, params=query)
                )
    except TokenFileError as error:
        return Reply("unknown", str(error))
    except NoAnswer as error:
        return Reply("unknown", str(error))


def _of_webhook(status: int, body: bytes) -> Reply:
    text = _shown(body.decode("utf-8", "replace"))
    said = f"{status}: {text}" if text else str(status)
    if status in _NO_ANSWER:
        return Reply("unknown", said)
    return Reply("yes" if 200 <= status < 300 else "no", said)


def _of_prometheus(gate: PrometheusGate, status: int, body: bytes) -> Reply:
    try:
        answer = json.loads(body)
        if answer["status"] != "success":
            return Reply("unknown", _shown(f"{status}: {answer['error']}"))
        values = _values(answer["data"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return Reply("unknown", f"{status}, and not the values of an instant query")
    if not values or any(math.isnan(value) for value in values):
        return Reply("unknown", f"the query returns {'NaN' if values else 'nothing'}")
    lowest, highest = min(values), max(values)
    if gate.max is not None and highest > gate.max:
        return Reply("no", f"{format_number(highest)} is above the maximum, {format_number(gate.max)}")
    if gate.min is not None and lowest < gate.min:
        return Reply("no", f"{format_number(lowest)} is below the minimum, {format_number(gate.min)}")
    few = format_number(lowest)
    return Reply("yes", few if lowest == highest else f"{few} to {format_number(highest)}")


def _values(data: Mapping[str, Any]) -> list[float]:
    """Return the values of a scalar or a vector.

    Raises:
        ValueError: when it is something else.
    """
    match data["resultType"]:
        case "scalar":
            return [float(data["result"][1])]
        case "vector":
            return [float(sample["value"][1]) for sample in data["result"]]
        case other:
            raise ValueError(f"a {other} has no single value")


def _filled(query: str, rollout: Mapping[str, Any]) -> str:
    for name in ("job", "stream"):
        # PromQL reads the escapes of JSON, so that a name can hold anything and stays a string.
        query = query.replace(f"{{{{{name}}}}}", json.dumps(rollout[name], ensure_ascii=False))
    return query


def _shown(text: str) -> str:
    """Return the beginning of a text as one line."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= _MAX_SHOWN else f"{line[: _MAX_SHOWN - 1]}…"
