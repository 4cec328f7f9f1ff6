"""Everything that can be set from outside, by environment variables named ``TIDEMARK_*``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from tidemark.controller.access.proxy import GroupGrant, Network, parse_group_grants, parse_networks
from tidemark.models.retention import Retention
from tidemark.models.skew import SKEW_AMOUNT_MS, SKEW_SHARE_PPM

__all__ = ["SECRETS", "LogFormat", "LogLevel", "Settings"]

LogLevel = Literal["critical", "error", "warning", "info", "debug"]
LogFormat = Literal["console", "json"]
HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]+$")]

SECRETS = frozenset({"database_url", "notify_url"})
"""Settings that may hold a password: never shown as they are."""


def _checked(parse: Callable[[str], object]) -> Callable[[str], str]:
    def check(text: str) -> str:
        parse(text)
        return text

    return check


class Settings(BaseSettings):
    """The controller's settings."""

    model_config = SettingsConfigDict(
        env_prefix="TIDEMARK_", extra="ignore", frozen=True, use_attribute_docstrings=True
    )

    database_url: str = "sqlite:///tidemark.db"
    """Where the store is, as a SQLAlchemy URL: a SQLite file (a relative path is under the working directory), or
    PostgreSQL 15 or newer as postgresql+psycopg://user@host/name."""
    host: str = "127.0.0.1"
    """Address to listen on; one that others reach needs a token in the store or an authenticating proxy."""
    port: int = Field(default=8642, ge=0, le=65_535)
    """Port to listen on; 0 takes a free one and says which."""
    tick_seconds: float = Field(default=5.0, gt=0, le=3_600)
    """Seconds between two turns of the decision loop."""
    lease_seconds: float = Field(default=15.0, ge=0.3, le=3_600)
    """Seconds without a sign of life after which another replica decides a replica's streams."""
    rollout_share_ppm: int = Field(default=100_000, ge=0, le=1_000_000)
    """Share of the streams that may be narrowed at a time, in parts per million; one always may."""
    skew_share_ppm: int = Field(default=SKEW_SHARE_PPM, ge=0, le=1_000_000)
    """Share of a stream's bound that a partition costs, in parts per million, from which on it is skewed."""
    skew_amount_ms: int = Field(default=SKEW_AMOUNT_MS, ge=0)
    """Milliseconds that a partition costs at the least to be skewed; below half of both it is healed."""
    drain_seconds: float = Field(default=0.0, ge=0, le=3_600)
    """Seconds that a controller told to stop still serves, saying that it is not ready, until others are asked."""
    max_body_bytes: int = Field(default=8 * 1024 * 1024, ge=1_024, le=1024 * 1024 * 1024)
    """Greatest size of a request body in bytes, as sent and after decompression."""
    max_streams: int = Field(default=10_000, ge=1)
    """Most streams that the store takes; each is a label of the metrics and costs a decision a turn."""
    max_partitions: int = Field(default=10_000, ge=1)
    """Most partitions of a stream that the store takes."""
    max_open_polls: int = Field(default=2_000, ge=0)
    """Most requests that wait for another bound at a time, in one process."""
    reports_per_second: float = Field(default=1_000.0, ge=0)
    """Requests of jobs (reports, acknowledgements, bounds) a second and token, address or user; 0 for no limit."""
    requests_per_second: float = Field(default=100.0, ge=0)
    """All other requests a second and token, address or user; 0 for no limit."""
    first_tokens: Path | None = None
    """Folder of files, each with one token and named as it, that a store without any token begins with."""
    metrics_open: bool = False
    """Whether /metrics is answered without credentials; else it asks for a viewer of every job."""
    metrics_partitions: int = Field(default=256, ge=0)
    """Partitions of a stream with series of their own in /metrics, skewed and idle ones first; the others are counted
    in tidemark_partitions_not_exposed. 0 for none, and then no alert names a partition."""
    proxy_user_header: HeaderName | None = None
    """Header in which an authenticating proxy names the user; without it there is no such proxy."""
    proxy_groups_header: HeaderName | None = None
    """Header in which the proxy names the user's groups, with commas."""
    proxy_addresses: Annotated[str, AfterValidator(_checked(parse_networks))] = ""
    """Addresses or networks, with commas, that the proxy connects from; its headers are ignored from all others."""
    proxy_roles: Annotated[str, AfterValidator(_checked(parse_group_grants))] = ""
    """What the proxy's users may do, with commas: group=role or group=role:pattern; the group * is everybody."""
    notify_url: Annotated[str, Field(pattern=r"^https?://\S+$")] | None = None
    """Webhook that is told which alerts fire, in the form of Alertmanager's; without it nobody is. Not needed beside
    Prometheus."""
    notify_token_file: Path | None = None
    """File of a bearer token for that webhook, read for each message."""
    notify_seconds: float = Field(default=30.0, gt=0, le=3_600)
    """Seconds between two looks at which alerts hold."""
    notify_repeat_seconds: float = Field(default=14_400.0, ge=60)
    """Seconds after which an alert that still fires is told again."""
    runbooks_url: str = "deploy/runbooks"
    """What stands before the name of a runbook's file in the messages of the notifier."""
    public_url: str = ""
    """Address at which a browser finds this controller, for links in these messages."""
    retention_minutes_days: int = Field(default=3, ge=2)
    """Days that needs are kept by the minute, back from the stream's newest batch as all of these; then by the hour."""
    retention_hours_days: int = Field(default=40, ge=32)
    """Days that needs are kept by the hour; then by the day."""
    retention_days_days: int = Field(default=400, ge=32)
    """Days that needs, and sums of reports by the hour, are kept at all."""
    retention_reports_days: int = Field(default=35, ge=32)
    """Days that the facts of each report are kept; an older report is not taken any more."""
    retention_bodies_days: int = Field(default=3, ge=1)
    """Days that reports are kept as they were sent."""
    retention_ledger_days: int = Field(default=35, ge=32)
    """Days that the ledger keeps what was admitted and late, by key and partition."""
    retention_events_days: int = Field(default=400, ge=1)
    """Days that events are kept."""
    log_level: LogLevel = "info"
    """Least severity that is logged."""
    log_format: LogFormat = "console"
    """How lines of the log are written: console, for people, or json."""

    @property
    def retention(self) -> Retention:
        """How long data are kept."""
        return Retention(
            minutes_days=self.retention_minutes_days,
            hours_days=self.retention_hours_days,
            days_days=self.retention_days_days,
            reports_days=self.retention_reports_days,
            bodies_days=self.retention_bodies_days,
            ledger_days=self.retention_ledger_days,
            events_days=self.retention_events_days,
        )

    @property
    def proxy_networks(self) -> tuple[Network, ...]:
        """Where the proxy connects from."""
        return parse_networks(self.proxy_addresses)

    @property
    def proxy_group_grants(self) -> tuple[GroupGrant, ...]:
        """What the proxy's users may do."""
        return parse_group_grants(self.proxy_roles)

    @model_validator(mode="after")
    def _retention_is_enough(self) -> Self:
        _ = self.retention
        return self

    @model_validator(mode="after")
    def _proxy_is_whole(self) -> Self:
        if self.proxy_user_header is not None and not (self.proxy_networks and self.proxy_group_grants):
            raise ValueError(
                "proxy_user_header needs proxy_addresses, to know whom to believe, and proxy_roles"
            )
        return self
