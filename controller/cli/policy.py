"""``tidemark policy``: what the controller may do to a stream."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tidemark.controller.cli.freeze import format_freeze, parse_freeze
from tidemark.controller.cli.options import NONE, milliseconds_of, number_of, share_of
from tidemark.controller.cli.remote import (
    Call,
    DryRunOption,
    JobArgument,
    ReasonOption,
    StreamArgument,
    calls_controller,
)
from tidemark.controller.cli.show import (
    as_json,
    duration,
    fail_request,
    moment,
    say,
    share,
    show_consequences,
    show_facts,
)

if TYPE_CHECKING:
    from tidemark.controller.api.schemas.specs import PolicyAnswer

_DIRECTIONS = {"both": ["Widen", "Narrow"], "widen": ["Widen"], "narrow": ["Narrow"]}


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    policy = typer.Typer(
        help="Set, show and delete what the controller may do to a stream.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    app.add_typer(policy, name="policy")

    @policy.command("set")
    @calls_controller
    def set_policy(
        job: JobArgument,
        stream: StreamArgument,
        *,
        mode: Annotated[
            Literal["Off", "OnRestart", "Restart", "Live"] | None,
            typer.Option(
                help="How the job takes a bound: Off, never, the controller only watches; OnRestart, when somebody "
                "restarts the job; Restart, the job restarts itself between batches; Live, without a restart."
            ),
        ] = None,
        min_bound: Annotated[str | None, typer.Option(help="Minimum bound, such as '30 s'.")] = None,
        max_bound: Annotated[
            str | None, typer.Option(help="Maximum bound, such as '1 hour'; none for no limit.")
        ] = None,
        directions: Annotated[
            Literal["both", "widen", "narrow"] | None,
            typer.Option(help="Which way the controller may change the bound."),
        ] = None,
        margin: Annotated[
            str | None,
            typer.Option(help="Margin added to the required bound, as a share of it, such as 0.1."),
        ] = None,
        cooldown: Annotated[
            str | None, typer.Option(help="Minimum time between two narrowings, such as '5 minutes'.")
        ] = None,
        max_narrowings_a_day: Annotated[
            str | None, typer.Option(help="Maximum number of narrowings in 24 hours; none for no limit.")
        ] = None,
        max_narrowing: Annotated[
            str | None,
            typer.Option(
                help="Maximum share of the bound that one rollout narrows by, such as 0.25; none for no limit."
            ),
        ] = None,
        evidence: Annotated[
            str | None,
            typer.Option(
                help="Event time to observe before the first narrowing, such as '1 hour'; 0 for none."
            ),
        ] = None,
        evidence_windows: Annotated[
            str | None,
            typer.Option(help="Number of windows to observe before the first narrowing; 0 for none."),
        ] = None,
        freeze: Annotated[
            list[str] | None,
            typer.Option(
                help="When nothing is narrowed, in UTC, such as 'Mon-Fri 08:00-18:00'; may be repeated; "
                "replaces all windows that were set; none for never."
            ),
        ] = None,
        on_no_data: Annotated[
            Literal["hold", "max", "own"] | None,
            typer.Option(
                help="What to publish when the reports of a job stop: hold, the bound as it is; max, the maximum "
                "bound; own, the job's own bound."
            ),
        ] = None,
        approval: Annotated[
            Literal["none", "first", "narrow", "all"] | None,
            typer.Option(
                help="Which rollouts wait for approval: none; the first of the stream; those that narrow; all."
            ),
        ] = None,
        gate: Annotated[
            list[str] | None,
            typer.Option(
                help="Outside gate to ask before a narrowing is published and while it is verified, by the name that "
                "the controller's operators gave it; may be repeated; replaces all that were set; none for none."
            ),
        ] = None,
        late: Annotated[
            Literal["drop", "side", "call"] | None,
            typer.Option(
                help="What becomes of late rows where the job's call has late=side(...): side, they are kept; drop, "
                "they are only counted; call, what the call says. The job follows within a minute."
            ),
        ] = None,
        label: Annotated[
            list[str] | None,
            typer.Option(
                help="Label of the stream, such as team=payments, which its alerts carry and are routed by; may be "
                "repeated; replaces all that were set; none for none."
            ),
        ] = None,
        reason: ReasonOption = None,
        dry_run: DryRunOption = False,
        call: Call,
    ) -> None:
        """Change the policy of a stream.

        Fields without an option stay as they are.
        """
        with call.open() as tidemark:
            given: dict[str, tuple[Any, Any]] = {
                "mode": (mode, str),
                "min_bound_ms": (min_bound, lambda text: milliseconds_of(text, "--min-bound")),
                "max_bound_ms": (max_bound, lambda text: milliseconds_of(text, "--max-bound")),
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
                "gates": (gate, lambda names: [] if names == [NONE] else names),
                "late": (late, lambda text: None if text == "call" else text),
                "labels": (label, _labels),
            }
            changes = {name: read(value) for name, (value, read) in given.items() if value}
            if not changes:
                raise ValueError("give at least one option, such as --mode OnRestart")
            found = tidemark.change_policy(job, stream, changes, reason=reason, dry_run=dry_run)
        if call.json:
            return as_json(found)
        verb = "would set" if dry_run else "set"
        say(f"{verb} the policy of {job}/{stream}: mode {found.mode}, bounds {_range(found)}")
        return show_consequences(found, None if dry_run else (job, stream))

    @policy.command("get")
    @calls_controller
    def get_policy(job: JobArgument, stream: StreamArgument, *, call: Call) -> None:
        """Show the policy of a stream."""
        with call.open() as tidemark:
            found = tidemark.policy(job, stream)
        if found is None:
            fail_request(f"the stream {job}/{stream} is unknown; `tidemark status` lists the jobs")
        return as_json(found) if call.json else show_facts(_facts(found))

    @policy.command("delete")
    @calls_controller
    def delete_policy(
        job: JobArgument,
        stream: StreamArgument,
        *,
        reason: ReasonOption = None,
        dry_run: DryRunOption = False,
        call: Call,
    ) -> None:
        """Delete the policy of a stream; the default one holds from then on, whose mode is Off."""
        with call.open() as tidemark:
            found = tidemark.delete_policy(job, stream, reason=reason, dry_run=dry_run)
        if call.json:
            return as_json(found)
        verb = "would delete" if dry_run else "deleted"
        say(f"{verb} the policy of {job}/{stream}: mode {found.mode}, bounds {_range(found)}")
        return show_consequences(found)


def _freezes(texts: list[str]) -> list[dict[str, Any]]:
    return [] if texts == [NONE] else [parse_freeze(text) for text in texts]


def _labels(texts: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in [] if texts == [NONE] else texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"--label {text}: write it like team=payments")
        if name in found:
            raise ValueError(f"--label {text}: {name} is given twice")
        found[name] = value
    return found


def _range(policy: PolicyAnswer) -> str:
    minimum = duration(policy.min_bound_ms)
    if policy.max_bound_ms is None:
        return f"of at least {minimum}"
    return f"of {minimum} to {duration(policy.max_bound_ms)}"


def _facts(policy: PolicyAnswer) -> dict[str, str]:
    return {
        "mode": policy.mode,
        "bounds": _range(policy),
        "directions": ", ".join(policy.directions),
        "margin": share(policy.margin_ppm),
        "cooldown": duration(policy.cooldown_ms),
        "max narrowings a day": str(policy.max_narrowings_a_day or "-"),
        "max narrowing": share(policy.max_narrowing_ppm),
        "evidence": f"{duration(policy.evidence_ms)}, {policy.evidence_windows:,} windows",
        "freeze": "; ".join(format_freeze(asdict(window)) for window in policy.freeze_windows) or "-",
        "paused": "yes" if policy.paused else "no",
        "on no data": policy.on_no_data,
        "approval": policy.approval,
        "outside gates": ", ".join(policy.gates) or "-",
        "late rows": policy.late or "what the job's call says",
        "labels": ", ".join(f"{name}={value}" for name, value in policy.labels.items()) or "-",
        "generation": f"{policy.generation}, since {moment(policy.updated_us)}",
    }
