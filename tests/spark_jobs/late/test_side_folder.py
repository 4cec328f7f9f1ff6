"""The folder with late rows, as another release may have written it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest

from tidemark.spark_jobs.late.side_folder import SideFolder, SideFolderError
from tidemark.spark_jobs.spark.checkpoint import HadoopFiles


class LocalFiles:
    """A folder of this machine, without Spark."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.uri = folder.as_uri()

    def names(self, folder: str = "") -> list[str]:
        return [path.name for path in (self.folder / folder).iterdir()]

    def read(self, name: str) -> str | None:
        path = self.folder / name
        return path.read_text() if path.exists() else None


def folder_marked(folder: Path, **owner: object) -> SideFolder:
    (folder / "_done").mkdir()
    (folder / "_done" / "17").write_text(json.dumps({"version": 1, "query_id": "q", "source": "s", **owner}))
    return SideFolder(cast("HadoopFiles", LocalFiles(folder)), "q", "s")


def test_a_folder_goes_on_that_a_later_release_has_marked_with_more_fields(tmp_path: Path) -> None:
    assert folder_marked(tmp_path, of_a_later_release=[1]).done() == 17


@pytest.mark.parametrize("owner", [{"version": 2}, {"query_id": "other"}, {"source": "other"}])
def test_a_folder_of_another_version_or_another_stream_is_refused(
    tmp_path: Path, owner: dict[str, object]
) -> None:
    with pytest.raises(SideFolderError, match="holds the late rows of"):
        folder_marked(tmp_path, **owner).done()
