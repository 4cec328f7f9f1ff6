"""``tidemark lost``: which values of a dimension lose rows, and which far more often than the others."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tidemark.controller.api.paths import stream_path
from tidemark.controller.cli.options import milliseconds_of
from tidemark.controller.cli.remote import Call, JobArgument, StreamArgument, calls_controller
from tidemark.controller.cli.show import as_json, duration, moment, percent, say, table
from tidemark.models.base.target import PPM
from tidemark.models.base.text import plural

_Dimension = Annotated[
    str | None,
    typer.Option("--dimension", help="The dimension, or partition. Default: the one that the job names."),
]
_Window = Annotated[
    str | None,
    typer.Option("--window", help="How far back to count, such as '6 h'. Default: the SLO's window."),
]
_Limit = Annotated[int, typer.Option("--limit", min=1, max=1_000, help="How many values to show at most.")]


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command("lost")
    @calls_controller
    def lost(
        job: JobArgument,
        stream: StreamArgument,
        dimension: _Dimension = None,
        window: _Window = None,
        limit: _Limit = 20,
        *,
        call: Call,
    ) -> None:
        """Show which values of a dimension, such as the region, lose rows, and who loses far more.

        The job counts them with late=side(..., dimension="region").
        """
        with call.open() as tidemark:
            asked = {
                "dimension": dimension,
                "window_ms": None if window is None else milliseconds_of(window, "--window"),
                "limit": limit,
            }
            params = {name: value for name, value in asked.items() if value is not None}
            found = tidemark.request("GET", stream_path(job, stream, "/lost"), params=params)
        if call.json:
            return as_json(found)
        if found["dimension"] is None:
            return say(
                f"nothing is counted by a dimension of {job}/{stream}: "
                'the job names one with late=side(..., dimension="region")'
            )
        total = found["total"]
        counted = f"; {found['counted']['text']}" if found["counted"] else ""
        say(f"{found['dimension']}, {moment(found['from_us'])} to {moment(found['to_us'])}{counted}")
        reasons = [name for name in _REASONS if total[name]]
        why = ", ".join(f"{total[name]:,} {_REASONS[name]}" for name in reasons)
        rows = f"{plural(total['rows'], 'row')}, {total['lost']:,} lost ({percent(total['lost_ppm'])})"
        say(f"{rows}: {why}" if why else rows)
        columns = (
            found["dimension"],
            "rows",
            "lost",
            *(_REASONS[name] for name in reasons),
            "share lost",
            "of all rows",
            "of all lost",
            "half by",
            "99 % by",
            "latest by",
            "",
        )
        table(columns, (_row(value, reasons) for value in found["values"]), "")
        if found["more_values"]:
            say(f"{plural(found['more_values'], 'more value')}: see --limit")
        others = [name for name in found["dimensions"] if name != found["dimension"]]
        if others:
            say(f"also counted by {', '.join(others)}: see --dimension")
        return None


_REASONS = {"late": "late", "no_event_time": "without an event time", "set_aside": "set aside"}
"""Why a row was not taken, as the table has it; rows that were set aside are not lost."""


def _row(value: dict[str, Any], reasons: list[str]) -> tuple[str, ...]:
    name = "(null)" if value["value"] is None else value["value"]
    verdict = ""
    if value["biased"]:
        verdict = f"biased: at least {value['factor_ppm'] / PPM:.1f} times as often as all others"
    return (
        "(all others)" if value["other"] else name,
        f"{value['rows']:,}",
        f"{value['lost']:,}",
        *(f"{value[name]:,}" for name in reasons),
        percent(value["lost_ppm"]),
        percent(value["of_rows_ppm"]),
        percent(value["of_lost_ppm"]),
        duration(value["median_late_ms"]),
        duration(value["p99_late_ms"]),
        duration(value["max_late_ms"]),
        verdict,
    )
