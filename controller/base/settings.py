"""The settings in force, from the command line, environment variables named ``TIDEMARK_*``, a file, or the default."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict
from sqlalchemy.exc import ArgumentError

from tidemark.controller.base.operator_file import DEFAULT, read_destinations, read_gates, read_issuers
from tidemark.controller.base.principal import GroupGrant, Network, parse_group_grants, parse_networks
from tidemark.controller.base.sentences import sentence
from tidemark.controller.base.store_url import shown_url, url_of
from tidemark.controller.base.syntax import toml_problem
from tidemark.models.evidence.skew import SKEW_AMOUNT_MS, SKEW_SHARE_PPM
from tidemark.models.evidence.slots import Retention
from tidemark.models.rollout.restarts import FleetLimits
from tidemark.models.specs.slo import label_name_problem

LogLevel = Literal["critical", "error", "warning", "info", "debug"]
LogFormat = Literal["console", "json"]
_HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]+$")]

SECRETS = frozenset({"database_url", "notify_url", "openlineage_url"})
"""Settings that may hold a password: never shown in the clear."""


def _checked(parse: Callable[[str], object]) -> Callable[[str], str]:
    def check(text: str) -> str:
        parse(text)
        return text

    return check


def _label_name(text: str) -> str | None:
    names = _label_names(text)
    if len(names) > 1:
        raise ValueError(f"it is one label, not {len(names)}: {', '.join(names)}")
    return names[0] if names else None


def _label_names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        problem = label_name_problem(name)
        if problem is not None:
            raise ValueError(problem)
    return names


def _host_patterns(text: str) -> tuple[str, ...]:
    patterns = tuple(name.strip().lower() for name in text.split(",") if name.strip())
    for pattern in patterns:
        if not re.fullmatch(r"[a-z0-9.*_-]+|\[[0-9a-f:.]+\]", pattern):
            raise ValueError(f"{pattern!r} is not the name of a host; write no scheme, port or path")
    return patterns


def _with_client(url: str) -> str:
    if find_spec("openlineage") is None:
        raise ValueError("it needs OpenLineage's client: pip install 'tidemark-streaming[openlineage]'")
    return url


def _readable(read: Callable[[Path | None], object]) -> Callable[[Path | None], Path | None]:
    def check(file: Path | None) -> Path | None:
        read(file)
        return file

    return check


class Settings(BaseSettings):
    """The controller's settings."""

    model_config = SettingsConfigDict(
        env_prefix="TIDEMARK_", extra="ignore", frozen=True, use_attribute_docstrings=True
    )

    database_url: str = "sqlite:///tidemark.db"
    """URL of the store: a SQLite file or PostgreSQL 15 or newer as postgresql://user@host/name; of several hosts,
    host1:5432,host2:5432, the one that takes writes is used. ?password_file=FILE is read for each connection."""
    database_connections: int = Field(default=10, ge=1, le=1_000)
    """Maximum number of connections of one process to the store."""
    host: str = "127.0.0.1"
    """Address to listen on; one that other machines reach needs a token in the store or an authenticating proxy."""
    port: int = Field(default=8642, ge=0, le=65_535)
    """Port to listen on; 0 takes a free one and prints it."""
    tick_seconds: float = Field(default=5.0, gt=0, le=3_600)
    """Time between two ticks of the decision loop."""
    lease_seconds: float = Field(default=15.0, ge=0.3, le=3_600)
    """Time from a replica's last heartbeat within which others take over its streams."""
    rollout_share_ppm: int = Field(default=100_000, ge=0, le=1_000_000)
    """Share of the streams that may be narrowed at once; one always may."""
    restart_share_ppm: int = Field(default=100_000, ge=0, le=1_000_000)
    """Share of the jobs in mode Restart that may restart at once; one always may. Who loses most rows goes first."""
    restart_label: Annotated[str, AfterValidator(_checked(_label_name))] = ""
    """Label of streams, such as source: of the jobs with one value of it only the same share restarts at once, too."""
    skew_share_ppm: int = Field(default=SKEW_SHARE_PPM, ge=0, le=1_000_000)
    """A partition is skewed when it costs at least this share of its stream's bound."""
    skew_amount_ms: int = Field(default=SKEW_AMOUNT_MS, ge=0)
    """A partition is skewed when it also costs at least this time; below half of both it no longer is."""
    drain_seconds: float = Field(default=0.0, ge=0, le=3_600)
    """Time for which a controller that is to stop still serves as not ready."""
    max_body_bytes: int = Field(default=8 * 1024 * 1024, ge=1_024, le=1024 * 1024 * 1024)
    """Maximum size of a request body, as sent and after decompression."""
    max_streams: int = Field(default=10_000, ge=1)
    """Maximum number of streams; half of those that other jobs leave for one job."""
    max_partitions: int = Field(default=10_000, ge=1)
    """Maximum number of partitions of a stream."""
    max_open_polls: int = Field(default=2_000, ge=0)
    """Maximum number of requests to one process that wait for a new bound; half of those that others leave for one."""
    reports_per_second: float = Field(default=1_000.0, ge=0)
    """Requests of jobs (reports, acknowledgements, bounds) a second per token, address or user; 0 for no limit."""
    requests_per_second: float = Field(default=100.0, ge=0)
    """All other requests a second per token, address or user; 0 for no limit."""
    first_tokens: Path | None = None
    """Folder of the first tokens of a store that has none, a file for each."""
    metrics_open: bool = False
    """Whether /metrics is answered without the token of a viewer of every job."""
    metrics_partitions: int = Field(default=256, ge=0)
    """Maximum number of partitions of a stream in /metrics, skewed and idle ones first; without detail=all at most 500
    of all. With 0 no alert names a partition."""
    metrics_labels: Annotated[str, AfterValidator(_checked(_label_names))] = ""
    """Labels of streams that tidemark_stream_info has too, separated by commas."""
    proxy_user_header: _HeaderName | None = None
    """Header in which an authenticating proxy names the user."""
    proxy_groups_header: _HeaderName | None = None
    """Header in which the proxy lists the user's groups, separated by commas."""
    proxy_addresses: Annotated[str, AfterValidator(_checked(parse_networks))] = ""
    """Addresses or networks of the proxy, separated by commas; its headers are ignored from all others."""
    proxy_roles: Annotated[str, AfterValidator(_checked(parse_group_grants))] = ""
    """Roles of the proxy's users, separated by commas: group=role or group=role:pattern; group * is everybody."""
    issuers_file: Annotated[Path | None, AfterValidator(_readable(read_issuers))] = None
    """File of the issuers whose JSON Web Tokens are accepted beside the store's tokens (TOML), read at the start."""
    notify_url: Annotated[str, Field(pattern=r"^https?://\S+$")] | None = None
    """Webhook to notify of alerts, in the form of Alertmanager's."""
    notify_token_file: Path | None = None
    """File with a bearer token for the webhook, read for each message."""
    notify_file: Annotated[Path | None, AfterValidator(_readable(read_destinations))] = None
    """File of webhooks, each for the alerts with certain labels (TOML), read at the start."""
    notify_seconds: float = Field(default=30.0, gt=0, le=3_600)
    """Time between two checks of the alerts."""
    notify_repeat_seconds: float = Field(default=14_400.0, ge=60)
    """Time after which an alert that still fires is notified again."""
    openlineage_url: Annotated[str, Field(pattern=r"^https?://\S+$"), AfterValidator(_with_client)] | None = (
        None
    )
    """Address of what takes OpenLineage events, such as Marquez; how to reach it besides, such as with a key, variables
    of OpenLineage's client say."""
    gates_file: Annotated[Path | None, AfterValidator(_readable(read_gates))] = None
    """File of the outside gates that policies may name (TOML), read at the start."""
    runbooks_url: str = ""
    """Prefix of the runbook's file name in the notifier's messages; by default the controller's own copies."""
    link_hosts: Annotated[str, AfterValidator(_checked(_host_patterns))] = ""
    """Hosts of Spark's UI to which the page may link, separated by commas, such as *.spark.example.com; others are
    shown as text, since the job names them."""
    public_url: str = ""
    """Address of this controller for browsers, for links in these messages; by default the one it listens on."""
    retention_days_days: int = Field(default=400, ge=40)
    """Days to keep needs and sums of reports, counted back from the stream's newest batch."""
    retention_reports_days: int = Field(default=35, ge=32)
    """Days to keep the facts of each report; reports of batches before them are rejected."""
    retention_bodies_days: int = Field(default=3, ge=1)
    """Days to keep reports as they were sent."""
    retention_ledger_days: int = Field(default=35, ge=32)
    """Days to keep the ledger."""
    retention_events_days: int = Field(default=400, ge=1)
    """Days to keep events."""
    retention_history_days: int = Field(default=90, ge=32)
    """Days to keep acknowledgements, queries, bounds, predictions, rollouts and failures; what the present state
    follows from is kept longer."""
    log_level: LogLevel = "info"
    """Minimum severity that is logged; debug has every report and read."""
    log_format: LogFormat = "console"
    """Format of the log: console, for people, or json."""

    @property
    def retention(self) -> Retention:
        """How long data are kept."""
        return Retention(
            days_days=self.retention_days_days,
            reports_days=self.retention_reports_days,
            bodies_days=self.retention_bodies_days,
            ledger_days=self.retention_ledger_days,
            events_days=self.retention_events_days,
            history_days=self.retention_history_days,
        )

    @property
    def fleet_limits(self) -> FleetLimits:
        """What limits how many jobs are changed at once."""
        return FleetLimits(
            narrowing_ppm=self.rollout_share_ppm,
            restarting_ppm=self.restart_share_ppm,
            restart_label=_label_name(self.restart_label),
        )

    def may_link_to(self, address: str) -> bool:
        """Return whether the page may link to an address that a job named."""
        host = urlsplit(address).hostname or ""
        return any(fnmatchcase(host, pattern.strip("[]")) for pattern in _host_patterns(self.link_hosts))

    @property
    def label_names(self) -> tuple[str, ...]:
        """Names of the labels of streams that metrics have."""
        return _label_names(self.metrics_labels)

    @property
    def proxy_networks(self) -> tuple[Network, ...]:
        """The proxy's networks."""
        return parse_networks(self.proxy_addresses)

    @property
    def proxy_group_grants(self) -> tuple[GroupGrant, ...]:
        """The roles of the proxy's users."""
        return parse_group_grants(self.proxy_roles)

    @model_validator(mode="after")
    def _retention_is_enough(self) -> Self:
        _ = self.retention
        return self

    @model_validator(mode="after")
    def _one_default_destination(self) -> Self:
        if self.notify_url is not None and DEFAULT in read_destinations(self.notify_file):
            raise ValueError(
                f"the destination {DEFAULT!r} in notify_file is the one of notify_url; rename it, or unset notify_url"
            )
        return self

    @model_validator(mode="after")
    def _proxy_is_whole(self) -> Self:
        if self.proxy_user_header is not None and not (self.proxy_networks and self.proxy_group_grants):
            raise ValueError(
                "proxy_user_header needs proxy_addresses, to know whose headers to trust, and proxy_roles"
            )
        return self


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


