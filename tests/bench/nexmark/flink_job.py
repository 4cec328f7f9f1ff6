"""The query in Flink; it runs in the environment that has PyFlink, and its argument is JSON.

One job has, for each of ``settings``, a source, a watermark and a topic of results of its own.
"""

from __future__ import annotations

import json
import sys

from pyflink.table import EnvironmentSettings, TableEnvironment

_TABLES = """
CREATE TABLE bids_{name} (
    auction BIGINT,
    price BIGINT,
    event_us BIGINT,
    ts AS TO_TIMESTAMP_LTZ(event_us / 1000, 3),
    WATERMARK FOR ts AS ts - INTERVAL '{bound_s:.3f}' SECOND(3, 3)
) WITH (
    'connector' = 'kafka',
    'properties.bootstrap.servers' = '{servers}',
    'topic' = '{topic}',
    'scan.startup.mode' = 'earliest-offset',
    'scan.watermark.idle-timeout' = '{idle_ms} ms',
    'format' = 'json'
);
CREATE TABLE counts_{name} (window_end_us BIGINT, auction BIGINT, bids BIGINT, max_price BIGINT) WITH (
    'connector' = 'kafka',
    'properties.bootstrap.servers' = '{servers}',
    'topic' = '{results}',
    'format' = 'json'
)
"""
_QUERY = """
INSERT INTO counts_{name}
SELECT UNIX_TIMESTAMP(CAST(window_end AS STRING)) * 1000000, auction, COUNT(*), MAX(price)
FROM TABLE(TUMBLE(TABLE bids_{name}, DESCRIPTOR(ts), INTERVAL '{window_s}' SECOND))
GROUP BY window_start, window_end, auction
"""


def main() -> None:
    """Run until it is killed."""
    given = json.loads(sys.argv[1])
    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for key, value in given["configuration"].items():
        environment.get_config().set(key, value)
    queries = environment.create_statement_set()
    for number, setting in enumerate(given["settings"]):
        named = {"name": number, **given["shared"], **setting}
        for table in _TABLES.format(**named).split(";"):
            environment.execute_sql(table)
        queries.add_insert_sql(_QUERY.format(**named))
    queries.execute().wait()


if __name__ == "__main__":
    main()
