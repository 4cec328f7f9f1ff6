"""The layers in docs/architecture.md, made from the code: a drawing and a list of each tree.

    make docs

writes them anew; a test fails when the code has moved on.
"""

from __future__ import annotations

import ast
from pathlib import Path

from support.docs import DOCS
from support.layers import LAYERS, PACKAGES, imports
from support.tree import FOLDERS, ROOT, parsed

__all__ = ["DOCUMENT", "architecture"]

DOCUMENT = DOCS / "architecture.md"
_BEGIN, _END = "<!-- layers -->\n", "<!-- /layers -->\n"


def architecture(text: str) -> str:
    """Return the document with its layers made anew between the two marks."""
    before, rest = text.split(_BEGIN)
    _, after = rest.split(_END)
    return before + _BEGIN + "".join(_section(tree) for tree in FOLDERS if LAYERS[tree]) + _END + after


def _section(tree: str) -> str:
    used = _uses(tree)
    lines = [f"\n### {tree}\n", "```mermaid", "flowchart TD"]
    lines += [f"    {user} --> {other}" for user in LAYERS[tree] for other in sorted(_drawn(user, used))]
    lines += [
        "```\n",
        *(f"- `{folder}`: {_purpose(ROOT / tree / folder)}" for folder in reversed(LAYERS[tree])),
    ]
    return "\n".join(lines) + "\n"


def _uses(tree: str) -> dict[str, set[str]]:
    """Return by folder of a tree the folders that it imports."""
    found: dict[str, set[str]] = {folder: set() for folder in LAYERS[tree]}
    for each in imports(tree):
        user, used = _folder(each.user), _folder(each.used)
        if user in found and used in found and user != used:
            found[user].add(used)
    return found


def _folder(module: str) -> str:
    tree, *rest = module.split(".")
    return rest[0] if rest else PACKAGES.get(tree, "")


def _drawn(folder: str, used: dict[str, set[str]]) -> set[str]:
    """Return those of a folder's imports that do not follow from the others."""
    return {
        other
        for other in used[folder]
        if not any(other in _below(between, used) for between in used[folder] - {other})
    }


def _below(folder: str, used: dict[str, set[str]]) -> set[str]:
    return used[folder].union(*(_below(other, used) for other in used[folder]))


def _purpose(folder: Path) -> str:
    """Return the first paragraph of the docstring of a package, or of a module that stands among them."""
    path = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    said = ast.get_docstring(parsed(path.read_text(encoding="utf-8"))) or ""
    return " ".join(said.split("\n\n")[0].replace("``", "`").split())


if __name__ == "__main__":
    DOCUMENT.write_text(architecture(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
