"""The job's settings: ``spark.tidemark.*`` conf, overridden by arguments.

Keys start with ``spark.`` because ``spark-submit`` drops all others. The token itself is never a setting, only the
file that holds it: Spark shows conf values in its UI and event logs.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["SETTINGS", "JobSettings", "Setting"]

_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Setting:
    """One conf key."""

    key: str
    default: str | None
    meaning: str


SETTINGS = (
    Setting("spark.tidemark.job", None, "Name of the job; `spark.app.name` unless set."),
    Setting("spark.tidemark.stream", "default", "Name of the stream, where the call does not give one."),
    Setting(
        "spark.tidemark.controller.url",
        None,
        "Address of the controller; without it nothing is sent or asked.",
    ),
    Setting("spark.tidemark.token.file", None, "File that holds the bearer token."),
    Setting("spark.tidemark.cache.dir", None, "Folder of last good bounds; `~/.cache/tidemark` unless set."),
    Setting("spark.tidemark.timeout.ms", "3000", "Limit of each request to the controller, in milliseconds."),
    Setting(
        "spark.tidemark.queue.reports", "1000", "Reports kept in the driver while the controller is away."
    ),
)
"""Every conf key that a job reads, for the table in README."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """Settings of one stream of one job."""

    job: str
    stream: str
    controller_url: str | None
    token_file: Path | None
    cache_dir: Path
    timeout_s: float
    queue_reports: int

    @classmethod
    def read(
        cls,
        conf: Callable[[str, str | None], str | None],
        *,
        job: str | None = None,
        stream: str | None = None,
        controller_url: str | None = None,
        token_file: str | None = None,
    ) -> JobSettings:
        """Return the settings; an argument that is given wins over the conf.

        Args:
            conf: returns the value of a conf key, or the given default.
            job: name of the job.
            stream: name of the stream.
            controller_url: address of the controller.
            token_file: file that holds the bearer token.

        Raises:
            ValueError: when a number is none, a name cannot be one, or an address has no scheme.
        """
        given = {
            "spark.tidemark.job": job,
            "spark.tidemark.stream": stream,
            "spark.tidemark.controller.url": controller_url,
            "spark.tidemark.token.file": token_file,
        }
        found = {
            setting.key: given.get(setting.key) or conf(setting.key, setting.default) or None
            for setting in SETTINGS
        }
        url = found["spark.tidemark.controller.url"]
        if url is not None and not url.startswith(("http://", "https://")):
            raise ValueError(
                f"spark.tidemark.controller.url is {url!r}; it must start with http:// or https://"
            )
        token = found["spark.tidemark.token.file"]
        cache = found["spark.tidemark.cache.dir"]
        return cls(
            job=_checked_name(
                "spark.tidemark.job",
                found["spark.tidemark.job"] or _fitting(conf("spark.app.name", None) or "unnamed"),
            ),
            stream=_checked_name("spark.tidemark.stream", found["spark.tidemark.stream"] or "default"),
            controller_url=url,
            token_file=Path(token) if token else None,
            cache_dir=Path(cache) if cache else _cache_home() / "tidemark",
            timeout_s=_number("spark.tidemark.timeout.ms", found["spark.tidemark.timeout.ms"], 1) / 1_000,
            queue_reports=_number("spark.tidemark.queue.reports", found["spark.tidemark.queue.reports"], 1),
        )


def _cache_home() -> Path:
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # a container's user may have no home
        return Path(tempfile.gettempdir())


def _checked_name(key: str, name: str) -> str:
    if not 0 < len(name) <= _LONGEST_NAME or "/" in name or not name.isprintable() or name != name.strip():
        raise ValueError(
            f"{key} is {name!r}; it must have 1 to {_LONGEST_NAME} printable characters, no slash and "
            "no space around it"
        )
    return name


def _fitting(name: str) -> str:
    """Return the application's name, which nobody chose with this in mind, as a name that fits."""
    fitting = "".join(letter if letter.isprintable() and letter != "/" else "_" for letter in name)
    return fitting[:_LONGEST_NAME].strip() or "unnamed"


def _number(key: str, text: str | None, least: int) -> int:
    try:
        number = int(text or "")
    except ValueError:
        raise ValueError(f"{key} is {text!r}; it must be a whole number") from None
    if number < least:
        raise ValueError(f"{key} is {number}; it must be at least {least}")
    return number
