"""Series of metrics as lines of Prometheus' text, which a scrape has tens of thousands of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tidemark.controller.base.counters import HELP


class LabelSet:
    """The labels of series, written out once however many metrics have them."""

    __slots__ = ("text",)

    def __init__(self, names: Sequence[str], values: Sequence[str]) -> None:
        named = sorted(zip(names, values, strict=True))
        pairs = ",".join(f'{name}="{_quoted(value)}"' for name, value in named)
        self.text = f"{{{pairs}}}" if pairs else ""
        """They, in Prometheus' text format."""


Samples = Mapping[str, Sequence[tuple[LabelSet, float]]]
"""By metric, its series with their values."""


def lines_of(samples: Samples) -> Iterator[str]:
    """Yield lines of the text format."""
    for name, series in samples.items():
        yield f"# HELP {name} {_escaped(HELP[name])}\n# TYPE {name} {_kind(name)}\n"
        for labels, value in series:
            # 16 digits hold seconds since 1970 to the microsecond; whole numbers have them all, and true is 1.
            yield f"{name}{labels.text} {int(value) if isinstance(value, int) else format(value, '.16g')}\n"


def _kind(name: str) -> str:
    if name.endswith("_total"):
        return "counter"
    # The text format keeps the label `quantile` for summaries.
    return "summary" if name == "tidemark_need_seconds" else "gauge"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', r"\"")