def load_settings(overriding: Mapping[str, Any] | None = None, file: Path | None = None) -> Configuration:
    """Return the settings in force.

    Args:
        overriding: settings from the command line, which override all others.
        file: TOML file of settings, which the environment overrides; by default the one that ``TIDEMARK_CONFIG`` names.

    Raises:
        ConfigurationError: when the file or the environment has unknown names, the file cannot be read, or a value is
            not valid.
    """
    overriding = overriding or {}
    _check_names()
    named = os.environ.get(CONFIG_VARIABLE)
    path = file or (Path(named) if named else None)
    written = {} if path is None else _read(path)
    environment = {name.upper() for name in os.environ}
    sources: dict[str, Source] = {}
    for name in Settings.model_fields:
        if name in overriding:
            sources[name] = "command line"
        elif _PREFIX + name.upper() in environment:
            sources[name] = "environment"
        else:
            sources[name] = "file" if name in written else "default"
    values = {name: value for name, value in written.items() if sources[name] == "file"} | dict(overriding)
    try:
        return Configuration(Settings(**values), sources, path)
    except ValidationError as error:
        raise ConfigurationError(_problem(error, sources, path)) from None


def named_store() -> str | None:
    """Return the URL of the store that the environment, or the file that it names, gives; None when neither does.

    Raises:
        ConfigurationError: as ``load_settings`` does.
    """
    configuration = load_settings()
    return None if configuration.sources["database_url"] == "default" else configuration.settings.database_url


