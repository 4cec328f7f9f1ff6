"""The documents in docs/reference, and controller/openapi.json, made from the code.

    make docs

writes them anew; a test fails when the code has moved on.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from tidemark.controller.base import errors
from tidemark.controller.base.alert_table import ALERTS, Alert
from tidemark.controller.base.counters import HELP, IN_DETAIL, LABELS, ZERO_IN_DETAIL
from tidemark.controller.base.settings import Settings
from tidemark.controller.server.app import create_app
from tidemark.controller.server.http.authorize import need_of
from tidemark.models.base.duration import format_duration
from tidemark.models.evidence.late_counts import LATE_COUNTS_SCHEMA
from tidemark.models.protocol.messages import REPORT_SCHEMA
from tidemark.spark_jobs.core.driver_metrics import GAUGES, gauge_name
from tidemark.spark_jobs.core.settings import SETTINGS, Setting

from support.openapi import as_text, document_of
from support.reference_cli import cli_document
from support.reference_operators import operators_document
from support.reference_spark import spark_document
from support.tree import ROOT

__all__ = ["FOLDER", "interface", "reference"]

FOLDER = ROOT / "docs" / "reference"

_HEAD = "<!-- Made from the code by `make docs`: change the code and not this. -->\n\n"


def reference() -> dict[Path, str]:
    """Return the text of each generated document by its path."""
    makers: dict[str, Callable[[], str]] = {
        "settings.md": _settings,
        "metrics.md": _metrics,
        "alerts.md": _alerts,
        "api.md": _api,
        "cli.md": cli_document,
        "spark.md": spark_document,
        "operators.md": operators_document,
    }
    return {FOLDER / name: _HEAD + make() for name, make in makers.items()}


def _list(rows: Iterable[tuple[str, str]]) -> str:
    return "".join(f"- {name}: {' '.join(text.split())}\n" for name, text in rows)


def _code(text: str) -> str:
    return f"`{text}`"


# -- settings -------------------------------------------------------------------------------------------------------


def _settings() -> str:
    controller = (
        (
            _code(f"TIDEMARK_{name.upper()}") + _default_of(field.default),
            field.description or "",
        )
        for name, field in Settings.model_fields.items()
    )

    of_context = ", ".join(_code(setting.key) for setting in SETTINGS.values() if setting.of_context)
    return f"""# Settings

## The controller

A setting comes from the command line, the environment, a TOML file, or its default (in brackets), in this order.
`--config` or `TIDEMARK_CONFIG` names the file; it has the same names in small letters without `TIDEMARK_`, such as
`tick_seconds = 2`. `tidemark settings` shows the settings in force and their sources.

{_list(controller)}
## Jobs

Each is a key of the Spark configuration and an argument of `adaptive_watermark`, such as `idle_timeout`, and the call
wins. In brackets: what it is, the default, and the argument where it has another name.
`spark.tidemark.stream.NAME.mode` says of one stream what `spark.tidemark.mode` says of all. [Jobs](../how-to/jobs.md)
explains how to use them; [with the jar](../how-to/watch-any-job.md), jobs that do not call Tidemark read them too.

{_list(map(_setting, SETTINGS.values()))}
For a job that does not call Tidemark only the conf that the driver is started with decides on
{of_context}."""


def _setting(setting: Setting) -> tuple[str, str]:
    default = "" if setting.default is None else _code(str(setting.default))
    return _code(
        setting.key
    ) + f" ({'; '.join(filter(None, (setting.rule.what, default, setting.instead)))})", setting.meaning


def _default_of(value: object) -> str:
    return "" if value in {None, ""} else f" ({_code(str(value))})"


# -- metrics and alerts ---------------------------------------------------------------------------------------------


_METRICS_HEAD = """# Metrics

[Alerts and metrics](../how-to/alerts.md) explains how to scrape `/metrics`. The label of a Spark job is `spark_job`.
Those with *detail* come only with `/metrics?detail=all`; of those with *not 0* a 0 is left out without it. What says
*whether* is 1 or 0.
"""

_DRIVER_METRICS = """
## In the driver of a job

