"""The settings in force and where each comes from: the command line, the environment, a file, or the default."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError
from sqlalchemy.exc import ArgumentError

from tidemark.controller.db.url import shown_url, url_of
from tidemark.controller.settings import SECRETS, Settings

CONFIG_VARIABLE = "TIDEMARK_CONFIG"
"""Environment variable that names the file."""

_OTHERS = re.compile(
    # Of clients and jobs, and of the project's own tools and tests.
    r"TIDEMARK_(CONFIG|URL|TOKEN|JARS|TOOLS|TRACES|TEST_.*|BENCH_.*"
    # What Kubernetes sets in every pod for each service whose name begins with tidemark.
    r"|(.*_)?SERVICE_HOST|(.*_)?SERVICE_PORT(_.*)?|(.*_)?PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)=.*"
    r"|TIDEMARK_.*_PORT=(tcp|udp|sctp)://.*",
    re.DOTALL,
)
"""Variables with our prefix that are no settings of the controller, each with its value."""

_MASK = "***"
"""Replaces a value that is not shown."""

_PREFIX = "TIDEMARK_"

Source = Literal["command line", "environment", "file", "default"]
"""Where a setting comes from, the highest priority first."""


class ConfigurationError(Exception):
    """The settings cannot be used; the message names the key and says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """The settings, and where each comes from."""

    settings: Settings
    """The settings."""
    sources: Mapping[str, Source]
    """By name of the setting."""
    file: Path | None
    """The file that was read; None without one."""

    def shown(self) -> list[tuple[str, str, str]]:
        """Return each setting as (name, value, source), secrets masked."""
        return [
            (name, _shown(name, getattr(self.settings, name)), self._origin(name)) for name in self.sources
        ]

    def _origin(self, name: str) -> str:
        source = self.sources[name]
        return f"file {self.file}" if source == "file" else source


def load_settings(given: Mapping[str, Any] | None = None, file: Path | None = None) -> Configuration:
    """Return the settings in force.

    Args:
        given: settings from the command line, which override all others.
        file: TOML file of settings, which the environment overrides; by default the one that ``TIDEMARK_CONFIG`` names.

    Raises:
        ConfigurationError: when the file or the environment has unknown names, the file cannot be read, or a value is
            not valid.
    """
    given = given or {}
    _check_names()
    named = os.environ.get(CONFIG_VARIABLE)
    path = file or (Path(named) if named else None)
    written = {} if path is None else _read(path)
    environment = {name.upper() for name in os.environ}
    sources: dict[str, Source] = {}
    for name in Settings.model_fields:
        if name in given:
            sources[name] = "command line"
        elif _PREFIX + name.upper() in environment:
            sources[name] = "environment"
        else:
            sources[name] = "file" if name in written else "default"
    values = {name: value for name, value in written.items() if sources[name] == "file"} | dict(given)
    try:
        return Configuration(Settings(**values), sources, path)
    except ValidationError as error:
        raise ConfigurationError(_problem(error, sources, path)) from None


def named_store() -> str | None:
    """Return the URL of the store that the environment, or the file that it names, gives; None when neither does.

    Raises:
        ConfigurationError: as ``load_settings`` does.
    """
    found = load_settings()
    return None if found.sources["database_url"] == "default" else found.settings.database_url


def _check_names() -> None:
    """Check that no variable is misspelt: the setting that was meant would silently have its default."""
    known = {_PREFIX + name.upper() for name in Settings.model_fields}
    for variable, value in sorted((name.upper(), value) for name, value in os.environ.items()):
        ours = variable.startswith(_PREFIX) and not _OTHERS.fullmatch(f"{variable}={value}")
        if ours and variable not in known:
            near = difflib.get_close_matches(variable, known, 1, 0)
            raise ConfigurationError(f"{variable} is not a setting; did you mean {near[0]}?")


def _read(path: Path) -> dict[str, Any]:
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"settings file {path}: {error.strerror}") from None
    except RecursionError:
        raise ConfigurationError(f"settings file {path} is nested too deeply") from None
    except ValueError as error:
        raise ConfigurationError(f"settings file {path} is not TOML: {error}") from None
    for key in found:
        if key not in Settings.model_fields:
            near = difflib.get_close_matches(key, Settings.model_fields, 1, 0)
            raise ConfigurationError(
                f"settings file {path}: there is no setting {key!r}; the nearest is {near[0]!r}"
            )
    return found


def _problem(error: ValidationError, sources: Mapping[str, Source], path: Path | None) -> str:
    found = error.errors()[0]
    detail = found["msg"].removeprefix("Value error, ")
    if not found["loc"]:
        return detail
    name = str(found["loc"][0])
    where = f"settings file {path}: {name}" if sources.get(name) == "file" else _PREFIX + name.upper()
    value = _MASK if name in SECRETS else repr(found["input"])
    return f"{where} is {value}: {detail}"


def _shown(name: str, value: object) -> str:
    if value is None:
        return ""
    if name not in SECRETS:
        return str(value)
    if name != "database_url":
        return _MASK
    try:
        return shown_url(url_of(str(value)))
    except ArgumentError:
        # A URL that cannot be parsed may hold a password anywhere.
        return _MASK
