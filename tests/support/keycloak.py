"""A real Keycloak on loopback, with its own database in memory: a realm, a client, a user and groups."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx
import pytest

from tidemark.spark_jobs.demo import kafka_jars

from support.patience import PATIENCE_S, until

__all__ = ["VERSION", "Keycloak", "running_keycloak"]

VERSION = "26.7.3"
"""Its version; it runs on Java 17 and newer."""

REALM, CLIENT, USER, PASSWORD = "shop", "tidemark", "kim", "a password for tests"

_ADMIN = "admin"
_START_S = 10 * PATIENCE_S


_MODULE = f"""<ivy-module version="2.0">
<info organisation="tidemark" module="keycloak"/>
<configurations><conf name="default"/></configurations>
<dependencies>
<dependency org="org.keycloak" name="keycloak-quarkus-dist" rev="{VERSION}" conf="default->master" transitive="false">
<artifact name="keycloak-quarkus-dist" type="zip" ext="zip"/>
</dependency>
</dependencies>
</ivy-module>
"""


def _distribution() -> Path:
    """Return the folder of the distribution, from the user's cache or Maven; skip the test where it cannot be had."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidemark"
    folder = cache / f"keycloak-{VERSION}"
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as temporary:
        made = Path(temporary)
        (made / "settings.xml").write_text(kafka_jars._settings_xml(), encoding="utf-8")
        (made / "ivy.xml").write_text(_MODULE, encoding="utf-8")
        complaint = kafka_jars._ivy(
            *("-settings", str(made / "settings.xml"), "-ivy", str(made / "ivy.xml"), "-confs", "default"),
            *("-cache", str(made / "fetched"), "-retrieve", str(made / "[artifact]-[revision].[ext]")),
        )
        file = made / f"keycloak-quarkus-dist-{VERSION}.zip"
        if complaint or not file.is_file():
            pytest.skip(f"Keycloak {VERSION} cannot be had from Maven: {complaint or 'not found'}")
        with zipfile.ZipFile(file) as archive:
            archive.extractall(made)
        (made / folder.name).replace(folder)
    return folder


