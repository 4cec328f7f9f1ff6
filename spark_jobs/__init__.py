"""The driver's side: the tap, the client of the controller, restarts, Live, the demonstration and example jobs.

The names below are loaded when first used, so that whoever imports one module needs neither httpx nor numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidemark.models.base.operators import row_level, session, sliding, tumbling
    from tidemark.spark_jobs.adaptive import adaptive_watermark
    from tidemark.spark_jobs.core.connections import counts_of, flush
    from tidemark.spark_jobs.core.early_results import commit_properties, with_completeness
    from tidemark.spark_jobs.late.revise import revise
    from tidemark.spark_jobs.late.side import side
    from tidemark.spark_jobs.restart.runner import AdaptiveQuery, run_adaptive, run_and_exit

__all__ = [
    "AdaptiveQuery",
    "adaptive_watermark",
    "commit_properties",
    "counts_of",
    "flush",
    "revise",
    "row_level",
    "run_adaptive",
    "run_and_exit",
    "session",
    "side",
    "sliding",
    "tumbling",
    "with_completeness",
]

_HOME = {
    "AdaptiveQuery": "tidemark.spark_jobs.restart.runner",
    "adaptive_watermark": "tidemark.spark_jobs.adaptive",
    "commit_properties": "tidemark.spark_jobs.core.early_results",
    "counts_of": "tidemark.spark_jobs.core.connections",
    "flush": "tidemark.spark_jobs.core.connections",
    "run_adaptive": "tidemark.spark_jobs.restart.runner",
    "run_and_exit": "tidemark.spark_jobs.restart.runner",
    "revise": "tidemark.spark_jobs.late.revise",
    "side": "tidemark.spark_jobs.late.side",
    "with_completeness": "tidemark.spark_jobs.core.early_results",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME.get(name, "tidemark.models.base.operators")), name)
