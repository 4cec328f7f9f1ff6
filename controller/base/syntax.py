"""Where a text is not JSON, YAML or TOML, and what to write there, in words of ours: parsers say what they expected."""

from __future__ import annotations

import re
from collections.abc import Mapping

import yaml

_COMMA = "a comma or the closing {} is missing"
_QUOTES = "texts stand in double quotes"

_JSON: Mapping[str, str] = {
    "key must be a string": 'a name stands in double quotes, such as "target"',
    "expected value": f"there is no value of JSON here: {_QUOTES}",
    "expected ident": f"only true, false and null stand without quotes: {_QUOTES}",
    "expected `:`": "a colon is missing between a name and its value",
    "expected `,` or `}`": _COMMA.format("}"),
    "expected `,` or `]`": _COMMA.format("]"),
    "trailing comma": "nothing follows this comma; leave it out",
    "trailing characters": "more follows the end of the JSON; send one value alone",
    "EOF while parsing an object": "it ends before the closing }",
    "EOF while parsing a list": "it ends before the closing ]",
    "EOF while parsing a string": "it ends before the closing quote of a text",
    "EOF while parsing a value": "it ends where a value must follow",
    "invalid number": "this is not a number as JSON has them, such as 15 or 0.995",
    "number out of range": "this number is too large",
    "invalid escape": r"a backslash in a text is written \\",
    "unexpected end of hex": r"\u is followed by four hexadecimal digits",
    "invalid unicode": "this is not UTF-8",
    "control character": r"a line break in a text is written \n, and a tab \t",
    "recursion limit": "it is nested too deeply",
}
"""By the beginning of what the parser says, what it means."""

_YAML: Mapping[str, str] = {
    "mapping values are not allowed here": "this key is indented otherwise than those beside it, the line before "
    "lacks its colon, or a text with a colon lacks its quotes",
    r"found character '\\t'": "a tab; YAML is indented by spaces",
    "found character '(.+)' that": "no text begins with {0}; put it in quotes",
    "could not find expected ':'": "a key without its colon; write key: value, with a space after the colon",
    "sequence entries are not allowed here": "the list begins on the line after its key",
    "expected <block end>, but found '<block mapping start>'": "this key is indented otherwise than those "
    "beside it",
    "expected <block end>, but found '(-|<block sequence start>)'": "this entry is indented otherwise than those "
    "beside it",
    "expected <block end>": "more follows the end of the value; put all of it in quotes",
    "expected ',' or '(.)'": _COMMA.format("{0}"),
    "expected the node content": "a value is missing here",
    "found unexpected end of stream": "the closing quote of the text is missing",
    "found unknown escape character": r"a backslash in double quotes is written \\, in single quotes \ ",
    "expected '<document start>'": "more follows the end of the document; a new one begins after a line of ---",
    "found undefined alias": "a text that begins with * stands in quotes",
    "could not determine a constructor for the tag": "a text that begins with ! stands in quotes",
    "found un(hashable|acceptable) key": "a key is a text; a template, {{{{ ... }}}}, has to be filled in first",
    "the key .+ stands twice|.+ is neither a date nor a number": "{all}",
}
"""By the beginning of what the parser says, as a pattern, what it means."""

_TOML: Mapping[str, str] = {
    "Invalid value": f"there is no value of TOML here: {_QUOTES}, true and false in small letters",
    "Expected '=' after a key": "write name = value",
    "Invalid statement": "write name = value, or the name of a table in brackets",
    "Invalid initial character for a key part": "write name = value; a name with other than letters, digits, _ and - "
    "stands in quotes",
    "Expected newline or end of document": f"more follows the end of the value; {_QUOTES}",
    "Cannot overwrite a value": "this name stands twice",
    "Cannot declare": "this table stands twice",
    "Unclosed array": _COMMA.format("]"),
    "Unclosed inline table": _COMMA.format("}"),
    "Unterminated string": "the closing quote of the text is missing",
    "Illegal character '\\n'": "the closing quote of the text is missing",
    "Unescaped '\\'": r"a backslash in double quotes is written \\; in single quotes it stands for itself",
}
"""By the beginning of what the parser says, what it means."""


def json_problem(message: str) -> str:
    """Return where a text is not JSON and what to write, from the message of pydantic's parser."""
    match = re.fullmatch(r"(?:Invalid JSON: )?(.*) at line (\d+) column (\d+)", message)
    fault, line, column = match.groups() if match else (message, "1", "1")
    return f"{_place(line, column)}: {_meant(fault, _JSON) or 'this is not JSON'}"


def toml_problem(error: ValueError) -> str:
    """Return where a text is not TOML and what to write, from what was raised as it was read."""
    if isinstance(error, UnicodeDecodeError):
        return "this is not UTF-8"
    match = re.fullmatch(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", str(error))
    fault, line, column = match.groups() if match else (str(error), None, None)
    where = "at its end" if line is None or column is None else _place(line, column)
    return f"{where}: {_meant(fault, _TOML) or 'this is not TOML'}"


def yaml_problem(error: yaml.YAMLError) -> str:
    """Return where a text is not YAML and what to write."""
    if isinstance(error, yaml.reader.ReaderError):
        code = error.character if isinstance(error.character, int) else ord(error.character)
        return f"character {error.position + 1}: no text may have U+{code:04X}; save the file as UTF-8"
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return "this is not YAML"
    fault = error.problem or ""
    # A quote that is not closed is missing where it was opened.
    mark = error.context_mark if error.context_mark and "end of stream" in fault else error.problem_mark
    for pattern, words in _YAML.items():
        match = re.match(pattern, fault)
        if match:
            return f"{_place(mark.line + 1, mark.column + 1)}: {words.format(*match.groups(), all=fault)}"
    return (
        f"{_place(mark.line + 1, mark.column + 1)}: this is not YAML; put a text with signs in it in quotes"
    )


def _place(line: int | str, column: int | str) -> str:
    return f"line {line}, column {column}"


def _meant(fault: str, table: Mapping[str, str]) -> str | None:
    return next((words for begin, words in table.items() if fault.startswith(begin)), None)
