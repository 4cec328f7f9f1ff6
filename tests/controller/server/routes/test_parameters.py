"""What no route accepts: a query parameter that it does not have, a caller that takes no JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.controller_app import Controller

DOCUMENT = json.loads((Path(__file__).parents[4] / "controller" / "openapi.json").read_text())


def test_every_operation_rejects_a_parameter_that_it_does_not_have(controller: Controller) -> None:
    for path, operations in DOCUMENT["paths"].items():
        for method, operation in operations.items():
            address = path.replace("{rollout_id}", "1").replace("{token_id}", "1")
            address = address.replace("{", "").replace("}", "")
            body: dict[str, Any] = {} if method in {"get", "delete"} else {"json": {}}
            answer = getattr(controller.http, method)(address, params={"nonsense": "1"}, **body)
            assert answer.status_code == 422, f"{operation['operationId']}: {answer.text}"
            assert answer.json()["type"] == "urn:tidemark:problem:invalid-parameter"
            assert answer.json()["errors"][0]["pointer"] == "nonsense"
            known = sorted(one["name"] for one in operation.get("parameters", ()) if one["in"] == "query")
            assert answer.json()["detail"] == (
                f"nonsense: there is no such parameter; known are {', '.join(known) or 'none'}"
            )


def test_a_misspelt_dry_run_writes_nothing_and_says_how_it_is_spelt(controller: Controller) -> None:
    answer = controller.put("/slo", {"target_ppm": 990_000}, params={"dry_run": "All"})
    assert answer.status_code == 422
    assert answer.json()["detail"] == "dry_run: there is no such parameter; did you mean dryRun?"
    assert controller.get("/slo").status_code == 404
