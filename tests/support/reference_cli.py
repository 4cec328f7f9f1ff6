"""The reference of the command line, made from its commands."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import click

from tidemark.controller.tools.cli import PANELS, app

__all__ = ["cli_document", "command_paths", "options_by_command"]

FIRST = [
    "serve",
    "run",
    "doctor",
    "status",
    "slo set",
    "savings",
    "rollouts",
    "approve",
    "rollback",
    "pin",
]
"""The commands that people use first, in about that order."""

COMMON = 3
"""How many commands share an option, in the same words, that is explained once."""

_HEAD = """# The command line

`set` changes only the fields that are named. Values such as those of `--mode` are taken in any case. Where no terminal
is, as in a pipe, each row of a table is one line. In bash, `eval "$(_TIDEMARK_COMPLETE=bash_source tidemark)"`
completes commands, options, and the names of jobs and streams; zsh and fish have `zsh_source` and `fish_source`.

Exit codes: 0, done; 1, the controller rejected it or does not answer; 2, the command line makes no sense. `tidemark
doctor`, `lint`, `inspect` and `apply --exit-code` end with 1 when something is wrong, with 2 when they could not look.

## Common arguments and options

What is in brackets may be left out. `-o` and `--json` of commands that print data, and `--url` and `--token-file` of
those that ask the controller, are not named again. `--help` says more of each.

"""

UNNAMED = {"--output", "--json", "--url", "--token-file", "--help"}
"""Options that so many commands take that they are not named with each."""

FIELDS = {"slo set": "[fields of an SLO](api.md#slo)", "policy set": "[fields of a policy](api.md#policy)"}
"""The commands whose options are fields of the interface, which is where these are explained."""

Row = tuple[str, str]
"""An argument or option as it is written, and what it means."""


def cli_document() -> str:
    """Return the document."""
    commands = {" ".join(path): command for path, command in _walk(app, [])}
    taken = Counter(row for command in commands.values() for row in _rows(command))
    common = [row for row, number in taken.most_common() if number >= COMMON]
    of_all = [row for row in _rows(commands[""]) if row not in common]
    own = {name: [row for row in _rows(command) if row not in common] for name, command in commands.items()}

    def section(title: str, names: list[str], plain: list[str]) -> Iterator[str]:
        yield f"\n## {title}\n"
        if plain:
            yield "\n" + _listed(
                (_synopsis(name, commands[name], common), _text(commands[name])) for name in plain
            )
        for name in names:
            arguments = _synopsis("", commands[name], common)
            yield f"\n### tidemark {name}\n\n{arguments}{_text(commands[name])}\n"
            if own[name]:
                yield "\n" + _listed(own[name], FIELDS.get(name))

    parts = [_HEAD, _listed([*common, *of_all])]
    parts += section("The first ten", FIRST, [])
    for title, panel in PANELS.items():
        names = [
            name
            for name in commands
            if name in {row.name for row in panel} and name not in FIRST and not _is_group(commands[name])
        ]
        parts += section(
            title, [name for name in names if own[name]], [name for name in names if not own[name]]
        )
    return "".join(parts)


def command_paths() -> list[list[str]]:
    """Return the words of each command, groups before what is in them."""
    return [path for path, _ in _walk(app, [])]


def options_by_command() -> dict[str, set[str]]:
    """Return the options of each command that is no group."""
    return {
        " ".join(path): {name for each in command.get_params(click.Context(command)) for name in each.opts}
        for path, command in _walk(app, [])
        if not _is_group(command)
    }


def _listed(rows: Iterable[Row], fields: str | None = None) -> str:
    """Return a line for each row; of the options that are fields, one for all."""
    rows = list(rows)
    of_fields = [written for written, _ in rows if written != "`--create`"] if fields else []
    lines = [
        f"- {written}: {' '.join(meaning.split())}\n" for written, meaning in rows if written not in of_fields
    ]
    if of_fields:
        how = "with the unit in the value (`'15 min'`, `99.5%`); `none` removes one"
        lines.insert(0, f"- The {fields}, {how}: {', '.join(of_fields)}.\n")
    return "".join(lines)


def _is_group(command: Any) -> bool:
    return hasattr(command, "list_commands")


def _walk(command: Any, path: list[str]) -> Iterator[tuple[list[str], Any]]:
    yield path, command
    if _is_group(command):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from _walk(command.get_command(context, name), [*path, name])


def _rows(command: Any) -> Iterator[Row]:
    for each, written, meaning in _parameters(command):
        name = f"[{written}]" if _is_argument(each) and not each.required else written
        # What is required stands without brackets.
        yield f"`{name}`", re.sub(r" *\[required\]|; required(?=\])", "", meaning)


def _text(command: Any) -> str:
    return inspect.cleandoc(command.help or "").split("\n\n")[0]


def _synopsis(name: str, command: Any, common: list[Row]) -> str:
    words = ["tidemark", name] if name else []
    shared = {row for row, _ in common}
    for each, written, _ in _parameters(command):
        if _is_argument(each):
            words.append((written if each.required else f"[{written}]") + ("..." if each.nargs < 0 else ""))
        elif each.required:
            # A short name is in the list.
            words.append(re.sub(r"^-\w, ", "", written))
        elif f"`{written}`" in shared and not UNNAMED.intersection(each.opts):
            words.append(f"[{each.opts[-1]}]")
    text = f"`{' '.join(words)}`" if words else ""
    return text if name or not text else f"{text}\n\n"


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


def _parameters(command: Any) -> Iterator[tuple[Any, str, str]]:
    """Yield what a command takes, each with how it is written and what its help says; all arguments are texts."""
    context = click.Context(command)
    for each in command.get_params(context):
        record = each.get_help_record(context)
        if record:
            written, meaning = record
            yield each, each.human_readable_name if _is_argument(each) else written, meaning
