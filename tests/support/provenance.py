"""How a release can be checked: what it was made of, checksums, and their signature.

The statement is in-toto's, with the predicate of SLSA 1.0 (https://slsa.dev/spec/v1.0/provenance). It says at most what
SLSA's build level 1 asks: who holds the key made it, from this commit, on a machine of their own. The signature is of
OpenSSH, since users have that, it asks no service, and the same key may sign the tag.
"""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

from support.jar_build import javac
from support.tree import ROOT

__all__ = ["SIGNERS", "SUMS", "commit_of_tree", "sign", "write_provenance", "write_sums"]

SUMS = "SHA256SUMS"
SIGNERS = ROOT / "deploy" / "allowed_signers"
"""The public keys that users trust."""

_IDENTITY = "tidemark"
_NAMESPACE = "tidemark-release"
"""What keeps a signature for something else from being taken for this one."""


def commit_of_tree(root: Path = ROOT) -> str:
    """Return the commit that the tree is of.

    Raises:
        SystemExit: when the tree differs from it: no commit then says what a release was made of.
    """
    changed = _printed("git", "-C", root, "status", "--porcelain").splitlines()
    if changed:
        sys.exit(f"commit first, a release is made of a commit; what differs: {', '.join(changed[:3])}")
    return _printed("git", "-C", root, "rev-parse", "HEAD").strip()


def write_provenance(dist: Path, version: str, commit: str) -> Path:
    """Write of which files ``dist`` is, and what they were made of; return the statement's file."""
    locks = sorted((ROOT / "deploy" / "requirements").glob("*.txt"))
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": list(_described(dist, _files(dist))),
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:tidemark:make-release:1",
                "externalParameters": {"command": "make release", "version": version},
                "resolvedDependencies": [
                    {"name": "source", "digest": {"gitCommit": commit}},
                    *_described(ROOT, [*locks, ROOT / "Dockerfile"]),
                ],
            },
            "runDetails": {
                "builder": {
                    "id": "urn:tidemark:releaser",
                    "version": {
                        "python": platform.python_version(),
                        "platform": platform.platform(),
                        "setuptools": version_of("setuptools"),
                        "javac": _printed(javac(), "-version").split()[-1],
                    },
                },
            },
        },
    }
    path = dist / f"tidemark-{version}.provenance.json"
    path.write_text(json.dumps(statement, indent=1) + "\n", encoding="utf-8")
    return path


def write_sums(folder: Path) -> None:
    """Write the checksums of all files below ``folder``, for `sha256sum --check` there."""
    lines = [f"{_sha256(path)}  {path.relative_to(folder).as_posix()}\n" for path in _files(folder)]
    (folder / SUMS).write_text("".join(lines), encoding="utf-8")


def sign(sums: Path, key: Path, signers: Path = SIGNERS) -> None:
    """Sign a file with a private key, or by an agent with its public half; write it beside the file, as ``.sig``.

    Raises:
        SystemExit: when it cannot be signed, or users who trust ``signers`` could not verify it.
    """
    signature = sums.with_name(f"{sums.name}.sig")
    signature.unlink(missing_ok=True)
    _printed("ssh-keygen", "-Y", "sign", "-f", key, "-n", _NAMESPACE, sums)
    trust = ("-f", signers, "-I", _IDENTITY, "-n", _NAMESPACE, "-s", signature)
    print(_printed("ssh-keygen", "-Y", "verify", *trust, text=sums.read_text(encoding="utf-8")), end="")


def _files(folder: Path) -> list[Path]:
    """Return the files of a release in order, without those that are about all of them."""
    about = {SUMS, f"{SUMS}.sig"}
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in about)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _described(folder: Path, paths: Iterable[Path]) -> Iterable[dict[str, Any]]:
    """Yield in-toto's descriptor of each file, by its path below ``folder``."""
    for path in paths:
        yield {"name": path.relative_to(folder).as_posix(), "digest": {"sha256": _sha256(path)}}


def _printed(*command: str | Path, text: str | None = None) -> str:
    """Return what a command prints; end this program with what it says where it fails."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout
