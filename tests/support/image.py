"""An image without a container engine: a Dockerfile's steps, run in a directory tree that stands for its root.

The lines are run as they stand, but for the absolute paths of what the image has of its own, which get the tree's own
path in front. A virtual environment stands for the base image's Python, and ``useradd`` is left out: the
user's number is taken instead. It understands what this project's Dockerfiles say, and refuses everything else.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from support.tree import ROOT, tree_files

__all__ = ["Image", "Step", "build_image", "read_dockerfile", "stages_of"]

_OWN = ("opt", "src", "dist", "var/lib/tidemark")
"""Folders of the image that are its own; a process sees all others of the machine that it runs on."""

_QUIET = frozenset({"LABEL", "EXPOSE", "VOLUME"})
"""Instructions that say something and do nothing."""


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction of a Dockerfile."""

    name: str
    """Its name, in capitals."""
    text: str
    """What follows the name, its lines joined."""


@dataclass(slots=True)
class Image:
    """What a stage has come to, and how its processes are to be run."""

    root: Path
    """The directory that stands for ``/``."""
    environment: dict[str, str]
    """What ``ENV`` says, and the path to the base image's Python."""
    folder: Path
    """The working directory."""
    user: int | None = None
    """Number of the user; None for root."""
    command: list[str] = field(default_factory=list)
    """What runs in it."""
    health: list[str] = field(default_factory=list)
    """The health check: it ends with 0 when the container is healthy."""

    def inside(self, text: str) -> str:
        """Return ``text`` with the image's own paths where they are on this machine."""
        own = "|".join(_OWN)
        return re.sub(rf"(?<![\w./-])/(?={own})", f"{self.root}/", text)

    def become(self) -> list[str]:
        """Return what to put before a command so that it runs as the image's user, where this process may change it."""
        if os.getuid() != 0 or self.user is None:
            return []
        number = str(self.user)
        return ["setpriv", f"--reuid={number}", f"--regid={number}", "--clear-groups"]


def read_dockerfile(path: Path) -> list[Step]:
    """Return the instructions of a Dockerfile."""
    lines = [
        line for line in path.read_text(encoding="utf-8").splitlines() if not line.lstrip().startswith("#")
    ]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    steps = [line.split(maxsplit=1) for line in joined.splitlines() if line.strip()]
    return [Step(name.upper(), text) for name, text in steps]


def stages_of(steps: list[Step]) -> list[tuple[str, list[Step]]]:
    """Return the stages in order: each by its name, or its number, with its steps after ``FROM``."""
    found: list[tuple[str, list[Step]]] = []
    for step in steps:
        if step.name == "FROM":
            _, *named = re.split(r"\s+AS\s+", step.text)
            found.append((named[0] if named else str(len(found)), []))
        else:
            found[-1][1].append(step)
    return found


def build_image(dockerfile: Path, where: Path, python: str = sys.executable) -> Image:
    """Run the steps of ``dockerfile`` on the project's tree and return the last stage.

    Args:
        dockerfile: the file.
        where: an empty directory, which all users may enter if one other than this is to run the image.
        python: interpreter that stands for the base image's.
    """
    images: dict[str, Image] = {}
    for name, steps in stages_of(read_dockerfile(dockerfile)):
        root = where / name
        base = root / "usr" / "local"
        # An installer takes seconds to make, and the last stage runs none.
        bare = [] if any("pip " in step.text for step in steps if step.name == "RUN") else ["--without-pip"]
        subprocess.run([python, "-m", "venv", *bare, base], check=True, capture_output=True)
        image = Image(root, {"PATH": f"{base}/bin:/usr/bin:/bin"}, root)
        for step in steps:
            _do(image, step, images)
        images[name] = image
    *_, last = images.values()
    return last


def _do(image: Image, step: Step, earlier: dict[str, Image]) -> None:
    match step.name:
        case "RUN":
            _run(image, step.text)
        case "COPY":
            _copy(image, step.text, earlier)
        case "ENV":
            for name, value in re.findall(r"(\w+)=(\S+)", step.text):
                known = re.sub(r"\$(\w+)", lambda found: image.environment.get(found[1], ""), value)
                image.environment[name] = image.inside(known)
        case "WORKDIR":
            image.folder = Path(image.inside(step.text))
            image.folder.mkdir(parents=True, exist_ok=True)
        case "USER":
            image.user = int(step.text)
        case "CMD":
            image.command = json.loads(step.text)
        case "HEALTHCHECK":
            image.health = json.loads(step.text.partition("CMD ")[2])
        case _:
            assert step.name in _QUIET, f"this does not know what {step.name} does"


def _run(image: Image, line: str) -> None:
    if line.startswith("useradd "):
        return
    # How packages are reached is the machine's business, as with a container engine's proxy settings.
    network = {
        name: value
        for name, value in os.environ.items()
        if re.match(r"(?i)(PIP_|(https?|no)_proxy$|SSL_CERT_)", name)
    }
    done = subprocess.run(
        ["/bin/sh", "-ec", image.inside(line)],
        cwd=image.folder,
        env={**network, **image.environment, "HOME": str(image.root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"


def _copy(image: Image, text: str, earlier: dict[str, Image]) -> None:
    *sources, target = [word for word in shlex.split(text) if not word.startswith("--")]
    to = image.folder / target if not target.startswith("/") else Path(image.inside(target))
    stage = re.search(r"--from=(\w+)", text)
    if stage is not None:
        for source in sources:
            held = Path(earlier[stage[1]].inside(source))
            shutil.copytree(held, to, symlinks=True)
            _move_scripts(to, held)
        return
    for source in sources:
        # What git does not know is what .dockerignore keeps out.
        for path in tree_files(source):
            inside = to / path.relative_to(source) if source.endswith("/") else to / path.name
            inside.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, inside)


def _move_scripts(folder: Path, built_in: Path) -> None:
    """Tell scripts that were made in one tree that they stand in another: in an image both have the same path."""
    for script in (folder / "bin").iterdir():
        if script.is_file() and not script.is_symlink():
            content = script.read_bytes()
            if str(built_in).encode() in content:
                script.write_bytes(content.replace(str(built_in).encode(), str(folder).encode()))
