"""Every setting has a key of the conf and an argument of the call, and both work; a key of nothing is named."""

from __future__ import annotations

import inspect

import pytest

from tidemark.models.base.stateful import CONFIRMED_KEY
from tidemark.spark_jobs import adaptive_watermark
from tidemark.spark_jobs.core.client import TOKEN_FILE_KEY
from tidemark.spark_jobs.core.settings import SETTINGS, unknown_keys
from tidemark.spark_jobs.core.tap import TAP_KEY
from tidemark.spark_jobs.core.wishes import Wishes

from support.job_settings import read_settings


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("spark.tidemark.controler.url", "spark.tidemark.controller.url"),
        ("spark.tidemark.colour", None),
    ],
)
def test_a_key_that_no_setting_has_is_named_with_the_one_that_may_be_meant(
    key: str, near: str | None
) -> None:
    assert [*unknown_keys([key])] == [(key, near)]


def test_the_keys_of_the_table_those_of_one_stream_and_those_of_others_are_no_unknown_ones() -> None:
    keys = [setting.key for setting in SETTINGS.values()]
    others = ["spark.tidemark.stream.clicks.mode", "spark.sql.shuffle.partitions", "mode"]
    assert [*unknown_keys([*keys, *others])] == []
    assert {CONFIRMED_KEY, TOKEN_FILE_KEY, TAP_KEY} <= set(keys)


def test_every_argument_of_the_call_that_the_conf_can_say_is_a_setting() -> None:
    parameters = inspect.signature(adaptive_watermark).parameters.keys()
    assert parameters - {"event_time", "operator", "late", "sink"} == {
        name for name, setting in SETTINGS.items() if setting.instead is None
    }


SAID = {
    "job": "shop",
    "stream": "clicks",
    "controller_url": "http://c",
    "token_file": "/token",
    "mode": "Live",
    "bound": "3 minutes",
    "ceiling": "2 hours",
    "idle_timeout": "30 s",
    "close_at_end": "1 hour",
    "partition": "region",
    "arrival_time": "came",
    "granule": "2 s",
    "max_keys": "7",
    "tap": "observe",
    "future_rows": "aside",
    "future_allowance": "2 minutes",
    "pin": "Off",
    "own_event_time_confirmed": "true",
    "enabled": "false",
    "cache_dir": "/bounds",
    "timeout_ms": "7",
    "queue_reports": "7",
    "watch_seconds": "7",
}
"""By an argument of the call another value than the default, as the conf says it."""
VALUES = {"max_keys": 7, "timeout_ms": 7, "queue_reports": 7, "watch_seconds": 7}
VALUES |= {"own_event_time_confirmed": True, "enabled": False}
"""What a call says for the same, where that is no text."""


@pytest.mark.parametrize("name", [name for name, setting in SETTINGS.items() if setting.instead is None])
def test_a_key_says_what_the_argument_of_its_name_says_and_the_argument_wins(name: str) -> None:
    setting, nothing = SETTINGS[name], dict[str, str]()
    conf = {setting.key: SAID[name]}
    by_conf = getattr(read_settings(conf.get), name)
    assert by_conf == getattr(read_settings(nothing.get, **{name: VALUES.get(name, SAID[name])}), name)
    unset = getattr(read_settings(nothing.get), name)
    assert by_conf != unset
    if setting.default is not None:
        assert getattr(read_settings(conf.get, **{name: setting.default}), name) == unset


def test_a_key_of_one_stream_goes_before_that_of_all() -> None:
    conf = {"spark.tidemark.mode": "Live", "spark.tidemark.stream.clicks.mode": "OnRestart"}
    modes = [
        Wishes(conf.get, stream).first_that_fits(lambda settings: settings.mode)
        for stream in ("clicks", "views")
    ]
    assert modes == ["OnRestart", "Live"]
