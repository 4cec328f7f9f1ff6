"""How an answer is printed: for people, or as ``-o`` says: JSON, YAML, a wider table, or names alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import partial, wraps
from inspect import Parameter, signature
from typing import Annotated, Any, Literal

import typer

from tidemark.controller.tools.cli.show import say

Format = Literal["json", "yaml", "wide", "name"]
"""How to print; for people where nothing is said."""

_JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON: the same as -o json.")]
_OutputOption = Annotated[
    Literal["json", "yaml"] | None,
    typer.Option("--output", "-o", help="Print JSON or YAML, with the field names of the API."),
]
_ListOutputOption = Annotated[
    Format | None,
    typer.Option(
        "--output",
        "-o",
        help="Print JSON or YAML, with the field names of the API; a table with more columns; or names alone.",
    ),
]


def prints_data(command: Callable[..., None] | None = None, *, lists: bool = False) -> Callable[..., Any]:
    """Give a command the options ``-o`` and ``--json`` in place of its parameter ``output``, which both make.

    Args:
        command: the command; None where the decorator has arguments.
        lists: whether it can print a wider table, and names alone.
    """
    if command is None:
        return partial(prints_data, lists=lists)
    chosen = command

    @wraps(chosen)
    def run(*, output: Format | None, json: bool, **own: Any) -> None:
        chosen(**own, output="json" if json else output)

    options = (
        option("output", _ListOutputOption if lists else _OutputOption, None),
        option("json", _JsonOption, default=False),
    )
    taken = signature(chosen, eval_str=True)
    given = [
        each
        for name, parameter in taken.parameters.items()
        for each in (options if name == "output" else (parameter,))
    ]
    run.__signature__ = taken.replace(parameters=given)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in given}
    return run


def option(name: str, annotation: Any, default: object) -> Parameter:
    """Return a parameter that a decorator gives a command."""
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def write(answer: object, name: str = "", *, output: Format | None = "json") -> None:
    """Print an answer as JSON or YAML, or a list under its ``name`` in the API."""
    from pydantic_core import to_jsonable_python  # noqa: PLC0415 - the other commands start fast without it

    document = to_jsonable_python({name: answer} if name else answer)
    if output == "yaml":
        import yaml  # noqa: PLC0415 - as above

        shown = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
        if not shown.replace("\n", "").isprintable():
            # What a terminal would obey is escaped, and with it all that is not ASCII.
            shown = yaml.safe_dump(document, sort_keys=False)
        return typer.echo(shown, nl=False)
    text = json.dumps(document, indent=2, ensure_ascii=False)
    # JSON writes only some of what a terminal would obey as an escape.
    escaped = (each if each.isprintable() or each == "\n" else json.dumps(each)[1:-1] for each in text)
    return typer.echo("".join(escaped))


def names(found: Iterable[Any]) -> None:
    """Print the name of each of some streams, jobs, rollouts or joins: a line that other commands take as arguments."""
    for name in found:
        say(str(name))
