"""Query parameters that a route does not have are rejected, before anything is done."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.controller_app import Controller

DOCUMENT = json.loads((Path(__file__).parents[3] / "controller" / "openapi.json").read_text())
OPERATIONS = [
    pytest.param(path, method, id=operation["operationId"])
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
]


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_every_operation_rejects_a_parameter_that_it_does_not_have(
    controller: Controller, path: str, method: str
) -> None:
    address = path.replace("{rollout_id}", "1").replace("{token_id}", "1").replace("{", "").replace("}", "")
    body: dict[str, Any] = {} if method in {"get", "delete"} else {"json": {}}
    answer = getattr(controller.http, method)(address, params={"nonsense": "1"}, **body)
    assert answer.status_code == 422, answer.text
    assert answer.json()["type"] == "urn:tidemark:problem:invalid-parameter"
    assert answer.json()["errors"][0]["pointer"] == "nonsense"
    assert "there is no such parameter" in answer.json()["detail"]


def test_a_misspelt_dry_run_writes_nothing_and_says_how_it_is_spelt(controller: Controller) -> None:
    answer = controller.put("/slo", {"target_ppm": 990_000}, params={"dry_run": "All"})
    assert answer.status_code == 422
    assert answer.json()["detail"] == "dry_run: there is no such parameter; did you mean dryRun?"
    assert controller.get("/slo").status_code == 404
