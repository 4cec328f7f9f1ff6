"""The table of fields of what people set: what forms, commands and the interface say of each."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from tidemark.models.specs.fields import spec_fields
from tidemark.models.specs.slo import JoinSlo, Policy, Slo

KINDS = [Slo, JoinSlo, Policy]
FIELDS = {(kind.__name__, field.name): field for kind in KINDS for field in spec_fields(kind)}


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_says_how_it_is_shown(kind: Any) -> None:
    # Whether a stream is paused is set by actions of its own.
    assert {field.name for field in fields(kind)} - {"paused"} == {field.name for field in spec_fields(kind)}


@pytest.mark.parametrize(
    ("kind", "name", "unit", "nullable"),
    [
        ("Slo", "target_ppm", "share", False),
        ("Slo", "latency_cap_ms", "duration", True),
        ("Slo", "worst_window_ppm", "share", True),
        ("Slo", "on_conflict", "choice", True),
        ("Slo", "state_cap_rows", "number", True),
        ("Policy", "max_narrowings_a_day", "number", True),
        ("Policy", "approval", "choice", False),
        ("Policy", "labels", "list", False),
        ("JoinSlo", "streams", "list", False),
    ],
)
def test_the_unit_of_a_field_follows_from_its_name_and_its_type(
    kind: str, name: str, unit: str, nullable: bool
) -> None:
    field = FIELDS[kind, name]
    assert (field.unit, field.nullable) == (unit, nullable)


def test_a_description_has_the_unit_and_what_null_means() -> None:
    assert FIELDS["Slo", "window_ms"].description == (
        "Rolling window over which the error budget counts. In milliseconds."
    )
    assert FIELDS["Policy", "max_bound_ms"].description == (
        "Maximum bound. In milliseconds; null: nothing wider than the SLO's window, unless it is in use already."
    )
    assert FIELDS["Slo", "state_cap_rows"].description == "Maximum number of rows of state. Null for none."
    assert FIELDS["Slo", "objective"].description.endswith("each of most windows.")


def test_no_two_fields_of_a_kind_have_the_same_name_in_a_form() -> None:
    labels = [(kind, field.label) for (kind, _), field in FIELDS.items()]
    assert len(set(labels)) == len(labels)
