"""What `make release` writes beside the wheel; the trial itself needs a network and is part of that target."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml

from support.chart import CHART, EXAMPLE, helm
from support.release import SUMS, packed_chart, version_of_tree, write_sums
from support.tree import ROOT, tree_files


def test_the_packed_chart_holds_the_chart_and_what_its_links_lead_to(tmp_path: Path) -> None:
    package = packed_chart(CHART, tmp_path)

    with tarfile.open(package) as archive:
        names = archive.getnames()
    chart = CHART.relative_to(ROOT)
    linked = [path.name for path in CHART.iterdir() if path.is_symlink()]
    expected = {path.relative_to(chart).as_posix() for path in tree_files(str(chart))} - set(linked)
    assert package.name == f"tidemark-{version_of_tree()}.tgz"
    assert names[0] == "tidemark/Chart.yaml"
    assert {name.removeprefix("tidemark/") for name in names if name.split("/")[1] not in linked} == expected
    assert {name.split("/")[1] for name in names} >= {"dashboards", "rules"}


def test_the_packed_chart_is_the_same_bytes_for_the_same_chart(tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()

    first, second = packed_chart(CHART, tmp_path), packed_chart(CHART, tmp_path / "again")

    assert first.read_bytes() == second.read_bytes()


@pytest.mark.slow
def test_helm_renders_the_packed_chart_as_it_does_the_folder(tmp_path: Path) -> None:
    options = ["--set", "dashboards.enabled=true", "--set", "prometheusRule.enabled=true"]
    options += ["--set-file", f"specifications.files.shop\\.yaml={EXAMPLE}"]

    packed, folder = (
        helm("template", "t", chart, *options) for chart in (packed_chart(CHART, tmp_path), CHART)
    )

    assert (packed.returncode, packed.stderr) == (0, "")
    assert list(yaml.safe_load_all(packed.stdout)) == list(yaml.safe_load_all(folder.stdout))


def test_the_checksums_are_those_of_every_file_and_sha256sum_checks_them(tmp_path: Path) -> None:
    (tmp_path / "maven").mkdir()
    for name in ("a.whl", "maven/b.jar", SUMS):
        (tmp_path / name).write_text(name, encoding="utf-8")

    write_sums(tmp_path)

    check = ["sha256sum", "--check", "--strict", SUMS]
    done = subprocess.run(check, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "a.whl: OK\nmaven/b.jar: OK\n")
