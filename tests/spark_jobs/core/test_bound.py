"""The bound at start: a job starts whatever happens to the controller, with the best bound it can know."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from tidemark.models.protocol.messages import BoundAnswer, Envelope, Pin, to_json_object
from tidemark.spark_jobs.core.bound import (
    BoundCache,
    ChosenBound,
    OwnBounds,
    choose_bound_at_start,
    starting,
)
from tidemark.spark_jobs.core.client import ControllerClient
from tidemark.spark_jobs.core.settings import SETTINGS, JobSettings

from support.job_settings import read_settings

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


def _settings(folder: Path, stream: str = "s", pin: Pin | None = None, url: str | None = None) -> JobSettings:
    nothing = dict[str, str]()
    settings = read_settings(nothing.get, stream=stream, pin=pin, cache_dir=folder, controller_url=url)
    return replace(settings, job="a/b")


def _start(client: ControllerClient | None, folder: Path, url: str | None = None) -> ChosenBound:
    return choose_bound_at_start(_settings(folder, url=url), OwnBounds(60_000), client).chosen


def test_the_controllers_bound_is_used_and_kept(tmp_path: Path) -> None:
    """The next start may find the controller away."""
    cache = BoundCache(tmp_path)
    chosen = _start(_answering(ANSWER), tmp_path)

    assert (chosen.bound_ms, chosen.source, chosen.generation, chosen.mode) == (
        12_300,
        "controller",
        4,
        "OnRestart",
    )
    assert cache.read("a/b", "s") == ANSWER


def test_an_outage_brings_the_last_good_bound_from_disk(tmp_path: Path) -> None:
    """An outage must not throw a job back to a guess."""
    _start(_answering(ANSWER), tmp_path)
    chosen = _start(_client(_away), tmp_path)

    assert (chosen.bound_ms, chosen.source, chosen.generation) == (12_300, "disk", 4)
    assert "refused" in chosen.reason


def test_an_outage_does_not_revive_a_bound_that_was_taken_back(tmp_path: Path) -> None:
    """Off must stay Off."""
    _start(_answering(ANSWER), tmp_path)
    _start(_answering(OFF), tmp_path)
    chosen = _start(_client(_away), tmp_path)

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
    chosen = _start(_client(answer), tmp_path)

    assert (chosen.bound_ms, chosen.source, chosen.mode) == (60_000, "job", "Off")


def test_a_job_without_a_controller_keeps_its_own_bound(tmp_path: Path) -> None:
    """Tidemark must be harmless where it is not set up."""
    assert _start(None, tmp_path).source == "job"


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
    assert "cannot be written" in caplog.text


def test_arguments_win_over_conf_and_conf_over_defaults() -> None:
    """The usual order, so that nobody has to look it up."""
    conf = {
        "spark.tidemark.stream": "from-conf",
        "spark.app.name": "app",
        "spark.tidemark.controller.url": "http://c",
    }
    settings = read_settings(conf.get, stream="given")

    assert (settings.job, settings.stream, settings.controller_url) == ("app", "given", "http://c")
    assert read_settings(conf.get).stream == "from-conf"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("spark.tidemark.job", "a/b", "no slash"),
        ("spark.tidemark.stream", " padded", "no space around"),
        ("spark.tidemark.controller.url", "tidemark:8642", "that starts with http"),
        ("spark.tidemark.timeout.ms", "soon", "must be a whole number, at least 1 and at most 600,000"),
        ("spark.tidemark.own.event.time.confirmed", "yes", "must be True or False"),
        ("spark.tidemark.tap", "fast", "must be compiled or observe"),
        ("spark.tidemark.queue.reports", "0", "at least 1"),
        ("spark.tidemark.pin", "live", "must be Off or Ceiling"),
        ("spark.tidemark.watch.seconds", "0", "at least 1"),
        ("spark.tidemark.token", "s3cr3t", "spark.tidemark.token.file, or .* TIDEMARK_TOKEN"),
    ],
)
def test_a_wrong_setting_is_left_out_and_names_its_key_and_the_way_out(
    key: str, value: str, message: str
) -> None:
    """A fleet's conf is a wish: no job ends for a typo in it, and it is said at the start."""
    conf = {key: value}
    (line,) = read_settings(conf.get).left_out

    assert line.startswith(f"{key} is left out")
    assert re.search(message, line)


