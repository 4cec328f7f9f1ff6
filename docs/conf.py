"""The documents as a site: what Sphinx is told when `make site` runs it.

It reads Markdown as GitHub does, from where GitHub shows it, so that a link that holds in one place holds in the other.
A warning fails the build: a link that leads nowhere is one, and a page that `PAGES` lacks.
"""

from __future__ import annotations

import html
import importlib.metadata
import re
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parent.parent

PAGES = {
    "Start": "tutorial concepts",
    "How to": """how-to/jobs how-to/tidemark-run how-to/watch-any-job how-to/late-rows how-to/revise how-to/joins
        how-to/inspect how-to/windows how-to/rest how-to/deployment how-to/managed-spark how-to/access how-to/capacity
        how-to/operations how-to/alerts how-to/backtest how-to/lookback""",
    "Explanation": """explanation/decisions explanation/rollouts explanation/late-rows explanation/live
        explanation/live-policy explanation/proof explanation/limits""",
    "Reference": (
        "reference/settings reference/metrics reference/spark reference/operators reference/alerts reference/api "
        "reference/cli"
    ),
    "Operate": "troubleshooting upgrading ../CHANGELOG",
    "Develop": "../CONTRIBUTING architecture how-to/develop how-to/release ../SECURITY",
    "Decisions": """decisions/rollups decisions/late-rule decisions/certificates decisions/live-watermark decisions/jar
        decisions/fail-open decisions/delivery decisions/leases decisions/store decisions/rollouts""",
}
"""The pages behind the first one, in order under each caption, from the folder `docs`."""

project = "Tidemark"
html_title = f"Tidemark {importlib.metadata.version('tidemark-streaming')}"
root_doc = "docs/index"
include_patterns = ["docs/**.md", "controller/server/runbooks/*.md", "*.md"]
exclude_patterns = ["README.md", "build", "dist", "node_modules", ".*"]
extensions = ["myst_parser"]
myst_heading_anchors = 6
html_theme = "furo"
html_static_path = ["../node_modules/@mermaid-js/tiny/dist/mermaid.tiny.js"]


def setup(app: Sphinx) -> None:
    """Register what is done beyond Sphinx's own."""
    app.connect("source-read", _read)
    app.connect("html-page-context", _draw)
    app.connect("build-finished", _finish)


def _names(pages: str) -> list[str]:
    return [page.removeprefix("../") if page.startswith("../") else f"docs/{page}" for page in pages.split()]


def _read(_app: Sphinx, name: str, source: list[str]) -> None:
    """Say which pages are below this one, and let the browser draw what GitHub draws."""
    if name == root_doc:
        source += [_below(_names(pages), f":caption: {caption}") for caption, pages in PAGES.items()]
    elif name == "docs/reference/alerts":
        source.append(_below(["controller/server/runbooks/*"], ":glob:"))
    source[:] = [
        re.sub(
            r"^```mermaid\n(.*?)^```$",
            lambda drawing: f'<pre class="mermaid">\n{html.escape(drawing[1])}</pre>',
            "".join(source),
            flags=re.MULTILINE | re.DOTALL,
        )
    ]


def _below(names: list[str], option: str) -> str:
    return "\n".join(["", "```{toctree}", ":hidden:", option, *(f"/{name}" for name in names), "```", ""])


def _draw(app: Sphinx, _page: str, _template: str, context: dict[str, object], _tree: object) -> None:
    if 'class="mermaid"' in str(context.get("body", "")):
        app.add_js_file("mermaid.tiny.js")
        dark = "matchMedia('(prefers-color-scheme: dark)').matches"
        app.add_js_file(None, body=f"mermaid.initialize({{theme: {dark} ? 'dark' : 'neutral'}})")


def _finish(app: Sphinx, failure: Exception | None) -> None:
    """Write the address of the first page, and the documents as language models read them (llmstxt.org)."""
    if failure or app.builder.name != "html":
        return
    first = '<!doctype html><meta charset="utf-8"><title>Tidemark</title>'
    (app.outdir / "index.html").write_text(
        f'{first}<meta http-equiv="refresh" content="0; url=docs/index.html">\n'
    )
    _, about, whole = _read_page(root_doc)
    listed = [f"# Tidemark\n\n> {about}\n"]
    for caption, pages in PAGES.items():
        listed.append(f"\n## {caption}\n\n")
        for name in _names(pages):
            title, about, text = _read_page(name)
            listed.append(f"- [{title}](_sources/{name}.md.txt): {about}\n")
            whole += f"\n{text}"
    (app.outdir / "llms.txt").write_text("".join(listed), encoding="utf-8")
    (app.outdir / "llms-full.txt").write_text(whole, encoding="utf-8")


def _read_page(name: str) -> tuple[str, str, str]:
    """Return the title of a page, its first sentence without links, and all of it."""
    whole = (ROOT / f"{name}.md").read_text(encoding="utf-8")
    _, title, text = re.split(r"^# (.+)\n+", whole, maxsplit=1, flags=re.MULTILINE)
    paragraph = next(part for part in text.split("\n\n") if re.match(r"[\w`*\[]", part))
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", " ".join(paragraph.split()))
    return title, re.split(r"(?<=[.:]) (?=[A-Z`*])", plain)[0], whole
