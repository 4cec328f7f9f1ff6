"""The options of ``tidemark slo set``, ``policy set`` and ``join set``, made from the fields of what they set."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from inspect import Parameter
from shlex import quote
from typing import Annotated, Any, Literal

import typer

from tidemark.controller.tools.cli.options import milliseconds_of, read_option
from tidemark.controller.tools.client.errors import RequestRejectedError
from tidemark.models.specs.fields import SpecField, spec_fields
from tidemark.models.specs.freeze import parse_freeze
from tidemark.models.specs.words import NONE, SHOW, reader_of

_REPEATED = f"; may be repeated; replaces all that were set; {NONE} for none"


@dataclass(frozen=True, slots=True)
class SpecOption:
    """How a field is given on the command line."""

    field: str
    """Name of the field."""
    flag: str
    """The option."""
    type: Any
    """What typer reads."""
    help: str
    read: Callable[[Any], Any]
    """Returns the value in the API of what typer has read."""
    metavar: str | None = None

    @property
    def parameter(self) -> Parameter:
        """The parameter of the command."""
        option = typer.Option(self.flag, metavar=self.metavar, help=f"{self.help}.")
        optional: Any = Annotated[self.type | None, option]
        return Parameter(self.field, Parameter.KEYWORD_ONLY, default=None, annotation=optional)


def options_of(kind: type[Any]) -> list[SpecOption]:
    """Return the options for the fields of a specification."""
    return [_option(field) for field in spec_fields(kind)]


def changes_of(kind: type[Any], given: Mapping[str, Any], example: str) -> dict[str, Any]:
    """Return the fields that the options change, by their names in the API.

    Args:
        kind: the specification.
        given: by field what typer has read; empty for what is not given.
        example: an option, for the message when there is none.

    Raises:
        ValueError: when a value cannot be read, or no option is given.
    """
    changes = {
        option.field: option.read(given[option.field]) for option in options_of(kind) if given[option.field]
    }
    if not changes:
        raise ValueError(f"give at least one option, such as {example}")
    return changes


def _option(field: SpecField) -> SpecOption:
    flag = f"--{field.words.replace(' ', '-')}"
    if field.unit == "choice":
        return _choice(field, flag)
    if field.unit == "list":
        return _LISTS[field.name](field)
    example = (
        ""
        if field.shown.example is None
        else f". Example: {quote(SHOW[field.unit](int(field.shown.example)))}"
    )
    removable = f'. "{NONE}" removes it' if field.nullable else ""
    read = (
        partial(milliseconds_of, option=flag)
        if field.unit == "duration"
        else partial(read_option, reader_of(field), option=flag)
    )
    return SpecOption(field.name, flag, str, f"{field.shown.help}{example}{removable}", read)


_NO_CHOICE = {"late": "call"}
"""How null is written among choices, where it is not none."""


def _choice(field: SpecField, flag: str) -> SpecOption:
    """Return the option of a choice, in which dashes and underscores mean the same."""
    none = (_NO_CHOICE.get(field.name, NONE),) if field.nullable else ()
    dashed = (*(choice.replace("_", "-") for choice in field.choices), *none)
    taken = tuple(dict.fromkeys([*dashed, *field.choices]))
    return SpecOption(
        field.name,
        flag,
        Literal[taken],
        "; ".join([field.shown.help.replace("_", "-"), *(f"{each}, {field.shown.none}" for each in none)]),
        lambda text: None if text in none else text.replace("-", "_"),
        None if taken == dashed else f"[{'|'.join(dashed)}]",
    )


def _texts(field: SpecField, flag: str, read: Callable[[list[str]], Any]) -> SpecOption:
    """Return an option that is given once for each text of a list; "none" empties it."""
    example = f". Example: {quote(str(field.shown.example))}" if field.shown.example else ""
    help_ = f"{field.shown.help}{_REPEATED}{example}"
    return SpecOption(
        field.name, flag, list[str], help_, lambda texts: read([] if texts == [NONE] else texts)
    )


def _labels(texts: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"--label {text}: write it like team=payments")
        if name in found:
            raise ValueError(f"--label {text}: {name} is given twice")
        found[name] = value
    return found


def _freezes(texts: list[str]) -> list[dict[str, Any]]:
    return [read_option(parse_freeze, text, "--freeze") for text in texts]


def _directions(field: SpecField) -> SpecOption:
    values = {"both": ["Widen", "Narrow"], "widen": ["Widen"], "narrow": ["Narrow"]}
    return SpecOption(
        field.name, "--directions", Literal[tuple(values)], field.shown.help, values.__getitem__
    )


def _streams(field: SpecField) -> SpecOption:
    help_ = f"{field.shown.help}. Example: {quote(str(field.shown.example))}"
    return SpecOption(
        field.name, "--streams", str, help_, lambda text: [name.strip() for name in text.split(",")]
    )


_LISTS: dict[str, Callable[[SpecField], SpecOption]] = {
    "directions": _directions,
    "streams": _streams,
    "freeze_windows": lambda field: _texts(field, "--freeze", _freezes),
    "gates": lambda field: _texts(field, "--gate", list),
    "labels": lambda field: _texts(field, "--label", _labels),
}
"""Fields that no unit describes, each with how it is written."""


def in_options(kind: type[Any], error: RequestRejectedError) -> str:
    """Return why the controller rejects a specification, with the options in the place of its fields."""
    flags = {option.field: option.flag for option in options_of(kind)}
    found = []
    for pointer, detail in error.errors:
        flag, text = flags.get(pointer.strip("/").partition("/")[0]), detail
        # A name of one word may be a word of the sentence.
        for field, named in ((field, named) for field, named in flags.items() if "_" in field):
            text = re.sub(rf"\b{field}\b", named, text)
        found.append(text if flag is None or text.startswith(flag) else f"{flag}: {text}")
    return "; ".join(found) or str(error)
