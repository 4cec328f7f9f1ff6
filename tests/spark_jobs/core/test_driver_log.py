"""The lines of a driver's log that are Tidemark's."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

PROGRAM = """
import logging
from tidemark.spark_jobs.core.driver_log import print_or_log
log = logging.getLogger("tidemark.spark")
log.warning("reports wait")
print_or_log("job=shop")
logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
log.warning("reports wait")
print_or_log("job=shop")
"""


def test_a_line_says_whose_it_is_and_stands_once_in_the_log_whether_the_program_has_one_or_not() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines() == [
        "tidemark: reports wait",
        "tidemark: job=shop",
        "WARNING reports wait",
        "INFO tidemark: job=shop",
    ]
