"""The documents: those at the top, docs and controller/server/runbooks, and what stands in them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from support.tree import ROOT

__all__ = [
    "DOCS",
    "DOCUMENTS",
    "all_text",
    "anchors",
    "code_blocks",
    "commands",
    "document_with",
    "links",
    "table_after",
]

DOCS = ROOT / "docs"

DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted(DOCS.rglob("*.md")),
    *sorted((ROOT / "controller" / "server" / "runbooks").glob("*.md")),
]

_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_PLACEHOLDER = re.compile(r"^(\[?[A-Z][A-Z_|-]*\]?|\.\.\.|\[[A-Z].*|<.*>)$")


def all_text() -> str:
    """Return all documents, one after the other."""
    return "\n".join(path.read_text(encoding="utf-8") for path in DOCUMENTS)


def document_with(text: str) -> str:
    """Return the one document that holds ``text``."""
    (found,) = (body for path in DOCUMENTS if text in (body := path.read_text(encoding="utf-8")))
    return found


def table_after(heading: str, text: str) -> list[list[str]]:
    """Return the cells of each row of the first table after a heading."""
    lines = iter(text.split(f"\n{heading}\n", 1)[1].splitlines())
    rows = []
    for line in lines:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
        elif rows:
            break
    return rows[2:]


def code_blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yield (language, content) of each fenced block."""
    for block in _FENCE.finditer(text):
        indent = block[1]
        yield block[2], re.sub(rf"^{indent}", "", block[3], flags=re.MULTILINE)


def anchors(text: str) -> set[str]:
    """Return what the headings of a document can be linked by."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", _FENCE.sub("", text), re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", heading).lower()).replace(" ", "-")
        number = 0
        name = plain
        while name in found:
            number += 1
            name = f"{plain}-{number}"
        found.add(name)
    return found


def links(text: str) -> Iterator[str]:
    """Yield the targets of a document's links and pictures."""
    yield from re.findall(r"\]\(([^)\s]+)\)", _FENCE.sub("", text))


def commands(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each command line of ``tidemark`` in a document, and whether it is whole: as it would be typed.

    Those in a sentence may leave out what is not to the point there.
    """
    for language, content in code_blocks(text):
        if language in {"sh", ""}:
            for line in re.sub(r" *\\\n\s*", " ", content).splitlines():
                if language == "" and not line.startswith("$ "):
                    continue
                for part in re.split(r"\$\(|&& |\| (?=[a-z])", line):
                    found = re.match(
                        r"(?:\$ )?(?:[A-Z_]+=(?:'[^']*'|\S+) )*(tidemark (?:[^#\n])*)", part.strip()
                    )
                    if found:
                        whole = re.split(r"\s(?:>|&|\|)|\)\"?(?=\s|$)", found[1])[0]
                        yield whole.strip(), True
    for code in re.findall(r"(?<!`)`(tidemark [^`]+)`(?!`)", _FENCE.sub("", text).replace("\n", " ")):
        yield code, False
