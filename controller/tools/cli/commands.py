"""The commands that watch streams, set what should hold, and roll bounds out by hand: ``command_table`` reads them."""

from __future__ import annotations

WATCH = """
status -> status:status watched
  Show how all jobs, one job or one of its streams are doing.
  + SOME_JOB SOME_STREAM

why -> status:why
  Say why a stream has the bound that it has: the step that decides, or with --all each step.
  + JOB STREAM
  - --all every flag: Show each step of the decision.

savings -> savings:savings watched
  Show what the fleet would save, streams that lose rows first, then by waiting saved.

  For each stream: the bound in force -> the recommended one, and the same of the latency of a result, of the rows
  late a day, and of the state. Waiting saved is the latency saved times the windows of a day: a result a minute that
  comes 50 s earlier saves 20 hours a day; a wider bound costs some. A sum has what is known of it.
  + SOME_JOB

doctor -> doctor:doctor answer
  Check a job, all jobs or a conf: what is fine, what is missing, and what to do next.

  Without a job it says of each one whether it is watched. On a machine of Databricks, EMR and the like it says what is
  closed there. The exit code is 1 when something is missing, and 0 when there are only warnings.
  + SOME_JOB SOME_STREAM
  - --conf path: Check a spark-defaults.conf instead: whether jobs that run on this machine with it are watched.
  - --strict flag: Exit with 1 on warnings too.
  + URL TOKEN_FILE

windows -> windows:windows watched
  Show the newest windows of a stream: what has come, what the result has of it, and what is to come.

  A window is settled when the share asked for has come, even if the most rows come that are expected.
  + JOB STREAM
  - --state open|closed: Only windows in this state.
  - --share: The share asked for, such as '99.5%'. Default: the target of the SLO, or 99.5%.
  - --limit 1.. = 12: How many windows to show at most.

wait -> windows:wait
  Wait until a share of a window's rows has come and counts, for cron, Make, Airflow and CI.

  The exit code is 0 when it is reached, 3 when it is not in time, and 4 when it cannot be reached any more: too many
  rows were late.
  + JOB STREAM
  - --window !: End of the window. Example: '2026-11-28T09:00Z'
  - --span: The windows of so long a span that ends then, as one. Example: '1 day'
  - --share: The share asked for, such as '99.5%'. Default: the target of the SLO, or 99.5%.
  - --timeout = 1 h: How long to wait.

partitions -> streams:partitions
  Show the partitions of a stream, those that cost most latency first.
  + JOB STREAM

lost -> streams:lost
  Show which values of a dimension, such as the region, lose rows, and who loses far more.

  The job counts them with late=side(..., dimension="region").
  + JOB STREAM
  - --dimension: The dimension, or partition. Default: the one that the job names.
  - --window: How far back to count, such as '6 h'. Default: the SLO's window.
  - --limit 1..1000 = 20: How many values to show at most.

events -> events:events watched
  Show what changed, from what to what, why and by whom, the newest first.
  + SOME_JOB SOME_STREAM
  - --kind: Only events of this kind, such as RolloutRolledBack.
  - --since: Only events of so long ago and newer. Example: '6 h'
  - --limit 1.. = 50: Maximum number of events.
"""

