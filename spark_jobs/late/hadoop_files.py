"""Files wherever Hadoop reaches: checkpoints and folders lie on local disks, HDFS or S3 alike.

Small files are written by the same means as Spark's checkpoints, whole or not at all, on object stores too (Spark 4.2,
``CheckpointFileManager``).
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from tidemark.spark_jobs.gateway import Py4JJavaError
from tidemark.spark_jobs.private_names import CHECKPOINT_FILES, find


class HadoopFiles:
    """The files below one folder.

    Args:
        spark: the session whose Hadoop configuration is used.
        folder: a path or URI; the paths below are relative to it.

    Methods raise ``Py4JJavaError`` when the file system fails.
    """

    def __init__(self, spark: SparkSession, folder: str) -> None:
        jvm: Any = spark._jvm  # noqa: SLF001 - PySpark has no other way to Hadoop's files
        self._jvm = jvm
        configuration = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001 - as above
        self._root = self._jvm.org.apache.hadoop.fs.Path(folder)
        self._system = self._root.getFileSystem(configuration)
        self._root = self._system.makeQualified(self._root)
        managers = find(CHECKPOINT_FILES)
        self._manager = None if managers is None else managers.create(self._root, configuration)

    @property
    def uri(self) -> str:
        """The folder, with its scheme."""
        return str(self._root.toString())

    def path(self, name: str) -> str:
        """Return the path of ``name``, with its scheme."""
        return str(self._path(name).toString())

    def names(self, folder: str = "") -> list[str]:
        """Return the names in a folder; none when it is not there."""
        try:
            return [str(each.getPath().getName()) for each in self._system.listStatus(self._path(folder))]
        except Py4JJavaError as error:
            if _is_missing(error):
                return []
            raise

    def read(self, name: str) -> str | None:
        """Return the text of a file; None when it is not there."""
        data = self.read_bytes(name)
        return None if data is None else data.decode()

    def read_bytes(self, name: str) -> bytes | None:
        """Return what is in a file; None when it is not there."""
        try:
            stream = self._system.open(self._path(name))
        except Py4JJavaError as error:
            if _is_missing(error):
                return None
            raise
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def written_ms(self, name: str) -> int | None:
        """Return when a file was written, in milliseconds since the epoch; None when it is not there."""
        try:
            return int(self._system.getFileStatus(self._path(name)).getModificationTime())
        except Py4JJavaError as error:
            if _is_missing(error):
                return None
            raise

    def write_whole(self, name: str, data: str | bytes) -> None:
        """Write a small file that is new, or replaces one: whoever reads it finds it whole or not at all.

        Raises:
            OSError: when the file system refuses, or this Spark has no way to do so.
        """
        if self._manager is None:
            raise OSError(
                f"{self.path(name)} cannot be written whole: this Spark has no CheckpointFileManager"
            )
        path = self._path(name)
        self._system.mkdirs(path.getParent())
        # Not every file system renames over what is there, and Spark's manager only logs that.
        self._system.delete(path, False)
        stream = self._manager.createAtomic(path, False)
        try:
            stream.write(bytearray(data.encode() if isinstance(data, str) else data))
            stream.close()
        except BaseException:
            stream.cancel()
            raise
        if not self.exists(name):
            raise OSError(f"{self.path(name)} cannot be written")

    def rename(self, name: str, new: str) -> None:
        """Rename a folder to one that is not there.

        Raises:
            OSError: when the file system refuses.
        """
        if not self._system.rename(self._path(name), self._path(new)):
            raise OSError(f"{self.path(name)} cannot be renamed to {self.path(new)}")

    def delete(self, name: str) -> None:
        """Delete a file or folder, if it is there."""
        self._system.delete(self._path(name), True)

    def exists(self, name: str) -> bool:
        """Return whether there is a file or folder."""
        return bool(self._system.exists(self._path(name)))

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name) if name else self._root


def _is_missing(error: Py4JJavaError) -> bool:
    return "FileNotFoundException" in str(error.java_exception.getClass().getName())
