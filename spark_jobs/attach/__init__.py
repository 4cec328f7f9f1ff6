"""A job that was never edited: Python beside its driver, which answers the jar for each query that starts."""

from __future__ import annotations
