"""A pod as a process of this machine, as its spec says, with what it names read from the API.

From the spec: command and arguments, environment, volumes, probes, the policy of restarts, and the end: a signal, and a
kill after the grace. A container has no capabilities where the tests run as root. Not from it: the image, the user,
limits of resources and network policies. A pod has an address of loopback; where it would listen on all addresses it
listens on that one, and a path at which a volume would be mounted is the volume's folder.
"""

from __future__ import annotations

import base64
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from support.cluster_node import Node

__all__ = ["AT_ONCE", "EVERY_S", "Image", "Pod"]

EVERY_S = 0.1
"""Time between two looks at the API or a process, in seconds."""

AT_ONCE = {"gracePeriodSeconds": 0}

_CONTENTS = {"secret": "secrets", "configMap": "configmaps", "serviceAccountToken": None}
"""What fills a volume, with the name of its kind in paths of the API."""


@dataclass(frozen=True)
class Image:
    """What stands for an image."""

    environment: Mapping[str, str] = field(default_factory=dict)
    """What its containers' environment begins with."""
    entrypoint: tuple[str, ...] = ()
    """What comes before a container's arguments where it has no command."""
    default: tuple[str, ...] = ()
    """The arguments of a container that has none and no command."""


@dataclass
class _Probe:
    """A probe of a container by HTTP, with how often it failed and succeeded in a row."""

    spec: Mapping[str, Any]
    url: str
    due: float
    in_a_row: int = 0

    def ask(self) -> bool | None:
        """Return its verdict once it is due and clear; None else."""
        now = time.monotonic()
        if now < self.due:
            return None
        self.due = now + self.spec.get("periodSeconds", 10)
        try:
            good = httpx.get(self.url, timeout=self.spec.get("timeoutSeconds", 1)).is_success
        except httpx.TransportError:
            good = False
        if good:
            self.in_a_row = 0
            return True
        self.in_a_row += 1
        return False if self.in_a_row >= self.spec.get("failureThreshold", 3) else None


