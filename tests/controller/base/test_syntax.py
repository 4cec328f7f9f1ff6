"""What is not JSON, YAML or TOML is answered with the place and what to write, and never with a parser's sentence."""

from __future__ import annotations

import tomllib

import pytest
import yaml
from pydantic_core import from_json

from tidemark.controller.base.syntax import json_problem, toml_problem, yaml_problem


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{'a': 1}", 'line 1, column 2: a name stands in double quotes, such as "target"'),
        ('{"a": True}', "line 1, column 7: there is no value of JSON here: texts stand in double quotes"),
        ('{"a": nul}', "line 1, column 10: only true, false and null stand without quotes"),
        ('{\n "a": 1,\n}', "line 3, column 1: nothing follows this comma; leave it out"),
        ('{"a" 1}', "line 1, column 6: a colon is missing between a name and its value"),
        ('{"a": 1 "b": 2}', "line 1, column 9: a comma or the closing } is missing"),
        ("[1 2]", "line 1, column 4: a comma or the closing ] is missing"),
        ('{"a": 1', "line 1, column 7: it ends before the closing }"),
        ("[1", "line 1, column 2: it ends before the closing ]"),
        ('{"a', "line 1, column 3: it ends before the closing quote of a text"),
        ('{"a":', "line 1, column 5: it ends where a value must follow"),
        ("99.5%", "line 1, column 5: more follows the end of the JSON; send one value alone"),
        ('{"a": 01}', "line 1, column 8: this is not a number as JSON has them"),
        (r'{"a": "\d"}', r"line 1, column 9: a backslash in a text is written \\"),
        (r'{"a": "\ud800"}', r"line 1, column 14: \u is followed by four hexadecimal digits"),
        ('{"a": "\t"}', r"line 1, column 8: a line break in a text is written \n, and a tab \t"),
        ("[" * 1_000, "line 1, column 202: it is nested too deeply"),
        (b'{"a": "\xff"}', "line 1, column 8: this is not UTF-8"),
    ],
)
def test_a_slip_in_json_is_said_with_its_place_and_what_to_write(text: str | bytes, says: str) -> None:
    with pytest.raises(ValueError, match="at line") as caught:
        from_json(text)
    assert json_problem(f"Invalid JSON: {caught.value}").startswith(says)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "a: b: c",
            "line 1, column 5: this key is indented otherwise than those beside it, the line before ",
        ),
        ("a:\n\tb: 1", "line 2, column 1: a tab; YAML is indented by spaces"),
        ("a: %x", "line 1, column 4: no text begins with %; put it in quotes"),
        (
            "a: 1\nb",
            "line 2, column 2: a key without its colon; write key: value, with a space after the colon",
        ),
        ("a: - b", "line 1, column 4: the list begins on the line after its key"),
        ("a:\n - b\n - c\n  d: 1", "line 4, column 4: this key is indented otherwise than those beside it"),
        ("a:\n  b: 1\n - c", "line 3, column 2: this entry is indented otherwise than those beside it"),
        ('a: "x" y', "line 1, column 8: more follows the end of the value; put all of it in quotes"),
        ("a: [1, 2", "line 1, column 9: a comma or the closing ] is missing"),
        ("a: {b: 1", "line 1, column 9: a comma or the closing } is missing"),
        ("a: ]", "line 1, column 4: a value is missing here"),
        ("a: 'x\nb: 1", "line 1, column 4: the closing quote of the text is missing"),
        (r'a: "\d"', r"line 1, column 6: a backslash in double quotes is written \\, in single quotes \ "),
        (
            "{a: 1} x",
            "line 1, column 8: more follows the end of the document; a new one begins after a line of ---",
        ),
        ("a: *x", "line 1, column 4: a text that begins with * stands in quotes"),
        ("a: !x y", "line 1, column 4: a text that begins with ! stands in quotes"),
        ("a: {{ x }}", "line 1, column 5: a key is a text; a template, {{ ... }}, has to be filled in first"),
        ("a: \0", "character 4: no text may have U+0000; save the file as UTF-8"),
        ("a: &", "line 1, column 5: this is not YAML; put a text with signs in it in quotes"),
    ],
)
def test_a_slip_in_yaml_is_said_with_its_place_and_what_to_write(text: str, says: str) -> None:
    with pytest.raises(yaml.YAMLError) as caught:
        yaml.safe_load(text)
    assert yaml_problem(caught.value).startswith(says)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "a = b",
            "line 1, column 5: there is no value of TOML here: texts stand in double quotes, true and false in ",
        ),
        ("a: 1", "line 1, column 2: write name = value"),
        ("= 1", "line 1, column 1: write name = value, or the name of a table in brackets"),
        ("a = 1 b", "line 1, column 7: more follows the end of the value; texts stand in double quotes"),
        ("a = 1\na = 2\n", "line 2, column 6: this name stands twice"),
        ("[a]\n[a]", "line 2, column 3: this table stands twice"),
        ("a = [1", "at its end: a comma or the closing ] is missing"),
        ("a = {b=1", "at its end: a comma or the closing } is missing"),
        ('a = "x', "at its end: the closing quote of the text is missing"),
        ('a = "x\n"', "line 1, column 7: the closing quote of the text is missing"),
        (
            r'a = "\d"',
            r"line 1, column 8: a backslash in double quotes is written \\; in single quotes it stands for ",
        ),
        ("[a", "at its end: this is not TOML"),
    ],
)
def test_a_slip_in_toml_is_said_with_its_place_and_what_to_write(text: str, says: str) -> None:
    with pytest.raises(tomllib.TOMLDecodeError) as caught:
        tomllib.loads(text)
    assert toml_problem(caught.value).startswith(says)


def test_bytes_that_are_no_text_are_said_to_be_none() -> None:
    with pytest.raises(UnicodeDecodeError) as caught:
        b"\xff".decode()
    assert toml_problem(caught.value) == "this is not UTF-8"
