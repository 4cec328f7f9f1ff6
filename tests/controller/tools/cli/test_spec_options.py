"""The options that are made from the fields of an SLO, a policy and a join."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

import click
import pytest
from annotated_types import MaxLen

from tidemark.controller.tools.cli.spec_options import KINDS, changes_of, facts_of, parameters_of
from tidemark.models.specs.fields import SpecField, shown, spec_fields
from tidemark.models.specs.slo import Policy
from tidemark.models.specs.words import SHOW, in_words, name_in_words

FIELDS = [
    (name, field, option)
    for name, kind in KINDS.items()
    for field, option in zip(spec_fields(kind), parameters_of(name), strict=False)
]


@pytest.mark.parametrize(("name", "field", "option"), FIELDS, ids=lambda one: getattr(one, "name", ""))
def test_what_people_may_write_is_read_as_the_interface_has_it(
    name: str, field: SpecField, option: click.Option
) -> None:
    def read(text: str) -> Any:
        options = {one.name: None for one in spec_fields(KINDS[name])} | {field.name: text}
        return changes_of(name, options, "")[field.name]

    assert option.name == field.name
    assert option.help is not None
    if field.unit == "choice":
        assert isinstance(option.type, click.Choice)
        assert {read(text) for text in option.type.choices} - {None} == set(field.choices)
    elif field.unit in {"duration", "share", "number"} and isinstance(field.shown.example, int):
        written = SHOW[field.unit](field.shown.example)
        assert read(written) == field.shown.example
        assert written in option.help
    if field.nullable and field.unit != "choice":
        assert read("none") is None
        assert option.help.endswith('"none" removes it.')


def test_an_option_is_the_name_of_its_field_without_the_unit() -> None:
    assert [option.opts for option in parameters_of("join")] == [
        ["--streams"],
        ["--target"],
        ["--confidence"],
        ["--horizon"],
        ["--window"],
    ]


def test_only_what_is_given_changes_and_something_must_be() -> None:
    given: dict[str, object] = dict.fromkeys((field.name for field in spec_fields(Policy)), None)
    given |= {"max_bound_ms": "none", "gates": ["none"], "late": "call", "directions": "widen"}
    assert changes_of("policy", given, "--mode Live") == {
        "max_bound_ms": None,
        "directions": ["Widen"],
        "gates": [],
        "late": None,
    }
    with pytest.raises(ValueError, match="give at least one option, such as --mode Live"):
        changes_of("policy", dict.fromkeys(given, None), "--mode Live")


@dataclass(frozen=True)
class Noted:
    note: Annotated[str, MaxLen(80)] | None = field(
        default=None, metadata=shown("Why it is so", "as agreed_on")
    )


def test_a_text_is_read_and_shown_as_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "slo", Noted)
    option, *_ = parameters_of("slo")
    assert (option.opts, option.help) == (
        ["--note"],
        "Why it is so. Example: 'as agreed_on'. \"none\" removes it.",
    )
    assert [changes_of("slo", {"note": text}, "")["note"] for text in ("as agreed_on", "none")] == [
        "as agreed_on",
        None,
    ]
    assert [facts_of("slo", Noted(text)) for text in ("as agreed_on", None)] == [
        {"note": "as agreed_on"},
        {"note": "-"},
    ]


@pytest.mark.parametrize("kind", KINDS.values())
def test_documents_and_bodies_take_the_words_of_the_options(kind: Any) -> None:
    named = [
        field
        for field in spec_fields(kind)
        if field.unit in SHOW and field.shown.example and name_in_words(field) != field.name
    ]
    written = in_words(
        kind, {name_in_words(one): SHOW[one.unit](int(one.shown.example or 0)) for one in named}
    )
    assert (written.fields, written.problems) == ({one.name: one.shown.example for one in named}, {})
    assert written.names == {one.name: name_in_words(one) for one in named}
