"""The options of ``tidemark slo set``, ``policy set`` and ``join set``, made from the fields of what they set."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from shlex import quote
from typing import Any, cast

import click

from tidemark.controller.tools.cli.options import read_option, with_unit
from tidemark.controller.tools.cli.shape import opt, several
from tidemark.controller.tools.client.errors import RequestRejectedError
from tidemark.models.specs.fields import SpecField, spec_fields
from tidemark.models.specs.freeze import format_freeze, parse_freeze
from tidemark.models.specs.slo import JoinSlo, Policy, Slo
from tidemark.models.specs.words import NONE, SHOW, reader_of

_ALL = f"; may be repeated; replaces all that were set; {NONE} for none"

KINDS: Mapping[str, Any] = {"slo": Slo, "policy": Policy, "join": JoinSlo}
"""The specifications by the names of their commands."""

_REPEATED = {"freeze_windows": "--freeze", "gates": "--gate", "labels": "--label"}
"""Lists whose option is given once for each part."""

_DIRECTIONS = {"both": ["Widen", "Narrow"], "widen": ["Widen"], "narrow": ["Narrow"]}

_NO_CHOICE = {"late": "call"}
"""How null is written among choices, where it is not none."""


def flag_of(field: SpecField) -> str:
    """Return the option of a field."""
    return _REPEATED.get(field.name) or f"--{field.words.replace(' ', '-')}"


def parameters_of(name: str) -> list[click.Option]:
    """Return what sets a specification, as a command takes it."""
    create = [] if name == "join" else [opt("--create", "Also for a stream that has not reported yet.", bool)]
    return [*map(_parameter, spec_fields(KINDS[name])), *create]


def _parameter(field: SpecField) -> click.Option:
    names, shown = f"{flag_of(field)} {field.name}", field.shown
    if field.name == "directions":
        return opt(names, f"{shown.help}.", tuple(_DIRECTIONS))
    if field.unit == "choice":
        # Dashes and underscores mean the same.
        dashed = tuple(word.replace("_", "-") for word in (*field.choices, *_no_choice(field)))
        taken = tuple(dict.fromkeys([*dashed, *field.choices]))
        text = "; ".join(
            [shown.help.replace("_", "-"), *(f"{word}, {shown.none}" for word in _no_choice(field))]
        )
        return opt(names, f"{text}.", taken, metavar=None if taken == dashed else f"[{'|'.join(dashed)}]")
    example = (
        ""
        if shown.example is None
        else f". Example: {quote(SHOW.get(field.unit, str)(cast('int', shown.example)))}"
    )
    if field.name in _REPEATED:
        return several(names, f"{shown.help}{_ALL}{example}.")
    removable = f'. "{NONE}" removes it' if field.nullable else ""
    return opt(names, f"{shown.help}{example}{removable}.")


def _no_choice(field: SpecField) -> tuple[str, ...]:
    return (_NO_CHOICE.get(field.name, NONE),) if field.nullable else ()


def changes_of(name: str, options: Mapping[str, Any], example: str) -> dict[str, Any]:
    """Return the fields that the options change, by their names in the API.

    Args:
        options: by field what the command line has; empty for what it has not.
        example: an option, for the message when there is none.

    Raises:
        ValueError: when a value cannot be read, or no option is given.
    """
    changes = {
        field.name: read_option(partial(_read, field), options[field.name], flag_of(field))
        for field in spec_fields(KINDS[name])
        if options[field.name]
    }
    if not changes:
        raise ValueError(f"give at least one option, such as {example}")
    return changes


def _read(field: SpecField, written: Any) -> Any:
    """Return the value in the API of what an option says: one text, or those of one that is repeated."""
    if field.name in _REPEATED:
        texts = [] if [*written] == [NONE] else [*written]
        if field.name == "labels":
            return _labels(texts)
        return [parse_freeze(text) for text in texts] if field.name == "freeze_windows" else texts
    if field.name == "directions":
        return _DIRECTIONS[written]
    if field.name == "streams":
        return [name.strip() for name in written.split(",")]
    if field.unit == "choice":
        return None if written in _no_choice(field) else written.replace("-", "_")
    return reader_of(field)(with_unit(written) if field.unit == "duration" else written)


def _labels(texts: list[str]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"{text}: write it like team=payments")
        if name in labels:
            raise ValueError(f"{text}: {name} is given twice")
        labels[name] = value
    return labels


def facts_of(name: str, spec: Any) -> dict[str, str]:
    """Return the fields of a specification by the names of their options, each as people write it."""
    return {
        flag_of(field)[2:].replace("-", " "): _shown(field, getattr(spec, field.name))
        for field in spec_fields(KINDS[name])
    }


def _shown(field: SpecField, value: Any) -> str:
    if value is None or value in ((), [], {}):
        return field.shown.none or "-"
    if field.unit in SHOW:
        return SHOW[field.unit](value)
    if field.name == "freeze_windows":
        return "; ".join(format_freeze(asdict(window)) for window in value)
    if field.name == "labels":
        return ", ".join(f"{label}={text}" for label, text in value.items())
    if field.unit == "choice":
        return str(value).replace("_", "-")
    return value if field.unit == "text" else ", ".join(value)


def in_options(name: str, error: RequestRejectedError) -> str:
    """Return why the controller rejects a specification, with the options in the place of its fields."""
    flags = {field.name: flag_of(field) for field in spec_fields(KINDS[name])}
    texts = []
    for pointer, detail in error.errors:
        flag, text = flags.get(pointer.strip("/").partition("/")[0]), detail
        # A name of one word may be a word of the sentence.
        for field, named in ((field, named) for field, named in flags.items() if "_" in field):
            text = re.sub(rf"\b{field}\b", named, text)
        texts.append(text if flag is None or text.startswith(flag) else f"{flag}: {text}")
    return "; ".join(texts) or str(error)
