"""Commands as a table: a text of rows, each written as its help reads.

A row begins with the command's name, an arrow, the function that it runs, and what is special about how it runs: its
kind, ``watched``, ``whole``, ``extra=NAME``. Its text follows, and what it takes, in order: after ``+`` parameters that
several commands take, by their names; after ``-`` one of its own. That has its flags, or a name where it is an
argument, and the name of the parameter where it differs; then how a value looks (``flag``, ``path``, ``one|of|some``,
``1..1000``; else a text), ``<METAVAR>``, ``*`` for more than one, ``!`` where an option is required, ``?`` where an
argument is not, ``= default``, and behind a colon what it means.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from textwrap import dedent
from typing import Any, get_args

import click

from tidemark.controller.tools.cli.shape import PATH, Kind, Param, Row, Whole, arg, opt, several


def rows(text: str, shared: Mapping[str, Param]) -> tuple[Row, ...]:
    """Return the rows of a table; ``shared`` has what several commands take, by name."""
    return tuple(_row(block, shared) for block in re.split(r"\n\n(?=\S)", text.strip()))


def _row(block: str, shared: Mapping[str, Param]) -> Row:
    head, _, body = block.partition("\n")
    name, _, how = head.partition(" -> ")
    run, *marks = how.split()
    texts: list[str] = []
    taken: list[str] = []
    for line in dedent(body).splitlines():
        if line.startswith(("+ ", "- ")):
            taken.append(line)
        elif taken:
            taken[-1] += f" {line.strip()}"
        else:
            texts.append(line)
    params: list[Param] = []
    for item in taken:
        params += [shared[word] for word in item[2:].split()] if item[0] == "+" else [_parameter(item[2:])]
    named = dict(mark.split("=") for mark in marks if "=" in mark)
    kinds = [kind for kind in get_args(Kind) if kind in marks]
    return Row(
        name,
        run,
        "\n".join(texts),
        tuple(params),
        kind=kinds[0] if kinds else "call",
        watched="watched" in marks,
        whole="whole" in marks,
        extra=named.get("extra"),
    )


def _parameter(text: str) -> click.Parameter:
    declared, _, meaning = text.partition(": ")
    declared, _, default = declared.partition(" = ")
    names: list[str] = []
    marks: set[str] = set()
    kind: Any = None
    metavar = None
    for part in re.findall(r"<[^>]*>|\S+", declared):
        if part.startswith("<"):
            metavar = part[1:-1]
        elif part in {"*", "!", "?"}:
            marks.add(part)
        elif part in {"flag", "path"}:
            kind = {"flag": bool, "path": PATH}[part]
        elif ".." in part:
            least, most = (int(limit) if limit else None for limit in part.split(".."))
            kind = Whole(least, most)
        elif "|" in part:
            kind = tuple(part.split("|"))
        else:
            names.append(part)
    if not names[0].startswith("-"):
        nargs = -1 if "*" in marks else 1
        return arg(names[0], meaning, metavar, type=kind, nargs=nargs, required="?" not in marks)
    if "*" in marks:
        return several(" ".join(names), meaning, metavar=metavar, required="!" in marks)
    return opt(" ".join(names), meaning, kind, default or None, metavar=metavar, required="!" in marks)
