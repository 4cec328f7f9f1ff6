"""The table of commands: a row is the command that its text describes."""

from __future__ import annotations

import click

from tidemark.controller.tools.cli.command_table import rows
from tidemark.controller.tools.cli.shape import Whole, Words, arg

JOB = arg("job", "Name of the job.")
TABLE = """
look up -> looking:look itself extra=spark
  Look something up.

  Twice, if need be.
  + JOB
  - words <WORD> * ?: The words; or
      none.
  - --limit -n most 1..9 = 3: How many: at most.
  - --kind one|two !: Of which kind.

leave -> looking:leave
  Leave.
"""


def test_a_row_is_the_command_that_its_text_describes() -> None:
    look, leave = rows(TABLE, {"JOB": JOB})
    assert (look.name, look.run, look.kind, look.extra, look.watched) == (
        *("look up", "looking:look", "itself", "spark", False),
    )
    assert look.help == "Look something up.\n\nTwice, if need be."
    job, words, limit, kind = look.params
    assert job is JOB
    assert isinstance(words, click.Argument)
    assert (words.name, words.metavar, words.nargs, words.required, words.help) == (
        *("words", "WORD", -1, False, "The words; or none."),
    )
    assert isinstance(limit, click.Option)
    assert (limit.name, limit.opts, limit.help) == ("most", ["--limit", "-n"], "How many: at most.")
    assert isinstance(limit.type, Whole)
    assert (limit.type.min, limit.type.max, limit.default) == (1, 9, "3")
    assert isinstance(kind, click.Option)
    assert isinstance(kind.type, Words)
    assert (tuple(kind.type.choices), kind.required) == (("one", "two"), True)
    assert (leave.help, leave.kind, leave.params) == ("Leave.", "call", ())
