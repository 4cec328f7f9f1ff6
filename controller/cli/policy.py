"""``tidemark policy``: what the controller may do to a stream."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tidemark.controller.cli.fail import refused
from tidemark.controller.cli.follows import show_follows
from tidemark.controller.cli.freeze import format_freeze, parse_freeze
from tidemark.controller.cli.options import NONE, milliseconds_of, number_of, share_of
from tidemark.controller.cli.remote import (
    DEFAULT_URL,
    DryRunOption,
    JobArgument,
    JsonOption,
    ReasonOption,
    StreamArgument,
    TokenFileOption,
    UrlOption,
    asking,
)
from tidemark.controller.cli.show import as_json, duration, moment, share, told

if TYPE_CHECKING:
    from tidemark.controller.api.schemas import PolicyAnswer

__all__ = ["register"]

_DIRECTIONS = {"both": ["Widen", "Narrow"], "widen": ["Widen"], "narrow": ["Narrow"]}


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    policy = typer.Typer(help="What the controller may do to a stream.", no_args_is_help=True)
    app.add_typer(policy, name="policy")

    @policy.command("set")
    def set_policy(
        job: JobArgument,
        stream: StreamArgument,
        *,
        mode: Annotated[
            Literal["Off", "OnRestart", "Restart", "Live"] | None,
            typer.Option(help="Off watches only; the others say how the job takes a bound."),
        ] = None,
        least: Annotated[str | None, typer.Option(help="Narrowest bound, such as '30 s'.")] = None,
        greatest: Annotated[
            str | None, typer.Option(help='Widest bound, such as "1 hour"; "none" for no limit.')
        ] = None,
        directions: Annotated[
            Literal["both", "widen", "narrow"] | None,
            typer.Option(help="Which ways the bound may be changed."),
        ] = None,
        margin: Annotated[
            str | None, typer.Option(help="Share added to the bound that rows ask for, such as 0.1.")
        ] = None,
        cooldown: Annotated[str | None, typer.Option(help="Least time between two narrowings.")] = None,
        max_narrowings_a_day: Annotated[
            str | None, typer.Option(help='Most narrowings in 24 hours; "none" for no limit.')
        ] = None,
        max_narrowing: Annotated[
            str | None,
            typer.Option(help='Most that one rollout narrows by, such as 0.25; "none" for no limit.'),
        ] = None,
        evidence: Annotated[
            str | None,
            typer.Option(
                help="Event time to be watched before a first narrowing, such as '1 hour'; 0 for none."
            ),
        ] = None,
        evidence_windows: Annotated[
            str | None, typer.Option(help="Windows to be watched before a first narrowing; 0 for none.")
        ] = None,
        freeze: Annotated[
            list[str] | None,
            typer.Option(
                help="When nothing is narrowed, in UTC, such as 'Mon-Fri 08:00-18:00'; may be given more than once and "
                'replaces all there were; "none" for never.'
            ),
        ] = None,
        on_no_data: Annotated[
            Literal["hold", "max", "own"] | None,
            typer.Option(help="What a job is told whose reports stopped."),
        ] = None,
        approval: Annotated[
            Literal["none", "first", "narrow", "all"] | None,
            typer.Option(help="Which rollouts wait for a person."),
        ] = None,
        reason: ReasonOption = None,
        dry_run: DryRunOption = False,
        json: JsonOption = False,
        url: UrlOption = DEFAULT_URL,
        token_file: TokenFileOption = None,
    ) -> None:
        """Change what is named of the policy of a stream; the rest stays as it is."""
        with asking(url, token_file) as tidemark:
            given: dict[str, tuple[Any, Any]] = {
                "mode": (mode, str),
                "min_bound_ms": (least, lambda text: milliseconds_of(text, "--least")),
                "max_bound_ms": (greatest, lambda text: milliseconds_of(text, "--greatest")),
                "directions": (directions, _DIRECTIONS.__getitem__),
                "margin_ppm": (margin, lambda text: share_of(text, "--margin")),
                "cooldown_ms": (cooldown, lambda text: milliseconds_of(text, "--cooldown")),
                "max_narrowings_a_day": (
                    max_narrowings_a_day,
                    lambda text: number_of(text, "--max-narrowings-a-day"),
                ),
                "max_narrowing_ppm": (max_narrowing, lambda text: share_of(text, "--max-narrowing")),
                "evidence_ms": (evidence, lambda text: milliseconds_of(text, "--evidence")),
                "evidence_windows": (evidence_windows, lambda text: number_of(text, "--evidence-windows")),
                "freeze_windows": (freeze, _freezes),
                "on_no_data": (on_no_data, str),
                "approval": (approval, str),
            }
            changes = {name: read(value) for name, (value, read) in given.items() if value}
            if not changes:
                raise ValueError("name what to set, such as --mode OnRestart")
            found = tidemark.change_policy(job, stream, changes, reason=reason, dry_run=dry_run)
        if json:
            return as_json(found)
        verb = "would set" if dry_run else "set"
        typer.echo(f"{verb} the policy of {job}/{stream}: mode {found.mode}, bounds {_range(found)}")
        return show_follows(found)

    @policy.command("get")
    def get_policy(
        job: JobArgument,
        stream: StreamArgument,
        *,
        json: JsonOption = False,
        url: UrlOption = DEFAULT_URL,
        token_file: TokenFileOption = None,
    ) -> None:
        """Show the policy of a stream."""
        with asking(url, token_file) as tidemark:
            found = tidemark.policy(job, stream)
        if found is None:
            refused(f"nothing is known of {job}/{stream}; `tidemark status` lists what there is")
        return as_json(found) if json else told(_facts(found))


def _freezes(texts: list[str]) -> list[dict[str, Any]]:
    return [] if texts == [NONE] else [parse_freeze(text) for text in texts]


def _range(policy: PolicyAnswer) -> str:
    least = duration(policy.min_bound_ms)
    if policy.max_bound_ms is None:
        return f"of at least {least}"
    return f"of {least} to {duration(policy.max_bound_ms)}"


def _facts(policy: PolicyAnswer) -> dict[str, str]:
    return {
        "mode": policy.mode,
        "bounds": _range(policy),
        "directions": ", ".join(policy.directions),
        "margin": share(policy.margin_ppm),
        "cooldown": duration(policy.cooldown_ms),
        "most narrowings a day": str(policy.max_narrowings_a_day or "-"),
        "most narrowing": share(policy.max_narrowing_ppm),
        "evidence": f"{duration(policy.evidence_ms)}, {policy.evidence_windows:,} windows",
        "freeze": "; ".join(format_freeze(asdict(window)) for window in policy.freeze_windows) or "-",
        "paused": "yes" if policy.paused else "no",
        "without data": policy.on_no_data,
        "approval": policy.approval,
        "generation": f"{policy.generation}, since {moment(policy.updated_us)}",
    }
