"""Series of metrics: as lines of Prometheus' text, which a scrape has tens of thousands of, and as its families."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from prometheus_client.metrics_core import Metric

from tidemark.controller.base.counters import HELP


class LabelSet:
    """The labels of series, written out once however many metrics have them."""

    __slots__ = ("named", "text")

    def __init__(self, names: Sequence[str], values: Sequence[str]) -> None:
        self.named = dict(zip(names, values, strict=True))
        """The values by name."""
        pairs = ",".join(f'{name}="{_quoted(value)}"' for name, value in sorted(self.named.items()))
        self.text = f"{{{pairs}}}" if pairs else ""
        """The same in Prometheus' text format."""


Samples = Mapping[str, Sequence[tuple[LabelSet, float]]]
"""By metric, its series with their values."""


def lines_of(samples: Samples) -> Iterator[str]:
    """Yield lines of the text format."""
    for name, series in samples.items():
        yield f"# HELP {name} {_escaped(HELP[name])}\n# TYPE {name} {_kind(name)}\n"
        for labels, value in series:
            # 16 digits hold seconds since 1970 to the microsecond; whole numbers have them all, and true is 1.
            yield f"{name}{labels.text} {int(value) if isinstance(value, int) else format(value, '.16g')}\n"


def families_of(samples: Samples) -> Iterator[Metric]:
    """Yield the same for what is not Prometheus."""
    for name, series in samples.items():
        family = Metric(name.removesuffix("_total"), HELP[name], _kind(name))
        for labels, value in series:
            family.add_sample(name, labels.named, value)
        yield family


def _kind(name: str) -> str:
    if name.endswith("_total"):
        return "counter"
    # The text format keeps the label `quantile` for summaries.
    return "summary" if name == "tidemark_need_seconds" else "gauge"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', r"\"")
