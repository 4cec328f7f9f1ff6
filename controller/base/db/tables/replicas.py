"""The store itself, and the replicas that share it with their leases."""

from __future__ import annotations

from sqlalchemy.orm import Mapped

from tidemark.controller.base.db.tables.columns import Base, Counter, Identifier, KeyIdentifier, KeyNumber


class EpochRow(Base):
    """Which history the store is of: there is one row."""

    __tablename__ = "store_epoch"

    id: Mapped[KeyNumber]
    """Always 1."""
    epoch: Mapped[Identifier]
    """A random name, made with the store and renewed by ``tidemark restore``."""


class ReplicaRow(Base):
    """A process that may decide, and its heartbeat."""

    __tablename__ = "replicas"

    holder: Mapped[KeyIdentifier]
    beats: Mapped[Counter]
    """Grows while the process lives. Others watch it change; clocks are never compared."""


class LeaseRow(Base):
    """Which process decides the streams of one shard: those whose id modulo the number of shards is its number."""

    __tablename__ = "leases"

    shard: Mapped[KeyNumber]
    holder: Mapped[Identifier | None]
    """The process that decides; null when the lease was given back."""
    fencing: Mapped[Counter]
    """Grows with each new holder; a decision is written only while this number is the one that its process holds."""
