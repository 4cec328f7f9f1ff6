"""Reads the controller's answers, of its own release or of another."""

from __future__ import annotations

import logging
from typing import Any

from tidemark.models.protocol.messages import BoundAnswer, read_bound_answer

_log = logging.getLogger("tidemark.spark")


def read_answer(value: Any, origin: str) -> BoundAnswer:
    """Return the answer in a decoded JSON ``value``; log where a mode or a pin in it is of a later release.

    Args:
        value: what came from ``origin``, which may be anything.
        origin: the controller's address or the file.

    Raises:
        ValueError: as ``read_bound_answer`` does.
    """
    answer = read_bound_answer(value)
    if (answer.mode, answer.pin) != (value["mode"], value.get("pin")):
        _log.warning("%s/%s: %s; %s said it", answer.job, answer.stream, answer.reason, origin)
    return answer
