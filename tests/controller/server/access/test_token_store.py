"""Tokens: made, shown once, used, rotated, expired, revoked, on both databases and on several replicas."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from tidemark.controller.base.db.tables import TokenRow
from tidemark.controller.base.errors import TokenConflictError
from tidemark.controller.base.principal import Grant, Role
from tidemark.controller.base.token_format import digest_of, is_token
from tidemark.controller.server.access import token_store
from tidemark.controller.server.access.authenticator import CACHE_SECONDS, STALE_SECONDS, USE_NOTED_US
from tidemark.controller.server.access.token_store import NewToken, note_uses

from support.controller_app import Controller
from support.tokens import bearer, make_token

DAY_US = 86_400_000_000


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    """Return the URL of an empty database, on each kind of store."""
    found: str = request.getfixturevalue("database_url" if request.param == "sqlite" else "new_postgres_url")
    return found


@pytest.fixture
def store(url: str) -> Iterator[Controller]:
    """Return a running controller on each kind of store."""
    with Controller(url) as running:
        yield running


def post(controller: Controller, body: dict[str, Any], token: str | None = None) -> httpx.Response:
    answer: httpx.Response = controller.http.post(
        "/v1/tokens", json=body, headers={} if token is None else bearer(token)
    )
    return answer


def status_with(controller: Controller, token: str) -> int:
    return int(controller.http.get("/v1/fleet", headers=bearer(token)).status_code)


def age_cache(controller: Controller) -> None:
    """Let what the controller knows of the tokens be as old as it may get."""
    authenticator = controller.service.authenticator
    authenticator._cache = replace(authenticator._cache, read_at=authenticator._cache.read_at - CACHE_SECONDS)


def test_a_token_is_shown_once_and_only_its_digest_is_kept(store: Controller) -> None:
    made = post(store, {"name": "root", "role": "admin"})
    assert made.status_code == 201
    token = made.json()["token"]
    assert is_token(token)
    body = store.http.get("/v1/tokens/1", headers=bearer(token)).json()
    assert {**body, "token": token} == made.json()
    assert body == {
        "id": 1,
        "name": "root",
        "role": "admin",
        "jobs": ["*"],
        "live": True,
        "created_us": store.clock(),
        "created_by": "loopback",
        "expires_us": None,
        "last_used_us": None,
        "revoked_us": None,
        "revoked_by": None,
    }
    with store.service.database.read() as session:
        kept = [str(value) for value in session.execute(text("SELECT * FROM tokens")).one()]
    assert digest_of(token) in kept
    assert not any(token[-20:] in value for value in kept)


def test_the_first_token_must_be_an_admins_for_every_job(store: Controller) -> None:
    for body in ({"name": "a", "role": "viewer"}, {"name": "a", "role": "admin", "jobs": ["shop-*"]}):
        refused = post(store, body)
        assert (refused.status_code, refused.json()["type"]) == (409, "urn:tidemark:problem:token-conflict")
    assert store.http.get("/v1/fleet").status_code == 200, "nobody is locked out by a refusal"


def test_from_the_first_token_on_nobody_gets_in_without_one(store: Controller) -> None:
    assert store.http.get("/v1/fleet").status_code == 200
    token = post(store, {"name": "root", "role": "admin"}).json()["token"]
    assert store.http.get("/v1/fleet").status_code == 401
    assert status_with(store, token) == 200
    # Also when the last one has ended: an expired token must not open access.
    assert store.http.delete("/v1/tokens/1", headers=bearer(token)).status_code == 200
    assert store.http.get("/v1/fleet").status_code == 401


def test_without_a_token_a_page_of_another_site_reaches_nothing_by_a_name_of_its_own(
    store: Controller,
) -> None:
    """A foreign page can make a local browser send requests; the host name in them gives it away."""
    foreign = {"Host": "evil.example:8642"}
    assert store.http.get("/v1/fleet", headers=foreign).status_code == 401
    assert store.http.get("/v1/fleet", headers={"Host": "localhost:8642"}).status_code == 200
    token = post(store, {"name": "root", "role": "admin"}).json()["token"]
    assert store.http.get("/v1/fleet", headers={**foreign, **bearer(token)}).status_code == 200


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer ",
        "Basic cm9vdDpyb290",
        "Bearer nonsense",
        "Bearer tdm_admin_" + "0" * 51,
        "tdm_admin_" + "0" * 51,
    ],
)
def test_what_is_no_good_token_is_401(controller: Controller, header: str) -> None:
    make_token(controller)
    answer = controller.http.get("/v1/fleet", headers={"Authorization": header})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert "0000" not in answer.text


def test_a_token_of_another_controller_is_401_and_costs_the_store_nothing(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidemark.controller.base.token_format import make_token as any_token

    good = make_token(controller)
    assert status_with(controller, good) == 200
    monkeypatch.setattr(controller.service.authenticator, "_read", lambda: pytest.fail("the store was asked"))
    other = any_token("admin", bytes(32))
    answer = controller.http.get("/v1/fleet", headers=bearer(other))
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="tidemark", error="invalid_token"'


def test_two_authorization_headers_are_none(controller: Controller) -> None:
    good = make_token(controller)
    headers = [("Authorization", f"Bearer {good}"), ("Authorization", "Bearer other")]
    assert controller.http.get("/v1/fleet", headers=headers).status_code == 401


def test_digests_are_compared_in_constant_time(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[str, str]] = []

    def compare(kept: str, shown: str) -> bool:
        compared.append((kept, shown))
        return kept == shown

    token = make_token(controller)
    monkeypatch.setattr("tidemark.controller.server.access.authenticator.hmac.compare_digest", compare)
    assert status_with(controller, token) == 200
    assert compared == [(digest_of(token), digest_of(token))]


def test_a_token_whose_digest_merely_begins_alike_is_refused(controller: Controller) -> None:
    token = make_token(controller)
    digest = digest_of(token)
    with controller.service.database.write() as session:
        row = session.scalars(select(TokenRow)).one()
        row.digest = digest[:16] + "0" * 48
    age_cache(controller)
    controller.service.authenticator._cache = replace(
        controller.service.authenticator._cache, version=(-1, -1)
    )
    assert status_with(controller, token) == 401


# -- their lives -----------------------------------------------------------------------------------------------------


def test_rotation_two_of_a_name_are_good_until_the_first_is_revoked(store: Controller) -> None:
    admin = make_token(store)
    headers = bearer(admin)
    body = {"name": "shop", "role": "viewer", "jobs": ["shop-*", "a"], "lifetime_ms": 86_400_000}
    first = post(store, body, admin).json()
    store.clock.now_us += DAY_US // 2
    second = store.http.post(f"/v1/tokens/{first['id']}:rotate", json={}, headers=headers)
    assert second.status_code == 201
    found = second.json()
    assert (found["name"], found["role"], found["jobs"]) == ("shop", "viewer", ["shop-*", "a"])
    assert found["expires_us"] == store.clock() + DAY_US, "it lives as long as the first was to"
    assert found["token"] != first["token"]
    assert [status_with(store, made["token"]) for made in (first, found)] == [200, 200]
    third = store.http.post(f"/v1/tokens/{found['id']}:rotate", json={}, headers=headers)
    assert third.status_code == 409
    assert "two tokens of the name 'shop' are valid already; revoke one" in third.json()["detail"]
    assert post(store, body, admin).status_code == 409
    assert store.http.delete(f"/v1/tokens/{first['id']}", headers=headers).json()["live"] is False
    assert [status_with(store, made["token"]) for made in (first, found)] == [401, 200]
    assert store.http.post(f"/v1/tokens/{found['id']}:rotate", json={}, headers=headers).status_code == 201


def test_a_token_expires_to_the_microsecond_and_makes_room_for_another(store: Controller) -> None:
    admin = make_token(store)
    body = {"name": "short", "role": "viewer", "lifetime_ms": 1_000}
    first, second = (post(store, body, admin).json() for _ in range(2))
    assert post(store, body, admin).status_code == 409
    store.clock.now_us += 1_000_000 - 1
    assert status_with(store, first["token"]) == 200
    store.clock.now_us += 1
    assert [status_with(store, made["token"]) for made in (first, second)] == [401, 401]
    assert post(store, body, admin).status_code == 201
    assert (
        store.http.post(f"/v1/tokens/{first['id']}:rotate", json={}, headers=bearer(admin)).status_code == 409
    )


def test_revoking_again_changes_nothing_and_says_who_did_it_first(store: Controller) -> None:
    admin = make_token(store, name="kim")
    other = make_token(store, name="lee")
    first = store.http.delete("/v1/tokens/2", headers=bearer(admin)).json()
    store.clock.now_us += 1
    assert store.http.delete("/v1/tokens/2", headers=bearer(admin)).json() == first
    assert (first["revoked_by"], first["revoked_us"]) == ("kim", store.clock() - 1)
    assert status_with(store, other) == 401
    assert store.http.delete("/v1/tokens/3", headers=bearer(admin)).status_code == 404


def test_each_token_made_and_revoked_is_an_event_for_those_who_may_list_tokens(store: Controller) -> None:
    admin = make_token(store, name="kim")
    made = post(store, {"name": "shop", "role": "job", "jobs": ["shop-*"]}, admin).json()
    second = store.http.post(f"/v1/tokens/{made['id']}:rotate", json={}, headers=bearer(admin)).json()
    for _ in range(2):
        store.http.delete(f"/v1/tokens/{made['id']}", headers=bearer(admin))
    answer = store.http.get("/v1/events", headers=bearer(admin))
    named = "of 'shop': role job, the jobs shop-*"
    assert [(one["kind"], one["by"], one["reason"], one["job"]) for one in answer.json()["events"]] == [
        ("TokenRevoked", "kim", f"token {made['id']} {named}", None),
        ("TokenMade", "kim", f"token {second['id']} {named}", None),
        ("TokenMade", "kim", f"token {made['id']} {named}", None),
        ("TokenMade", "the test", "token 1 of 'kim': role admin, every job", None),
    ]
    for secret in (admin, made["token"], second["token"]):
        assert secret not in answer.text
        assert digest_of(secret) not in answer.text
    roles: list[tuple[Role, str]] = [("viewer", "*"), ("operator", "*"), ("admin", "shop-*")]
    for role, jobs in roles:
        other = make_token(store, role, jobs)
        assert store.http.get("/v1/events", headers=bearer(other)).json()["events"] == []


def test_tokens_are_listed_by_number_page_by_page_and_by_name(store: Controller) -> None:
    admin = make_token(store)
    for number in range(4):
        make_token(store, "viewer", name=f"v{number % 2}")
    headers, found, cursor = bearer(admin), [], None
    while True:
        params = {"limit": 2} | ({} if cursor is None else {"cursor": cursor})
        page = store.http.get("/v1/tokens", params=params, headers=headers)
        assert 'token":' not in page.text
        found += page.json()["tokens"]
        if (cursor := page.json()["next_cursor"]) is None:
            break
    # PostgreSQL leaves numbers out where a slot was taken.
    assert [row["id"] for row in found] == sorted(row["id"] for row in found)
    assert [row["name"] for row in found[1:]] == ["v0", "v1", "v0", "v1"]
    named = store.http.get("/v1/tokens?name=v1", headers=headers).json()["tokens"]
    assert [row["name"] for row in named] == ["v1", "v1"]


def test_only_two_live_whoever_makes_them_at_the_same_time(store: Controller) -> None:
    make_token(store)
    new = NewToken("race", Grant("viewer"))

    def make(_: int) -> bool:
        try:
            token_store.make(store.service.database, new, "the test", store.clock())
        except TokenConflictError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(make, range(8))) == 2


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"name": ""}, "/name"),
        ({"name": "a b"}, "/name"),
        ({"name": "a" * 65}, "/name"),
        ({"role": "root"}, "/role"),
        ({"jobs": []}, "/jobs"),
        ({"jobs": ["a/b"]}, "/jobs/0"),
        ({"jobs": "a"}, "/jobs"),
        ({"lifetime_ms": 0}, "/lifetime_ms"),
        ({"lifetime_ms": 1.5}, "/lifetime_ms"),
        ({"extra": 1}, "/extra"),
    ],
)
def test_a_token_that_makes_no_sense_is_refused_with_a_pointer(
    untouched: Controller, change: dict[str, Any], pointer: str
) -> None:
    answer = post(untouched, {"name": "root", "role": "admin", **change})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == pointer


# -- replicas --------------------------------------------------------------------------------------------------------


def test_a_token_of_one_replica_works_on_another_within_the_stated_time(store: Controller, url: str) -> None:
    with Controller(url) as other:
        assert other.http.get("/v1/fleet").status_code == 200
        token = make_token(store)
        age_cache(other)
        assert status_with(other, token) == 200
        assert other.http.get("/v1/fleet").status_code == 401
        store.http.delete("/v1/tokens/1", headers=bearer(token))
        assert status_with(store, token) == 401
        age_cache(other)
        assert status_with(other, token) == 401


def test_a_token_made_and_revoked_between_two_looks_still_closes_the_door(
    store: Controller, url: str
) -> None:
    with Controller(url) as other:
        assert other.http.get("/v1/fleet").status_code == 200
        token = make_token(store)
        store.http.delete("/v1/tokens/1", headers=bearer(token))
        age_cache(other)
        assert other.http.get("/v1/fleet").status_code == 401


def test_use_is_noted_to_the_hour_and_not_at_each_request(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = make_token(controller)
    begun = controller.clock()

    def used() -> int | None:
        age_cache(controller)
        body = controller.http.get("/v1/tokens/1", headers=bearer(token)).json()
        found: int | None = body["last_used_us"]
        return found

    assert used() is None
    # Recorded with the next read of the store.
    assert used() == begun
    writes: list[dict[int, int]] = []

    def note(session: Session, uses: dict[int, int]) -> None:
        writes.append(uses)
        note_uses(session, uses)

    monkeypatch.setattr("tidemark.controller.server.access.authenticator.note_uses", note)
    controller.clock.now_us += USE_NOTED_US - 1
    assert used() == used() == begun
    assert writes == []
    controller.clock.now_us += 1
    assert used() == begun
    assert used() == controller.clock()
    assert writes == [{1: controller.clock()}]


def test_tokens_are_known_for_a_while_when_the_store_is_gone_and_then_it_is_503(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sqlite3

    from sqlalchemy.exc import OperationalError

    def gone() -> Any:
        raise OperationalError("SELECT 1", {}, sqlite3.OperationalError("gone"))

    token = make_token(controller)
    assert status_with(controller, token) == 200
    monkeypatch.setattr(controller.service.database, "read", gone)
    age_cache(controller)
    assert controller.http.get("/metrics", headers=bearer(token)).status_code == 200
    authenticator = controller.service.authenticator
    authenticator._cache = replace(authenticator._cache, read_at=authenticator._cache.read_at - STALE_SECONDS)
    answer = controller.http.get("/metrics", headers=bearer(token))
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:tidemark:problem:store-unavailable")


# -- without tokens --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "peer", "status"),
    [
        ("127.0.0.1", "127.0.0.1", 200),
        ("localhost", "::1", 200),
        ("127.0.0.1", "10.0.0.9", 401),
        ("127.0.0.1", "::ffff:10.0.0.9", 401),
        ("0.0.0.0", "127.0.0.1", 401),
        ("db.example", "127.0.0.1", 401),
    ],
)
def test_without_a_token_only_this_machine_is_let_in_and_only_where_others_cannot_come(
    database_url: str, host: str, peer: str, status: int
) -> None:
    from support.in_process import TestClient

    with Controller(database_url, host=host) as controller:
        client = TestClient(controller.app, client=(peer, 50_000))
        assert client.get("/v1/fleet").status_code == status
        assert client.get("/livez").status_code == 200


PROXY: dict[str, Any] = {
    "proxy_user_header": "X-User",
    "proxy_groups_header": "X-Groups",
    "proxy_addresses": "10.1.0.0/16",
    "proxy_roles": "sre=operator, shop=viewer:shop-*",
}


def through_proxy(controller: Controller, peer: str, **headers: str) -> httpx.Response:
    from support.in_process import TestClient

    named = {name.replace("_", "-"): value for name, value in headers.items()}
    answer: httpx.Response = TestClient(controller.app, client=(peer, 50_000)).get("/v1/fleet", headers=named)
    return answer


def test_the_proxys_headers_count_from_the_proxy_and_from_nobody_else(database_url: str) -> None:
    with Controller(database_url, **PROXY) as controller:
        assert through_proxy(controller, "10.1.0.7", X_User="kim", X_Groups="sre").status_code == 200
        assert through_proxy(controller, "10.2.0.7", X_User="kim", X_Groups="sre").status_code == 401
        assert through_proxy(controller, "127.0.0.1", X_User="kim", X_Groups="sre").status_code == 401
        # What the connection comes from counts, and not what a header says of it.
        forged = through_proxy(
            controller, "10.2.0.7", X_User="kim", X_Groups="sre", X_Forwarded_For="10.1.0.7"
        )
        assert forged.status_code == 401
        assert through_proxy(controller, "10.1.0.7").status_code == 401
        assert through_proxy(controller, "10.1.0.7", X_User="kim").status_code == 403
        assert through_proxy(controller, "10.1.0.7", X_User="kim", X_Groups="shop").status_code == 200


def test_without_a_proxy_in_the_settings_its_headers_are_nothing(controller: Controller) -> None:
    make_token(controller)
    assert through_proxy(controller, "10.1.0.7", X_User="kim", X_Groups="sre").status_code == 401


def test_a_token_goes_before_what_the_proxy_says(database_url: str) -> None:
    with Controller(database_url, **PROXY) as controller:
        token = make_token(controller, "job")
        body = {"X_User": "kim", "X_Groups": "sre"}
        answer = through_proxy(controller, "10.1.0.7", Authorization=f"Bearer {token}", **body)
        assert answer.status_code == 403
        answer = through_proxy(controller, "10.1.0.7", Authorization="Bearer nonsense", **body)
        assert answer.status_code == 401


def test_tokens_are_in_no_file_of_the_store(tmp_path: Path) -> None:
    with Controller(f"sqlite:///{tmp_path / 't.db'}") as controller:
        token = make_token(controller)
        assert status_with(controller, token) == 200
        files = [path.read_bytes() for path in tmp_path.iterdir()]
    assert files
    assert not any(token[15:45].encode() in content for content in files)
