"""The layers of the product: the folders of each tree from the lowest up, and what is imported against that order.

``PYTHONPATH=tests python -m support.layers`` prints the number of imports, those that go upwards, and all cycles.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from support.import_graph import every_import
from support.tree import FOLDERS, ROOT

LAYERS: dict[str, tuple[str, ...]] = {
    "models": (
        "base",
        "protocol",
        "evidence",
        "completeness",
        "specs",
        "recommend",
        "rollout",
        "live",
        "backtest",
    ),
    "controller": ("base", "specs", "reports", "evidence", "control", "view", "server", "tools", "lab"),
    "spark_jobs": (
        "spark",
        "core",
        "plans",
        "restart",
        "live",
        "late",
        "connect",
        "adaptive",
        "attach",
        "demo",
    ),
}
"""The folders of each tree, the lowest first: a module imports from its own folder and from those before it. A tree
without any has no layers yet."""

LOOSE = {"controller": {"__main__"}, "spark_jobs": {"adaptive"}}
"""By tree, the modules that stand outside the folders: those that users start or import. One that is no layer, and the
tree's own package, stand above all."""

LABORATORY = {
    "models": {"backtest"},
    "controller": {"lab"},
    "spark_jobs": {"demo"},
}
"""By tree, the folders of the laboratory: only they import one of them."""

PACKAGES = {"spark_jobs": "adaptive"}
"""By tree, with which layer its own package stands: users import ``adaptive_watermark`` of ``tidemark.spark_jobs``."""


@dataclass(frozen=True, order=True)
class Import:
    """One module's import of another of ours; modules as ``models.base.text``, packages as ``models.base``."""

    user: str
    used: str

    @property
    def is_inside(self) -> bool:
        """Whether both stand in one tree."""
        return self.user.split(".")[0] == self.used.split(".")[0]


def modules(*trees: str) -> dict[str, Path]:
    """Return the modules of trees by their dotted names; a package is called like its folder."""
    paths = (path for tree in trees for path in sorted((ROOT / tree).rglob("*.py")))
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in paths
    }


def imports(*trees: str) -> set[Import]:
    """Return what modules of trees import of each other, also in functions and for types only."""
    known = modules(*trees)
    found = set()
    for user, path in known.items():
        package = ".".join(["tidemark", *path.relative_to(ROOT).parent.parts])
        for _, name in every_import(path.read_text(encoding="utf-8"), package):
            used = name.removeprefix("tidemark.")
            used = used if used in known else used.rpartition(".")[0]
            if used in known and used != user:
                found.add(Import(user, used))
    return found


def into_the_laboratory(found: Iterable[Import]) -> list[Import]:
    """Return the imports of the laboratory by what runs in production."""

    def inside(module: str) -> bool:
        tree, *rest = module.split(".")
        return rest[:1] != [] and rest[0] in LABORATORY[tree]

    return sorted(each for each in found if inside(each.used) and not inside(each.user))


def layer_of(module: str) -> int:
    """Return how high a module stands in its tree; a loose one stands above all folders."""
    tree, *rest = module.split(".")
    name = rest[0] if rest else PACKAGES.get(tree)
    return LAYERS[tree].index(name) if name in LAYERS[tree] else len(LAYERS[tree])


def upwards(found: Iterable[Import]) -> list[Import]:
    """Return the imports of what stands higher in the same tree."""
    return sorted(each for each in found if each.is_inside and layer_of(each.used) > layer_of(each.user))


def without_place(tree: str) -> list[str]:
    """Return the modules and folders of a tree that stand in none of its layers."""
    tops = {rest[0] for _, *rest in (name.split(".") for name in modules(tree)) if rest}
    return sorted(tops - set(LAYERS[tree]) - LOOSE.get(tree, set()))


def between_folders(found: Iterable[Import]) -> set[Import]:
    """Return the imports between the folders in which modules stand."""
    known = modules(*FOLDERS)

    def folder(module: str) -> str:
        return module if known[module].name == "__init__.py" else module.rpartition(".")[0]

    return {Import(folder(each.user), folder(each.used)) for each in found}


def cycles(found: Iterable[Import]) -> list[list[str]]:
    """Return the groups of names that import each other, directly or not."""
    left = {each for each in found if each.user != each.used}
    while True:  # What nothing imports, and what imports nothing, is in no cycle.
        users, used = {each.user for each in left}, {each.used for each in left}
        kept = {each for each in left if each.user in used and each.used in users}
        if kept == left:
            break
        left = kept
    reached = {name: _reached(name, left) for name in users}
    groups = {frozenset(other for other in reached[name] if name in reached[other]) for name in reached}
    return sorted(sorted(group) for group in groups if group)


def _reached(name: str, found: set[Import]) -> set[str]:
    """Return what a name imports, directly or not; itself only when it is in a cycle."""
    reached: set[str] = set()
    left = [name]
    while left:
        user = left.pop()
        new = {each.used for each in found if each.user == user} - reached
        reached |= new
        left += new
    return reached


def _main() -> int:
    bad = 0
    for tree in FOLDERS:
        found = imports(tree)
        high, loose = upwards(found), without_place(tree) if LAYERS[tree] else []
        circles = [*cycles(found), *cycles(between_folders(found))]
        bad += len(high) + len(loose) + len(circles)
        sys.stdout.write(
            f"{tree}: {len(modules(tree))} modules, {len(found)} imports, {len(high)} upwards, "
            f"{len(circles)} cycles\n"
        )
        lines = [
            *(f"upwards: {each.user} -> {each.used}" for each in high),
            *(f"in no layer: {each}" for each in loose),
            *(f"cycle: {', '.join(each)}" for each in circles),
        ]
        sys.stdout.writelines(f"  {line}\n" for line in lines)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(_main())
