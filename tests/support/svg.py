"""What the figures of the documents have in common: their colours, how they begin, and words in them."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

__all__ = ["THEMES", "Theme", "opening", "text"]


@dataclass(frozen=True, slots=True)
class Theme:
    """The colours of a version."""

    name: str
    ground: str
    ink: str
    faint_ink: str
    grid: str
    band: str
    target: str
    lines: tuple[str, str, str]
    """Of the guess, of what is safe, of Tidemark."""


THEMES = (
    Theme(
        name="light",
        ground="#ffffff",
        ink="#1b2430",
        faint_ink="#566273",
        grid="#d9dfe6",
        band="#eef1f5",
        target="#166e30",
        lines=("#b93815", "#667085", "#0b57b0"),
    ),
    Theme(
        name="dark",
        ground="#0f1720",
        ink="#e6ebf1",
        faint_ink="#9ba8b7",
        grid="#2f3b49",
        band="#1a2430",
        target="#57c27a",
        lines=("#ff9166", "#aab4c0", "#6db1ff"),
    ),
)


def opening(width: int, height: int, title: str, theme: Theme) -> str:
    """Return how a figure begins: its size in pixels, what it shows in words, and its ground."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui, -apple-system, Segoe UI, DejaVu Sans, sans-serif" role="img" '
        f'aria-labelledby="title">\n<title id="title">{escape(title)}</title>\n'
        f'<rect width="{width}" height="{height}" fill="{theme.ground}"/>'
    )


def text(
    x: float, y: float, words: str, colour: str, anchor: str = "start", *, size: int = 13, bold: bool = False
) -> str:
    """Return words at a place, in pixels from the left and from above."""
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}" font-size="{size}"{weight}>'
        f"{escape(words)}</text>"
    )
