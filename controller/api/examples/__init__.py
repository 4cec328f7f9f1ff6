"""One example of every body and answer; a test validates each against its schema."""

from __future__ import annotations

from tidemark.controller.api.examples import (
    bounds,
    charts,
    lost,
    pins,
    reports,
    rollouts,
    specs,
    streams,
    tokens,
)
from tidemark.controller.api.examples.common import Example
from tidemark.controller.api.examples.problems import KIND_EXAMPLES, PROBLEM_EXAMPLES

__all__ = ["EXAMPLES", "KIND_EXAMPLES", "PROBLEM_EXAMPLES"]

EXAMPLES: dict[str, Example] = {
    name: example
    for module in (tokens, reports, bounds, specs, rollouts, pins, streams, charts, lost)
    for name, example in module.EXAMPLES.items()
}
"""By the name of the schema."""
