"""The document of Spark's stateful operators: docs/reference/operators.md."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tidemark.models.base.stateful import OPERATOR_RULES, Kept

from support.spark_versions import OBSERVED

__all__ = ["operator_rows", "operators_document"]

_KEPT: dict[Kept, str] = {
    "watermark": "until the watermark passes its key",
    "watermark + bound": "until it is the bound beyond its key",
    "watermark + range": "until it is the range of the join beyond its key",
    "function": "as its function says",
    "keys": "for ever, one row for each key",
    "ever": "for ever",
    "one row": "no row: one sum for all",
}

_FORGETS: dict[Kept, str] = {
    "watermark": "forgets at the key",
    "watermark + bound": "forgets later",
    "watermark + range": "forgets later",
    "keys": "forgets nothing",
    "ever": "forgets nothing",
    "one row": "keeps no row each",
}
"""How `make operators` words what each kind of keeping should look like."""

_DOCUMENT = """# Stateful operators

The ledger, the checks at the start, `tidemark lint` and the forecast of state go by this table.

A row is late when its key (in the third column) is at or below the watermark of the batch before. Of operators behind
one another the first one drops, and the others get nothing that is late. Under
`spark.sql.streaming.statefulOperator.allowMultiple=false` it would be the watermark of the batch itself:
`adaptive_watermark` refuses that setting.

Where a row is kept *for ever*, the state grows under any bound: `tidemark lint` and the condition `StateGrows` say so,
no saving of state is foretold, and the SLO's cap on state decides nothing. Nothing is foretold for functions either,
nor where several operators keep rows, which Spark counts together.

| operator | what decides | late rows are dropped by | a row is kept | what Spark did |
| --- | --- | --- | --- | --- |
{rows}

The last column is what came of small queries (`make operators`) on {versions}: whether late rows were missing in the
sink, and when old ones were gone from the state, as the watermark passed their keys, then the bound and the range of a
join, then all. *The same* is what the row says. PySpark before 4.0 has no `transformWithState`.
"""


def operators_document() -> str:
    """Return the document, without the head that all of them have."""
    rows = "\n".join(f"| {' | '.join(row)} |" for row in operator_rows())
    return _DOCUMENT.format(rows=rows, versions=", ".join(json.loads(OBSERVED.read_text(encoding="utf-8"))))


def operator_rows() -> Iterator[list[str]]:
    """Return a row for each of the table, with what each version of Spark did."""
    seen: dict[str, dict[str, list[str]]] = json.loads(OBSERVED.read_text(encoding="utf-8"))
    for (operator, case), rule in OPERATOR_RULES.items():
        by_text: dict[str, list[str]] = {}
        for version, rules in seen.items():
            if f"{operator}|{case}" in rules:
                by_text.setdefault("; or ".join(rules[f"{operator}|{case}"]), []).append(version)
        late = {None: "none is", "event time": "event time"}.get(rule.late_by, f"end of the {rule.late_by}")
        same = len(by_text) == 1
        did = "; ".join(text if same else f"{text} ({', '.join(each)})" for text, each in by_text.items())
        if did == f"drops {'late rows' if rule.late_by else 'none'}, {_FORGETS.get(rule.kept)}":
            did = "the same"
        yield [f"`{operator}`", case, late, _KEPT[rule.kept], did]
