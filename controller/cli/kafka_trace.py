"""``tidemark trace --from kafka``: makes a trace from a topic, and says which clock its arrival times are from."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from tidemark.controller.cli.options import duration_of
from tidemark.controller.cli.progress import progress_bar
from tidemark.controller.cli.trace import note_early_rows, note_misdated_rows, show_trace
from tidemark.controller.traces.format import write_trace
from tidemark.controller.traces.messages import TimeSources, TopicTraceBuilder
from tidemark.models.base.duration import format_duration
from tidemark.models.base.text import plural

if TYPE_CHECKING:
    from tidemark.controller.traces.messages import TopicTrace

_MILLISECOND_US = 1_000
_CLOCKS = {
    "CreateTime": "the producers' clocks: when a row was handed to the producer; the time from there into Kafka "
    "is not in the delays",
    "LogAppendTime": "the broker's clock: when a row was appended to its partition",
}


def make_kafka_trace(
    bootstrap_servers: str,
    topic: str,
    times: TimeSources,
    output: Path,
    *,
    since: str | None = None,
    client_settings: Path | None = None,
) -> None:
    """Write a trace of what a topic holds now, and print a summary.

    Args:
        bootstrap_servers: address of Kafka.
        topic: name of the topic.
        times: where the times come from.
        output: the Parquet file to write.
        since: how far back to begin, as a duration; None for the topic's beginning.
        client_settings: properties file with further settings of the client.

    Raises:
        ValueError: when the topic cannot be read or holds no readable row.
    """
    try:
        from tidemark.controller.traces import kafka  # noqa: PLC0415 - an extra of its own
    except ModuleNotFoundError as error:
        if error.name != "confluent_kafka":
            raise
        raise ValueError("--from kafka needs confluent-kafka: pip install 'tidemark[kafka]'") from None

    if since is not None and duration_of(since) <= 0:
        raise ValueError(f"--since must be above 0, not {since!r}")
    source = kafka.Topic(
        bootstrap_servers=bootstrap_servers,
        name=topic,
        since_ms=None if since is None else time.time_ns() // 1_000_000 - duration_of(since) // 1_000,
        client_settings={} if client_settings is None else kafka.read_client_settings(client_settings),
    )
    rows = TopicTraceBuilder(times)
    with kafka.TopicReader(source) as reader, progress_bar() as progress:
        task = progress.add_task("reading", total=reader.rows)
        for messages in reader.batches():
            rows.add(messages)
            progress.advance(task, len(messages))
    made = rows.build()
    if not len(made.trace):
        raise ValueError(f"topic {topic!r} has no rows to make a trace from{_left_out(made, '; left out: ')}")
    write_trace(output, made.trace)
    _show(made, times, output)


def _show(made: TopicTrace, times: TimeSources, output: Path) -> None:
    say = show_trace(made.trace, output)
    if times.arrival is not None:
        say(f"arrival: field {times.arrival!r} of the value")
    else:
        for kind, rows in made.timestamp_types.items():
            which = f" of {plural(rows, 'row')}" if len(made.timestamp_types) > 1 else ""
            say(f"arrival: the timestamp{which} is {kind}, {_CLOCKS[kind]}; to the millisecond")
    if made.unreadable:
        say(_left_out(made, "left out: "))
    if made.held_back:
        say(
            f"note: {made.held_back:,} rows have an earlier time than a row in front of them in their partition; they "
            f"count as arriving with it, at most {format_duration(made.held_back_max_us)} later than their own time"
        )
    note_early_rows(say, made.trace, _MILLISECOND_US if times.arrival is None else 1)
    note_misdated_rows(say, made.trace)
    for name in made.without_zone:
        say(f"note: {name!r} has times without a zone; they were taken as UTC")


def _left_out(made: TopicTrace, introduction: str) -> str:
    """Return how many messages are not in the trace and why; an empty text when all are."""
    if not made.unreadable:
        return ""
    reasons = "; ".join(f"{fault}: {count:,}" for fault, count in made.unreadable.items())
    return f"{introduction}{plural(sum(made.unreadable.values()), 'message')} ({reasons})"