Spark's metrics of a query have these gauges for each stream ([how to see
them](../how-to/jobs.md#late-rows-in-sparks-own-metrics)). Their names begin with `tidemark-STREAM-`; in the stream's
name, everything but letters, digits and `_` becomes `_`. Counts begin with the run of the query. What is not known is
`NaN`.

"""

_ALERTS_HEAD = """# Alerts

Each alert links to its runbook, and fires once its condition has held for the time in brackets. A `page` wakes
somebody; all others are tickets, which wait for the morning. [How to install
the rules](../how-to/alerts.md#install-the-rules).

"""


def _metrics() -> str:
    parts = [_METRICS_HEAD]
    for labels, names in groupby(HELP, key=lambda name: LABELS[name]):
        listed = ", ".join(map(_code, labels))
        parts.append(f"\n## {f'Labels {listed}' if labels else 'No labels'}\n\n")
        parts.append(
            _list((_code(name) + _scraped(name), HELP[name].replace(": 1 or 0", "")) for name in names)
        )
    gauges = ((_code(gauge_name("", name).rpartition("-")[2]), GAUGES[name]) for name in GAUGES)
    return "".join([*parts, _DRIVER_METRICS, _list(gauges)])


def _scraped(name: str) -> str:
    return " (*detail*)" if name in IN_DETAIL else " (*not 0*)" if name in ZERO_IN_DETAIL else ""


def _alerts() -> str:
    return _ALERTS_HEAD + _list((_alert(alert), alert.meaning) for alert in ALERTS)


def _alert(alert: Alert) -> str:
    link = f"[`{alert.name}`](../../controller/server/runbooks/{alert.name}.md)"
    return f"{link} ({'page, ' if alert.severity == 'page' else ''}{format_duration(alert.hold_us)})"


# -- the interface --------------------------------------------------------------------------------------------------


def interface() -> dict[str, Any]:
    """Return the OpenAPI document."""
    return document_of(_app())


def _app() -> FastAPI:
    return create_app(Settings(database_url="sqlite:///tidemark.db"))


def _api() -> str:
    document = interface()
    parts = [_API_HEAD.format(reports=REPORT_SCHEMA, counts=LATE_COUNTS_SCHEMA)]
    by_tag: dict[str, list[tuple[str, str]]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            row = _operation(method, path, operation)
            by_tag.setdefault(operation["tags"][0], []).append(row)
    for tag, rows in by_tag.items():
        parts.append(f"\n### {tag.capitalize()}\n\n")
        parts.append(_list(rows))
    for title, operation_id in (("SLO", "putSlo"), ("Policy", "putPolicy")):
        parts.append(f"\n## {title}\n\n")
        parts.append(_list(_fields(document, operation_id)))
    parts.append(
        "\n## Problem types\n\nThe `type` of a problem is `"
        + errors.TYPE_PREFIX
        + "` and one of these, by status.\n\n"
    )
    parts.append(_list(_problems()))
    return "".join(parts)


_API_HEAD = """# The REST interface

`/openapi.json` has the whole interface. [Work over REST](../how-to/rest.md) shows each task by curl.

- Errors are `application/problem+json` (RFC 9457).
- Times are integers in microseconds (`_us`) or milliseconds (`_ms`). Shares are integers in parts per million (`_ppm`)
  or decimal strings. There are no floats. `null` means unknown, never 0.
- Lists come in pages: pass `limit`, and as `cursor` the `next_cursor` of the page before.
- The first `PUT` of an SLO or a policy needs no condition. A later one needs `If-Match` with the ETag of what it
  replaces: without it the answer is 428, and 412 when somebody else was faster. Setting what is set changes nothing.
- `?dryRun=true`, or `All`, answers as the request would, with its consequences, and changes nothing.
- `?reason=...` goes into the event that a change leaves.
- Reports and acknowledgements are idempotent: sent again they answer 200.
- `GET .../bound` with `If-None-Match` and `Prefer: wait=N` waits up to N (60) seconds for another answer.

## Releases side by side

A job and its controller may be of different releases, in either order.

- Whoever reads what a job or a controller wrote, files in cache and checkpoint too, ignores fields that it does not
  know. A field that is missing has its default.
- A value that only a later release knows moves no bound and claims nothing. With such a mode the job keeps its own
  bound, with such a pin it is held to its ceiling, or its own bound without one, and its log says so.
- Refused, in words, is only a new major version: another `schema_version` of a report (this release reads {reports})
  or of counts of late rows ({counts}). For all other bodies the version is the one in the path, `/v1`.
- What people write (an SLO, a policy, a pin, a join, a token, a reason) with an unknown field is refused; the problem
  names the field.

## Operations

`/openapi.json` has more of each. In brackets are the parameters of the query, without those of pages, and who may if
not viewers, operators and admins: *write* is operators and admins.
"""


_ROLES = {("viewer", "operator", "admin"): "", ("operator", "admin"): "write"}
"""How the document names the roles that most operations need; those of everybody who reads are not named."""

_SAID = re.compile(r" (In (parts per million|milliseconds)(; null for none)?|Null for none)\.")
"""What name and default of a field say already."""


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> tuple[str, str]:
    need = need_of(operation["operationId"])
    said, _, _ = operation.get("description", operation["summary"]).partition("\n\nRoles:")
    first = re.split(r"[.:;]+ ", " ".join(said.split()), maxsplit=1)[0].removesuffix(".") + "."
    names = [one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"]
    query = ", ".join(_code(name) for name in names if name not in {"limit", "cursor"})
    roles = "everybody" if need is None else _ROLES.get(tuple(need.roles), ", ".join(need.roles))
    bracket = "; ".join(part for part in (query, roles and f"*{roles}*") if part)
    return _code(f"{method.upper()} {path}"), f"{first} ({bracket})" if bracket else first


def _fields(document: Mapping[str, Any], operation_id: str) -> Iterator[tuple[str, str]]:
    """Yield each field of an operation's body with its default, and its meaning."""
    (body,) = (
        operation["requestBody"]
        for operations in document["paths"].values()
        for operation in operations.values()
        if operation["operationId"] == operation_id
    )
    schemas = document["components"]["schemas"]
    found = schemas[body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]]
    for name, field in found["properties"].items():
        values = [one for part in (field, *field.get("anyOf", ())) for one in _values(part, schemas)]
        # The end of a name says the unit, and the default whether there need be one.
        meaning = _SAID.sub("", field.get("description", "")).replace(" In milliseconds; null:", " Null:")
        if not all(re.search(rf"\b{value}\b", meaning) for value in values):
            meaning += f" One of {', '.join(map(_code, values))}."
        yield f"{_code(name)} ({_default(name, field, found)})", meaning


def _values(part: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[str]:
    if "$ref" in part:
        part = schemas[part["$ref"].rpartition("/")[2]]
    yield from map(str, part.get("enum", ()))


def _default(name: str, field: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    if name in found.get("required", ()):
        return "required"
    default = field.get("default")
    if default is None:
        return "none"
    text = ", ".join(map(str, default)) if isinstance(default, list | tuple) else str(default)
    return _code(text.lower() if isinstance(default, bool) else text) if text else "none"


def _problems() -> Iterator[tuple[str, str]]:
    """Yield each status with the types of its problems."""
    ahead, by_status = [errors.TidemarkError], dict[str, set[str]]()
    while ahead:
        kind = ahead.pop()
        ahead += kind.__subclasses__()
        if kind.__module__.startswith("tidemark."):
            by_status.setdefault(str(kind.status), set()).add(_code(kind.kind))
    for status, kinds in sorted(by_status.items()):
        yield status, ", ".join(sorted(kinds))


def _main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path, text in reference().items():
        path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{path.relative_to(ROOT)}\n")
    document = ROOT / "controller" / "openapi.json"
    document.write_text(as_text(_app()), encoding="utf-8")
    sys.stdout.write(f"{document.relative_to(ROOT)}\n")


if __name__ == "__main__":
    _main()
