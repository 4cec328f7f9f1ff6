"""The programs of a Kubernetes API and its store, built by Go from its module proxy; the folder is ``go_tools``'.

    make cluster                  # the newest version
    make cluster ARGS=v1.35.4     # another one of VERSIONS

Kubernetes' own ``go.mod`` takes the modules that it is made of from folders beside it, which a module does not have, so
it is no main module here: a module of our own requires it, and takes those at the version that goes with it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.go_tools import NotBuilt, alone, run_go, tools_folder

__all__ = ["EACH_VERSION", "NEWEST", "VERSIONS", "cluster_programs"]

VERSIONS = {"v1.37.2": "v3.7.0", "v1.35.4": "v3.6.5"}
"""Versions of Kubernetes, the newest first, each with that of the etcd whose client is in it."""

NEWEST = next(iter(VERSIONS))

EACH_VERSION = [
    pytest.param(version, marks=pytest.mark.soak if version != NEWEST else ()) for version in VERSIONS
]
"""Parameters of tests that run on each: on all but the newest in ``make soak`` alone."""

_KUBERNETES, _ETCD = "k8s.io/kubernetes", "go.etcd.io/etcd/server/v3"
_PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kubectl")
_STAGED = re.compile(r"^\t(k8s\.io/[\w-]+) => \./staging/", re.MULTILINE)
_ABOUT = "k8s.io/component-base/version"


def cluster_programs(version: str) -> Path:
    """Return the folder of a version's programs and etcd; the test is skipped where they have not been built."""
    folder = _programs(version)
    if not folder.is_dir():
        command = "make cluster" if version == NEWEST else f"make cluster ARGS={version}"
        pytest.skip(f"Kubernetes {version} is not there; `{command}` builds it")
    return folder


def _programs(version: str) -> Path:
    return tools_folder() / f"kubernetes-{version}"


def _make(version: str) -> None:
    with alone() as folder, tempfile.TemporaryDirectory(dir=folder) as made:
        module, programs = Path(made), Path(made) / "programs"
        (module / "go.mod").write_text(_go_mod(version), encoding="utf-8")
        minor = version.split(".")[1]
        about = {"gitVersion": version, "gitMajor": "1", "gitMinor": minor, "gitTreeState": "clean"}
        linked = " ".join(f"-X {_ABOUT}.{name}={value}" for name, value in about.items())
        packages = [f"{_KUBERNETES}/cmd/{name}" for name in _PROGRAMS]
        run_go(
            ["install", "-mod=mod", "-trimpath", f"-ldflags=-s -w {linked}", *packages, _ETCD],
            module,
            GOBIN=str(programs),
        )
        (programs / "server").rename(programs / "etcd")
        programs.replace(_programs(version))


def _go_mod(version: str) -> str:
    found = json.loads(run_go(["mod", "download", "-json", f"{_KUBERNETES}@{version}"]))
    held = (Path(found["Dir"]) / "go.mod").read_text(encoding="utf-8")
    staged = "\n".join(f"{name} => {name} v0{version[2:]}" for name in _STAGED.findall(held))
    (go,) = re.findall(r"^go \S+$", held, re.MULTILINE)
    return (
        f"module cluster\n{go}\nrequire (\n{_KUBERNETES} {version}\n{_ETCD} {VERSIONS[version]}\n)\n"
        f"replace (\n{staged}\n)\n"
    )


def _main(versions: Sequence[str]) -> int:
    if unknown := set(versions) - VERSIONS.keys():
        sys.stderr.write(
            f"cluster: no version {', '.join(sorted(unknown))}; there are {', '.join(VERSIONS)}\n"
        )
        return 2
    if shutil.which("go") is None:
        sys.stderr.write("cluster: there is no Go; install one (Debian: apt-get install golang-go)\n")
        return 1
    os.nice(10)
    try:
        for version in versions or [NEWEST]:
            if not _programs(version).is_dir():
                sys.stdout.write(f"cluster: building Kubernetes {version} (ten minutes on two cores)\n")
                sys.stdout.flush()
                _make(version)
            sys.stdout.write(f"{_programs(version)}\n")
    except NotBuilt as error:
        sys.stderr.write(f"cluster: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
