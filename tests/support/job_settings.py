"""The settings of a stream, as a call and a conf give them."""

from __future__ import annotations

from tidemark.spark_jobs.core.settings import Conf, JobSettings
from tidemark.spark_jobs.core.wishes import Wishes

__all__ = ["read_settings"]


def read_settings(conf: Conf, **of_call: object) -> JobSettings:
    """Return the settings of a stream; what a call gives wins over the conf, of which what is wrong is left out.

    Raises:
        WrongValueError: when what the call gives may not be given.
    """
    return Wishes(conf).first_that_fits(lambda settings: settings, of_call)
