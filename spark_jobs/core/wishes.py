"""What the conf of a job says of its settings, where that fits."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from tidemark.spark_jobs.core.arguments import WrongValueError
from tidemark.spark_jobs.core.client import TOKEN_FILE_KEY, TOKEN_VARIABLE
from tidemark.spark_jobs.core.settings import (
    OF_STREAM,
    PREFIX,
    SETTINGS,
    TOKEN_KEY,
    UNSET,
    Conf,
    JobSettings,
    fitting,
    key_of,
)

T = TypeVar("T")
_SHOWN = (
    f"{TOKEN_KEY} must not be set: Spark shows conf values in its UI and event logs. Put the token into a file and "
    f"name it in {TOKEN_FILE_KEY}, or into the driver's environment variable {TOKEN_VARIABLE}; and have a new one "
    "made, since this one has been shown"
)
_IN_DOUBT: Mapping[str, str] = {"pin": "off"}
"""What a setting that is left out says all the same: nobody misspells a kill switch to have it open."""


class Wishes:
    """The conf of a stream. A fleet's stops no job and no watching: what does not fit is left out, and that is said.

    ``spark.tidemark.stream.NAME.mode`` says of one stream what ``spark.tidemark.mode`` says of all of them.

    Args:
        conf: reads the conf of the query's session, which a client of Spark Connect may set.
        stream: the stream's name before it is renamed; None where only what is said of all counts.
        context: reads the conf of the context, which whoever starts the driver sets; None where the session's is as
            good, since the job calls Tidemark itself.
    """

    def __init__(self, conf: Conf, stream: str | None = None, context: Conf | None = None) -> None:
        self._conf, self._stream, self._context = conf, stream, context
        self.left_out: dict[str, str] = {}
        """By key that is left out the line that says so, and why."""

    def get(self, name: str) -> str | None:
        """Return what the conf says of a setting; None where it says nothing."""
        values = (conf(key, None) for key, conf in self._reads(name).items() if key not in self.left_out)
        return (_IN_DOUBT.get(name) if self.lacks(name) else None) or next(filter(None, values), None)

    def lacks(self, name: str) -> bool:
        """Return whether a value of a setting is left out."""
        return any(key in self.left_out for key in self._reads(name))

    def leave_out(self, error: WrongValueError) -> None:
        """Leave out the key whose value is wrong; raise the error where the conf does not say it."""
        keys = self._reads(error.name)
        first = next(iter(keys))
        for key, conf in keys.items():
            if key not in self.left_out and conf(key, None):
                doubt = f", and taken for {_IN_DOUBT[error.name]!r}" if error.name in _IN_DOUBT else ""
                instead = "" if key == first else f"; for this stream alone there is {first}"
                self.left_out[key] = f"{key} is left out{doubt}: {error.why}{instead}"
                return
        raise error

    def leave_out_what_fails(self, error: Exception) -> None:
        """Leave out what is wrong, or all that a call would say where that is not known.

        Raises:
            Exception: the error, where nothing is left to leave out.
        """
        if isinstance(error, WrongValueError):
            with suppress(WrongValueError):
                return self.leave_out(error)
        why, before = (str(error) or type(error).__name__).splitlines()[0], len(self.left_out)
        for setting in SETTINGS.values():
            if not setting.of_context:
                with suppress(WrongValueError):
                    self.leave_out(WrongValueError(setting.name, why))
        if len(self.left_out) == before:
            raise error
        return None

    def first_that_fits(self, use: Callable[[JobSettings], T], given: Mapping[str, object]) -> T:
        """Return what ``use`` returns of the settings, with what does not fit left out.

        Args:
            use: takes the settings; it is called again for each key of the conf that it raises ``WrongValueError`` for.
            given: what a call gives.

        Raises:
            WrongValueError: when what the call gives does not fit.
        """
        while True:
            try:
                return use(self.settings(given))
            except WrongValueError as error:
                if error.name in given:
                    raise
                self.leave_out(error)

    def settings(self, given: Mapping[str, object]) -> JobSettings:
        """Return the settings; what a call gives goes before the conf.

        Raises:
            WrongValueError: when a value may not be given.
        """
        if self._conf(TOKEN_KEY, None) and TOKEN_KEY not in self.left_out:
            raise WrongValueError(TOKEN_KEY, _SHOWN)
        values: dict[str, Any] = {}
        for name, setting in SETTINGS.items():
            value = given.get(name, UNSET)
            if value is UNSET:
                said = self.get(name)
                value = setting.default if said is None else setting.rule.of_text(said)
            values[name] = None if value is None else setting.rule.made_of(name, value)
        values["job"] = values["job"] or fitting(self._conf("spark.app.name", None) or "unnamed")
        values["cache_dir"] = values["cache_dir"] or _cache_home() / "tidemark"
        return JobSettings(**values, left_out=tuple(self.left_out.values()))

    def key_of_stream(self, name: str) -> str | None:
        """Return the key that says of this stream alone what a setting says of all; None of no stream."""
        return (
            None if self._stream is None else f"{OF_STREAM}{self._stream}.{key_of(name).removeprefix(PREFIX)}"
        )

    def _reads(self, name: str) -> dict[str, Conf]:
        """Return the keys that say what a setting is, the first before the others, each with where it is read."""
        setting, alone = SETTINGS.get(name), self.key_of_stream(name)
        if setting is not None and setting.of_context and self._context is not None:
            return {key_of(name): self._context}
        if alone is None or setting is None:
            return {key_of(name): self._conf}
        return {alone: self._conf} if name == "name" else {alone: self._conf, key_of(name): self._conf}


def read_settings(conf: Conf, **given: object) -> JobSettings:
    """Return the settings of a stream; what a call gives wins over the conf, of which what is wrong is left out.

    Raises:
        WrongValueError: when what the call gives may not be given.
    """
    return Wishes(conf).first_that_fits(lambda settings: settings, given)


def _cache_home() -> Path:
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # a container's user may have no home
        return Path(tempfile.gettempdir())
