"""``tidemark trace --from kafka`` on a real broker, and that a wrong call ends in one line, code 2 and no output."""

from __future__ import annotations

import re
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from tidemark.controller.lab import traces
from tidemark.controller.lab.traces import kafka as kafka_module
from tidemark.controller.lab.traces.format import Trace, read_trace, write_trace
from tidemark.controller.lab.traces.kafka import read_client_settings
from tidemark.spark_jobs.demo.kafka_broker import KafkaBroker
from tidemark.spark_jobs.demo.kafka_feed import replay_into_topic

from support.kafka import Sent, new_topic, send
from support.laboratory import trace, trace_refused
from support.patience import PATIENCE_S

NOON_MS = 1_714_564_800_000
slow = pytest.mark.slow


def made(broker: KafkaBroker, topic: str, output: Path, *arguments: str | Path) -> str:
    """Make the trace; return what was said, without the table."""
    named = ("--from", "kafka", "--bootstrap-servers", broker.bootstrap_servers, "--topic", topic)
    return trace.said(*named, "-o", output, *arguments).partition("delay max")[2].partition("\n")[2]


def rows_of(path: Path) -> list[tuple[int, int, str]]:
    """Return event and arrival in milliseconds after noon, and the partition, of each row."""
    found = read_trace(path)
    names = (found.partitions[index] for index in found.partition)
    times = zip(found.event_time_us.tolist(), found.arrival_time_us.tolist(), names, strict=True)
    return [(event // 1_000 - NOON_MS, arrival // 1_000 - NOON_MS, name) for event, arrival, name in times]


def row(event_ms: int, arrival_ms: int, partition: int = 0) -> Sent:
    return Sent(f'{{"ts": {NOON_MS + event_ms}}}', partition, NOON_MS + arrival_ms)


# -- on a broker ---------------------------------------------------------------------------------------------


@slow
def test_rows_are_by_their_producers_time_and_the_output_says_whose_clock_that_is(
    kafka: KafkaBroker, output: Path
) -> None:
    """Within a partition the order of the log stays: a later message cannot have arrived earlier."""
    topic = new_topic(kafka, 3)
    sent = [
        row(0, 100, 2),
        row(50, 300, 0),
        row(60, 100, 0),
        row(20, 100, 0),
        row(70, 200, 2),
        row(5, 301, 0),
    ]
    send(kafka, topic, sent)

    said = made(kafka, topic, output, "--event-time", "ts", "--unit", "ms")

    assert rows_of(output) == [
        (0, 100, "2"),
        (70, 200, "2"),
        (50, 300, "0"),
        (60, 300, "0"),
        (20, 300, "0"),
        (5, 301, "0"),
    ]
    assert "arrival: the timestamp is CreateTime, the producers' clocks" in said
    assert "2 rows have an earlier time than a row in front of them" in said
    assert "at most 200 ms later than their own time" in said
    assert "left out" not in said


@slow
def test_the_broker_s_time_is_said_to_be_the_broker_s(kafka: KafkaBroker, output: Path) -> None:
    topic = new_topic(kafka, timestamps="LogAppendTime")
    before_ms = time.time_ns() // 1_000_000
    send(kafka, topic, [row(0, 0)])

    said = made(kafka, topic, output, "--event-time", "ts", "--unit", "ms")

    assert "arrival: the timestamp is LogAppendTime, the broker's clock" in said
    assert rows_of(output)[0][1] >= before_ms - NOON_MS


@slow
def test_messages_that_cannot_be_read_are_counted_aloud(kafka: KafkaBroker, output: Path) -> None:
    topic = new_topic(kafka, 2)
    faulty = [Sent(None), Sent("{"), Sent("[]", 1), Sent("{}", 1), Sent("{}"), Sent('{"ts": "soon"}')]
    send(kafka, topic, [*faulty[:3], row(0, 0), *faulty[3:], row(1, 1)])

    said = made(kafka, topic, output, "--event-time", "ts", "--unit", "ms")

    (line,) = (line for line in said.splitlines() if line.startswith("left out"))
    assert line.startswith("left out: 6 messages (no 'ts' in the value: 2; ")
    for fault in (
        "no value (a tombstone)",
        "the value is not JSON",
        "not a JSON object",
        "'ts' is not a time",
    ):
        assert f"{fault}: 1" in line
    assert rows_of(output) == [(0, 0, "0"), (1, 1, "0")]


@slow
def test_a_topic_without_a_readable_row_is_rejected_with_the_reasons(
    kafka: KafkaBroker, output: Path
) -> None:
    empty, unreadable = new_topic(kafka, 4), new_topic(kafka)
    send(kafka, unreadable, [Sent("{"), Sent(None)])
    for topic, reasons in (
        (empty, ""),
        (unreadable, "; left out: 2 messages (the value is not JSON: 1; no value (a tombstone): 1)"),
    ):
        line = trace_refused(
            output, "--from", "kafka", "--bootstrap-servers", kafka.bootstrap_servers, "--topic", topic
        )
        assert line == f"tidemark: topic '{topic}' has no rows to make a trace from{reasons}"


@slow
def test_a_replayed_trace_comes_back_with_its_partitions_event_times_and_order(
    kafka: KafkaBroker, output: Path, tmp_path: Path
) -> None:
    """Also when it is more than is read at a time."""
    rng = np.random.default_rng(3)
    rows = 50_000
    arrival = np.sort(rng.integers(0, 10**9, rows))
    names = tuple(str(number) for number in rng.permutation(12))
    original = Trace(
        arrival - rng.integers(0, 10**8, rows), arrival, rng.integers(0, 12, rows, np.int32), names
    )
    write_trace(tmp_path / "original.parquet", original)
    topic = new_topic(kafka, 12)
    replay_into_topic(tmp_path / "original.parquet", topic, kafka.bootstrap_servers, speed=None)

    made(kafka, topic, output, "--event-time", "event_time_us", "--unit", "us")

    found = read_trace(output)
    assert len(found) == rows
    for name in names:
        mine = original.event_time_us[original.partition == names.index(name)]
        assert np.array_equal(found.event_time_us[found.partition == found.partitions.index(name)], mine)


@slow
def test_since_reads_the_last_messages_only(kafka: KafkaBroker, output: Path) -> None:
    """A partition without any that young gives none."""
    topic = new_topic(kafka, 3)
    now_ms = time.time_ns() // 1_000_000 - NOON_MS
    ages_s = {0: (9_000, 8_000, 3_000, 10), 1: (20_000, 9_000), 2: (100,)}
    send(
        kafka,
        topic,
        [row(0, now_ms - 1_000 * age, at) for at, ages in ages_s.items() for age in ages],
    )

    made(kafka, topic, output, "--event-time", "ts", "--unit", "ms", "--since", "2h")

    assert [name for _, _, name in rows_of(output)] == ["0", "2", "0"]


@slow
def test_what_is_written_while_it_reads_is_not_in_the_trace(
    kafka: KafkaBroker, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a busy topic would never be read to its end."""
    topic = new_topic(kafka, 2)
    send(kafka, topic, [row(0, number, number % 2) for number in range(1_000)])
    stop, written = threading.Event(), threading.Event()

    def write_on() -> None:
        while not stop.wait(0.01):
            send(kafka, topic, [row(9, 5_000, partition) for partition in (0, 1)])
            written.set()

    writer = threading.Thread(target=write_on)
    batches = kafka_module.TopicReader.batches

    def slow_batches(reader: kafka_module.TopicReader) -> object:
        writer.start()
        assert written.wait(PATIENCE_S)
        return batches(reader)

    monkeypatch.setattr(kafka_module.TopicReader, "batches", slow_batches)
    try:
        made(kafka, topic, output, "--event-time", "ts", "--unit", "ms")
    finally:
        stop.set()
        writer.join()

    assert len(rows_of(output)) == 1_000


@slow
def test_event_time_from_a_header_or_the_timestamp(kafka: KafkaBroker, output: Path) -> None:
    topic = new_topic(kafka)
    headers = (("ts", "2024-05-01T12:00:01Z"),)
    send(kafka, topic, [Sent(f'{{"seen": {NOON_MS + 7_000}}}', 0, NOON_MS + 2_000, headers)])

    said = made(kafka, topic, output, "--event-time", "ts", "--event-time-from", "header")
    assert rows_of(output) == [(1_000, 2_000, "0")]
    assert "CreateTime" in said

    said = made(kafka, topic, output, "--event-time-from", "timestamp", "--arrival", "seen", "--unit", "ms")
    assert rows_of(output) == [(2_000, 7_000, "0")]
    assert "arrival: field 'seen' of the value" in said
    assert "CreateTime" not in said


@slow
def test_rows_early_by_less_than_kafka_s_millisecond_are_not_called_early(
    kafka: KafkaBroker, output: Path
) -> None:
    topic = new_topic(kafka)
    send(kafka, topic, [Sent(f'{{"ts": {NOON_MS * 1_000 + late}}}', 0, NOON_MS) for late in (0, 999, 1_000)])

    said = made(kafka, topic, output, "--event-time", "ts", "--unit", "us")

    assert "note: 1 row arrived before the event" in said


@slow
def test_a_topic_that_is_not_there_is_said_and_not_made(kafka: KafkaBroker, output: Path) -> None:
    named = ("--from", "kafka", "--bootstrap-servers", kafka.bootstrap_servers, "--topic", "nowhere")
    for _ in range(2):
        assert re.match(r"tidemark: topic 'nowhere': .*nknown topic", trace_refused(output, *named))


# -- without one ---------------------------------------------------------------------------------------------

NAMED = ("--from", "kafka", "--bootstrap-servers", "127.0.0.1:1", "--topic", "t")


@slow
def test_a_kafka_that_does_not_answer_is_said_with_its_address(
    output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_module, "_REQUEST_SECONDS", 1)  # nobody is there, however long it is asked
    assert "Kafka at 127.0.0.1:1 does not answer: " in trace_refused(output, *NAMED)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--from", "kafka"), "--from kafka needs --bootstrap-servers and --topic"),
        ((*NAMED, "events.json"), "--from kafka does not take SOURCE"),
        (
            (*NAMED, "--partition", "p", "--skip-nulls"),
            "--from kafka does not take --partition, --skip-nulls",
        ),
        ((*NAMED, "--event-time-from", "timestamp"), "would both be the message's timestamp"),
        ((*NAMED, "--since", "0s"), "--since must be above 0, not '0s'"),
        ((*NAMED, "--since", "soon"), "'soon'"),
        ((*NAMED, "--client-settings", "nowhere.properties"), "nowhere.properties: cannot be read"),
        (("a.json", "--topic", "t", "--arrival", "a"), "only --from kafka takes --topic"),
        (("--arrival", "a"), "name the files or folders to read, or a topic with --from kafka"),
    ],
)
def test_a_call_that_is_not_valid_is_rejected(output: Path, arguments: tuple[str, ...], said: str) -> None:
    assert said in trace_refused(output, *arguments)


def test_settings_of_the_client_come_from_a_properties_file(tmp_path: Path, output: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("# a comment\n\nsecurity.protocol = SASL_SSL\nsasl.password=a=b\n!another\n")
    assert read_client_settings(path) == {"security.protocol": "SASL_SSL", "sasl.password": "a=b"}

    path.write_text("no.such.setting=1\n")
    line = trace_refused(output, *NAMED, "--client-settings", path)
    assert 'No such configuration property: "no.such.setting"' in line

    path.write_text("security.protocol\n")
    assert "line 1 is not name=value" in trace_refused(output, *NAMED, "--client-settings", path)


def test_without_the_client_the_line_says_what_to_install(
    output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(traces, "kafka")
    monkeypatch.delitem(sys.modules, "tidemark.controller.lab.traces.kafka")
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)

    assert trace_refused(output, *NAMED) == (
        "tidemark: --from kafka needs confluent-kafka: pip install 'tidemark-streaming[kafka]'"
    )
