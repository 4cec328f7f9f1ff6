"""Prometheus and Alertmanager for tests: the programs, the shipped rules, and both running, all on loopback."""

from __future__ import annotations

import functools
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.patience import until_ready
from support.tree import ROOT

__all__ = [
    "RULES",
    "TESTS",
    "alert_rules",
    "names_in",
    "program",
    "recorded",
    "rules",
    "running_alertmanager",
    "running_prometheus",
    "scaled",
    "stream_labels_by_file",
]

RULES = ROOT / "deploy" / "prometheus" / "rules"
"""The shipped rules."""

TESTS = ROOT / "deploy" / "prometheus" / "tests"
"""The cases of ``promtool test rules``."""

_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_DURATION = re.compile(r"(?<![\w.])(\d+)([smhd])\b")
_THRESHOLDS = (300, 1_800, 604_800)
"""Lengths of time that stand in the rules as plain seconds."""


def program(name: str) -> str:
    """Return the program's path; the test is skipped where there is none, but never in CI."""
    found = shutil.which(name)
    if found is None:
        assert os.environ.get("CI") != "true", f"CI has no {name}: `make services` installs it"
        pytest.skip(f"there is no {name} here; `make services` installs it")
    return found


@functools.cache
def stream_labels_by_file() -> str:
    """Return the file of the alerts with the label ``team``, as deploy/prometheus/stream-labels.sed adds it."""
    script, path = RULES.parent / "stream-labels.sed", RULES / "tidemark-alerts.yaml"
    return subprocess.run(["sed", "-f", script, path], capture_output=True, text=True, check=True).stdout


@functools.cache
def rules() -> tuple[dict[str, Any], ...]:
    """Return every shipped rule."""
    return tuple(
        rule
        for path in sorted(RULES.glob("*.yaml"))
        for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
        for rule in group["rules"]
    )


def alert_rules() -> list[dict[str, Any]]:
    """Return the rules that alert."""
    return [rule for rule in rules() if "alert" in rule]


def recorded() -> set[str]:
    """Return the names that are recorded."""
    return {rule["record"] for rule in rules() if "record" in rule}


def names_in(expression: str) -> set[str]:
    """Return the names of metrics in an expression: ours, and recorded ones."""
    return set(
        re.findall(
            r"\b(?:tidemark|slo)(?::\w+)+|\b(?:tidemark|sloth)_(?!id\b|service\b|slo\b|window\b|severity\b)\w+",
            expression,
        )
    )


def scaled(text: str, factor: float) -> str:
    """Return rules in which every length of time is ``factor`` times as long, at least a second.

    These are the durations in expressions, ``for`` and ``interval``, and the thresholds in seconds; nothing else.
    Names of recorded series have their windows in them and stay, and so does the length of the SLO.
    """

    def shorter(seconds: float) -> str:
        return f"{max(round(seconds * factor), 1)}s"

    lines = []
    for line in text.splitlines():
        code, hash_, comment = line.partition("#")
        if "record:" not in code and "sloth_window:" not in code and "summary:" not in code:
            code = _DURATION.sub(lambda found: shorter(int(found[1]) * _SECONDS[found[2]]), code)
            for seconds in _THRESHOLDS:
                code = re.sub(rf"(?<=[ (]){seconds}(?=\)|$|\s)", shorter(seconds)[:-1], code)
        lines.append(code + hash_ + comment)
    return "\n".join(lines) + "\n"


@contextmanager
def running_prometheus(folder: Path, config: dict[str, Any], rule_files: dict[str, str]) -> Iterator[str]:
    """Run Prometheus with a configuration and rules, by name of the file, and give its address."""
    (folder / "rules").mkdir(parents=True)
    for name, text in rule_files.items():
        (folder / "rules" / name).write_text(text, encoding="utf-8")
    written = {**config, "rule_files": [str(folder / "rules" / "*.yaml")]}
    (folder / "prometheus.yml").write_text(yaml.safe_dump(written), encoding="utf-8")
    address = f"127.0.0.1:{_free_port()}"
    command = [
        program("prometheus"),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
        "--query.lookback-delta=10s",
        "--log.level=warn",
    ]
    with _running(command, folder / "prometheus.log", f"http://{address}/-/ready"):
        yield f"http://{address}"


@contextmanager
def running_alertmanager(folder: Path, config: dict[str, Any]) -> Iterator[str]:
    """Run Alertmanager with a configuration and give its address."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "alertmanager.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    address = f"127.0.0.1:{_free_port()}"
    command = [
        program("prometheus-alertmanager"),
        f"--config.file={folder / 'alertmanager.yml'}",
        f"--storage.path={folder / 'data'}",
        f"--web.listen-address={address}",
        "--cluster.listen-address=",
        "--log.level=warn",
    ]
    with _running(command, folder / "alertmanager.log", f"http://{address}/-/ready"):
        yield f"http://{address}"


@contextmanager
def _running(command: list[str], log: Path, ready: str) -> Iterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
        try:
            until_ready(ready, process, log)
            yield
        finally:
            process.terminate()
            process.wait()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
