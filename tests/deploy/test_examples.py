"""The examples of how a job is kept running: the loop run for real, the others held against what they name."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tidemark.spark_jobs.core.settings import SETTINGS
from tidemark.spark_jobs.restart.runner import EXIT_NEW_BOUND

from support.patience import PATIENCE_S, until
from support.tree import ROOT, parsed

EXAMPLES = ROOT / "deploy" / "examples"
LOOP = EXAMPLES / "spark-submit" / "keep-running.sh"
OPERATOR = EXAMPLES / "spark-operator" / "spark-application.yaml"
DAG = EXAMPLES / "airflow" / "shop_clicks.py"
UNIT = EXAMPLES / "systemd" / "shop-clicks.service"
JOB = ROOT / "spark_jobs" / "demo" / "examples" / "kafka_counts.py"

ENDS = """
import pathlib, sys
folder = pathlib.Path(sys.argv[1])
codes = sys.argv[2].split()
starts = len(list(folder.iterdir()))
(folder / str(starts)).touch()
sys.exit(int(codes[starts]))
"""
"""A job whose starts end with the codes that it is given, one after the other."""


def kept_running(folder: Path, codes: str, **environment: str) -> tuple[int, int, list[str]]:
    """Keep such a job running, and return the code, how often it was started, and what was said."""
    starts = folder / "starts"
    starts.mkdir()
    done = subprocess.run(
        [LOOP, sys.executable, "-c", ENDS, starts, codes],
        env={"PATH": "/usr/bin:/bin", "FIRST_PAUSE": "0", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    return done.returncode, len(list(starts.iterdir())), done.stderr.splitlines()


def test_the_loop_starts_a_job_again_for_a_new_bound_and_ends_with_it(tmp_path: Path) -> None:
    code, starts, said = kept_running(tmp_path, f"{EXIT_NEW_BOUND} {EXIT_NEW_BOUND} 0", FIRST_PAUSE="30")
    assert (code, starts) == (0, 3)
    assert said == ["keep-running: a new bound; starting again"] * 2


@pytest.mark.slow
def test_the_loop_starts_a_failed_job_again_after_a_pause_that_doubles_up_to_the_longest(
    tmp_path: Path,
) -> None:
    """The pauses are asked for and not taken; a job that runs for as long as the longest begins anew."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sleep").symlink_to("/bin/true")
    code, starts, said = kept_running(
        tmp_path,
        "1 1 1 1 0",
        FIRST_PAUSE="100",
        LONGEST_PAUSE="250",
        PATH=f"{tmp_path}/bin:/usr/bin:/bin",
    )
    assert (code, starts) == (0, 5)
    assert [line.rsplit(" in ", 1)[1] for line in said] == ["100 s", "200 s", "250 s", "250 s"]
    assert said[0].startswith("keep-running: failed with code 1; starting again")


def test_failures_in_a_row_end_the_loop_where_that_is_asked_for(tmp_path: Path) -> None:
    code, starts, said = kept_running(tmp_path, f"3 3 {EXIT_NEW_BOUND} 3 3 7", MAX_FAILURES="3")
    assert (code, starts) == (7, 6)
    assert said[-1] == "keep-running: 3 failures in a row, the last with code 7; giving up"


def test_a_signal_reaches_the_job_and_ends_the_loop_with_it(tmp_path: Path) -> None:
    patient = """
import pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[1])
def end(*_):
    time.sleep(0.5)
    (folder / "ended").touch()
    sys.exit(75)
signal.signal(signal.SIGTERM, end)
(folder / "started").touch()
time.sleep(600)
"""
    process = subprocess.Popen(
        [LOOP, sys.executable, "-c", patient, tmp_path], stderr=subprocess.PIPE, text=True
    )
    until((tmp_path / "started").exists, "the start of the job")
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert (tmp_path / "ended").exists()
    assert process.returncode == 75
    assert said == ""


def test_a_signal_during_a_pause_ends_the_loop_at_once(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [LOOP, "false"],
        stderr=subprocess.PIPE,
        text=True,
        env={"PATH": "/usr/bin:/bin", "FIRST_PAUSE": "3600"},
    )
    assert process.stderr is not None
    assert process.stderr.readline().endswith("starting again in 3600 s\n")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1


def test_the_loop_says_what_it_needs() -> None:
    done = subprocess.run([LOOP], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no command given" in done.stderr


@pytest.mark.parametrize("path", [LOOP, OPERATOR, UNIT], ids=lambda path: path.name)
def test_the_exit_code_is_the_runners(path: Path) -> None:
    assert str(EXIT_NEW_BOUND) in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", [LOOP, OPERATOR, DAG, UNIT], ids=lambda path: path.name)
def test_every_conf_key_is_one_that_a_job_reads(path: Path) -> None:
    named = set(re.findall(r"spark\.tidemark(?:\.\w+)+", path.read_text(encoding="utf-8")))
    assert named
    assert named <= {setting.key for setting in SETTINGS.values()}


def options_of_the_job() -> set[str]:
    return set(re.findall(r'add_argument\("(--[\w-]+)"', JOB.read_text(encoding="utf-8")))


def test_the_operator_starts_the_example_job_as_it_wants_to_be() -> None:
    application = yaml.safe_load(OPERATOR.read_text(encoding="utf-8"))["spec"]
    given = application["arguments"]
    assert application["mainApplicationFile"].endswith(f"/{JOB.name}")
    assert {word for word in given if word.startswith("--")} <= options_of_the_job()
    mounted = {mount["mountPath"]: mount["name"] for mount in application["driver"]["volumeMounts"]}
    token = Path(application["sparkConf"]["spark.tidemark.token.file"])
    volumes = {volume["name"]: volume for volume in application["volumes"]}
    (source,) = volumes[mounted[str(token.parent)]]["projected"]["sources"]
    assert source["serviceAccountToken"]["path"] == token.name
    assert source["serviceAccountToken"]["audience"] == "tidemark"
    assert mounted[application["sparkConf"]["spark.tidemark.cache.dir"]] in volumes
    assert application["restartPolicy"]["type"] == "Always"


def test_the_scheduler_starts_the_example_job_as_it_wants_to_be() -> None:
    tree = parsed(DAG.read_text(encoding="utf-8"))
    (line,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id == "JOB"
    )
    program, *given = shlex.split(line)
    assert program.endswith(f"/{JOB.name}")
    assert {word for word in given if word.startswith("--")} <= options_of_the_job()
    assert given[-2:] == ["--trigger", "available-now"]
    assert "max_active_runs=1" in DAG.read_text(encoding="utf-8")


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd here")
    unit = tmp_path / UNIT.name
    # The program is the user's.
    unit.write_text(UNIT.read_text(encoding="utf-8").replace("/opt/spark/bin/spark-submit", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", unit],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
