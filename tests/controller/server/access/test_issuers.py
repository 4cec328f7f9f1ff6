"""Tokens of issuers: which are accepted, what they allow, and what is read of their keys, with a real issuer."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import re
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tidemark.controller.base.logs import without_secrets
from tidemark.controller.base.operator_file import read_issuers
from tidemark.controller.base.token_format import NAME_PATTERN
from tidemark.controller.server.access.issuer_keys import PAUSE_SECONDS, READ_AGAIN_SECONDS, STALE_SECONDS
from tidemark.controller.server.access.issuers import LEEWAY_SECONDS, MAX_CHARACTERS, claim_at

from support.controller_app import STREAM, Controller
from support.issuer import DISCOVERY_PATH, KEYS_PATH, Issuer, running_issuer, write_issuers
from support.patience import until
from support.tokens import bearer, make_token
from support.trusting import Trusting

# -- who it is, and what that allows ---------------------------------------------------------------------------------


def test_a_token_of_the_issuer_is_accepted_and_its_groups_say_what_it_may_do(trusting: Trusting) -> None:
    body = trusting.ask(trusting.issuer.token("kim", groups=["sre", "unknown"])).json()
    assert (body["name"], body["role"]) == ("idp:kim", "operator")
    shop = trusting.issuer.token("lee", groups=["shop"])
    assert "Operate" in trusting.ask(shop, "/v1/caller?job=shop-1").json()["rights"]
    assert trusting.ask(shop, "/v1/caller?job=bank").status_code == 403
    assert trusting.ask(shop, "/v1/caller?job=public-1").json()["rights"] == ["Read", "Ask", "Recall"]


def test_a_key_of_another_kind_signs_too(trusting: Trusting) -> None:
    trusting.issuer.use_elliptic()
    trusting.steady.now_s += PAUSE_SECONDS
    assert trusting.name(trusting.issuer.token()) == "idp:kim"


def test_a_role_that_is_taken_away_ends_with_the_next_token(trusting: Trusting) -> None:
    before, after = trusting.issuer.token(groups=["root"]), trusting.issuer.token(groups=[])
    assert trusting.ask(before, "/v1/tokens").status_code == 200
    assert trusting.ask(after, "/v1/tokens").status_code == 403


@pytest.mark.parametrize("claims", [{}, {"realm": "x"}, {"realm": {}}, {"realm": {"roles": 7}}])
def test_without_the_nested_claim_a_user_has_what_everybody_has(
    tmp_path: Path, issuer: Issuer, claims: dict[str, Any]
) -> None:
    with Trusting(tmp_path, issuer, groups_claim="realm.roles") as trusting:
        assert trusting.ask(issuer.token(realm={"roles": ["root", 7]})).json()["role"] == "admin"
        answer = trusting.ask(issuer.token(groups=["root"], **claims)).json()
        assert (answer["role"], answer["rights"]) == ("viewer", [])


def test_a_claim_is_found_by_its_whole_name_before_its_parts() -> None:
    assert claim_at({"a.b": 1, "a": {"b": 2}}, "a.b") == 1
    assert claim_at({"https://x.example/groups": 1}, "https://x.example/groups") == 1
    assert claim_at({"a": {"b.c": {"d": 3}}}, "a.b.c.d") == 3
    assert claim_at({"a": ["b"]}, "a.b") is None


def test_a_service_account_reaches_its_own_job_and_no_other(tmp_path: Path, issuer: Issuer) -> None:
    account = "system:serviceaccount:shop:spark"
    with Trusting(tmp_path, issuer, user_roles=f"{account}=job:shop-*") as trusting:
        headers = bearer(issuer.token(account))
        for job, allowed in (("shop-1", True), ("bank", False)):
            answer = trusting.controller.http.get(f"/v1/jobs/{job}/streams/s/bound", headers=headers)
            assert (answer.status_code == 403) is not allowed
        assert trusting.ask(issuer.token("system:serviceaccount:bank:spark")).json()["role"] == "viewer"


def test_nobody_becomes_a_member_of_a_group_by_a_name(tmp_path: Path, issuer: Issuer) -> None:
    with Trusting(tmp_path, issuer, user_roles="ann=operator") as trusting:
        assert trusting.ask(issuer.token("root")).json()["role"] == "viewer"
        assert trusting.ask(issuer.token("x", groups=["ann"])).json()["role"] == "viewer"
        assert trusting.ask(issuer.token("*")).json()["role"] == "viewer"


def test_an_event_has_the_subject_beside_the_name_that_people_know(tmp_path: Path, issuer: Issuer) -> None:
    with Trusting(tmp_path, issuer, user_claim="preferred_username") as trusting:
        token = issuer.token("5-1", preferred_username="kim", groups=["sre"])
        put = trusting.controller.http.put(f"{STREAM}/policy", json={"mode": "Off"}, headers=bearer(token))
        assert put.status_code == 200
        events = trusting.ask(token, f"{STREAM}/events").json()["events"]
        assert [one["by"] for one in events if one["kind"] == "PolicySet"] == ["idp:kim (sub 5-1)"]


def test_two_issuers_and_the_store_share_no_name(tmp_path: Path, issuer: Issuer) -> None:
    with running_issuer(1) as other:
        roles = {"audience": "tidemark", "group_roles": "*=viewer"}
        file = write_issuers(tmp_path, idp={"issuer": issuer.url, **roles}, b={"issuer": other.url, **roles})
        with Controller(f"sqlite:///{tmp_path / 't.db'}", issuers_file=file) as controller:
            tokens = [issuer.token(), other.token(), make_token(controller, "viewer", name="kim")]
            answers = [controller.http.get("/v1/caller", headers=bearer(one)).json() for one in tokens]
            assert [one["name"] for one in answers] == ["idp:kim", "b:kim", "kim"]
            assert not re.fullmatch(NAME_PATTERN, "idp:kim")
            # The other's key vouches for nothing that this one says.
            forged = jwt.encode(
                {**jwt.decode(tokens[0], options={"verify_signature": False})},
                next(iter(other.keys.values())),
                "RS256",
                headers={"kid": "one"},
            )
            answer = controller.http.get("/v1/caller", headers=bearer(forged))
            assert answer.status_code == 401
            assert "not signed by its issuer" in answer.json()["detail"]


def test_with_an_issuer_alone_nobody_comes_without_a_token(trusting: Trusting) -> None:
    assert trusting.controller.http.get("/v1/fleet").status_code == 401
    assert trusting.ask("tidemark").json()["detail"].startswith("this is not a Tidemark token")


# -- what is refused -------------------------------------------------------------------------------------------------


def test_the_clocks_may_be_a_minute_apart_and_no_more(trusting: Trusting) -> None:
    now = time.time()

    def token(claim: str, apart_s: float) -> str:
        claims: dict[str, Any] = {claim: now + (-apart_s if claim == "exp" else apart_s)}
        return trusting.issuer.token(**claims)

    for claim, why in (("exp", "has expired"), ("nbf", "not valid yet"), ("iat", "not valid yet")):
        assert trusting.name(token(claim, LEEWAY_SECONDS / 2)) == "idp:kim"
        assert why in trusting.refusal(token(claim, LEEWAY_SECONDS * 2))


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"aud": "other"}, "not for the audience 'tidemark'"),
        ({"aud": ["other", "another"]}, "not for the audience 'tidemark'"),
        ({"aud": None}, "no claim 'aud'"),
        ({"exp": None}, "no claim 'exp'"),
        ({"sub": None}, "no claim 'sub'"),
        ({"iss": "https://evil.example"}, "its issuer is not trusted"),
        ({"iss": None}, "its issuer is not trusted"),
        ({"iss": ["x"]}, "its issuer is not trusted"),
        ({"sub": "two\nlines"}, "names no user"),
        ({"sub": "x" * 250}, "over 200 characters"),
    ],
)
def test_what_a_token_has_to_say_is_checked(trusting: Trusting, claims: dict[str, Any], why: str) -> None:
    assert why in trusting.refusal(_encoded(trusting.issuer, claims))


def _encoded(issuer: Issuer, claims: dict[str, Any]) -> str:
    """Return a token with claims that a library would rather not encode."""
    name, key = next(iter(issuer.keys.items()))
    now = time.time()
    every = {"iss": issuer.url, "aud": "tidemark", "sub": "kim", "exp": now + 600, **claims}
    payload = json.dumps({claim: value for claim, value in every.items() if value is not None})
    return jwt.api_jws.encode(payload.encode(), key, "RS256", headers={"kid": name})


def test_a_name_that_the_issuer_has_not_verified_is_nobodys(tmp_path: Path, issuer: Issuer) -> None:
    with Trusting(tmp_path, issuer, user_claim="email") as trusting:
        mail = "kim@shop.example"
        assert trusting.name(issuer.token("1", email=mail, email_verified=True)) == f"idp:{mail} (sub 1)"
        assert "not verified" in trusting.refusal(issuer.token("1", email=mail, email_verified=False))
        assert "names no user" in trusting.refusal(issuer.token("1"))


def _part(document: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(document).encode()).decode().rstrip("=")


def test_nobody_signs_with_nothing_or_with_what_everybody_knows(trusting: Trusting) -> None:
    claims = jwt.decode(trusting.issuer.token(groups=["root"]), options={"verify_signature": False})
    nothing = f"{_part({'alg': 'none', 'kid': 'one'})}.{_part(claims)}."
    assert "not signed by one of RS256" in trusting.refusal(nothing)
    public = next(iter(trusting.issuer.keys.values())).public_key()
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    head = f"{_part({'alg': 'HS256', 'kid': 'one'})}.{_part(claims)}"
    mark = base64.urlsafe_b64encode(hmac.new(pem, head.encode(), hashlib.sha256).digest())
    assert "not signed by one of RS256" in trusting.refusal(f"{head}.{mark.decode().rstrip('=')}")


def test_neither_another_key_nor_a_changed_claim_is_accepted(trusting: Trusting) -> None:
    stranger = rsa.generate_private_key(65_537, 2_048)
    token = trusting.issuer.token()
    head, _, mark = token.split(".")
    claims = jwt.decode(token, options={"verify_signature": False})
    assert "not signed by its issuer" in trusting.refusal(f"{head}.{_part({**claims, 'sub': 'x'})}.{mark}")
    forged = jwt.encode(claims, stranger, "RS256", headers={"kid": "one"})
    assert "not signed by its issuer" in trusting.refusal(forged)
    assert "no key of the id" in trusting.refusal(trusting.issuer.token(header={"kid": None}))


@pytest.mark.parametrize(("kind", "status"), [("at+jwt", 200), ("jwt", 200), ("logout+jwt", 401)])
def test_only_a_token_that_is_meant_for_access_gives_it(trusting: Trusting, kind: str, status: int) -> None:
    assert trusting.ask(trusting.issuer.token(header={"typ": kind})).status_code == status


@pytest.mark.parametrize("name", ["alg", "kid", "typ", "crit", "b64"])
@pytest.mark.parametrize("value", [{}, [], 5, True])
def test_a_header_of_another_kind_than_expected_is_refused(
    trusting: Trusting, name: str, value: object
) -> None:
    _, claims, mark = trusting.issuer.token().split(".")
    header = {"alg": "RS256", "kid": "one", "typ": "JWT", name: value}
    assert trusting.ask(f"{_part(header)}.{claims}.{mark}").status_code == 401


def test_what_cannot_be_read_is_refused_and_never_fails(trusting: Trusting) -> None:
    for token in (
        "..",
        "a.b.c",
        "eyJ.eyJ.x",
        f"{_part({'alg': 'RS256'})}.{'x' * 100}.x",
        "é.é.é".encode().hex() + "..x",
    ):
        assert "cannot be read" in trusting.refusal(token)
    deep = base64.urlsafe_b64encode(b"[" * 10_000).decode()
    assert "cannot be read" in trusting.refusal(f"{_part({'alg': 'RS256'})}.{deep}.x")
    huge = trusting.issuer.token(groups=["x" * MAX_CHARACTERS])
    assert f"longer than {MAX_CHARACTERS}" in trusting.refusal(huge)
    assert trusting.name(trusting.issuer.token(groups=["x" * (MAX_CHARACTERS // 2)])) == "idp:kim"


def test_a_token_is_never_logged(trusting: Trusting, caplog: pytest.LogCaptureFixture) -> None:
    token = trusting.issuer.token(groups=["root"])
    with caplog.at_level(logging.DEBUG):
        assert trusting.ask(token).status_code == 200
        trusting.refusal(token[:-8])
    assert token[:40] not in caplog.text
    assert without_secrets(f"see {token}, {token[:-9]}") == "see [hidden], [hidden]"


# -- keys ------------------------------------------------------------------------------------------------------------


def test_keys_are_read_once_and_again_when_they_are_old(trusting: Trusting) -> None:
    for _ in range(20):
        trusting.name(trusting.issuer.token())
    assert trusting.issuer.asked == {DISCOVERY_PATH: 1, KEYS_PATH: 1}
    trusting.steady.now_s += READ_AGAIN_SECONDS
    trusting.name(trusting.issuer.token())
    until(lambda: trusting.issuer.asked[KEYS_PATH] == 2, "the keys are read again", pause_s=0.01)


def test_a_new_key_is_accepted_at_once_and_the_one_that_it_replaces_no_longer(trusting: Trusting) -> None:
    old = trusting.issuer.token()
    trusting.name(old)
    trusting.issuer.rotate()
    trusting.steady.now_s += PAUSE_SECONDS
    assert trusting.name(trusting.issuer.token()) == "idp:kim"
    assert "no key of the id" in trusting.refusal(old)


def test_a_flood_of_unknown_keys_reads_them_once_a_pause(trusting: Trusting) -> None:
    trusting.name(trusting.issuer.token())
    reads = []
    for _ in range(3):
        trusting.steady.now_s += PAUSE_SECONDS
        for number in range(100):
            why = trusting.refusal(trusting.issuer.token(header={"kid": f"{number}"}))
            assert "no key of the id" in why
        reads.append(trusting.issuer.asked[KEYS_PATH])
    assert reads == [2, 3, 4]


def test_while_the_issuer_is_away_its_keys_are_used_for_a_day(trusting: Trusting) -> None:
    token = trusting.issuer.token(exp=time.time() + 10 * STALE_SECONDS)
    trusting.name(token)
    trusting.issuer.away = True
    trusting.steady.now_s += STALE_SECONDS - 1
    assert trusting.name(token) == "idp:kim"
    trusting.steady.now_s += 1 + PAUSE_SECONDS
    answer = trusting.ask(token)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "10")
    assert answer.json()["type"] == "urn:tidemark:problem:issuer-unavailable"
    assert answer.json()["detail"] == "the keys of the issuer 'idp' cannot be read: it answers 503"


def test_a_key_that_is_new_while_the_issuer_is_away_is_asked_for_later(trusting: Trusting) -> None:
    trusting.name(trusting.issuer.token())
    trusting.issuer.rotate()
    trusting.issuer.away = True
    trusting.steady.now_s += PAUSE_SECONDS
    assert [trusting.ask(trusting.issuer.token()).status_code for _ in range(2)] == [503, 503]
    trusting.issuer.away = False
    trusting.steady.now_s += PAUSE_SECONDS
    assert trusting.name(trusting.issuer.token()) == "idp:kim"


def test_an_issuer_that_is_away_at_the_start_holds_nobody_up_and_is_asked_again(
    tmp_path: Path, issuer: Issuer
) -> None:
    issuer.away = True
    with Trusting(tmp_path, issuer) as trusting:
        own = make_token(trusting.controller)
        assert trusting.ask(own).status_code == 200
        assert [trusting.ask(issuer.token()).status_code for _ in range(20)] == [503] * 20
        assert issuer.asked[DISCOVERY_PATH] == 1
        issuer.away = False
        assert trusting.ask(issuer.token()).status_code == 503
        trusting.steady.now_s += PAUSE_SECONDS
        assert trusting.name(issuer.token()) == "idp:kim"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"issuer": "https://other.example"}, "it says that it is 'https://other.example'"),
        ({"jwks_uri": "http://keys.example/x"}, "no address of its keys"),
        ({"jwks_uri": "file:///etc/passwd"}, "no address of its keys"),
        ({"jwks_uri": None}, "no address of its keys"),
    ],
)
def test_what_discovery_says_is_checked(
    tmp_path: Path, issuer: Issuer, said: dict[str, Any], why: str
) -> None:
    issuer.document = said
    with Trusting(tmp_path, issuer) as trusting:
        answer = trusting.ask(issuer.token())
        assert answer.status_code == 503
        assert why in answer.json()["detail"]


def test_the_token_of_the_pod_is_sent_where_keys_are_read(tmp_path: Path, issuer: Issuer) -> None:
    (tmp_path / "pod").write_text("pods-own")
    with Trusting(tmp_path, issuer, token_file=str(tmp_path / "pod")) as trusting:
        trusting.name(issuer.token())
    assert {headers["Authorization"] for _, headers in issuer.sent} == {"Bearer pods-own"}


# -- the file --------------------------------------------------------------------------------------------------------

GOOD = {"issuer": "https://id.example", "audience": "a", "group_roles": "a=viewer"}


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"issuer": "http://id.example"}, "begin with https://"),
        ({"issuer": "id.example"}, "begins with http:// or https://"),
        ({"audience": ""}, r"issuer 'x'\.audience"),
        ({"group_roles": "a=king"}, "group=role"),
        ({"group_roles": ""}, "group_roles or user_roles"),
        ({"groups": "a"}, r"issuer 'x'\.groups"),
    ],
)
def test_a_file_that_cannot_be_used_says_where(tmp_path: Path, changed: dict[str, str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_issuers(write_issuers(tmp_path, x={**GOOD, **changed}))


def test_two_issuers_of_one_address_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'x' and 'y' have the same address"):
        read_issuers(write_issuers(tmp_path, x=GOOD, y=GOOD))
