"""Writes the demo's fleet into a topic in real time, without end.

python feed.py --bootstrap-servers localhost:9092 --topic events
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from itertools import count
from pathlib import Path

from tidemark.spark_jobs.demo.generator import generate
from tidemark.spark_jobs.demo.kafka_feed import ReplayError, replay_into_topic
from tidemark.spark_jobs.demo.plan import write_trace


def main() -> int:
    """Feed the topic until stopped, or for some rounds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--rows-per-second", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=600, help="length of a round; each has different rows")
    parser.add_argument("--rounds", type=int, help="number of rounds; without end unless given")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder, "trace.parquet")
        for seed in count() if chosen.rounds is None else range(chosen.rounds):
            write_trace(trace, generate(chosen.seconds, chosen.rows_per_second, seed))
            try:
                replayed = replay_into_topic(trace, chosen.topic, chosen.bootstrap_servers, shift_to_now=True)
            except ReplayError as error:
                sys.stderr.write(f"feed: {error}\n")
                return 1
            sys.stdout.write(f"{replayed.rows:,} rows in {replayed.seconds:.1f} s\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