@pytest.mark.parametrize(
    "argument", [{"job": "a/b"}, {"controller_url": "tidemark:8642"}, {"close_at_end": "soon"}]
)
def test_an_argument_is_a_demand(argument: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"it must|close_at_end: "):
        read_settings(lambda _, default: default, **argument)


def test_a_kill_switch_that_is_misspelled_holds() -> None:
    conf = {"spark.tidemark.pin": "offf"}
    assert read_settings(conf.get).pin == "Off"


def test_the_name_of_the_application_is_made_to_fit_since_nobody_chose_it_for_this() -> None:
    """A slash in it would have every report rejected."""
    conf = {"spark.app.name": "etl/clicks\n"}

    assert read_settings(conf.get).job == "etl_clicks_"


def test_an_answer_of_one_controller_is_not_used_for_another(tmp_path: Path) -> None:
    """Staging and production may run on one machine."""
    _start(_answering(ANSWER), tmp_path, "http://staging")

    assert _start(_client(_away), tmp_path, "http://production").source == "job"


def test_every_conf_key_starts_with_spark_since_spark_submit_drops_the_others() -> None:
    """DESIGN 2.7, and the only namespace that is ours."""
    assert all(setting.key.startswith("spark.tidemark.") for setting in SETTINGS.values())


def test_a_token_in_the_conf_is_not_used_and_not_shown_once_more() -> None:
    """Spark's UI and event log have shown it already; the driver's log need not."""
    conf = {"spark.tidemark.token": "s3cr3t"}
    (line,) = read_settings(conf.get).left_out

    assert "must not be set" in line
    assert "s3cr3t" not in line


def test_the_settings_of_watch_pin_and_marker_are_read() -> None:
    conf = {
        "spark.tidemark.pin": "Ceiling",
        "spark.tidemark.watch.seconds": "45",
        "spark.tidemark.restart.marker": "run/marker.json",
    }
    nothing: dict[str, str] = {}
    settings, unset = read_settings(conf.get), read_settings(nothing.get)

    assert (settings.pin, settings.watch_seconds) == ("Ceiling", 45)
    assert settings.restart_marker == Path("run/marker.json")
    assert (unset.pin, unset.watch_seconds, unset.restart_marker) == (None, 30, None)


# -- the whole answer and pins ----------------------------------------------------------------------------------

LIVE = replace(
    ANSWER, mode="Live", envelope=Envelope(target_ppm=990_000, latency_cap_ms=60_000), pin="Ceiling"
)


def test_the_disk_keeps_the_whole_answer_with_envelope_and_pin(tmp_path: Path) -> None:
    """An outage must neither lift a kill switch nor forget what Live may do."""
    cache = BoundCache(tmp_path)
    cache.write(LIVE)

    assert cache.read("a/b", "s") == LIVE


def test_the_whole_answer_comes_with_the_bound(tmp_path: Path) -> None:
    """Mode Live needs its envelope."""

    assert _start(_answering(LIVE), tmp_path).answer == LIVE
    assert _start(_client(_away), tmp_path).answer == LIVE
    assert _start(_client(_away), tmp_path / "other").answer is None


def _pinned(
    answer: BoundAnswer | None, folder: Path, *, pin: Pin | None = None, ceiling_ms: int | None = None
) -> ChosenBound:
    client = _client(_away) if answer is None else _answering(answer)
    return choose_bound_at_start(_settings(folder, pin=pin), OwnBounds(60_000, ceiling_ms), client).chosen


def test_the_jobs_own_pin_wins_over_the_controller_and_does_not_ask_it(tmp_path: Path) -> None:
    """A kill switch that needed the thing it kills would be none."""
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, json=to_json_object(ANSWER))

    chosen = choose_bound_at_start(_settings(tmp_path, pin="Off"), OwnBounds(60_000), _client(answer)).chosen

    assert (chosen.bound_ms, chosen.source, chosen.generation, chosen.pin) == (60_000, "job", None, "Off")
    assert asked == []


