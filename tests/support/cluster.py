"""A Kubernetes API on loopback: etcd, kube-apiserver and kube-controller-manager, without a node."""

from __future__ import annotations

import json
import ssl
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from support.cluster_programs import cluster_programs
from support.go_tools import CRDS, HELM, crds, go_tool
from support.patience import PATIENCE_S, until, until_ready
from support.postgres import free_port

__all__ = ["RESTRICTED", "ApiServer", "Cluster", "running_cluster"]

RESTRICTED = {
    f"pod-security.kubernetes.io/{mode}{of}": level
    for mode in ("enforce", "warn")
    for of, level in (("", "restricted"), ("-version", "latest"))
}
"""Labels of a namespace whose pods must meet the restricted standard; of workloads with others the API warns."""

_TOKEN = "admin-of-the-tests"


class ApiServer:
    """The process of the API, which is also the issuer of its accounts' tokens, at its own address.

    Args:
        folder: where its files are.
        store: address of etcd.
        url: where it listens.
    """

    def __init__(self, folder: Path, programs: Path, store: str, url: str) -> None:
        self._folder, self._programs, self._store, self.url = folder, programs, store, url
        self.authority = folder / "certificates" / "apiserver.crt"
        """The certificate of its authority."""
        self._people = folder / "people.csv"
        self._people.write_text(f'{_TOKEN},admin,admin,"system:masters"\n', encoding="utf-8")
        self.key = self.new_key("accounts")
        """The key that signs tokens."""
        self._end: Callable[[], None] = lambda: None

    def new_key(self, name: str) -> Path:
        """Make a key for tokens."""
        key = self._folder / f"{name}.pem"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        return key

    def stop(self) -> None:
        """End it."""
        self._end()

    def start(self) -> None:
        """Start it and wait until it is ready."""
        process, self._end = _start(
            self._folder,
            self._programs / "kube-apiserver",
            {
                "etcd-servers": self._store,
                "cert-dir": self.authority.parent,
                "bind-address": "127.0.0.1",
                "secure-port": self.url.rpartition(":")[2],
                "advertise-address": "127.0.0.1",
                # It would publish that address, which none that leads to a pod may be.
                "endpoint-reconciler-type": "none",
                "authorization-mode": "RBAC",
                "token-auth-file": self._people,
                "service-cluster-ip-range": "10.96.0.0/16",
                "service-account-issuer": self.url,
                "service-account-key-file": self.key,
                "service-account-signing-key-file": self.key,
            },
        )
        log = self._folder / "kube-apiserver.log"

        def answers() -> bool:
            assert process.poll() is None, log.read_text(encoding="utf-8")[-8_000:]
            if not self.authority.is_file():
                return False
            try:
                trusted = ssl.create_default_context(cafile=self.authority)
                return httpx.get(f"{self.url}/readyz", verify=trusted).is_success
            except (httpx.TransportError, OSError):
                return False

        until(answers, "the Kubernetes API", seen=lambda: log.read_text(encoding="utf-8")[-8_000:])