def _check_names() -> None:
    """Check that no variable is misspelt: the setting that was meant would silently have its default."""
    names = {_PREFIX + name.upper() for name in Settings.model_fields}
    for variable, value in sorted((name.upper(), value) for name, value in os.environ.items()):
        ours = variable.startswith(_PREFIX) and not _OTHERS.fullmatch(f"{variable}={value}")
        if ours and variable not in names:
            near = difflib.get_close_matches(variable, names, 1, 0)
            raise ConfigurationError(f"{variable} is not a setting; did you mean {near[0]}?")


def _read(path: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"settings file {path}: {error.strerror}") from None
    except RecursionError:
        raise ConfigurationError(f"settings file {path} is nested too deeply") from None
    except ValueError as error:
        raise ConfigurationError(f"settings file {path} is not TOML: {toml_problem(error)}") from None
    for key in values:
        if key not in Settings.model_fields:
            near = difflib.get_close_matches(key, Settings.model_fields, 1, 0)
            raise ConfigurationError(
                f"settings file {path}: there is no setting {key!r}; the nearest is {near[0]!r}"
            )
    return values


def _problem(error: ValidationError, sources: Mapping[str, Source], path: Path | None) -> str:
    fault = error.errors()[0]
    # The value is shown below, unless it is a secret.
    detail = sentence(fault, repeat=False)
    if not fault["loc"]:
        return detail
    name = str(fault["loc"][0])
    where = f"settings file {path}: {name}" if sources.get(name) == "file" else _PREFIX + name.upper()
    value = _MASK if name in SECRETS else repr(fault["input"])
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
