"""What this Spark has of what only some versions have.

It is asked for that and not for its number, as far as it can be: platforms number their own builds.
"""

from __future__ import annotations

import re
from importlib.util import find_spec

import pyspark


def is_since(major: int, minor: int) -> bool:
    """Return whether this is PySpark of a version or a later one."""
    numbers = re.findall(r"\d+", pyspark.__version__)
    return (int(numbers[0]), int(numbers[1])) >= (major, minor)


def has_read_limits() -> bool:
    """Return whether streaming sources in Python can be asked for a part of what there is (PySpark 4.2)."""
    return find_spec("pyspark.sql.streaming.datasource") is not None