@dataclass
class Pod:
    """One pod, run by a thread of its own."""

    node: Node
    document: dict[str, Any]
    number: int
    ending: threading.Event = field(default_factory=threading.Event)
    grace_s: float = 0.0
    """Grace of its deletion, in seconds."""
    restarts: int = 0

    def __post_init__(self) -> None:
        meta = self.document["metadata"]
        self.name: str = meta["name"]
        self.path = f"/api/v1/namespaces/{meta['namespace']}/pods/{self.name}"
        self.spec = self.document["spec"]
        (self.container,) = self.spec["containers"]
        self.folder = self.node.folder / self.name
        self.log = self.node.folder / f"{self.name}.log"
        self.host = f"127.0.1.{self.number}"
        self.thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    def _run(self) -> None:
        code: int | None = None
        self._say("Pending", ready=False)
        self.folder.mkdir()
        paths = self._volumes()
        while not self.ending.is_set():
            code = self._live(paths)
            policy = self.spec["restartPolicy"]
            if self.ending.is_set() or policy == "Never" or (policy == "OnFailure" and code == 0):
                break
            self.restarts += 1
            self.ending.wait(1)
        self._say("Succeeded" if code == 0 else "Failed", ready=False, code=code)
        # As a kubelet does once the process is gone; before that the API only marks the pod.
        self.ending.wait()
        self.node.send("DELETE", self.path, AT_ONCE)

    def _live(self, paths: Mapping[str, Path]) -> int:
        """Run the container once and return its exit code."""
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [*_without_capabilities(), *self._command(paths)],
                cwd=paths.get("/var/lib/tidemark", self.folder),
                env=self._environment(paths),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        probes = {
            kind: _Probe(self.container[f"{kind}Probe"], self._url(kind), time.monotonic())
            for kind in ("startup", "liveness", "readiness")
            if f"{kind}Probe" in self.container
        }
        ready, started = "readiness" not in probes, "startup" not in probes
        self._say("Running", ready=ready)
        while process.poll() is None and not self.ending.wait(EVERY_S):
            if not started:
                verdict = probes["startup"].ask()
                started = verdict is True
                if verdict is False:
                    break
                continue
            if "liveness" in probes and probes["liveness"].ask() is False:
                break
            verdict = probes["readiness"].ask() if "readiness" in probes else None
            if verdict is not None and verdict != ready:
                ready = verdict
                self._say("Running", ready=ready)
        return self._end(process)

    def _end(self, process: subprocess.Popen[bytes]) -> int:
        grace_s = self.grace_s if self.ending.is_set() else self.spec["terminationGracePeriodSeconds"]
        if process.poll() is None and grace_s:
            process.terminate()
        with suppress(subprocess.TimeoutExpired):
            if grace_s or process.poll() is not None:
                return process.wait(grace_s)
        self.node.killed.append(self.name)
        process.send_signal(signal.SIGKILL)
        return process.wait()

    def _say(self, phase: str, *, ready: bool, code: int | None = None) -> None:
        """Write the pod's status."""
        running = phase == "Running"
        state: dict[str, Any] = {"running": {}} if running else {"waiting": {"reason": "ContainerCreating"}}
        if code is not None:
            state = {"terminated": {"exitCode": code}}
        container = {
            "name": self.container["name"],
            "image": self.container["image"],
            "imageID": self.container["image"],
            "ready": ready,
            "started": running,
            "restartCount": self.restarts,
            "state": state,
        }
        address = f"10.244.1.{self.number}"
        conditions = [
            {"type": kind, "status": str(value)}
            for kind, value in (("Ready", ready), ("ContainersReady", ready), ("Initialized", True))
        ]
        status = {
            "phase": phase,
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": conditions,
            "containerStatuses": [container],
        }
        self.node.send("PATCH", f"{self.path}/status", {"status": status})

    def _command(self, paths: Mapping[str, Path]) -> list[str]:
        image = self.node.images[self.container["image"]]
        arguments = self.container.get("args", [])
        words = [*self.container["command"], *arguments] if "command" in self.container else None
        words = words or [*image.entrypoint, *(arguments or image.default)]
        return [self.node.there(word, paths) for word in words]

    def _environment(self, paths: Mapping[str, Path]) -> dict[str, str]:
        found: dict[str, str] = {}
        for source in self.container.get("envFrom", []):
            found |= self._content("configmaps", source["configMapRef"]["name"])
        for one in self.container.get("env", []):
            found[one["name"]] = self._value(one)
        # A container starts from its image's environment alone: nothing of this process's is in it.
        own = {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            **self.node.images[self.container["image"]].environment,
        }
        return own | {
            name: self.host if text == "0.0.0.0" else self.node.there(text, paths)
            for name, text in found.items()
        }

    def _value(self, one: Mapping[str, Any]) -> str:
        if "valueFrom" not in one:
            return str(one.get("value", ""))
        source = one["valueFrom"]
        if "fieldRef" in source:
            return {"status.podIP": self.host, "metadata.name": self.name}[source["fieldRef"]["fieldPath"]]
        kind = "secrets" if "secretKeyRef" in source else "configmaps"
        named = source.get("secretKeyRef") or source["configMapKeyRef"]
        return self._content(kind, named["name"])[named["key"]]

    def _volumes(self) -> dict[str, Path]:
        """Make the volumes and return by the path of each mount where it is."""
        folders = {volume["name"]: self._folder(volume) for volume in self.spec.get("volumes", [])}
        paths: dict[str, Path] = {
            mount["mountPath"]: folders[mount["name"]] for mount in self.container.get("volumeMounts", [])
        }
        for volume in self.spec.get("volumes", []):
            sources = volume["projected"]["sources"] if "projected" in volume else [volume]
            for source in sources:
                self._fill(folders[volume["name"]], source, paths)
        return paths

    def _folder(self, volume: Mapping[str, Any]) -> Path:
        claim = volume.get("persistentVolumeClaim")
        folder: Path = (
            self.folder / volume["name"]
            if claim is None
            else self.node.folder / "claims" / claim["claimName"]
        )
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _fill(self, folder: Path, source: Mapping[str, Any], paths: Mapping[str, Path]) -> None:
        """Write what a Secret, a ConfigMap or an account's token has into a volume, behind links as a kubelet does."""
        written = folder / "..written"
        if not written.is_dir() and not source.keys().isdisjoint(_CONTENTS):
            written.mkdir()
            (folder / "..data").symlink_to(written.name)

        def write(name: str, text: str, mode: int) -> None:
            (written / name).write_text(text, encoding="utf-8")
            (written / name).chmod(mode)
            (folder / name).symlink_to(f"..data/{name}")

        account = source.get("serviceAccountToken")
        if account is not None:
            write(account["path"], self._token(account), 0o600)
        for key, kind in _CONTENTS.items():
            if kind is None or key not in source:
                continue
            named = source[key]
            content = self._content(kind, named.get("secretName") or named["name"])
            for one in named.get("items") or [{"key": each, "path": each} for each in content]:
                text = self.node.there(content[one["key"]], paths)
                write(one["path"], text, named.get("defaultMode", 0o644))

    def _token(self, wanted: Mapping[str, Any]) -> str:
        spec = {"expirationSeconds": wanted["expirationSeconds"]}
        path = f"{self.path.partition('/pods/')[0]}/serviceaccounts/{self.spec['serviceAccountName']}/token"
        made: str = self.node.send("POST", path, {"spec": spec}).json()["status"]["token"]
        return made

    def _content(self, kind: str, name: str) -> dict[str, str]:
        where = f"/api/v1/namespaces/{self.document['metadata']['namespace']}/{kind}/{name}"
        # Spark makes them after the pod, which waits for them.
        data: dict[str, str] = self.node.awaited(where).get("data", {})
        if kind == "configmaps":
            return data
        return {key: base64.b64decode(value).decode() for key, value in data.items()}

    def _url(self, kind: str) -> str:
        asked = self.container[f"{kind}Probe"]["httpGet"]
        ports = {port.get("name"): port["containerPort"] for port in self.container["ports"]}
        return f"http://{self.host}:{ports.get(asked['port'], asked['port'])}{asked['path']}"


def _without_capabilities() -> list[str]:
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        return []
    return ["setpriv", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