def test_a_pin_of_the_controller_holds_the_job_to_its_own_bound_or_its_ceiling(tmp_path: Path) -> None:
    off, ceiling = (replace(ANSWER, pin=pin) for pin in ("Off", "Ceiling"))

    assert _pinned(off, tmp_path, ceiling_ms=1_800_000).bound_ms == 60_000
    assert _pinned(ceiling, tmp_path, ceiling_ms=1_800_000).bound_ms == 1_800_000
    assert _pinned(ceiling, tmp_path).bound_ms == 60_000, "a job without a ceiling has only its own bound"
    assert _pinned(ceiling, tmp_path, pin="Off", ceiling_ms=1_800_000).bound_ms == 60_000
    off_mode = _pinned(replace(OFF, pin="Ceiling"), tmp_path, ceiling_ms=1_800_000)
    assert (off_mode.bound_ms, off_mode.pin) == (60_000, "Ceiling"), "in mode Off the job is only watched"


def test_an_outage_does_not_lift_the_controllers_pin(tmp_path: Path) -> None:
    _pinned(replace(ANSWER, pin="Off"), tmp_path)
    chosen = _pinned(None, tmp_path)

    assert (chosen.bound_ms, chosen.pin) == (60_000, "Off")
    assert "the last good answer" in chosen.reason


def test_the_reason_of_a_pin_says_who_pinned_and_what_it_costs(tmp_path: Path) -> None:
    ours = _pinned(None, tmp_path, pin="Ceiling", ceiling_ms=1_800_000).reason
    theirs = _pinned(replace(ANSWER, pin="Off", reason="incident 7"), tmp_path).reason

    assert ours == (
        "pinned to the ceiling of 30 min by spark.tidemark.pin: every window closes at least 30 min after its end"
    )
    assert theirs == (
        "pinned to the job's own bound of 60 s by the controller: "
        "every window closes at least 60 s after its end (incident 7)"
    )


# -- for whoever restarts queries -------------------------------------------------------------------------------


def test_choices_are_collected_while_somebody_asks_for_them(tmp_path: Path) -> None:
    client = _answering(ANSWER)
    with starting() as choices, starting() as the_same:
        _start(client, tmp_path)
    _start(client, tmp_path)
    (choice,) = choices

    assert the_same == choices
    assert choice.key == ("a/b", "s")
    assert (choice.client, choice.own.bound_ms) == (client, 60_000)
    assert choice.chosen.bound_ms == 12_300


def test_a_choice_tells_what_another_answer_would_have_made_of_it(tmp_path: Path) -> None:
    with starting() as choices:
        _start(_answering(ANSWER), tmp_path)
        _pinned(ANSWER, tmp_path, pin="Off")
    free, pinned = choices
    wider = replace(ANSWER, generation=5, bound_ms=20_000)

    assert free.by(wider).bound_ms == 20_000
    assert free.by(OFF).bound_ms == 60_000
    assert pinned.by(wider) == pinned.chosen


def test_a_held_bound_goes_before_the_controllers_and_after_the_jobs_own_pin(tmp_path: Path) -> None:
    """A bound that failed must not be given out again by the next start."""
    held = ChosenBound(7_000, "controller", 3, "Restart", "it worked")
    with starting({("a/b", "s"): held}):
        assert _start(_answering(ANSWER), tmp_path) == held
        assert _pinned(ANSWER, tmp_path, pin="Off").bound_ms == 60_000
        assert choose_bound_at_start(_settings(tmp_path, "other"), OwnBounds(5), None).chosen.bound_ms == 5

    assert _start(_answering(ANSWER), tmp_path).bound_ms == 12_300


def test_what_one_thread_holds_or_collects_is_not_anothers(tmp_path: Path) -> None:
    """Two queries of one driver may read streams of the same name."""
    held = ChosenBound(7_000, "controller", 3, "Restart", "it worked")
    seen: list[int] = []
    with starting({("a/b", "s"): held}) as choices:
        thread = threading.Thread(target=lambda: seen.append(_start(_answering(ANSWER), tmp_path).bound_ms))
        thread.start()
        thread.join()

    assert seen == [12_300]
    assert choices == []


def test_a_stream_that_takes_other_bounds_without_a_restart_is_none_of_the_runners(tmp_path: Path) -> None:
    with starting() as choices:
        choose_bound_at_start(_settings(tmp_path), OwnBounds(60_000), None, restarts=False)

    assert choices == []
