"""The bound at start: a job starts whatever happens to the controller, with the best bound it can know."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tidemark.models.wire import BoundAnswer, to_json_object
from tidemark.spark_jobs.bound import BoundCache, ChosenBound, choose_bound_at_start
from tidemark.spark_jobs.client import ControllerClient
from tidemark.spark_jobs.settings import SETTINGS, JobSettings

ANSWER = BoundAnswer(
    job="a/b", stream="s", mode="OnRestart", generation=4, bound_ms=12_300, reason="certified"
)
OFF = BoundAnswer(
    job="a/b", stream="s", mode="Off", generation=5, bound_ms=None, reason="mode Off watches only"
)


def _client(answer: Callable[[httpx.Request], httpx.Response]) -> ControllerClient:
    return ControllerClient("http://c", transport=httpx.MockTransport(answer))


def _answering(answer: BoundAnswer) -> ControllerClient:
    return _client(lambda _: httpx.Response(200, json=to_json_object(answer)))


def _away(_: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused")


def _start(client: ControllerClient | None, cache: BoundCache) -> ChosenBound:
    return choose_bound_at_start("a/b", "s", 60_000, client, cache)


def test_the_controllers_bound_is_used_and_kept(tmp_path: Path) -> None:
    """The next start may find the controller away."""
    cache = BoundCache(tmp_path)
    chosen = _start(_answering(ANSWER), cache)

    assert (chosen.bound_ms, chosen.source, chosen.generation, chosen.mode) == (
        12_300,
        "controller",
        4,
        "OnRestart",
    )
    assert cache.read("a/b", "s") == ANSWER


def test_an_outage_brings_the_last_good_bound_from_disk(tmp_path: Path) -> None:
    """An outage must not throw a job back to a guess."""
    cache = BoundCache(tmp_path)
    _start(_answering(ANSWER), cache)
    chosen = _start(_client(_away), cache)

    assert (chosen.bound_ms, chosen.source, chosen.generation) == (12_300, "disk", 4)
    assert "refused" in chosen.reason


def test_an_outage_does_not_revive_a_bound_that_was_taken_back(tmp_path: Path) -> None:
    """Off must stay Off."""
    cache = BoundCache(tmp_path)
    _start(_answering(ANSWER), cache)
    _start(_answering(OFF), cache)
    chosen = _start(_client(_away), cache)

    assert (chosen.bound_ms, chosen.source, chosen.generation, chosen.mode) == (60_000, "job", None, "Off")


@pytest.mark.parametrize(
    "answer",
    [
        _away,
        lambda _: httpx.Response(500),
        lambda _: httpx.Response(404),
        lambda _: httpx.Response(200, json={"surprise": 1}),
        lambda _: httpx.Response(200, content=b"<html>a proxy's page</html>"),
        lambda _: httpx.Response(200, json=[1]),
        lambda _: httpx.Response(200, json={**to_json_object(ANSWER), "bound_ms": "soon"}),
        lambda _: httpx.Response(200, json={**to_json_object(ANSWER), "bound_ms": -5}),
        lambda _: httpx.Response(200, json={**to_json_object(ANSWER), "bound_ms": 10**20}),
        lambda _: httpx.Response(200, json={**to_json_object(ANSWER), "job": None}),
        lambda _: httpx.Response(200, json={**to_json_object(ANSWER), "stream": "another"}),
        lambda _: (_ for _ in ()).throw(RuntimeError("whatever")),
    ],
)
def test_without_a_usable_answer_and_without_a_disk_copy_the_job_keeps_its_own_bound(
    tmp_path: Path, answer: Callable[[httpx.Request], httpx.Response]
) -> None:
    """Fail open, whatever comes back."""
    chosen = _start(_client(answer), BoundCache(tmp_path))

    assert (chosen.bound_ms, chosen.source, chosen.mode) == (60_000, "job", "Off")


def test_a_job_without_a_controller_keeps_its_own_bound(tmp_path: Path) -> None:
    """Tidemark must be harmless where it is not set up."""
    assert _start(None, BoundCache(tmp_path)).source == "job"


def test_a_damaged_or_unwritable_disk_copy_is_said_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A full disk is no reason not to start."""
    cache = BoundCache(tmp_path)
    cache.write(ANSWER)
    (file,) = (path for path in tmp_path.rglob("*.json"))
    file.write_text("{")

    assert cache.read("a/b", "s") is None
    assert "cannot be read" in caplog.text
    blocked = tmp_path / "file"
    blocked.write_text("")
    BoundCache(blocked).write(ANSWER)
    assert "cannot be kept" in caplog.text


def test_arguments_win_over_conf_and_conf_over_defaults() -> None:
    """The usual order, so that nobody has to look it up."""
    conf = {
        "spark.tidemark.stream": "from-conf",
        "spark.app.name": "app",
        "spark.tidemark.controller.url": "http://c",
    }
    settings = JobSettings.read(conf.get, stream="given")

    assert (settings.job, settings.stream, settings.controller_url) == ("app", "given", "http://c")
    assert JobSettings.read(conf.get).stream == "from-conf"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("spark.tidemark.job", "a/b", "no slash"),
        ("spark.tidemark.stream", " padded", "no space around"),
        ("spark.tidemark.controller.url", "tidemark:8642", "must start with http"),
        ("spark.tidemark.timeout.ms", "soon", "must be a whole number"),
        ("spark.tidemark.queue.reports", "0", "must be at least 1"),
    ],
)
def test_a_wrong_setting_names_its_key_and_the_way_out(key: str, value: str, message: str) -> None:
    """A typo in a conf is found at start, not at three in the morning."""
    conf = {key: value}
    with pytest.raises(ValueError, match=message) as error:
        JobSettings.read(conf.get)

    assert key in str(error.value)


def test_the_name_of_the_application_is_made_to_fit_since_nobody_chose_it_for_this() -> None:
    """A slash in it would have every report refused."""
    conf = {"spark.app.name": "etl/clicks\n"}

    assert JobSettings.read(conf.get).job == "etl_clicks_"


def test_an_answer_of_one_controller_is_not_used_for_another(tmp_path: Path) -> None:
    """Staging and production may run on one machine."""
    _start(_answering(ANSWER), BoundCache(tmp_path, "http://staging"))

    assert _start(_client(_away), BoundCache(tmp_path, "http://production")).source == "job"


def test_a_controller_that_trickles_its_answer_does_not_hold_up_the_start(tmp_path: Path) -> None:
    """A request's limit holds between two bytes only."""
    released = threading.Event()

    def trickle(_: httpx.Request) -> httpx.Response:
        released.wait(30)
        return httpx.Response(200, json=to_json_object(ANSWER))

    chosen = choose_bound_at_start("a/b", "s", 60_000, _client(trickle), BoundCache(tmp_path), limit_s=0.05)
    released.set()

    assert chosen.source == "job"
    assert "did not answer within" in chosen.reason


def test_every_conf_key_starts_with_spark_since_spark_submit_drops_the_others() -> None:
    """DESIGN 2.7, and the only namespace that is ours."""
    assert all(setting.key.startswith("spark.tidemark.") for setting in SETTINGS)
