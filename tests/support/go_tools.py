"""Tools that check what is deployed, at pinned versions, built by Go into a folder of the user's cache.

    make tools

They come through Go's module proxy with its checksums. The folder is ``tidemark/tools`` under ``XDG_CACHE_HOME``
(``~/.cache``); ``TIDEMARK_TOOLS`` names another. A build takes some minutes, so that only CI makes one by itself; where
a tool is missing elsewhere, tests that want it are skipped with the reason.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

__all__ = [
    "HELM",
    "KUBERNETES",
    "TOOLS",
    "NotBuilt",
    "alone",
    "crds",
    "go_tool",
    "run_go",
    "tools_folder",
]

HELM = "helm"

TOOLS = {
    HELM: ("helm.sh/helm/v3/cmd/helm", "v3.19.5"),  # the last but one of Helm 3, which all clusters know
    # The schemas of Kubernetes are in it, so that it needs neither a cluster nor a network.
    "kubectl-validate": ("sigs.k8s.io/kubectl-validate", "v0.0.4"),
    # What `docker compose config` runs on: the reference implementation of compose files.
    "compose-go": ("github.com/compose-spec/compose-go/v2/cmd", "v2.10.2"),
}
"""By name: the package and its version."""

CRDS = {
    "prometheus-operator": (
        "github.com/prometheus-operator/prometheus-operator",
        "v0.85.0",
        "example/prometheus-operator-crd/monitoring.coreos.com_{servicemonitors,prometheusrules}.yaml",
    ),
    "spark-operator": (
        "github.com/kubeflow/spark-operator/v2",
        "v2.3.0",
        "config/crd/bases/sparkoperator.k8s.io_{sparkapplications}.yaml",
    ),
}
"""By operator the module that has its definitions of resources, its version, and where which of them are in it."""

KUBERNETES = "1.30.0"
"""Version of Kubernetes that is rendered for and validated against."""

_CHARTUTIL = "helm.sh/helm/v3/pkg/chartutil.k8sVersion"
_FLAGS = {HELM: f"-X {_CHARTUTIL}Major=1 -X {_CHARTUTIL}Minor=30"}
"""Flags of the linker. As in Helm's own releases: without a cluster it takes this one for the cluster's version."""


class NotBuilt(Exception):
    """A tool could not be built or fetched; the message is one line."""


def go_tool(name: str) -> Path:
    """Return the program; the test is skipped where it is not there, but in CI with Go it is built."""
    program = _program(name)
    if not program.is_file():
        _make_or_skip(name, lambda: _make_tool(name))
    return program


def crds(operator: str) -> Path:
    """Return the folder with an operator's definitions of its resources, as ``go_tool`` does."""
    folder = _crds(operator)
    if not folder.is_dir():
        _make_or_skip(folder.name, lambda: _make_crds(operator))
    return folder


def _program(name: str) -> Path:
    return tools_folder() / f"{name}-{TOOLS[name][1]}" / name


def _crds(operator: str) -> Path:
    return tools_folder() / f"{operator}-crds-{CRDS[operator][1]}"


def tools_folder() -> Path:
    """Return the folder where tools are kept."""
    named = os.environ.get("TIDEMARK_TOOLS")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidemark" / "tools"


def _make_or_skip(what: str, make: Callable[[], None]) -> None:
    if shutil.which("go") is None:
        pytest.skip(f"{what} is not there, and there is no Go to build it with")
    if os.environ.get("CI") != "true":
        pytest.skip(f"{what} is not there; `make tools` builds it")
    try:
        make()
    except NotBuilt as error:
        pytest.skip(f"{what} is not there and cannot be built: {error}")


@contextmanager
def alone() -> Iterator[Path]:
    """Hold off other processes that would make the same, and give the folder."""
    tools_folder().mkdir(parents=True, exist_ok=True)
    with (tools_folder() / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield tools_folder()


def _make_tool(name: str) -> None:
    package, version = TOOLS[name]
    program = _program(name)
    with alone() as folder, tempfile.TemporaryDirectory(dir=folder) as made:
        if not program.is_file():
            run_go(
                ["install", "-trimpath", f"-ldflags=-s -w {_FLAGS.get(name, '')}", f"{package}@{version}"],
                GOBIN=made,
            )
            (built,) = Path(made).iterdir()
            program.parent.mkdir(exist_ok=True)
            built.replace(program)


def _make_crds(operator: str) -> None:
    module, version, pattern = CRDS[operator]
    before, names, after = re.split("[{}]", pattern)
    with alone() as folder, tempfile.TemporaryDirectory(dir=folder) as made:
        if not _crds(operator).is_dir():
            body = run_go(["mod", "download", "-json", f"{module}@{version}"])
            fresh = Path(made) / "crds"
            fresh.mkdir()
            for name in names.split(","):
                path = Path(json.loads(body)["Dir"]) / f"{before}{name}{after}"
                shutil.copyfile(path, fresh / path.name)
            fresh.replace(_crds(operator))


def run_go(arguments: list[str], cwd: Path | None = None, **environment: str) -> str:
    """Run Go and return what it printed.

    Raises:
        NotBuilt: when it fails.
    """
    done = subprocess.run(
        ["go", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, **environment},
    )
    if done.returncode != 0:
        body = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise NotBuilt(f"go {' '.join(arguments)}: {body}")
    return done.stdout


def _main() -> int:
    if shutil.which("go") is None:
        sys.stderr.write(
            "tools: there is no Go; install one (Debian: apt-get install golang-go; 1.24 or newer)\n"
        )
        return 1
    try:
        for name in TOOLS:
            if not _program(name).is_file():
                _make_tool(name)
            sys.stdout.write(f"{_program(name)}\n")
        for operator in CRDS:
            if not _crds(operator).is_dir():
                _make_crds(operator)
            sys.stdout.write(f"{_crds(operator)}\n")
    except NotBuilt as error:
        sys.stderr.write(f"tools: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_main())
