"""Which files the tree holds, and what they must not contain."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from support.tree import FOLDERS, ROOT, tree_files

TOP_LEVEL = {
    *FOLDERS,
    "deploy",
    "docs",
    "tests",
    "Dockerfile",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "LICENSE",
    "NOTICE",
    "Makefile",
    "pyproject.toml",
    "setup.py",
    "eslint.config.js",
    "package.json",
    "package-lock.json",
    "tsconfig.json",
}

# The brackets keep these patterns from finding themselves.
REGISTRY_HOSTS = re.compile(r"[p]ypi\.org|[p]ythonhosted|[r]epo1?\.maven|[r]egistry\.npm|[d]eb\.debian")
MACHINE_PATHS = re.compile(r"/[w]ork/|/[r]oot/|/[h]ome/\w+/|/[U]sers/\w+/|/[t]mp/x/")


def texts() -> Iterator[tuple[Path, str]]:
    for path in tree_files():
        content = (ROOT / path).read_bytes()
        if b"\0" not in content[:8192]:
            yield path, content.decode("utf-8")


def test_the_top_level_holds_only_known_files() -> None:
    top = {path.parts[0] for path in tree_files()}

    assert {name for name in top if not name.startswith(".")} <= TOP_LEVEL


@pytest.mark.parametrize(
    "pattern", [REGISTRY_HOSTS, MACHINE_PATHS], ids=["registry hosts", "paths of one machine"]
)
def test_no_file_names(pattern: re.Pattern[str]) -> None:
    assert [f"{path}: {found[0]}" for path, text in texts() if (found := pattern.search(text))] == []


def test_the_search_for_hosts_finds_a_planted_one() -> None:
    assert REGISTRY_HOSTS.search("--index-url https://" + "pypi" + ".org/simple")
    assert not REGISTRY_HOSTS.search("from PyPI or Maven Central")


def test_every_package_says_that_it_is_typed() -> None:
    assert [folder for folder in FOLDERS if not (ROOT / folder / "py.typed").is_file()] == []


def test_help_lists_every_target_of_the_makefile() -> None:
    declared = re.search(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    output = subprocess.run(
        ["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout

    assert declared is not None
    assert set(re.findall(r"^  make (\S+)", output, re.MULTILINE)) == set(declared[1].split())


def old_python(folder: Path, name: str, version: str) -> None:
    """Make an interpreter that answers like an old one."""
    path = folder / name
    path.write_text(f'#!/bin/sh\ncase "$2" in *print*) echo {version};; *) exit 1;; esac\n', encoding="utf-8")
    path.chmod(0o755)


@pytest.mark.parametrize(("planted", "found"), [(("python3", "3.9.2"), "python3 is 3.9.2"), (None, "none")])
def test_make_venv_names_a_missing_python_in_one_line(
    tmp_path: Path, planted: tuple[str, str] | None, found: str
) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    if planted:
        old_python(tools, *planted)
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("Makefile", "pyproject.toml", "setup.py"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(ROOT / "deploy" / "requirements", copy / "deploy" / "requirements")
    make = shutil.which("make")
    assert make is not None

    run = subprocess.run(
        [make, "venv"], cwd=copy, env={"PATH": str(tools)}, capture_output=True, text=True, check=False
    )

    body, made_by_make = run.stderr.strip().split("\n")
    assert run.returncode != 0
    assert body.startswith(f"Tidemark needs Python 3.11 or newer; found: {found}. ")
    assert "make" in made_by_make
    assert not (copy / ".venv").exists()


def run_services(
    tmp_path: Path,
    *,
    java: str | None,
    user: str,
    apt: bool,
    initdb: str = "/bin/initdb",
    chromium: str = "/bin/chromium",
    prometheus: str = "/bin/prometheus",
    alertmanager: str = "/bin/prometheus-alertmanager",
    npm: str = "/bin/npm",
    curl: str = "/bin/curl",
    javac: str = "/bin/javac",
    newest_python: str = "/bin/python3.14",
) -> tuple[int, str, str]:
    """Run ``make services`` where apt-get only logs its arguments; return (exit code, output, the log)."""
    tools = tmp_path / "bin"
    tools.mkdir()
    notes = tmp_path / "asked"
    notes.touch()
    scripts = {"id": f"echo {user}", "sudo": "exit 1", "python3": f'exec "{sys.executable}" -S "$@"'}
    if apt:
        policy = tmp_path / "policy-rc.d"
        scripts["apt-get"] = f'echo "$@" >> "{notes}"; [ ! -x "{policy}" ] || echo quiet >> "{notes}"'
    if java:
        scripts["java"] = f'echo "    java.version = {java}" >&2'
    for name, script in scripts.items():
        (tools / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        (tools / name).chmod(0o755)
    for name in ("env", "tee", "chmod", "rm", "cat"):
        (tools / name).symlink_to(shutil.which(name) or "")
    copy = tmp_path / "copy"
    (copy / "spark_jobs" / "spark").mkdir(parents=True)
    shutil.copy(ROOT / "Makefile", copy)
    shutil.copy(ROOT / "spark_jobs" / "spark" / "java.py", copy / "spark_jobs" / "spark")
    make = shutil.which("make")
    assert make is not None
    run = subprocess.run(
        [
            *(
                make,
                "services",
                f"INITDB={initdb}",
                f"CHROMIUM={chromium}",
                f"POLICY={tmp_path / 'policy-rc.d'}",
            ),
            *(f"PROMETHEUS={prometheus}", f"ALERTMANAGER={alertmanager}", f"NPM={npm}", f"JAVAC={javac}"),
            f"CURL={curl}",
            f"NEWEST_PYTHON={newest_python}",
        ],
        cwd=copy,
        env={"PATH": str(tools)},
        capture_output=True,
        text=True,
        check=False,
    )
    return run.returncode, run.stdout + run.stderr, notes.read_text(encoding="utf-8")


def test_make_services_installs_nothing_where_nothing_is_missing(tmp_path: Path) -> None:
    assert run_services(tmp_path, java="17.0.15", user="0", apt=True) == (
        0,
        "services: nothing to install\n",
        "",
    )


def test_make_services_adds_a_missing_java_and_upgrades_nothing(tmp_path: Path) -> None:
    code, output, asked = run_services(tmp_path, java=None, user="0", apt=True)

    assert (code, output) == (0, "services: apt-get installs openjdk-17-jdk-headless\n")
    update, install = asked.splitlines()
    assert update == "-qq update"
    assert install.split()[-1] == "openjdk-17-jdk-headless"
    assert "--no-upgrade" in install.split()


def test_make_services_adds_a_missing_compiler(tmp_path: Path) -> None:
    _, output, _ = run_services(tmp_path, java="17.0.15", user="0", apt=True, javac="")

    assert output == "services: apt-get installs openjdk-17-jdk-headless\n"


def test_make_services_adds_a_missing_postgresql(tmp_path: Path) -> None:
    _, output, _ = run_services(tmp_path, java="17.0.15", user="0", apt=True, initdb="")

    assert output == "services: apt-get installs postgresql\n"


def test_make_services_adds_a_missing_chromium(tmp_path: Path) -> None:
    _, output, _ = run_services(tmp_path, java="17.0.15", user="0", apt=True, chromium="")

    assert output == "services: apt-get installs chromium-headless-shell fonts-dejavu-core\n"


def test_make_services_adds_a_missing_node_and_curl(tmp_path: Path) -> None:
    _, output, _ = run_services(tmp_path, java="17.0.15", user="0", apt=True, npm="", curl="")

    assert output == "services: apt-get installs curl nodejs npm\n"


def test_make_services_adds_what_brings_a_newer_python(tmp_path: Path) -> None:
    _, output, _ = run_services(tmp_path, java="17.0.15", user="0", apt=True, newest_python="")

    assert output == "services: apt-get installs debootstrap patchelf\n"


def test_make_services_adds_prometheus_and_alertmanager_and_starts_neither(tmp_path: Path) -> None:
    """Debian starts what it installs, unless policy-rc.d forbids it; tests run their own."""
    _, output, asked = run_services(
        tmp_path, java="17.0.15", user="0", apt=True, prometheus="", alertmanager=""
    )

    assert output == "services: apt-get installs prometheus prometheus-alertmanager\n"
    assert asked.splitlines()[1::2] == ["quiet", "quiet"]
    assert not (tmp_path / "policy-rc.d").exists()


@pytest.mark.parametrize(
    ("user", "apt", "refusal"),
    [("1000", True, "services: not root;"), ("0", False, "services: no apt-get here;")],
)
def test_make_services_fails_with_a_reason(tmp_path: Path, user: str, apt: bool, refusal: str) -> None:
    code, output, asked = run_services(tmp_path, java=None, user=user, apt=apt)

    assert code != 0
    assert output.startswith(refusal)
    assert asked == ""


def ci_run(tmp_path: Path, readme: str) -> subprocess.CompletedProcess[str]:
    """Run .ci/run in a tree whose lint does nothing and whose README is ``readme``."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    (tmp_path / "Makefile").write_text("lint services test-long:\n\t@echo made $@\n", encoding="utf-8")
    (tmp_path / "README.md").write_text(readme, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    return subprocess.run(
        [tmp_path / ".ci" / "run"], env=environment, capture_output=True, text=True, check=False
    )


def readme_with(command: str) -> str:
    return f"```sh\nnot this\n```\n\n<!-- test-command -->\n```sh\n{command}\n```\n\n```sh\nnor this\n```\n"


@pytest.mark.parametrize(
    ("command", "passes"),
    [
        ("echo '===== 12 passed in 3.4s ====='", True),
        ("echo '= 2 failed, 12 passed in 3.4s ='; exit 1", False),
        ("echo '===== no tests ran in 0.1s ====='; exit 5", False),
        ("echo '===== no tests ran in 0.1s ====='", False),
        ("echo '0 passed'", False),
        ("true", False),
    ],
)
def test_ci_passes_only_when_the_command_of_the_readme_ran_tests(
    tmp_path: Path, command: str, passes: bool
) -> None:
    run = ci_run(tmp_path, readme_with(command))

    assert (run.returncode == 0) is passes
    assert f"ci: README.md says: {command}" in run.stdout
    assert ("made test-long" in run.stdout) is passes
    assert "made services" not in run.stdout, "system packages are for CI=true only"


def test_ci_fails_when_the_readme_gives_no_test_command(tmp_path: Path) -> None:
    run = ci_run(tmp_path, "# T\n\n```sh\nmake test\n```\n")

    assert run.returncode == 1
    assert "no code block" in run.stderr


def test_the_readme_has_the_test_command_where_ci_looks_for_it() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    assert re.search(r"^<!-- test-command -->\n```sh\nmake test\n```$", readme, re.MULTILINE)


def test_the_hooks_before_a_commit_are_the_parts_of_make_lint() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    parts = re.search(r"^lint: (.*?) ##", makefile, re.MULTILINE)
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][0][
        "hooks"
    ]

    assert parts
    assert [hook["entry"] for hook in hooks] == [f"make {part}" for part in parts[1].split()]
