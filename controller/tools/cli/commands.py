"""The commands that watch streams, set what should hold, and roll bounds out by hand: each is a row."""

from __future__ import annotations

import click

from tidemark.controller.tools.cli.parameters import (
    ACT,
    DRY_RUN,
    FLEET,
    JOB,
    JOIN,
    NEEDED_REASON,
    PIN_JOB,
    REASON,
    ROLLOUT,
    SOME_JOB,
    SOME_STREAM,
    SPEC_STREAM,
    STREAM,
    TOKEN_FILE,
    URL,
    YES,
)
from tidemark.controller.tools.cli.shape import PATH, Params, Row, Whole, arg, opt, row, several


def _limit(what: str, default: int) -> click.Option:
    return opt("--limit", f"Maximum number of {what}.", Whole(min=1), default=default)


SHOW = (
    row(
        "status",
        "status:status",
        "Show how all jobs, one job or one of its streams are doing.",
        SOME_JOB,
        SOME_STREAM,
        watched=True,
    ),
    row(
        "why",
        "status:why",
        "Say why a stream has the bound that it has: the step that decides, or with --all each step.",
        JOB,
        STREAM,
        opt("--all every", "Show each step of the decision.", bool),
    ),
    row(
        "savings",
        "savings:savings",
        """Show what the fleet would save, streams that lose rows first, then by waiting saved.

        For each stream: the bound in force -> the recommended one, and the same of the latency of a result, of the
        rows late a day, and of the state. Waiting saved is the latency saved times the windows of a day: a result a
        minute that comes 50 s earlier saves 20 hours a day; a wider bound costs some. A sum has what is known of it.
        """,
        SOME_JOB,
        watched=True,
    ),
    row(
        "doctor",
        "doctor:doctor",
        """Check a job, all jobs or a conf: what is fine, what is missing, and what to do next.

        Without a job it says of each one whether it is watched. The exit code is 1 when something is missing, and 0
        when there are only warnings.
        """,
        SOME_JOB,
        SOME_STREAM,
        opt(
            "--conf",
            "Check a spark-defaults.conf instead: whether jobs that run on this machine with it are watched.",
            PATH,
        ),
        opt("--strict", "Exit with 1 on warnings too.", bool),
        URL,
        TOKEN_FILE,
        kind="answer",
    ),
    row(
        "partitions",
        "streams:partitions",
        "Show the partitions of a stream, those that cost most latency first.",
        JOB,
        STREAM,
    ),
    row(
        "lost",
        "streams:lost",
        """Show which values of a dimension, such as the region, lose rows, and who loses far more.

        The job counts them with late=side(..., dimension="region").
        """,
        JOB,
        STREAM,
        opt("--dimension", "The dimension, or partition. Default: the one that the job names."),
        opt("--window", "How far back to count, such as '6 h'. Default: the SLO's window."),
        opt("--limit", "How many values to show at most.", Whole(1, 1_000), default=20),
    ),
    row(
        "events",
        "events:events",
        "Show what changed, from what to what, why and by whom, the newest first.",
        SOME_JOB,
        SOME_STREAM,
        opt("--kind", "Only events of this kind, such as RolloutRolledBack."),
        opt("--since", "Only events of so long ago and newer. Example: '6 h'"),
        opt("--follow -f", "Then print each event as it comes, the oldest first, until Ctrl-C.", bool),
        _limit("events", 50),
        URL,
        TOKEN_FILE,
        kind="itself",
    ),
)


def _spec(name: str, about: click.Argument, set_: str, get: str, delete: str) -> tuple[Row, ...]:
    """Return the rows of a kind of specification: its options are made from its fields."""

    def options() -> Params:
        from tidemark.controller.tools.cli.spec_options import parameters_of  # noqa: PLC0415 - when they are asked for

        return (JOB, about, *parameters_of(name), REASON, DRY_RUN)

    fields = "Fields without an option stay as they are."
    return (
        row(f"{name} set", f"specs:set_{name}", set_.format(f"\n\n{fields}"), later=options),
        row(f"{name} get", f"specs:get_{name}", get, JOB, about),
        row(f"{name} delete", f"specs:delete_{name}", delete, JOB, about, REASON, DRY_RUN),
    )


