"""The base class of all tables, and the types of their columns."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import lru_cache
from typing import Annotated, Any, TypeVar, cast

from sqlalchemy import BigInteger, ForeignKey, Integer, LargeBinary, MetaData, String, Text, TypeDecorator
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from tidemark.models.base.read_json import Reader, reader_of

T = TypeVar("T")

# Every constraint has a name, so that a later migration can refer to it on both databases.
NAMING_CONVENTION = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

# SQLite assigns ids by itself only in a column of its type INTEGER, which has 64 bits there.
BigId = BigInteger().with_variant(Integer, "sqlite")

Whole = Annotated[int, mapped_column(BigInteger)]
Counter = Annotated[int, mapped_column(BigInteger, default=0, server_default="0")]
Name = Annotated[str, mapped_column(String(200))]
Identifier = Annotated[str, mapped_column(String(64))]
Word = Annotated[str, mapped_column(String(20))]
Id = Annotated[int, mapped_column(BigId, primary_key=True, autoincrement=True)]
Stream = Annotated[int, mapped_column(ForeignKey("streams.id"))]
OfReport = Annotated[int, mapped_column(ForeignKey("reports.id"), primary_key=True)]
KeyNumber = Annotated[int, mapped_column(BigInteger, primary_key=True, autoincrement=False)]
KeyName = Annotated[str, mapped_column(String(200), primary_key=True)]
KeyIdentifier = Annotated[str, mapped_column(String(64), primary_key=True)]
Kind = Annotated[str, mapped_column(String(40))]
Long = Annotated[str, mapped_column(Text)]
Blob = Annotated[bytes, mapped_column(LargeBinary)]


class Base(DeclarativeBase):
    """Base of all tables."""

    metadata = MetaData(naming_convention=NAMING_CONVENTION)


class RowOfStream(Base):
    """Base of the tables whose rows belong to a stream, by which their keys begin."""

    __abstract__ = True

    stream_id: Mapped[int] = mapped_column(ForeignKey("streams.id"), primary_key=True, sort_order=-1)


class AsJson(TypeDecorator[T]):
    """A dataclass as JSON, or several in a tuple: what another release wrote is read as ``read_object`` reads it.

    Args:
        kind: the dataclass, or a union of some that their field ``kind`` tells apart.
        kept: how many texts are kept as they were read: what people set is read at every decision, and seldom changes.
    """

    impl = Text
    cache_ok = True

    def __init__(self, kind: Any, kept: int = 0) -> None:
        super().__init__()
        self.kind, self.kept = kind, kept
        read = cast("Reader", reader_of(kind))

        def read_text(text: str) -> Any:
            found = json.loads(text)
            return tuple(map(read, found)) if isinstance(found, list) else read(found)

        self._read = lru_cache(kept)(read_text)

    def process_bind_param(self, value: Any, _dialect: object) -> str | None:
        """Return what is stored."""
        if value is None:
            return None
        return json.dumps([asdict(one) for one in value] if isinstance(value, tuple) else asdict(value))

    def process_result_value(self, value: Any, _dialect: object) -> Any:
        """Return what was stored."""
        return None if value is None else self._read(value)
