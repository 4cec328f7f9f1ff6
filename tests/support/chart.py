"""The Helm chart, rendered; and the plain manifests of deploy/kubernetes, which are renderings of it.

    make manifests

writes the manifests, and the settings in values.schema.json, anew.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from support.go_tools import HELM, go_tool
from support.settings_schema import settings_schema
from support.tree import ROOT

__all__ = [
    "CHART",
    "EVERYTHING",
    "EXAMPLE",
    "MANIFESTS",
    "helm",
    "kinds",
    "manifest",
    "parsed",
    "rendered",
    "schema",
]

CHART = ROOT / "deploy" / "helm" / "tidemark"
MANIFESTS = ROOT / "deploy" / "kubernetes"
EXAMPLE = ROOT / "deploy" / "examples" / "specifications" / "shop.yaml"
"""The specifications that the chart is given to apply."""

EVERYTHING = (
    *(
        "--set",
        "replicaCount=3",
        "--set",
        "database.existingSecret=db",
        "--set",
        "image.digest=sha256:" + "a" * 64,
    ),
    *(
        "--set",
        "ingress.enabled=true",
        "--set",
        "ingress.host=tidemark.example",
        "--set",
        "ingress.tlsSecret=tls",
    ),
    *("--set", "serviceMonitor.enabled=true", "--set", "prometheusRule.enabled=true"),
    *(
        "--set",
        "prometheusRule.address=https://example.org/",
        "--set",
        "imagePullSecrets[0].name=registry",
    ),
    *(
        "--set",
        "networkPolicy.database[0].podSelector.matchLabels.app=postgres",
        "--set",
        "priorityClassName=high",
    ),
    *("--set", "extraVolumes[0].name=more", "--set", "extraVolumeMounts[0].name=more"),
    *("--set", "extraVolumeMounts[0].mountPath=/run/more", "--set", "extraVolumes[0].secret.secretName=more"),
    *("--set", "dashboards.enabled=true", "--set", "dashboards.annotations.grafana_folder=Tidemark"),
    *("--set-file", f"specifications.files.shop\\.yaml={EXAMPLE}", "--set", "specifications.prune=true"),
    *("--set", "networkPolicy.from[0].podSelector.matchLabels.app=spark"),
)
"""Everything that can be switched on."""
_HEAD = "# The chart deploy/helm/tidemark, rendered with {values} by `make manifests`: change the chart and not this.\n"


def helm(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run Helm without a cluster."""
    return subprocess.run(
        [go_tool(HELM), *arguments], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )


def rendered(*options: str | Path) -> str:
    """Return the chart's manifests as text, for a release `tidemark` in the namespace `tidemark`."""
    done = helm("template", "tidemark", CHART, "--namespace", "tidemark", *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def parsed(text: str) -> Iterator[Any]:
    """Read the objects of manifests, in C: it is a tenth of the time."""
    return yaml.load_all(text, Loader=yaml.CSafeLoader)


def kinds(text: str) -> dict[str, dict[str, Any]]:
    """Return the objects of manifests by kind; where there are several, those not named as the release by kind/name."""
    found = [document for document in parsed(text) if document]
    counts = Counter(document["kind"] for document in found)
    by_key = {
        document["kind"]
        if counts[document["kind"]] == 1 or document["metadata"]["name"] == "tidemark"
        else f"{document['kind']}/{document['metadata']['name']}": document
        for document in found
    }
    assert len(by_key) == len(found), [document["kind"] for document in found]
    return by_key


def manifest(values: Path) -> str:
    """Return the plain manifest that belongs to a file of values."""
    text = rendered("--values", values, "--skip-tests")
    # What only Helm reads has no place in a plain manifest.
    lines = [
        line.replace("managed-by: Helm", "managed-by: kubectl")
        for line in text.splitlines()
        if not line.strip().startswith(("helm.sh/", "# Source:"))
    ]
    return _HEAD.format(values=values.name) + _without_empty_annotations("\n".join(lines) + "\n")


def _without_empty_annotations(text: str) -> str:
    lines = text.splitlines(keepends=True)
    kept = [
        line
        for line, after in zip(lines, [*lines[1:], ""], strict=True)
        if line.strip() != "annotations:" or _depth(after) > _depth(line)
    ]
    return "".join(kept)


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def schema() -> dict[str, Any]:
    """Return values.schema.json as it is to be: its settings are the controller's."""
    found: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    found["properties"]["settings"] = settings_schema()
    return found


def _main() -> None:
    (CHART / "values.schema.json").write_text(json.dumps(schema(), indent=2) + "\n", encoding="utf-8")
    for values in sorted(MANIFESTS.glob("*.values.yaml")):
        path = values.with_name(values.name.replace(".values", ""))
        path.write_text(manifest(values), encoding="utf-8")
        sys.stdout.write(f"{path.relative_to(ROOT)}\n")


if __name__ == "__main__":
    _main()
