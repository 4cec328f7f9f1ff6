"""Changes the pure core a line at a time and prints the changes that no test notices: `make mutants`, before a release.

It runs in one process. pytest collects the tests once; which of them reach a function is recorded once; then each
change is made in a fork of that process, in the function's code, and the tests that reach it run there, quick and
specific ones first, until one fails. ``mutation.py`` says which changes there are. Where there is more to try than
time, what is tried is drawn with a fixed seed.

What survives and matters gets a test. What survives and changes nothing that anybody could see gets a line with the
reason in ``harmless_mutants.toml``.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import gc
import importlib
import inspect
import multiprocessing
import os
import pickle
import random
import re
import resource
import shutil
import sys
import tempfile
import threading
import time
import tomllib
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import pytest

from support.fast_run import starts_another_program
from support.mutation import Mutant, mutants_of

CORE = (
    "models/rollout",
    "models/recommend",
    "models/evidence/ledger.py",
    "controller/control/decide",
    "controller/control/rollout",
    "controller/reports",
)
"""What is changed."""

TESTS = {
    "models": tuple(
        f"tests/models/{each}"
        for each in ("base", "protocol", "evidence", "specs", "recommend", "rollout", "live")
    ),
    "controller": tuple(
        f"tests/controller/{each}" for each in ("control", "evidence", "reports", "specs", "view")
    ),
}
"""The tests of each layer that may notice; a change of `models` is to be noticed by the tests of `models`."""

SLOW_TOO = re.compile(
    r"tests/models/|tests/controller/\w+/test_(decisions|intake|pace|rollouts|verdicts|vetoes|watch|wrong_clocks)\.py"
)
"""Where slow tests count as well: what they tell takes a job some time."""

WARM = "tests/controller/control/test_decisions.py"
"""Tests that run before all forks, so that schemas, statements and the empty store are made once."""

HARMLESS = Path(__file__).with_name("harmless_mutants.toml")
LOOKS_S = (5.0, 60.0)
"""How long the tests may take that are run on one change: at first, and where none of them has noticed it."""

FIRST_LOOKS = 0.7
"""Share of the time that first looks may take."""

_FORK = multiprocessing.get_context("fork")
_MEMORY = 8 * 2**30
_SURVIVED, _KILLED = 0, 1

Place = tuple[str, str]
"""A file, and a function or a name in it."""


def main() -> int:
    """Try the changes that the arguments ask for; return 1 when one survives that is not known to be harmless."""
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument(
        "parts", nargs="*", default=CORE, metavar="PART", help=f"of {', '.join(CORE)}, or files"
    )
    parser.add_argument("--minutes", type=float, default=60.0, help="how long it may take (60)")
    parser.add_argument(
        "--seed", type=int, default=1, help="of the sample, where there is no time for all (1)"
    )
    given = parser.parse_args()
    mutants = [mutant for part in given.parts for mutant in _mutants_in(Path(part))]
    layers = sorted({part.split("/")[0] for part in given.parts})
    if not mutants:
        parser.error(f"there is nothing to change in {' '.join(given.parts)}")
    trial = Trial(mutants, given.minutes, given.seed)
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ[name] = "1"
    tests = [
        str(path) for layer in layers for pattern in TESTS[layer] for path in sorted(Path().glob(pattern))
    ]
    options = ["-s", "-q", "-p", "no:cacheprovider", "--timeout=0"]
    code = pytest.main([*options, *tests], plugins=[trial])
    return trial.code if code == pytest.ExitCode.OK else int(code)


def _mutants_in(part: Path) -> Iterator[Mutant]:
    for file in [part] if part.suffix else sorted(part.glob("*.py")):
        yield from mutants_of(str(file), file.read_bytes())


@dataclass(frozen=True, slots=True)
class Reach:
    """What one test runs, and how long it takes."""

    seconds: float
    places: frozenset[Place]


class Trial:
    """A plugin that runs the collected tests on each change instead of once."""

    def __init__(self, mutants: Sequence[Mutant], minutes: float, seed: int) -> None:
        start_s, whole_s = time.monotonic(), minutes * 60
        self._ends_s = dict(zip(LOOKS_S, (start_s + FIRST_LOOKS * whole_s, start_s + whole_s), strict=True))
        self._harmless = {tuple(each[name] for name in _KEY): each["why"] for each in _harmless()}
        self._mutants = [mutant for mutant in mutants if mutant.key not in self._harmless]
        self._known = len(mutants) - len(self._mutants)
        files = {mutant.file for mutant in mutants}
        made = {mutant.key for mutant in mutants}
        self._stale = [key for key in self._harmless if key[0] in files and key not in made]
        random.Random(seed).shuffle(self._mutants)
        self._code = Code(files)
        self._tried: Counter[str] = Counter()
        self._killed: Counter[str] = Counter()
        self._survivors: dict[Mutant, str] = {}
        self.code = 1

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out what starts other programs, and most of what is slow."""
        items[:] = [
            item
            for item in items
            if not starts_another_program(item)
            and (SLOW_TOO.match(item.nodeid) or not item.get_closest_marker("slow"))
        ]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try the changes, and print what survives."""
        # pytest loads its plugins itself, before anybody else does.
        from hypothesis import Phase, settings

        # Examples are the same each time, and none of a changed product is kept for later runs.
        settings.register_profile(
            "mutants",
            max_examples=10,
            deadline=None,
            database=None,
            derandomize=True,
            phases=(Phase.explicit, Phase.generate),
        )
        settings.load_profile("mutants")
        items = {item.nodeid: item for item in session.items}
        warm = [
            item
            for item in session.items
            if item.nodeid.startswith(WARM) and not item.get_closest_marker("slow")
        ]
        for item in warm[:3]:
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        for thread in threading.enumerate():
            if thread is not threading.main_thread():
                thread.join()  # a fork would not have it
        _say(f"{len(self._mutants):,} changes; recording what {len(items):,} tests reach")
        reach = _record(session.items, self._code)
        _say(f"recorded; these tests take {sum(each.seconds for each in reach.values()):.0f} s")
        waiting = self._mutants
        with contextlib.suppress(KeyboardInterrupt):  # what was found is said
            for look_s in LOOKS_S:
                waiting = [mutant for mutant in waiting if not self._try(mutant, items, reach, look_s)]
        self._report()
        return True

    def _try(
        self, mutant: Mutant, items: dict[str, pytest.Item], reach: dict[str, Reach], look_s: float
    ) -> bool:
        """Try a change while there is time; return whether another look at it may not find more."""
        if time.monotonic() > self._ends_s[look_s]:
            return True
        places = self._code.places_of(mutant)
        names = sorted(
            (name for name, each in reach.items() if not places.isdisjoint(each.places)),
            key=lambda name: reach[name].seconds * len(reach[name].places),
        )
        chosen: list[pytest.Item] = []
        planned_s = 0.0
        for name in names:
            planned_s += reach[name].seconds
            if planned_s > look_s and chosen:
                break
            chosen.append(items[name])
        part = str(Path(mutant.file).parent)
        outcome = in_fork(lambda: self._run(mutant, chosen), 3 * planned_s + 20)
        self._survivors.pop(mutant, None)
        if look_s == LOOKS_S[0]:
            self._tried[part] += 1
            if self._tried.total() % 100 == 0:
                _say(f"{self._tried.total():,} tried, {self._killed.total():,} killed")
        if outcome == _SURVIVED:
            self._survivors[mutant] = f"{len(chosen)} of the {len(names)} tests that reach it"
            _say(
                f"survived: {mutant.file}:{mutant.line} {mutant.where}\n  - {mutant.before}\n  + {mutant.after}"
            )
            return len(chosen) == len(names)
        self._killed[part] += 1
        return True

    def _run(self, mutant: Mutant, items: Sequence[pytest.Item]) -> int:
        self._code.change(mutant)
        return _SURVIVED if _all_pass(items) else _KILLED

    def _report(self) -> None:
        left = len(self._mutants) - self._tried.total()
        for part, tried in sorted(self._tried.items()):
            _say(
                f"{part}: {tried:,} tried, {self._killed[part]:,} killed, {tried - self._killed[part]:,} survived"
            )
        _say(
            f"{self._tried.total():,} of {len(self._mutants):,} tried, {len(self._survivors):,} survived; "
            f"{self._known:,} known to be harmless" + (f"; no time for {left:,}" if left else "")
        )
        for mutant, how in sorted(self._survivors.items()):
            _say(
                f"\n{mutant.file}:{mutant.line} {mutant.where} ({how})\n  - {mutant.before}\n  + {mutant.after}"
            )
        for key in self._stale:
            _say(f"\n{HARMLESS.name}: there is no such change any more: {key}")
        self.code = 1 if self._survivors or self._stale else 0


class Code:
    """The code of the files that are changed, as it is in memory.

    Args:
        files: their paths from the root.
    """

    def __init__(self, files: set[str]) -> None:
        self._files = {str(Path(file).resolve()): file for file in files}

    def place_of(self, code: CodeType) -> Place | None:
        """Return the place whose code this is, or is inside of; None when that is not changed."""
        file = self._files.get(code.co_filename)
        return None if file is None else (file, code.co_qualname.split(".<locals>")[0])

    def places_of(self, mutant: Mutant) -> set[Place]:
        """Return the places by which tests reach a change: the function, or those that use the name."""
        module = _module_of(mutant.file)
        if any(True for _ in _functions_at(module, mutant.where)):
            return {(mutant.file, mutant.where)}
        users = {
            (file, function.__qualname__)
            for file in self._files.values()
            for function in _functions_in(_module_of(file))
            if mutant.where in _names_in(function.__code__)
        }
        return users or {(mutant.file, function.__qualname__) for function in _functions_in(module)}

    def forget(self) -> None:
        """Forget what functions of these files have kept of earlier calls."""
        for file in self._files.values():
            for value in vars(_module_of(file)).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()

    def change(self, mutant: Mutant) -> None:
        """Make a change in this process."""
        module = _module_of(mutant.file)
        assert module.__file__ is not None
        whole = compile(mutant.source, module.__file__, "exec")
        functions = list(_functions_at(module, mutant.where))
        if not functions:
            _assign(module, mutant)
        for code in _codes_in(whole):
            for function in functions:
                if (code.co_qualname, code.co_firstlineno) == (
                    mutant.where,
                    function.__code__.co_firstlineno,
                ):
                    function.__code__ = code
        self.forget()


def _assign(module: ModuleType, mutant: Mutant) -> None:
    """Give a name of a module its changed value, also where other modules have taken it over."""
    name, tree = mutant.where, ast.parse(mutant.source)
    tree.body = [
        node
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id == name
    ]
    before = vars(module)[name]
    exec(compile(tree, "mutant", "exec"), vars(module))  # our own source
    for other in list(sys.modules.values()):
        if other.__name__.startswith("tidemark.") and vars(other).get(name) is before:
            setattr(other, name, vars(module)[name])


def _module_of(file: str) -> ModuleType:
    return importlib.import_module(
        "tidemark." + file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    )


def _functions_at(module: ModuleType, where: str) -> Iterator[FunctionType]:
    return (function for function in _functions_in(module) if function.__qualname__ == where)


def _functions_in(module: ModuleType) -> Iterator[FunctionType]:
    """Yield the functions and methods that a module defines, without what decorators put around them."""
    for value in list(vars(module).values()):
        inside = (
            vars(value).values()
            if inspect.isclass(value) and value.__module__ == module.__name__
            else [value]
        )
        for each in inside:
            yield from _bare(each, module)


def _bare(value: Any, module: ModuleType) -> Iterator[FunctionType]:
    while value is not None:
        if isinstance(value, FunctionType):
            if value.__code__.co_filename == module.__file__:
                yield value
        elif isinstance(value, property):
            value = value.fget
            continue
        elif isinstance(value, staticmethod | classmethod):
            value = value.__func__
            continue
        value = getattr(value, "__wrapped__", None) if callable(value) else None


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes_in(inner)


def _names_in(code: CodeType) -> set[str]:
    return {name for each in _codes_in(code) for name in each.co_names}


# -- tests in forks ------------------------------------------------------------------------------------------------


def _record(items: Sequence[pytest.Item], code: Code) -> dict[str, Reach]:
    """Run the tests once, in a fork, and return what each of them reaches; those that fail are left out."""
    with tempfile.NamedTemporaryFile(suffix=".pickle") as found:

        def run() -> int:
            Path(found.name).write_bytes(pickle.dumps(_reached(items, code)))
            return 0

        in_fork(run, 3_600)
        reached: dict[str, Reach | None] = pickle.loads(Path(found.name).read_bytes())
    for name in (name for name, each in reached.items() if each is None):
        _say(f"left out, since it fails: {name}")
    return {name: each for name, each in reached.items() if each is not None and each.places}


def _reached(items: Sequence[pytest.Item], code: Code) -> dict[str, Reach | None]:
    reached: dict[str, Reach | None] = {}
    places: set[Place] = set()

    def called(frame: FrameType, _event: str, _argument: object) -> None:
        if (place := code.place_of(frame.f_code)) is not None:
            places.add(place)

    for item in items:
        places.clear()
        code.forget()
        start_s = time.process_time()
        sys.settrace(called)
        threading.settrace(called)
        passed = _all_pass([item])
        sys.settrace(None)
        threading.settrace(None)
        seconds = time.process_time() - start_s
        reached[item.nodeid] = Reach(seconds, frozenset(places)) if passed else None
    return reached


class _Failures:
    def __init__(self) -> None:
        self.seen = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seen |= report.failed


def _all_pass(items: Sequence[pytest.Item]) -> bool:
    """Run tests until one fails; return whether none did."""
    failures = _Failures()
    for item, following in zip(items, [*items[1:], None], strict=False):
        item.config.pluginmanager.register(failures)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        item.config.pluginmanager.unregister(failures)
        if failures.seen:
            return False
    return True


def in_fork(work: Callable[[], int], limit_s: float) -> int:
    """Return what ``work`` returns in a fork of this process, with a folder of its own; killed after ``limit_s``."""
    folder = tempfile.mkdtemp(prefix="mutant-")

    def alone() -> None:
        code, heard = _KILLED, os.dup(2)
        try:
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            tempfile.tempdir = os.environ["TMPDIR"] = folder
            resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
            gc.disable()
            code = work()
        except Exception:  # noqa: BLE001  # whatever it is, the parent should be told
            os.write(heard, traceback.format_exc().encode())
        finally:
            os._exit(code)

    process = _FORK.Process(target=alone)
    process.start()
    process.join(limit_s)
    if process.exitcode is None:
        process.kill()
        process.join()
    shutil.rmtree(folder, ignore_errors=True)
    return _SURVIVED if process.exitcode == _SURVIVED else _KILLED


# -- what is known to be harmless ----------------------------------------------------------------------------------

_KEY = ("file", "where", "before", "after")


def _harmless() -> list[dict[str, str]]:
    found: list[dict[str, str]] = (
        tomllib.loads(HARMLESS.read_text(encoding="utf-8"))["harmless"] if HARMLESS.exists() else []
    )
    return found


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