SET = """
slo set -> specs:set_slo
  Set the SLO of a stream, or change it.

  Fields without an option stay as they are.
  + JOB SPEC_STREAM FIELDS REASON DRY_RUN

slo get -> specs:get_slo
  Show the SLO of a stream.
  + JOB SPEC_STREAM

slo delete -> specs:delete_slo
  Delete the SLO of a stream; nothing is recommended from then on.
  + JOB SPEC_STREAM REASON DRY_RUN

slo list -> specs:list_slos
  List the streams with their targets and bounds.
  + SOME_JOB

policy set -> specs:set_policy
  Change the policy of a stream.

  Fields without an option stay as they are.
  + JOB SPEC_STREAM FIELDS REASON DRY_RUN

policy get -> specs:get_policy
  Show the policy of a stream.
  + JOB SPEC_STREAM

policy delete -> specs:delete_policy
  Delete the policy of a stream; the default one holds from then on, whose mode is Off.
  + JOB SPEC_STREAM REASON DRY_RUN

join set -> specs:set_join
  Set the SLO on a join's output, or change it; it decides about the bounds of its streams.

  Fields without an option stay as they are. Each stream needs an SLO of its own.
  + JOB JOIN FIELDS REASON DRY_RUN

join get -> specs:get_join
  Show the SLO on a join's output, what it needs of each stream, and what is left of its budget.
  + JOB JOIN

join delete -> specs:delete_join
  Delete the SLO on a join's output; its streams go by their own SLOs from then on.
  + JOB JOIN REASON DRY_RUN

join list -> specs:list_joins
  List the joins of a job, with what each has lost and what is left of its budget.
  + JOB

apply -> apply:apply answer
  Make SLOs, policies and joins as documents in files say, all or none; show what differs.

  An SLO is a document of OpenSLO, a policy or a join one of tidemark/v1; `tidemark export` writes them. Every file is
  checked, and every change tried on the controller, before the first is made.
  - --filename -f files <FILE|DIR> * !: File of YAML documents, folder of such files, or - for standard input; may be
      repeated.
  - --prune flag: Also delete SLOs, policies and joins of the jobs that the documents name which no document has.
  - --validate-only flag: Only check the files; no controller is called.
  - --exit-code flag: With --dry-run: exit with 1 when something would change.
  + REASON DRY_RUN URL TOKEN_FILE

export -> apply:export plain
  Print SLOs, policies and joins as documents that `tidemark apply` reads.

  An SLO is a document of OpenSLO, which refers to the metrics that Prometheus scrapes from the controller.
  + SOME_JOB SOME_STREAM
  - --openslo flag: Only SLOs: documents of OpenSLO v1, which other tools read too.
  + URL TOKEN_FILE
"""

ROLL_OUT = """
rollouts -> rollouts:rollouts watched
  List rollouts, the newest first; for a stream also what is recommended, and why.

  A rollout is the way of one recommended bound to its job. Without an option those that are open are listed.
  + SOME_JOB SOME_STREAM
  - --state *: Only rollouts in this state; may be repeated. Default: those that are open.
  - --all every flag: Include rollouts that have ended.
  - --vetoed flag: Only those that a person vetoed; `tidemark lift` ends a veto.
  - --limit 1.. = 100: Maximum number of rollouts.

approve -> rollouts:approve
  Approve a rollout; it is published as soon as no gate holds it.

  An approval opens no other gate: of many that are approved together, those beyond the fleet's limits wait for their
  turn.
  - rollout 1.. ?: Number of the rollout; `tidemark rollouts` shows it.
  - --all every flag: All rollouts that await approval: a dry run unless --yes is given.
  - --yes flag: With --all: approve them.
  + NEEDED_REASON DRY_RUN

discard -> rollouts:discard
  Discard a rollout that is not published yet.
  + ROLLOUT NEEDED_REASON DRY_RUN

rollback -> rollouts:rollback
  Publish again the bound from before the newest rollout of a stream.

  The rollout may be verified already.
  + JOB STREAM NEEDED_REASON DRY_RUN

lift -> rollouts:lift
  Lift the veto on a rollout that was discarded or rolled back by a person.
  + ROLLOUT NEEDED_REASON DRY_RUN

pause -> rollouts:pause
  Start no new rollout for a stream; the one under way is still watched.
  + JOB STREAM NEEDED_REASON DRY_RUN

resume -> rollouts:resume
  End a pause.
  + JOB STREAM NEEDED_REASON DRY_RUN

pin -> pin:pin
  Hold a stream, a job or the whole fleet to its ceiling or its own bound, at once.
  + PIN_JOB SOME_STREAM
  - --to ceiling|off !: ceiling: live control stops, and the ceiling is the bound; off: the job uses its own bound.
  + FLEET YES NEEDED_REASON DRY_RUN

unpin -> pin:unpin
  Remove a pin.
  + PIN_JOB SOME_STREAM FLEET YES REASON DRY_RUN

pins -> pin:pins
  List the pins.
"""
