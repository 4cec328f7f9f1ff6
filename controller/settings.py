"""Everything that can be set from outside, by environment variables named ``TIDEMARK_*``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

__all__ = ["LogLevel", "Settings"]

LogLevel = Literal["critical", "error", "warning", "info", "debug"]


class Settings(BaseSettings):
    """The controller's settings."""

    model_config = SettingsConfigDict(
        env_prefix="TIDEMARK_", extra="ignore", frozen=True, use_attribute_docstrings=True
    )

    database_url: str = "sqlite:///tidemark.db"
    """Where the store is, as a SQLAlchemy URL: a SQLite file (a relative path is under the working directory), or
    PostgreSQL 15 or newer as postgresql+psycopg://user@host/name."""
    host: str = "127.0.0.1"
    """Address to listen on. There is no authentication yet: keep it on the loopback interface or a trusted network."""
    port: int = Field(default=8642, ge=0, le=65_535)
    """Port to listen on; 0 takes a free one and says which."""
    tick_seconds: float = Field(default=5.0, gt=0, le=3_600)
    """Seconds between two turns of the decision loop."""
    max_body_bytes: int = Field(default=8 * 1024 * 1024, ge=1_024, le=1024 * 1024 * 1024)
    """Greatest size of a request body in bytes, as sent and after decompression."""
    log_level: LogLevel = "info"
    """Least severity that is logged."""
