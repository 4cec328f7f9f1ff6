"""The page's files: access, security headers, caching, and vendored files."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from tidemark.controller.server.page.server import FOLDER, HEADERS, MEDIA_TYPES, PageFiles, read_page

from support.controller_app import Controller
from support.tokens import make_token

PAGE = read_page()
SCRIPTS = sorted(path for path in FOLDER.glob("*.js"))
VENDORED = FOLDER / "vendor"


def test_everybody_gets_the_page_with_or_without_tokens(controller: Controller) -> None:
    before = controller.http.get("/")
    make_token(controller)
    after = controller.http.get("/")

    assert (before.status_code, after.status_code) == (200, 200)
    assert before.headers["content-type"] == "text/html; charset=utf-8"
    assert controller.http.get("/v1/fleet").status_code == 401, "access is checked where the data are"


def test_every_file_that_the_document_names_is_served_and_kept_for_good(controller: Controller) -> None:
    document = controller.http.get("/")
    named = re.findall(r'(?:src|href)="(page/[^"]+)"', document.text)

    assert len(named) >= 6
    for path in named:
        answer = controller.http.get(f"/{path}")
        assert answer.status_code == 200, path
        assert "immutable" in answer.headers["cache-control"]
        assert answer.headers["content-type"].split(";")[0] in {
            kind.split(";")[0] for kind in MEDIA_TYPES.values()
        }


def test_every_module_that_a_module_imports_is_served(controller: Controller) -> None:
    imported = {
        name
        for path in SCRIPTS
        for name in re.findall(r'from "\./([^"]+)"', path.read_text(encoding="utf-8"))
    }

    assert len(imported) > 10
    assert imported <= set(PAGE.files)
    for name in imported:
        assert controller.http.get(f"/page/{PAGE.version}/{name}").status_code == 200


def test_the_document_is_revalidated_each_time(controller: Controller) -> None:
    first = controller.http.get("/")
    again = controller.http.get("/", headers={"If-None-Match": first.headers["etag"]})

    assert first.headers["cache-control"] == "no-cache"
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["content-security-policy"] == first.headers["content-security-policy"]


def test_the_version_changes_with_any_byte_of_any_file(tmp_path: Path) -> None:
    def copy(change: str) -> PageFiles:
        folder = tmp_path / (change or "same")
        (folder / "vendor").mkdir(parents=True)
        for name in ("index.html", "app.js", "vendor/uPlot.min.css"):
            content = (FOLDER / name).read_text(encoding="utf-8")
            (folder / name).write_text(content + ("\n" if name == change else ""), encoding="utf-8")
        return read_page(folder)

    versions = {
        change: copy(change).version for change in ("", "index.html", "app.js", "vendor/uPlot.min.css")
    }

    assert len(set(versions.values())) == 4


def test_a_file_of_another_release_is_answered_by_this_ones_and_not_kept(controller: Controller) -> None:
    """During an upgrade, the document may come from one replica and its files from another."""
    answer = controller.http.get("/page/0123456789abcdef/app.js")

    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize(
    "path",
    [
        "/page/x/nothing.js",
        "/page/x/index.html",
        "/page/x/vendor/README.md",
        "/page/x/vendor/uPlot.LICENSE",
        "/page/x/..%2fpage_server.py",
        "/page/x/../../pyproject.toml",
        "/page/x/%2fetc/passwd",
    ],
)
def test_nothing_but_the_pages_files_is_served(untouched: Controller, path: str) -> None:
    answer = untouched.http.get(path)

    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


def test_the_page_may_load_nothing_from_elsewhere_and_be_framed_by_nobody(controller: Controller) -> None:
    policy = dict(
        part.strip().split(" ", 1)
        for part in controller.http.get("/").headers["content-security-policy"].split(";")
    )

    assert policy["default-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert not {"script-src", "style-src", "connect-src"} & set(policy), (
        "directives that are not named fall back to 'self'"
    )


@pytest.mark.parametrize("path", ["/", f"/page/{PAGE.version}/app.js"])
def test_every_file_comes_with_the_same_rules(controller: Controller, path: str) -> None:
    headers = controller.http.get(path).headers

    assert {name: headers[name] for name in HEADERS} == HEADERS
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


def test_large_files_are_sent_compressed(controller: Controller) -> None:
    answer = controller.http.get(
        f"/page/{PAGE.version}/vendor/uPlot.iife.min.js", headers={"Accept-Encoding": "gzip"}
    )

    assert answer.headers["content-encoding"] == "gzip"
    assert int(answer.headers["content-length"]) < 30_000


def test_nothing_can_be_written_to_the_page(controller: Controller) -> None:
    answer = controller.http.post("/", json={})

    assert answer.status_code == 405
    assert answer.headers["content-type"] == "application/problem+json"


def test_the_log_names_requests_for_the_page_by_their_template(
    controller: Controller, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("DEBUG", logger="tidemark.request"):
        controller.http.get("/")
        controller.http.get(f"/page/{PAGE.version}/app.js")

    assert [record.__dict__["route"] for record in caplog.records] == ["/", "/page/{version}/{name:path}"]


def test_vendored_files_are_the_released_ones() -> None:
    """The table in the README beside them names the releases and checksums."""
    table = (VENDORED / "README.md").read_text(encoding="utf-8")
    body = dict(re.findall(r"^\| `([^`]+)` \|.*\| `([0-9a-f]{64})` \|$", table, re.MULTILINE))
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in VENDORED.iterdir()
        if path.suffix in MEDIA_TYPES
    }

    assert found == body
    for licence in ("uPlot.LICENSE", "oauth4webapi.LICENSE"):
        assert "MIT License" in (VENDORED / licence).read_text(encoding="utf-8")
    assert "VERSION = 'v3.8.8'" in (VENDORED / "oauth4webapi.js").read_text(encoding="utf-8")
    assert "1.6.32" in (VENDORED / "uPlot.iife.min.js").read_text(encoding="utf-8")[:200]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_no_script_makes_markup_or_code_of_text(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    assert (
        re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", text)
        == []
    )
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in text


def test_the_document_has_no_script_or_style_of_its_own() -> None:
    text = PAGE.document.content.decode()

    assert re.findall(r"<script(?![^>]*src=)", text) == []
    assert "<style" not in text
    assert re.findall(r"\son\w+=|\sstyle=", text) == []
