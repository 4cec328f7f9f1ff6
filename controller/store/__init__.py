"""The store: reports, the ledger, needs, specifications and what was published, on SQLite or PostgreSQL.

Functions here take a SQLAlchemy session and never commit: the caller owns the transaction, so that what belongs
together is written together.
"""
