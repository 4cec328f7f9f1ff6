"""Settings for a Spark whose checkpoints lie on this machine's own disk, as the demo's and the tests' do.

Without Hadoop's native library, which PySpark does not bring, Spark's default for checkpoints starts two programs
(``readlink``, ``chmod``) for each file that it reads: 42 a batch of a windowed count, a tenth of a second (4.2.0). With
this manager 8 are left, all ``chmod``. What is written is the same. A shared file system needs none of this.
"""

from __future__ import annotations

from tidemark.spark_jobs.this_spark import is_since

_PACKAGE = "org.apache.spark.sql.execution.streaming"
# A session's settings come before its JVM, which could be asked.
_MANAGERS = f"{_PACKAGE}.checkpointing" if is_since(4, 1) else _PACKAGE

LOCAL_DISK: dict[str, bool | float | int | str | None] = {
    "spark.sql.streaming.checkpointFileManagerClass": f"{_MANAGERS}.FileSystemBasedCheckpointFileManager",
}
"""Spark conf keys and their values."""
