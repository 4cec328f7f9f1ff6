"""Where people sign in: what a client and the page learn of the issuers, and how old what is known of them is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemark.controller.server.access.issuer_keys import PAUSE_SECONDS, READ_AGAIN_SECONDS
from tidemark.controller.server.page.server import HEADERS, read_page

from support.issuer import DISCOVERY_PATH, KEYS_PATH, Issuer
from support.patience import until
from support.trusting import Trusting


def test_a_client_learns_where_people_sign_in_without_a_token(tmp_path: Path, issuer: Issuer) -> None:
    issuer.document = {"end_session_endpoint": "http://id.example/end"}
    with Trusting(tmp_path, issuer, client_id="cli") as trusting:
        (said,) = trusting.controller.http.get("/v1/sign-in").json()["issuers"]
        assert said == {
            "name": "idp",
            "issuer": issuer.url,
            "client_id": "cli",
            "scope": "openid",
            "authorization_endpoint": f"{issuer.url}/authorize",
            "token_endpoint": f"{issuer.url}/token",
            "revocation_endpoint": f"{issuer.url}/revoke",
            "end_session_endpoint": None,
        }


def test_where_people_sign_in_is_asked_of_the_issuer_once_it_answers(tmp_path: Path, issuer: Issuer) -> None:
    issuer.away = True
    with Trusting(tmp_path, issuer, client_id="cli") as trusting:

        def endpoint() -> object:
            return trusting.controller.http.get("/v1/sign-in").json()["issuers"][0]["token_endpoint"]

        assert [endpoint() for _ in range(20)] == [None] * 20
        assert issuer.asked[DISCOVERY_PATH] == 1
        issuer.away = False
        trusting.steady.now_s += PAUSE_SECONDS
        assert endpoint() == f"{issuer.url}/token"


@pytest.mark.parametrize(
    ("client", "said", "more"),
    [
        ({}, {}, ""),
        ({"client_id": "page"}, {}, "; connect-src 'self' {issuer}"),
        (
            {"client_id": "page"},
            {"token_endpoint": "https://t.example:8443/x", "revocation_endpoint": "https://r.example"},
            "; connect-src 'self' https://r.example https://t.example:8443",
        ),
        # What would end the directive stands for nothing.
        (
            {"client_id": "page"},
            {"token_endpoint": "https://t.example;x/", "revocation_endpoint": "https://a@r.example/"},
            "",
        ),
    ],
)
def test_the_page_may_ask_the_issuers_of_people_and_nobody_else(
    tmp_path: Path, issuer: Issuer, client: dict[str, str], said: dict[str, str], more: str
) -> None:
    issuer.document = said
    with Trusting(tmp_path, issuer, **client) as trusting:
        http = trusting.controller.http
        until(lambda: issuer.asked[KEYS_PATH], "the issuer is read", pause_s=0.01)
        http.get("/v1/sign-in")
        answer = http.get("/")
        policy = answer.headers["content-security-policy"]
        assert policy == HEADERS["Content-Security-Policy"] + more.format(issuer=issuer.url)
        again = http.get("/", headers={"If-None-Match": answer.headers["etag"]})
        assert (again.status_code, again.headers["content-security-policy"]) == (304, policy)
        # A browser would keep the policy of another time with a document that has not changed.
        assert (answer.headers["etag"] == read_page().document.tag) == (more == "")


def test_the_age_of_an_issuers_keys_is_a_metric_and_who_asks_for_it_has_them_read(
    tmp_path: Path, issuer: Issuer
) -> None:
    issuer.away = True
    with Trusting(tmp_path, issuer) as trusting:

        def age() -> str:
            text: str = trusting.controller.http.get("/metrics").text
            return text.split('tidemark_issuer_keys_age_seconds{issuer="idp"} ')[1].split("\n", maxsplit=1)[0]

        def read(times: int) -> None:
            until(lambda: issuer.asked[DISCOVERY_PATH] == times, "it is asked", pause_s=0.01)

        read(1)
        assert age() == "+Inf"
        issuer.away = False
        trusting.steady.now_s += READ_AGAIN_SECONDS
        age()
        until(lambda: age() == "0.0", "the keys are read", pause_s=0.01)
        assert issuer.asked[DISCOVERY_PATH] == 2
        issuer.away = True
        trusting.steady.now_s += READ_AGAIN_SECONDS
        assert age() == "300.0"
        read(3)
        trusting.steady.now_s += READ_AGAIN_SECONDS / 2
        assert age() == "450.0"
        assert issuer.asked[DISCOVERY_PATH] == 3
