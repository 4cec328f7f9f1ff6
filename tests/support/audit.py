"""Known vulnerabilities of everything that is locked: pip-audit and `npm audit`, and whether they could learn anything.

    make audit

pip-audit says "no known vulnerabilities" and ends with 0 where an index does not serve them, as most mirrors do not; so
its answer is read here. Exit codes: 0, nothing is known of any package; 1, something is; 75, nothing was found, but of
some packages nothing could be learnt. ``make`` turns both into 2; run the module for the difference.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from support.release import LOCKS, environment_in, install
from support.tree import ROOT

__all__ = ["UNKNOWN", "judged", "rounds"]

UNKNOWN = 75
"""Exit code where nothing was found, but not everything could be asked for."""


def rounds(locks: Iterable[str]) -> list[str]:
    """Return the pins of lock files as requirements, of any Python and platform; each has a package once.

    pip-audit leaves out what is not for its own Python and platform, and refuses two versions of a package.
    """
    pins = sorted({pin for lock in locks for pin in re.findall(r"^[a-z0-9-]+==[^\s;]+", lock, re.MULTILINE)})
    by_name: dict[str, list[str]] = {}
    for pin in pins:
        by_name.setdefault(pin.partition("==")[0], []).append(pin)
    most = max(map(len, by_name.values()), default=0)
    return ["\n".join(each[turn] for each in by_name.values() if turn < len(each)) for turn in range(most)]


def judged(python: Iterable[str], npm: str) -> int:
    """Print what pip-audit (JSON, once a round) and `npm audit` (JSON) answered; return the exit code for it."""
    found, unknown, asked = [], [], 0
    for answer in map(_read, python):
        packages = answer.get("dependencies", [])
        asked += len(packages)
        unknown += [package["skip_reason"] for package in packages if "skip_reason" in package]
        found += [
            f"{package['name']} {package['version']}: {each['id']}, mended in {each['fix_versions'] or 'none'}"
            for package in packages
            for each in package.get("vulns", ())
        ]
        if not packages:
            unknown.append(f"pip-audit: {answer.get('message')}")
    answer = _read(npm)
    found += [f"{name} (npm): {each['severity']}" for name, each in answer.get("vulnerabilities", {}).items()]
    if "vulnerabilities" not in answer:
        unknown.append(f"npm audit: {answer.get('message')}")
    print(f"audit: {asked} Python packages, {len(found)} vulnerabilities known", *found, sep="\n  ")
    if unknown:
        print(
            f"audit: NOTHING COULD BE LEARNT of {len(unknown)}, such as:",
            *unknown[:1],
            *unknown[-1:],
            sep="\n  ",
        )
    return 1 if found else UNKNOWN if unknown else 0


def _read(answer: str) -> dict[str, Any]:
    """Return an answer in JSON; of another, its last line as ``message``."""
    try:
        read: dict[str, Any] = json.loads(answer)
    except ValueError:
        return {"message": (answer.strip().splitlines() or ["no answer"])[-1]}
    return read


def _answer(*command: str | Path) -> str:
    """Return what a command prints to its standard output, or to its errors where that is nothing."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout or done.stderr


def _main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="tidemark-audit-") as name:
        tool = environment_in(Path(name), sys.executable)
        install(tool, "--require-hashes", "-r", LOCKS / "release.txt")
        answers = []
        for pins in rounds(path.read_text(encoding="utf-8") for path in LOCKS.glob("*.txt")):
            requirements = Path(name, "pins.txt")
            requirements.write_text(pins, encoding="utf-8")
            options = ("--disable-pip", "--no-deps", "--progress-spinner=off", "--format=json", "--desc=off")
            answers.append(_answer(tool.with_name("pip-audit"), *options, *arguments, "-r", requirements))
    try:
        npm = _answer("npm", "audit", "--json", "--package-lock-only")
    except FileNotFoundError:
        npm = '{"message": "there is no npm here"}'
    return judged(answers, npm)


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
