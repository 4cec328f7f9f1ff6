"""What is given to a public call is checked as the call is made, and not where it is first used."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import StructType

import tidemark.spark_jobs as public
from tidemark.models.base.operators import row_level, session, sliding, tumbling
from tidemark.models.protocol.messages import Acknowledgement, Report
from tidemark.spark_jobs import (
    AdaptiveQuery,
    adaptive_watermark,
    commit_properties,
    flush,
    revise,
    run_adaptive,
    run_and_exit,
    side,
    with_completeness,
)
from tidemark.spark_jobs.core.arguments import checked
from tidemark.spark_jobs.core.connections import counts_of
from tidemark.spark_jobs.live.future_rows import future_rows

_WATERMARK = {"event_time": "ts", "bound": "10 minutes"}
CALLS: dict[Callable[..., Any], dict[str, Any]] = {
    adaptive_watermark: _WATERMARK,
    side: {"folder": "/late", "parse": lambda df: df},
    revise: {"grace": "1 hour"},
    revise(grace="1 hour").into: {"upsert": print},
    future_rows: {"df": SimpleNamespace(sparkSession=None), "event_time": "ts", "arrival_time": "timestamp"},
    AdaptiveQuery: {"build": print},
    run_adaptive: {"build": print},
    run_and_exit: {"build": print},
    flush: {},
    counts_of: {"query": None},
    with_completeness: {"df": SimpleNamespace(sparkSession=None, columns=[])},
    commit_properties: {"df": SimpleNamespace(sparkSession=None, columns=[])},
    tumbling: {"size": "1 minute"},
    sliding: {"size": "1 minute", "slide": "10 s"},
    session: {"gap": "1 minute"},
    row_level: {},
}
"""Every public call, with what it needs."""


class Wrong:
    """What is right for no parameter."""

    def __repr__(self) -> str:
        """Be recognised in a message."""
        return "<wrong>"


PARAMETERS = [
    pytest.param(call, parameter, id=f"{call.__name__}({name})")
    for call in CALLS
    for name, parameter in inspect.signature(call).parameters.items()
]


def test_every_public_call_is_among_those_whose_arguments_are_tried() -> None:
    assert {getattr(public, name) for name in public.__all__} <= set(CALLS)


@pytest.mark.parametrize(("call", "parameter"), PARAMETERS)
def test_an_argument_of_a_wrong_type_is_refused_as_the_call_is_made_with_what_is_wrong(
    call: Callable[..., Any], parameter: inspect.Parameter
) -> None:
    """A parameter that is added without a check fails this test."""
    given = {**CALLS[call], parameter.name: Wrong()}
    positional = (given.pop(parameter.name),) if parameter.kind is parameter.VAR_POSITIONAL else ()
    with pytest.raises(ValueError, match="<wrong>"):
        call(*positional, **given)


def test_a_parameter_without_a_rule_cannot_be_added() -> None:
    with pytest.raises(KeyError, match="colour"):

        @checked()
        def paint(colour: str) -> None: ...


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"mode": "live"}, "mode is 'live'; it must be Off, OnRestart, Restart or Live: write mode=\"Live\""),
        ({"mode": "on-restart"}, 'write mode="OnRestart"'),
        ({"mode": "banana"}, "mode is 'banana'; it must be Off, OnRestart, Restart or Live"),
        ({"late": "side"}, "late is 'side'; it must be what side\\("),
        ({"late": side}, "it must be what side\\("),
        ({"bound": 10}, 'bound is 10; it must be an interval as text: write bound="10 minutes"'),
        ({"bound": " "}, "bound is ' '"),
        ({"job": "a/b"}, "job is 'a/b'; it must be 1 to 200 printable characters"),
        ({"bound": "10 fortnights"}, "bound: .* unknown unit 'fortnights'"),
        ({"ceiling": "5 minutes"}, "ceiling 5 min is below the bound 10 min"),
        ({"ceiling": "0.1 months"}, None),
        ({"operator": "tumbling"}, "operator is 'tumbling'; .* write operator=tumbling\\(\"1 minute\"\\)"),
        ({"operator": tumbling}, "operator is <function tumbling"),
        ({"event_time": ""}, "event_time is ''"),
        ({"partition": ""}, "partition is ''; it must be the name of a column, or None"),
        ({"max_keys": 0}, "max_keys is 0; it must be a whole number, at least 1 and at most 100,000"),
        ({"max_keys": 2_000_000}, "at most 100,000"),
        ({"max_keys": True}, "max_keys is True"),
        ({"max_keys": 10.0}, "max_keys is 10.0"),
        (
            {"future_rows": "Aside"},
            "future_rows is 'Aside'; it must be clamp or aside: write future_rows=\"aside\"",
        ),
        ({"idle_timeout": "-1 s"}, "idle_timeout: '-1 s' must be at least 0"),
        ({"sink": print}, "it must be an object with the methods report and acknowledge"),
    ],
)
def test_a_call_that_cannot_be_meant_says_what_to_write(given: dict[str, Any], said: str | None) -> None:
    if said is None:
        adaptive_watermark(**{**_WATERMARK, **given})
        return
    with pytest.raises(ValueError, match=said):
        adaptive_watermark(**{**_WATERMARK, **given})


def test_what_is_right_is_taken(tmp_path: Path) -> None:
    class Sink:
        dropped = 0

        def report(self, report: Report) -> None: ...

        def acknowledge(self, job: str, stream: str, acknowledgement: Acknowledgement) -> None: ...

    adaptive_watermark(
        "ts",
        "10 minutes",
        tumbling("1 minute"),
        stream="clicks",
        partition=None,
        ceiling="2 hours",
        mode="Live",
        idle_timeout="30 s",
        future_rows="aside",
        arrival_time=None,
        granule="1 s",
        max_keys=1,
        job="shop",
        controller_url="http://localhost:8642",
        token_file=str(tmp_path),
        sink=Sink(),
        late=side(
            "/late",
            parse=lambda df: df,
            format="kafka",
            options={"a": "b"},
            schema=StructType(),
            dimension="region",
        ),
    )
    adaptive_watermark("ts", "10 minutes", late=revise("page", "country", grace="1 hour"))
    AdaptiveQuery(lambda: None, cooldown_s=0, marker=tmp_path / "marker")  # type: ignore[arg-type, return-value]


def test_an_argument_that_no_parameter_takes_is_refused_by_python_with_the_name_of_the_call() -> None:
    with pytest.raises(TypeError, match=r"adaptive_watermark\(\) got an unexpected keyword argument 'modes'"):
        adaptive_watermark("ts", "10 minutes", modes="Live")  # type: ignore[call-arg]
