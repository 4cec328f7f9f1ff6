"""The changes that `make mutants` makes to a file, on a few lines of source."""

from __future__ import annotations

from textwrap import indent

import pytest

from support.mutation import mutants_of


def changes(*body: str, head: str = "def f(a, b, c):") -> set[str]:
    source = f"{head}\n" + indent("\n".join(body), "    ")
    return {mutant.after for mutant in mutants_of("file.py", source.encode())}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("return a < b", {"return a <= b"}),
        ("return a is not None", {"return a is None"}),
        ("return a and b or c", {"return b or c", "return a or c", "return c", "return (a and b)"}),
        ("return not a", {"return a"}),
        ("return -a + b", {"return a + b", "return -a - b"}),
        ("return 2", {"return 3"}),
        ("return 1_000", {"return 2000"}),
        ("return True", {"return False"}),
        ("return max(a, b)", {"return a", "return b"}),
        ("return [x for x in a if b]", {"return [x for x in a if True]"}),
        ("return a.where(b, c)", {"return a.where(b)", "return a.where(c)"}),
        ("return a.where(b)", {"return a"}),
        ("a.b = c", {"pass"}),
        ("a.append(b)", {"pass"}),
        ("a += b", {"pass", "a -= b"}),
        ("return b if a else c", {"return b if True else c", "return b if False else c"}),
    ],
)
def test_each_kind_of_line_has_its_changes(line: str, expected: set[str]) -> None:
    assert changes(line) == expected


@pytest.mark.parametrize(
    "line",
    [
        "a = b",
        "x: int = a",
        "assert a < b",
        "raise ValueError(1)",
        '_log.info("a", 1)',
        "return f'{a + b}'",
        "'doc'",
    ],
)
def test_texts_types_assertions_logging_and_what_is_raised_stay(line: str) -> None:
    assert changes(line) == set()


def test_a_change_is_found_again_when_its_line_has_moved() -> None:
    (before,) = mutants_of("file.py", b"def f(a):\n    return a < 0.5\n")
    (after,) = mutants_of("file.py", b"import os\n\n\ndef f(a):\n    return a  <  0.5\n")
    assert (before.line, after.line) == (2, 5)
    assert before.key == after.key == ("file.py", "f", "return a < 0.5", "return a <= 0.5")


def test_a_named_number_stays_and_other_names_of_a_module_are_changed() -> None:
    source = b"_MAX = 2 * 1_000\n_FOUND = select(x).where(x.a < 5.0)\n"
    assert {(each.where, each.after) for each in mutants_of("file.py", source)} == {
        ("_FOUND", "_FOUND = select(x)"),
        ("_FOUND", "_FOUND = select(x).where(x.a <= 5.0)"),
    }
