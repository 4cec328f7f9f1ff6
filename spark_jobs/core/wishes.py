"""What the conf of a job says of its settings, where that fits."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from tidemark.spark_jobs.core.arguments import WrongValueError
from tidemark.spark_jobs.core.client import TOKEN_FILE_KEY, TOKEN_VARIABLE
from tidemark.spark_jobs.core.settings import (
    OF_STREAM,
    PREFIX,
    SETTINGS,
    TOKEN_KEY,
    Conf,
    JobSettings,
    fitting,
    key_of,
)

T = TypeVar("T")
_NOTHING: Mapping[str, object] = MappingProxyType({})
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
        self._left_out: dict[str, str] = {}
        """By key that is left out the line that says so, and why."""
        for key in (
            () if context is None else filter(lambda key: conf(key, None), map(key_of, ("name", "stream")))
        ):
            self._left_out[key] = (
                f"{key} is left out: one name for all streams would make one of several; write "
                f"{self._key_of_stream('name')}"
            )

    def get(self, name: str) -> str | None:
        """Return what the conf says of a setting; None where it says nothing."""
        reads = self._reads(name)
        if name in _IN_DOUBT and any(key in self._left_out for key in reads):
            return _IN_DOUBT[name]
        return next(
            (
                value
                for key, conf in reads.items()
                if key not in self._left_out and (value := conf(key, None))
            ),
            None,
        )

    def first_that_fits(self, use: Callable[[JobSettings], T], of_call: Mapping[str, object] = _NOTHING) -> T:
        """Return what ``use`` returns of the settings, with what does not fit left out.

        Args:
            use: takes the settings. It is called again for each key of the conf that it raises ``WrongValueError`` for;
                for a job that calls nothing also without all that a call would say, where it raises anything else.
            of_call: what a call gives, which goes before the conf.

        Raises:
            WrongValueError: when what the call gives does not fit.
            Exception: what ``use`` raises whatever the conf says.
        """
        while True:
            try:
                return use(self._settings(of_call))
            except WrongValueError as error:
                if error.name in of_call or not (
                    self._leaves_out(error.name, error.why) or self._leaves_out_all(error)
                ):
                    raise
            except Exception as error:
                if not self._leaves_out_all(error):
                    raise

    def _leaves_out(self, name: str, why: str) -> bool:
        """Leave out the first key that says what a setting is; return whether there is one."""
        keys = self._reads(name)
        first, doubt = next(iter(keys)), f", and taken for {_IN_DOUBT[name]!r}" if name in _IN_DOUBT else ""
        key = next((key for key, conf in keys.items() if key not in self._left_out and conf(key, None)), None)
        if key is not None:
            instead = "" if key == first else f"; for this stream alone there is {first}"
            self._left_out[key] = f"{key} is left out{doubt}: {why}{instead}"
        return key is not None

    def _leaves_out_all(self, error: Exception) -> bool:
        """Leave out what a session may say of a job that calls nothing; return whether there is any."""
        why = (str(error) or type(error).__name__).splitlines()[0]
        names = [setting.name for setting in SETTINGS.values() if not setting.of_context]
        return self._context is not None and sum(self._leaves_out(name, why) for name in names) > 0

    def _settings(self, of_call: Mapping[str, object]) -> JobSettings:
        """Return the settings; what a call gives goes before the conf.

        Raises:
            WrongValueError: when a value may not be given.
        """
        if self._conf(TOKEN_KEY, None) and TOKEN_KEY not in self._left_out:
            raise WrongValueError(TOKEN_KEY, _SHOWN)
        values: dict[str, Any] = {}
        for name, setting in SETTINGS.items():
            if name in of_call:
                value = of_call[name]
            else:
                text = self.get(name)
                value = setting.default if text is None else setting.rule.of_text(text)
            values[name] = None if value is None else setting.rule.made_of(name, value)
        values["job"] = values["job"] or fitting(self._conf("spark.app.name", None) or "unnamed")
        values["cache_dir"] = values["cache_dir"] or _cache_home() / "tidemark"
        return JobSettings(**values, called=self._context is None, left_out=tuple(self._left_out.values()))

    def _key_of_stream(self, name: str) -> str:
        """Return the key that says of this stream alone what a setting says of all."""
        return f"{OF_STREAM}{self._stream}.{key_of(name).removeprefix(PREFIX)}"

    def _reads(self, name: str) -> dict[str, Conf]:
        """Return the keys that say what a setting is, the first before the others, each with where it is read."""
        setting = SETTINGS.get(name)
        if setting is not None and setting.of_context and self._context is not None:
            return {key_of(name): self._context}
        of_stream = {} if self._stream is None or setting is None else {self._key_of_stream(name): self._conf}
        return of_stream if of_stream and name == "name" else {**of_stream, key_of(name): self._conf}


def _cache_home() -> Path:
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # a container's user may have no home
        return Path(tempfile.gettempdir())