@dataclass
class Keycloak:
    """A running one, and its interface for administrators."""

    base: str
    http: httpx.Client
    stop: Callable[[], None]
    """Ends it."""

    @property
    def issuer(self) -> str:
        """The address of the realm."""
        return f"{self.base}/realms/{REALM}"

    def admin(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """Send a request of an administrator, in the realm."""
        form = {
            "grant_type": "password",
            "client_id": "admin-cli",
            "username": _ADMIN,
            "password": _ADMIN,
        }
        token = self.http.post(f"{self.base}/realms/master/protocol/openid-connect/token", data=form).json()[
            "access_token"
        ]
        answer = self.http.request(
            method, f"{self.base}/admin/realms{path}", json=body, headers={"Authorization": f"Bearer {token}"}
        )
        assert answer.is_success, (method, path, answer.status_code, answer.text)
        return answer

    def one(self, path: str) -> str:
        """Return the id of the one thing that a list has."""
        (found,) = self.admin("GET", path).json()
        return str(found["id"])

    def set_up(self) -> None:
        """Make a realm with a public client for the device flow, and a user in the group ``sre``."""
        self.admin("POST", "", {"realm": REALM, "enabled": True, "accessTokenLifespan": 300})
        mappers = [
            _mapper("oidc-audience-mapper", "audience", {"included.custom.audience": "tidemark"}),
            _mapper("oidc-group-membership-mapper", "groups", {"claim.name": "groups", "full.path": "false"}),
        ]
        client = {
            "clientId": CLIENT,
            "publicClient": True,
            "standardFlowEnabled": True,
            "redirectUris": ["http://127.0.0.1/*"],
            "attributes": {"oauth2.device.authorization.grant.enabled": "true"},
            "protocolMappers": mappers,
        }
        self.admin("POST", f"/{REALM}/clients", client)
        for group in ("sre", "shop"):
            self.admin("POST", f"/{REALM}/groups", {"name": group})
        user = {
            "username": USER,
            "enabled": True,
            "email": "kim@shop.example",
            "emailVerified": True,
            "firstName": "Kim",
            "lastName": "Lee",
            "groups": ["sre"],
            "credentials": [{"type": "password", "value": PASSWORD, "temporary": False}],
        }
        self.admin("POST", f"/{REALM}/users", user)

    def confirm(self, address: str) -> None:
        """Do what a person does in a browser at the address of the device flow: sign in, and confirm the code."""
        with httpx.Client(timeout=2 * PATIENCE_S, follow_redirects=True) as browser:

            def send_all(_: httpx.Response) -> None:
                # As browsers do on loopback: cookies that are for TLS alone, too.
                for cookie in browser.cookies.jar:
                    cookie.secure = False

            browser.event_hooks["response"].append(send_all)
            page = browser.get(address)
            for filled in ({"username": USER, "password": PASSWORD}, {"accept": "Yes"}):
                form = re.search(r'<form[^>]* action="([^"]+)".*?</form>', page.text, re.DOTALL)
                assert form is not None, page.text
                hidden = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', form[0]))
                page = browser.post(urljoin(str(page.url), unescape(form[1])), data={**hidden, **filled})
            assert "Device Login Successful" in page.text, page.text

    def allow_page(self, url: str) -> None:
        """Let people sign in on a page, as the documents say: its address comes back, its origin may exchange codes."""
        path = f"/{REALM}/clients/{self.one(f'/{REALM}/clients?clientId={CLIENT}')}"
        client = self.admin("GET", path).json()
        self.admin("PUT", path, {**client, "redirectUris": [f"{url}/"], "webOrigins": [url]})

    def leave_group(self, group: str) -> None:
        """Take the user out of a group."""
        user, of = (
            self.one(f"/{REALM}/users?username={USER}"),
            self.one(f"/{REALM}/groups?search={group}&exact=true"),
        )
        self.admin("DELETE", f"/{REALM}/users/{user}/groups/{of}")

    def rotate(self) -> None:
        """Sign with a new key from now on, and withdraw those before."""
        keys = f"/{REALM}/components?type=org.keycloak.keys.KeyProvider"
        before = [one["id"] for one in self.admin("GET", keys).json() if one["providerId"] == "rsa-generated"]
        new = {
            "name": "next",
            "providerId": "rsa-generated",
            "providerType": "org.keycloak.keys.KeyProvider",
            "config": {"priority": ["200"], "algorithm": ["RS256"]},
        }
        self.admin("POST", f"/{REALM}/components", new)
        for number in before:
            self.admin("DELETE", f"/{REALM}/components/{number}")


def _mapper(kind: str, name: str, config: dict[str, str]) -> dict[str, Any]:
    every = {"access.token.claim": "true", "id.token.claim": "false", **config}
    return {"name": name, "protocol": "openid-connect", "protocolMapper": kind, "config": every}


@contextmanager
def running_keycloak(folder: Path) -> Iterator[Keycloak]:
    """Run Keycloak on a free port of loopback with its log in ``folder``, and set it up."""
    home = _distribution()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    log = (folder / "keycloak.log").open("w", encoding="utf-8")
    command = ["bash", str(home / "bin" / "kc.sh"), "start-dev"]
    options = ["--db=dev-mem", f"--http-port={port}", "--http-host=127.0.0.1"]
    environment = {
        **os.environ,
        "KC_BOOTSTRAP_ADMIN_USERNAME": _ADMIN,
        "KC_BOOTSTRAP_ADMIN_PASSWORD": _ADMIN,
        "JAVA_OPTS_KC_HEAP": "-Xms64m -Xmx512m",
    }
    process = subprocess.Popen(
        [*command, *options], stdout=log, stderr=log, env=environment, start_new_session=True
    )

    def stop() -> None:
        # The script starts the server as a process of its own.
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()

    try:
        with httpx.Client(timeout=2 * PATIENCE_S) as http:
            keycloak = Keycloak(f"http://127.0.0.1:{port}", http, stop)

            def answers() -> bool:
                assert process.poll() is None, (folder / "keycloak.log").read_text(encoding="utf-8")[-5_000:]
                try:
                    return http.get(f"{keycloak.base}/realms/master").is_success
                except httpx.TransportError:
                    return False

            until(answers, "Keycloak answers", pause_s=1, patience_s=_START_S)
            keycloak.set_up()
            yield keycloak
    finally:
        stop()
        log.close()
