"""Makes the archive for ``spark-submit --py-files``: what a job needs of ``tidemark``, in one zip.

That is ``tidemark.models`` and ``tidemark.spark_jobs`` without the demonstration, the examples (they are main programs,
given to ``spark-submit`` as files), ``tidemark inspect``, the check of a job's file and the tools that prepare a
machine.

The same tree gives the same bytes. Standard library only: ``python -m support.archive OUT.zip``.
"""

from __future__ import annotations

import importlib.util
import sys
import zipfile
from pathlib import Path

PACKAGES = ("tidemark.models", "tidemark.spark_jobs")

LEFT_OUT = tuple(
    f"tidemark/spark_jobs/{name}"
    for name in (
        "demo",
        "plans/checkpoint_contents.py",
        "plans/inspection.py",
        "plans/job.py",
        "plans/lint.py",
        "spark/checkpoint_state.py",
        "spark/jars",
        "spark/java.py",
    )
)
"""Files and folders of the packages that no job needs."""

_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)


def write_archive(out: Path) -> list[str]:
    """Write the archive to ``out`` and return the names in it.

    Every directory has an entry of its own: without them zipimport (before Python 3.13) sees no namespace ``tidemark``.
    """
    entries: dict[str, bytes] = {"tidemark/": b""}
    for package in PACKAGES:
        folder = _folder(package)
        for path in [folder, *folder.rglob("*")]:
            inside = path.relative_to(folder)
            if any(part.startswith((".", "__pycache__")) for part in inside.parts):
                continue
            name = Path(*package.split("."), inside).as_posix()
            if any(name == left_out or name.startswith(f"{left_out}/") for left_out in LEFT_OUT):
                continue
            if path.is_dir():
                entries[f"{name}/"] = b""
            else:
                entries[name] = path.read_bytes()
    write_zip(out, entries)
    return sorted(entries)


def write_zip(out: Path, entries: dict[str, bytes]) -> None:
    """Write a zip whose bytes follow from its entries alone; the name of a directory ends in a slash."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(entries):
            information = zipfile.ZipInfo(name, _ZIP_EPOCH)
            information.external_attr = 0o40755 << 16 if name.endswith("/") else 0o100644 << 16
            archive.writestr(information, entries[name], zipfile.ZIP_DEFLATED)


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    locations = list(spec.submodule_search_locations or []) if spec else []
    if not locations or not Path(locations[0]).is_dir():
        raise FileNotFoundError(
            f"{package} is not installed as a folder, so it cannot be archived: {locations}"
        )
    return Path(locations[0])


def _main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m support.archive OUT.zip\n")
        return 2
    out = Path(arguments[0])
    names = write_archive(out)
    sys.stdout.write(
        f"{out}: {sum(not name.endswith('/') for name in names)} files, {out.stat().st_size} bytes\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
