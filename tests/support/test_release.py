"""What `make release` writes beside the wheel; the trial itself needs a network and is part of that target."""

from __future__ import annotations

import hashlib
import json
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml

from support.audit import UNKNOWN, judged, rounds
from support.chart import CHART, EXAMPLE, helm
from support.docs import code_blocks, document_with
from support.provenance import SIGNERS, SUMS, commit_of_tree, sign, write_provenance, write_sums
from support.release import LOCKS, packed_chart, version_of_tree
from support.tree import ROOT, tree_files


def test_the_packed_chart_holds_the_chart_and_what_its_links_lead_to(tmp_path: Path) -> None:
    package = packed_chart(CHART, tmp_path)

    with tarfile.open(package) as archive:
        names = archive.getnames()
    chart = CHART.relative_to(ROOT)
    linked = [path.name for path in CHART.iterdir() if path.is_symlink()]
    expected = {path.relative_to(chart).as_posix() for path in tree_files(str(chart))} - set(linked)
    assert package.name == f"tidemark-{version_of_tree()}.tgz"
    assert names[0] == "tidemark/Chart.yaml"
    assert {name.removeprefix("tidemark/") for name in names if name.split("/")[1] not in linked} == expected
    assert {name.split("/")[1] for name in names} >= {"dashboards", "rules"}


def test_the_packed_chart_is_the_same_bytes_for_the_same_chart(tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()

    first, second = packed_chart(CHART, tmp_path), packed_chart(CHART, tmp_path / "again")

    assert first.read_bytes() == second.read_bytes()


@pytest.mark.slow
def test_helm_renders_the_packed_chart_as_it_does_the_folder(tmp_path: Path) -> None:
    options = ["--set", "dashboards.enabled=true", "--set", "prometheusRule.enabled=true"]
    options += ["--set-file", f"specifications.files.shop\\.yaml={EXAMPLE}"]

    packed, folder = (
        helm("template", "t", chart, *options) for chart in (packed_chart(CHART, tmp_path), CHART)
    )

    assert (packed.returncode, packed.stderr) == (0, "")
    assert list(yaml.safe_load_all(packed.stdout)) == list(yaml.safe_load_all(folder.stdout))


def test_the_checksums_are_those_of_every_file_and_sha256sum_checks_them(tmp_path: Path) -> None:
    (tmp_path / "maven").mkdir()
    for name in ("a.whl", "maven/b.jar", SUMS):
        (tmp_path / name).write_text(name, encoding="utf-8")

    write_sums(tmp_path)

    check = ["sha256sum", "--check", "--strict", SUMS]
    done = subprocess.run(check, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "a.whl: OK\nmaven/b.jar: OK\n")


def _ssh_key(folder: Path, name: str) -> Path:
    make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(folder / name)]
    subprocess.run(make, check=True)
    return folder / name


def _trusted(key: Path) -> str:
    return f'tidemark namespaces="tidemark-release" {key.with_suffix(".pub").read_text(encoding="utf-8")}'


@pytest.fixture(name="signed")
def _signed(tmp_path: Path) -> Path:
    """Return a release, signed by a throw-away key, as a user has it who trusts that key."""
    dist = tmp_path / "dist"
    dist.mkdir()
    (dist / "a.whl").write_text("wheel", encoding="utf-8")
    write_provenance(dist, "0.1.0", "f" * 40)
    write_sums(dist)
    key = _ssh_key(tmp_path, "key")
    # Behind what the repository has, as the releaser adds it.
    (dist / "allowed_signers").write_text(
        SIGNERS.read_text(encoding="utf-8") + _trusted(key), encoding="utf-8"
    )
    sign(dist / SUMS, key, dist / "allowed_signers")
    return dist


def _verified(dist: Path) -> subprocess.CompletedProcess[str]:
    """Run the commands that the documents give."""
    after = document_with("<!-- verify -->").partition("<!-- verify -->")[2]
    _, commands = next(code_blocks(after))
    return subprocess.run(["bash", "-ec", commands], cwd=dist, capture_output=True, text=True, check=False)