SET = (
    *_spec(
        "slo",
        SPEC_STREAM,
        "Set the SLO of a stream, or change it.{}",
        "Show the SLO of a stream.",
        "Delete the SLO of a stream; nothing is recommended from then on.",
    ),
    row("slo list", "specs:list_slos", "List the streams with their targets and bounds.", SOME_JOB),
    *_spec(
        "policy",
        SPEC_STREAM,
        "Change the policy of a stream.{}",
        "Show the policy of a stream.",
        "Delete the policy of a stream; the default one holds from then on, whose mode is Off.",
    ),
    *_spec(
        "join",
        JOIN,
        "Set the SLO on a join's output, or change it; it decides about the bounds of its streams."
        "{} Each stream needs an SLO of its own.",
        "Show the SLO on a join's output, what it needs of each stream, and what is left of its budget.",
        "Delete the SLO on a join's output; its streams go by their own SLOs from then on.",
    ),
    row(
        "join list",
        "specs:list_joins",
        "List the joins of a job, with what each has lost and what is left of its budget.",
        JOB,
    ),
    row(
        "apply",
        "apply:apply",
        """Make SLOs, policies and joins as documents in files say, all or none; show what differs.

        An SLO is a document of OpenSLO, a policy or a join one of tidemark/v1; `tidemark export` writes them. Every
        file is checked, and every change tried on the controller, before the first is made.
        """,
        several(
            "--filename -f files",
            "File of YAML documents, folder of such files, or - for standard input; may be repeated.",
            metavar="FILE|DIR",
            required=True,
        ),
        opt(
            "--prune",
            "Also delete SLOs, policies and joins of the jobs that the documents name which no document has.",
            bool,
        ),
        opt("--validate-only", "Only check the files; no controller is called.", bool),
        opt("--exit-code", "With --dry-run: exit with 1 when something would change.", bool),
        REASON,
        DRY_RUN,
        URL,
        TOKEN_FILE,
        kind="answer",
    ),
    row(
        "export",
        "apply:export",
        """Print SLOs, policies and joins as documents that `tidemark apply` reads.

        An SLO is a document of OpenSLO, which refers to the metrics that Prometheus scrapes from the controller.
        """,
        SOME_JOB,
        SOME_STREAM,
        opt("--openslo", "Only SLOs: documents of OpenSLO v1, which other tools read too.", bool),
        URL,
        TOKEN_FILE,
        kind="plain",
    ),
)

ROLL_OUT = (
    row(
        "rollouts",
        "rollouts:rollouts",
        """List rollouts, the newest first; for a stream also what is recommended, and why.

        A rollout begins with its recommendation. Those that are open are listed, those in some states, or all. For one
        stream it shows what decides, and the expected effect.
        """,
        SOME_JOB,
        SOME_STREAM,
        several("--state", "Only rollouts in this state; may be repeated. Default: those that are open."),
        opt("--all every", "Include rollouts that have ended.", bool),
        opt("--vetoed", "Only those that a person vetoed; `tidemark lift` ends a veto.", bool),
        _limit("rollouts", 100),
        watched=True,
    ),
    row(
        "approve",
        "rollouts:approve",
        """Approve a rollout; it is published as soon as no gate holds it.

        An approval opens no other gate: of many that are approved together, those beyond the fleet's limits wait for
        their turn.
        """,
        arg(
            "rollout",
            "Number of the rollout; `tidemark rollouts` shows it.",
            type=Whole(min=1),
            required=False,
        ),
        opt("--all every", "All rollouts that await approval: a dry run unless --yes is given.", bool),
        opt("--yes", "With --all: approve them.", bool),
        NEEDED_REASON,
        DRY_RUN,
    ),
    row(
        "discard",
        "rollouts:discard",
        "Discard a rollout that is not published yet.",
        ROLLOUT,
        NEEDED_REASON,
        DRY_RUN,
    ),
    row(
        "rollback",
        "rollouts:rollback",
        """Publish again the bound from before the newest rollout of a stream.

        The rollout may be verified already.
        """,
        *ACT,
    ),
    row(
        "lift",
        "rollouts:lift",
        "Lift the veto on a rollout that was discarded or rolled back by a person.",
        ROLLOUT,
        NEEDED_REASON,
        DRY_RUN,
    ),
    row(
        "pause",
        "rollouts:pause",
        "Start no new rollout for a stream; the one under way is still watched.",
        *ACT,
    ),
    row("resume", "rollouts:resume", "End a pause.", *ACT),
    row(
        "pin",
        "pin:pin",
        "Hold a stream, a job or the whole fleet to its ceiling or its own bound, at once.",
        PIN_JOB,
        SOME_STREAM,
        opt(
            "--to",
            "ceiling: live control stops, and the ceiling is the bound; off: the job uses its own bound.",
            ("ceiling", "off"),
            required=True,
        ),
        FLEET,
        YES,
        NEEDED_REASON,
        DRY_RUN,
    ),
    row("unpin", "pin:unpin", "Remove a pin.", PIN_JOB, SOME_STREAM, FLEET, YES, REASON, DRY_RUN),
    row("pins", "pin:pins", "List the pins."),
)
