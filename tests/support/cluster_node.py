"""A node of a cluster without a container engine, in place of scheduler, kubelet, name service and kube-proxy."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from support.balancer import balanced
from support.cluster import Cluster
from support.cluster_pod import AT_ONCE, EVERY_S, Image, Pod
from support.patience import until

__all__ = ["Node"]

_NODES = ("node-a", "node-b")


class Node:
    """Runs every pod of one namespace.

    Args:
        folder: where volumes and logs are.
        namespace: the namespace.
        images: by name.
    """

    def __init__(self, cluster: Cluster, folder: Path, namespace: str, images: Mapping[str, Image]) -> None:
        self.folder, self.images = folder, images
        folder.mkdir()
        self.killed: list[str] = []
        """Pods that did not end within their grace, or had none."""
        self.services: dict[str, str] = {}
        """By the address of a service within the cluster where it is reached."""
        self._cluster, self._namespace = cluster, namespace
        self._headless = re.compile(rf"([\w-]+)\.{namespace}\.svc\b")
        self._pods: dict[str, Pod] = {}
        self._count = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="node", daemon=True)

    def send(self, method: str, path: str, body: dict[str, Any] | None = None) -> httpx.Response:
        """Send a request to the API; what is gone meanwhile is no error."""
        content = "application/strategic-merge-patch+json" if method == "PATCH" else "application/json"
        answer = self._cluster.api.request(method, path, json=body, headers={"Content-Type": content})
        assert answer.is_success or answer.status_code in {404, 409}, answer.text
        return answer

    def awaited(self, path: str) -> dict[str, Any]:
        """Return what is at a path of the API, once it is there."""

        def look() -> dict[str, Any]:
            answer = self.send("GET", path)
            found: dict[str, Any] = answer.json() if answer.is_success else {}
            return found

        return until(look, path)

    def there(self, text: str, paths: Mapping[str, Path]) -> str:
        """Return a text with addresses and paths within the cluster replaced by those of this machine."""
        for name, address in self.services.items():
            text = text.replace(name, address)
        text = self._headless.sub(lambda found: self._host_of(found[1]), text)
        for path in sorted(paths, key=len, reverse=True):
            text = re.sub(rf"{re.escape(path)}(?=$|[/'\"])", str(paths[path]), text)
        return text

    def documents(self) -> list[dict[str, Any]]:
        """Return every pod that was run, as the API had it when it began."""
        return [pod.document for pod in self._pods.values()]

    def logs(self) -> str:
        """Return the end of what each pod printed."""
        found = sorted(self.folder.glob("*.log"))
        return "\n".join(f"{path.name}:\n{path.read_text(encoding='utf-8')[-30_000:]}" for path in found)

    def _host_of(self, service: str) -> str:
        """Return the address of the pod that a service without an address of its own leads to."""
        where = f"/api/v1/namespaces/{self._namespace}/services/{service}"
        wanted = self.awaited(where)["spec"]["selector"].items()
        return next(
            pod.host for pod in self._pods.values() if wanted <= pod.document["metadata"]["labels"].items()
        )

    def _backend(self, service: str) -> str | None:
        """Return the address of a pod that the service leads to now, drawn as kube-proxy does."""
        slices = self.send(
            "GET",
            f"/apis/discovery.k8s.io/v1/namespaces/{self._namespace}/endpointslices"
            f"?labelSelector=kubernetes.io/service-name%3D{service}",
        ).json()["items"]
        there = [
            f"http://{one['addresses'][0].replace('10.244.', '127.0.')}:{port['port']}"
            for each in slices
            for one in each.get("endpoints") or []
            if one["conditions"]["ready"]
            for port in each["ports"]
        ]
        return random.choice(there) if there else None

    @contextmanager
    def running(self, *services: str) -> Iterator[None]:
        """Join the cluster and serve the named services, as ``name:port``; what still runs is killed at the end."""
        with ExitStack() as stack:
            for service in services:
                name = service.partition(":")[0]
                self.services[f"http://{service}"] = stack.enter_context(
                    balanced(partial(self._backend, name))
                )
            for name in _NODES:
                self.send("POST", "/api/v1/nodes", {"kind": "Node", "metadata": {"name": name}})
            self._thread.start()
            try:
                yield
            finally:
                self._stop.set()
                self._thread.join()
                for pod in self._pods.values():
                    pod.ending.set()
                for pod in self._pods.values():
                    pod.thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(EVERY_S):
            found = self.send("GET", f"/api/v1/namespaces/{self._namespace}/pods").json()["items"]
            for document in found:
                self._look_at(document)
            there = {document["metadata"]["uid"] for document in found}
            for uid, pod in self._pods.items():
                if uid not in there:
                    pod.ending.set()  # deleted by force

    def _look_at(self, document: dict[str, Any]) -> None:
        meta = document["metadata"]
        pod = self._pods.get(meta["uid"])
        if "deletionTimestamp" in meta:
            if pod is None:
                path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
                self.send("DELETE", path, AT_ONCE)
            elif not pod.ending.is_set():
                pod.grace_s = meta["deletionGracePeriodSeconds"]
                pod.ending.set()
        elif "nodeName" not in document["spec"]:
            self._bind(document)
        elif pod is None:
            self._count += 1
            pod = self._pods[meta["uid"]] = Pod(self, document, self._count)
            pod.thread.start()

    def _bind(self, document: dict[str, Any]) -> None:
        free = [
            node["metadata"]["name"]
            for node in self.send("GET", "/api/v1/nodes").json()["items"]
            if not node["spec"].get("unschedulable")
        ]
        meta = document["metadata"]
        node = min(free, key=lambda name: sum(name == pod.spec["nodeName"] for pod in self._pods.values()))
        target = {"target": {"kind": "Node", "name": node}}
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/binding"
        self.send("POST", path, {"kind": "Binding", "metadata": {"name": meta["name"]}, **target})