def test_the_documents_commands_verify_a_signed_release_and_show_its_commit(signed: Path) -> None:
    done = _verified(signed)

    assert done.returncode == 0, done.stderr
    assert 'Good "tidemark-release" signature for tidemark' in done.stdout
    assert "a.whl: OK" in done.stdout
    assert "f" * 40 in done.stdout


@pytest.mark.parametrize("changed", ["a.whl", SUMS, "tidemark-0.1.0.provenance.json"])
def test_they_fail_when_a_file_of_it_was_changed(signed: Path, changed: str) -> None:
    (signed / changed).write_text("changed\n", encoding="utf-8")

    assert _verified(signed).returncode != 0


def test_a_key_that_users_do_not_trust_does_not_sign(signed: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="ssh-keygen -Y verify"):
        sign(signed / SUMS, _ssh_key(tmp_path, "other"), signed / "allowed_signers")
    assert _verified(signed).returncode != 0


def test_the_provenance_names_every_file_the_commit_and_every_lock_file(tmp_path: Path) -> None:
    (tmp_path / "maven").mkdir()
    for name in ("a.whl", "maven/b.jar"):
        (tmp_path / name).write_text(name, encoding="utf-8")

    statement = json.loads(write_provenance(tmp_path, "0.1.0", "abc").read_text(encoding="utf-8"))

    made_of = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert {each["name"]: each["digest"]["sha256"] for each in statement["subject"]} == {
        name: hashlib.sha256(name.encode()).hexdigest() for name in ("a.whl", "maven/b.jar")
    }
    assert made_of[0]["digest"] == {"gitCommit": "abc"}
    assert {f"deploy/requirements/{path.name}" for path in LOCKS.glob("*.txt")} <= {
        each["name"] for each in made_of
    }


def test_a_tree_with_changes_is_no_release(tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "--message", "x"], check=True)
    assert len(commit_of_tree(tmp_path)) == 40

    (tmp_path / "planted").touch()

    with pytest.raises(SystemExit, match="planted"):
        commit_of_tree(tmp_path)


SAFE = '{"dependencies": [{"name": "a", "version": "1", "vulns": []}]}'
SKIPPED = '{"dependencies": [{"name": "b", "skip_reason": "not found on the index"}]}'
UNSAFE = (
    '{"dependencies": [{"name": "c", "version": "2", "vulns": [{"id": "CVE-1", "fix_versions": ["3"]}]}]}'
)
NPM_SAFE, NPM_REFUSED = '{"vulnerabilities": {}}', '{"message": "405 Method Not Allowed"}'


@pytest.mark.parametrize(
    ("python", "npm", "code"),
    [
        ([SAFE, SAFE], NPM_SAFE, 0),
        ([SAFE, UNSAFE], NPM_SAFE, 1),
        ([SKIPPED, UNSAFE], NPM_REFUSED, 1),
        ([SAFE], '{"vulnerabilities": {"d": {"severity": "high"}}}', 1),
        ([SAFE, SKIPPED], NPM_SAFE, UNKNOWN),
        ([SAFE, "Traceback\nno route to host"], NPM_SAFE, UNKNOWN),
        ([SAFE], NPM_REFUSED, UNKNOWN),
        ([SAFE], "", UNKNOWN),
    ],
)
def test_an_audit_that_could_learn_nothing_does_not_pass_for_a_clean_one(
    python: list[str], npm: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert judged(python, npm) == code
    printed = capsys.readouterr().out
    assert ("NOTHING COULD BE LEARNT" in printed) == (code == UNKNOWN or SKIPPED in python)
    assert ("c 2: CVE-1" in printed) == (UNSAFE in python)


def test_every_pin_of_every_python_is_audited_and_none_is_there_twice() -> None:
    lock = "a==1 ; python_version < '3.12' \\\n    --hash=x\na==2 ; python_version >= '3.12' \\\nb==3 \\\n"

    assert rounds([lock, "b==3 \\\n    # via a\n"]) == ["a==1\nb==3", "a==2"]
