"""The options of ``tidemark slo set``, ``policy set`` and ``join set``, made from the fields of what they set."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from shlex import quote
from typing import Any

import click

from tidemark.controller.tools.cli.options import milliseconds_of, read_option
from tidemark.controller.tools.cli.shape import opt, several
from tidemark.controller.tools.client.errors import RequestRejectedError
from tidemark.models.specs.fields import SpecField, spec_fields
from tidemark.models.specs.freeze import format_freeze, parse_freeze
from tidemark.models.specs.slo import JoinSlo, Policy, Slo
from tidemark.models.specs.words import NONE, SHOW, reader_of

_REPEATED = f"; may be repeated; replaces all that were set; {NONE} for none"


KINDS: Mapping[str, type[Any]] = {"slo": Slo, "policy": Policy, "join": JoinSlo}
"""The specifications by the names of their commands."""


@dataclass(frozen=True, slots=True)
class SpecOption:
    """How a field is given on the command line."""

    field: str
    """Name of the field."""
    flag: str
    """The option."""
    help: str
    read: Callable[[Any], Any]
    """Returns the value in the API of what was given."""
    words: tuple[str, ...] | None = None
    """The words that it can be; None for any text."""
    repeated: bool = False
    """Whether it is given once for each text."""
    metavar: str | None = None

    @property
    def parameter(self) -> click.Option:
        """The option of the command."""
        names, text = f"{self.flag} {self.field}", f"{self.help}."
        if self.repeated:
            return several(names, text)
        return opt(names, text, self.words, metavar=self.metavar)


def options_of(name: str) -> list[SpecOption]:
    """Return the options for the fields of a specification."""
    return [_option(field) for field in spec_fields(KINDS[name])]


def parameters_of(name: str) -> list[click.Option]:
    """Return what sets a specification, as a command takes it."""
    create = [] if name == "join" else [opt("--create", "Also for a stream that has not reported yet.", bool)]
    return [*(option.parameter for option in options_of(name)), *create]


def changes_of(name: str, options: Mapping[str, Any], example: str) -> dict[str, Any]:
    """Return the fields that the options change, by their names in the API.

    Args:
        name: the specification.
        options: by field what the command line has; empty for what it has not.
        example: an option, for the message when there is none.

    Raises:
        ValueError: when a value cannot be read, or no option is given.
    """
    changes = {
        option.field: option.read(options[option.field])
        for option in options_of(name)
        if options[option.field]
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
    return SpecOption(field.name, flag, f"{field.shown.help}{example}{removable}", read)


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
        "; ".join([field.shown.help.replace("_", "-"), *(f"{word}, {field.shown.none}" for word in none)]),
        lambda text: None if text in none else text.replace("-", "_"),
        taken,
        metavar=None if taken == dashed else f"[{'|'.join(dashed)}]",
    )


def _texts(field: SpecField, flag: str, read: Callable[[list[str]], Any]) -> SpecOption:
    """Return an option that is given once for each text of a list; "none" empties it."""
    example = f". Example: {quote(str(field.shown.example))}" if field.shown.example else ""
    help_ = f"{field.shown.help}{_REPEATED}{example}"
    return SpecOption(
        field.name,
        flag,
        help_,
        lambda texts: read([] if list(texts) == [NONE] else list(texts)),
        repeated=True,
    )


def _labels(texts: list[str]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"--label {text}: write it like team=payments")
        if name in labels:
            raise ValueError(f"--label {text}: {name} is given twice")
        labels[name] = value
    return labels


def _freezes(texts: list[str]) -> list[dict[str, Any]]:
    return [read_option(parse_freeze, text, "--freeze") for text in texts]


def _directions(field: SpecField) -> SpecOption:
    values = {"both": ["Widen", "Narrow"], "widen": ["Widen"], "narrow": ["Narrow"]}
    return SpecOption(field.name, "--directions", field.shown.help, values.__getitem__, tuple(values))


def _streams(field: SpecField) -> SpecOption:
    help_ = f"{field.shown.help}. Example: {quote(str(field.shown.example))}"
    return SpecOption(field.name, "--streams", help_, lambda text: [name.strip() for name in text.split(",")])


_LISTS: dict[str, Callable[[SpecField], SpecOption]] = {
    "directions": _directions,
    "streams": _streams,
    "freeze_windows": lambda field: _texts(field, "--freeze", _freezes),
    "gates": lambda field: _texts(field, "--gate", list),
    "labels": lambda field: _texts(field, "--label", _labels),
}
"""Fields that no unit describes, each with how it is written."""


def facts_of(name: str, spec: Any) -> dict[str, str]:
    """Return the fields of a specification by the names of their options, each as people write it."""
    fields = zip(spec_fields(KINDS[name]), options_of(name), strict=True)
    return {
        option.flag[2:].replace("-", " "): _shown(field, getattr(spec, field.name))
        for field, option in fields
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
    return value.replace("_", "-") if isinstance(value, str) else ", ".join(value)


def in_options(name: str, error: RequestRejectedError) -> str:
    """Return why the controller rejects a specification, with the options in the place of its fields."""
    flags = {option.field: option.flag for option in options_of(name)}
    texts = []
    for pointer, detail in error.errors:
        flag, text = flags.get(pointer.strip("/").partition("/")[0]), detail
        # A name of one word may be a word of the sentence.
        for field, named in ((field, named) for field, named in flags.items() if "_" in field):
            text = re.sub(rf"\b{field}\b", named, text)
        texts.append(text if flag is None or text.startswith(flag) else f"{flag}: {text}")
    return "; ".join(texts) or str(error)