@dataclass(frozen=True)
class Cluster:
    """A running API."""

    version: str
    url: str
    api: httpx.Client
    """Sends requests as an administrator."""
    config: Path
    """An administrator's kubeconfig."""
    programs: Path
    server: ApiServer

    def kubectl(self, *arguments: str | Path, given: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run kubectl as an administrator, with ``given`` as its input."""
        command: list[str | Path] = [self.programs / "kubectl", "--kubeconfig", self.config, *arguments]
        return subprocess.run(command, input=given or "", capture_output=True, text=True, check=False)

    def done(self, *arguments: str | Path, given: str | None = None) -> str:
        """Run kubectl, which must succeed without a warning, and return what it printed."""
        ended = self.kubectl(*arguments, given=given)
        assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout + ended.stderr
        return ended.stdout

    def objects(self, kind: str, namespace: str) -> list[dict[str, Any]]:
        """Return the objects of a kind in a namespace."""
        found: list[dict[str, Any]] = json.loads(
            self.done("get", kind, "--namespace", namespace, "--output", "json")
        )["items"]
        return found

    def helm(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run Helm as an administrator."""
        ended = subprocess.run(
            [go_tool(HELM), "--kubeconfig", self.config, *arguments],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        # It says so of the folders of deploy/ that the chart has by a link.
        ended.stderr = "".join(
            line for line in ended.stderr.splitlines(keepends=True) if "found symbolic link" not in line
        )
        return ended

    def define(self) -> None:
        """Make the resources of operators known."""
        for operator in CRDS:
            self.done("apply", "--server-side", "--filename", crds(operator))
        # It fails on one whose state was not written yet.
        until(
            lambda: self.kubectl("wait", "--for=condition=Established", "crd", "--all").returncode == 0,
            "the definitions",
        )

    def namespace(self, name: str) -> str:
        """Make a namespace that enforces the restricted standard, and wait for its account."""
        made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": RESTRICTED}}
        self.done("create", "--filename", "-", given=json.dumps(made))
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        until(lambda: self.api.get(account).is_success, f"the account of the namespace {name}")
        return name


@contextmanager
def running_cluster(folder: Path, version: str) -> Iterator[Cluster]:
    """Start one; it ends with the context."""
    programs = cluster_programs(version)
    with ExitStack() as stack:
        store, peers, url = (f"{scheme}://127.0.0.1:{free_port()}" for scheme in ("http", "http", "https"))
        process, stop = _start(
            folder,
            programs / "etcd",
            {
                "name": "store",
                "data-dir": folder / "etcd",
                "unsafe-no-fsync": "true",
                "listen-client-urls": store,
                "advertise-client-urls": store,
                "listen-peer-urls": peers,
                "initial-advertise-peer-urls": peers,
                "initial-cluster": f"store={peers}",
            },
        )
        stack.callback(stop)
        until_ready(f"{store}/health", process, folder / "etcd.log")
        server = ApiServer(folder, programs, store, url)
        stack.callback(server.stop)
        server.start()
        config = _kubeconfig(folder / "kubeconfig", url, server.authority)
        _, stop = _start(
            folder,
            programs / "kube-controller-manager",
            {
                "kubeconfig": config,
                "leader-elect": "false",
                "secure-port": "0",
                "root-ca-file": server.authority,
                "service-account-private-key-file": server.key,
                # Nobody sends the heartbeats of a node.
                "controllers": "*,-node-lifecycle-controller",
            },
        )
        stack.callback(stop)
        context = ssl.create_default_context(cafile=server.authority)
        headers = {"Authorization": f"Bearer {_TOKEN}"}
        with httpx.Client(base_url=url, verify=context, headers=headers, timeout=PATIENCE_S) as api:
            cluster = Cluster(version, url, api, config, programs, server)
            # Its controllers work once there are an account and the rules that are gathered into a role.
            for path, part in (
                ("/api/v1/namespaces/default/serviceaccounts/default", "metadata"),
                ("/apis/rbac.authorization.k8s.io/v1/clusterroles/admin", "rules"),
            ):
                until(lambda path=path, part=part: api.get(path).json().get(part), path)  # type: ignore[misc]
            yield cluster


def _start(
    folder: Path, program: Path, flags: Mapping[str, str | Path]
) -> tuple[subprocess.Popen[bytes], Callable[[], None]]:
    """Start a program; return its process and what ends it."""
    command: list[str | Path] = [program, *(f"--{name}={value}" for name, value in flags.items())]
    with (folder / f"{program.name}.log").open("ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def end() -> None:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    return process, end


def _kubeconfig(path: Path, url: str, authority: Path) -> Path:
    there = {"server": url, "certificate-authority": str(authority)}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "tests", "cluster": there}],
        "users": [{"name": "admin", "user": {"token": _TOKEN}}],
        "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "admin"}}],
        "current-context": "tests",
    }
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path
