"""Who may do what: each role at each operation, from the table, over HTTP, by tokens of the store and of an issuer."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

import httpx
import pytest
from fastapi.routing import APIRoute

from tidemark.controller.base.principal import RIGHTS, ROLES, Need, Role
from tidemark.controller.server.http.authorize import OPERATIONS, need_of

from support.controller_app import Controller
from support.issuer import AUDIENCE, Issuer, running_issuer, write_issuers
from support.tokens import bearer, make_token

OPEN_PATHS = {"/openapi.json", "/", "/page/{version}/{name:path}", "/runbooks/{name}", "/schemas/{name}"}
"""Paths without an operation id, open to everybody: the document is public, and page and runbooks hold no data."""

DECLARED = {name: need for name, need in OPERATIONS.items() if need is not None}


class Asked:
    """A controller with a token of each role, for every job and for some, of its store and of an issuer."""

    def __init__(self, controller: Controller, issuer: Issuer) -> None:
        self.issuer = issuer
        self.http = controller.http
        self.whole = {role: make_token(controller, role) for role in ROLES}
        self.scoped = {role: make_token(controller, role, "shop-*") for role in ROLES}
        self.issued = (
            {role: issuer.token(role, groups=[role]) for role in ROLES},
            {role: issuer.token(role, groups=[f"shop {role}"]) for role in ROLES},
        )
        self.paths = {
            operation["operationId"]: (method.upper(), path)
            for path, operations in controller.http.get("/openapi.json").json()["paths"].items()
            for method, operation in operations.items()
        }

    def ask(self, operation: str, token: str | None, query: str, job: str = "shop-1") -> httpx.Response:
        method, path = self.paths[operation]
        names = {"job": job, "stream": "s", "query_id": "q"}
        for part in path.split("{")[1:]:
            name = part.split("}")[0]
            # Any other parameter of a path is a number.
            path = path.replace(f"{{{name}}}", names.get(name, "99999"))
        headers = bearer(token) if token else {}
        answer: httpx.Response = self.http.request(method, path + query.format(job=job), headers=headers)
        return answer


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    folder = tmp_path_factory.mktemp("permissions")
    roles = ", ".join(f"{role}={role}, shop {role}={role}:shop-*" for role in ROLES)
    with running_issuer() as issuer:
        file = write_issuers(folder, idp={"issuer": issuer.url, "audience": AUDIENCE, "group_roles": roles})
        with Controller(f"sqlite:///{folder / 't.db'}", issuers_file=file) as controller:
            yield Asked(controller, issuer)


REQUESTS = [
    (operation, query, need.reach if named else need.without_job)
    for operation, need in sorted(DECLARED.items())
    for query, named in (
        [("", True)]
        if need.without_job is None
        else [
            ("", False),
            ("?stream=s", False),
            ("?job={job}", True),
            ("?job={job}&stream=s", True),
            ("?job={job}&job={job}", True),
        ]
    )
]
"""Each operation, the query that it is asked with, and what it is about then: a job, a list or the fleet."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["of the store", "of an issuer"])
def test_each_role_may_do_what_the_table_says_within_its_reach_and_nothing_else(
    asked: Asked, kind: str
) -> None:
    wrong: list[str] = []
    whole, scoped = (asked.whole, asked.scoped) if kind == "of the store" else asked.issued
    statuses: Counter[tuple[str, str, str]] = Counter()
    for operation, query, reach in REQUESTS:
        for role in ROLES:
            has_right = DECLARED[operation].right in RIGHTS[role]
            callers = (
                ("every job", whole[role], "shop-1", has_right),
                ("its jobs, inside", scoped[role], "shop-1", has_right and reach != "fleet"),
                ("its jobs, outside", scoped[role], "bank", has_right and reach == "list"),
            )
            for whose, token, job, allowed in callers:
                answer = asked.ask(operation, token, query, job)
                if not (_was_allowed(answer) if allowed else _was_forbidden(answer)):
                    wrong.append(f"{operation}{query} as {role} of {whose}: {allowed=}, {answer.text}")
                statuses[role, whose, "forbidden" if answer.status_code == 403 else "allowed"] += 1
    for (name, whose, what), times in sorted(statuses.items()):
        print(f"{name:10}{whose:20}{what:10}{times:4}")
    assert not wrong, "\n".join(wrong)


def test_an_issuers_token_that_is_not_valid_does_nothing_at_any_route(asked: Asked) -> None:
    sign, now = asked.issuer.token, time.time()
    tokens = {
        "expired": sign(groups=["admin"], exp=now - 600),
        "of another audience": sign(groups=["admin"], aud="other"),
        "of another issuer": sign(groups=["admin"], iss="https://evil.example"),
        "of an unknown key": sign(groups=["admin"], header={"kid": "other"}),
    }
    found = Counter(
        (what, answer.status_code, answer.headers.get("www-authenticate"))
        for operation, query, _ in REQUESTS
        for what, token in tokens.items()
        for answer in [asked.ask(operation, token, query)]
    )
    refused = 'Bearer realm="tidemark", error="invalid_token"'
    assert found == {(what, 401, refused): len(REQUESTS) for what in tokens}


def test_without_a_token_nothing_is_done_and_the_answer_says_how_to_ask(asked: Asked) -> None:
    wrong = []
    for operation, query, _ in REQUESTS:
        answer = asked.ask(operation, None, query)
        found = answer.status_code, answer.headers.get("www-authenticate"), answer.json()["type"]
        if found != (401, 'Bearer realm="tidemark"', "urn:tidemark:problem:unauthenticated"):
            wrong.append(f"{operation}{query}: {found}")
    assert not wrong, "\n".join(wrong)


def _was_allowed(answer: httpx.Response) -> bool:
    return answer.status_code not in {401, 403, 429} and answer.status_code < 500


def _was_forbidden(answer: httpx.Response) -> bool:
    return (
        answer.status_code == 403
        and answer.json()["type"] == "urn:tidemark:problem:forbidden"
        and 'error="insufficient_scope"' in answer.headers["www-authenticate"]
    )


@pytest.mark.parametrize("query", ["?job=shop-1&job=bank", "?job=bank&job=shop-1", "?job=", "?Job=shop-1"])
@pytest.mark.parametrize("operation", ["putPin", "deletePin"])
def test_a_pin_out_of_reach_is_forbidden_however_the_query_names_it(
    asked: Asked, operation: str, query: str
) -> None:
    assert _was_forbidden(asked.ask(operation, asked.scoped["operator"], query))


def test_a_job_reports_acknowledges_reads_back_reports_and_asks_for_its_bound_and_what_it_may_do() -> None:
    may = {name for name, need in DECLARED.items() if need.right in RIGHTS["job"]}
    assert may == {
        "postReport",
        "postAcknowledgement",
        "postLateRows",
        "getBound",
        "getCaller",
        "listMissingBatches",
        "listReportBodies",
    }


def test_a_viewer_reads_and_writes_nothing(asked: Asked) -> None:
    may = {name for name, need in DECLARED.items() if need.right in RIGHTS["viewer"]}
    assert {asked.paths[name][0] for name in may} == {"GET"}
    assert may == {name for name in DECLARED if asked.paths[name][0] == "GET"} - {"listTokens", "getToken"}


def test_an_operator_steers_but_reports_nothing_makes_no_tokens_and_deletes_no_stream(asked: Asked) -> None:
    may_not = {name for name, need in DECLARED.items() if need.right not in RIGHTS["operator"]}
    tokens = {name for name in DECLARED if asked.paths[name][1].startswith("/v1/tokens")}
    assert len(tokens) == 5
    assert may_not == {"postReport", "postAcknowledgement", "postLateRows", "deleteStream", *tokens}


def test_an_admin_may_do_everything() -> None:
    assert all(need.right in RIGHTS["admin"] for need in DECLARED.values())


def test_every_route_of_the_application_is_in_the_table_and_the_table_has_no_other(asked: Asked) -> None:
    assert set(asked.paths) == set(OPERATIONS), "declare the operation in controller/base/principal.py"


def test_every_route_that_is_not_documented_is_open_on_purpose(controller: Controller) -> None:
    documented = set(controller.http.get("/openapi.json").json()["paths"])
    plain = {
        path
        for route in controller.app.routes
        if not isinstance(route, APIRoute) and (path := getattr(route, "path", None)) is not None
    }
    assert plain - documented == OPEN_PATHS


def test_an_operation_that_was_forgotten_in_the_table_is_the_unscoped_admins_alone() -> None:
    need = need_of("madeYesterday")
    assert need == need_of(None) == Need("Administer", "fleet")
    assert need is not None
    assert need.roles == ("admin",)


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/openapi.json"])
def test_probes_and_the_document_are_open(asked: Asked, path: str) -> None:
    assert asked.http.get(path).status_code == 200


def test_a_refusal_does_not_reveal_what_exists(asked: Asked) -> None:
    body = {"target_ppm": 900_000}
    made = asked.http.put("/v1/jobs/bank/streams/s/slo", json=body, headers=bearer(asked.whole["operator"]))
    assert made.status_code == 200
    token = asked.scoped["viewer"]
    known, unknown = (
        asked.http.get(f"/v1/jobs/{job}/streams/s", headers=bearer(token)) for job in ("bank", "nobody")
    )
    assert known.status_code == unknown.status_code == 403
    assert known.text.replace("bank", "") == unknown.text.replace("nobody", "")


def test_permission_is_judged_before_the_rest_of_the_request(asked: Asked) -> None:
    token = asked.whole["job"]
    assert asked.http.get("/v1/fleet?limit=x", headers=bearer(token)).status_code == 403
    assert asked.http.get("/v1/fleet?limit=x").status_code == 401
    assert asked.http.get("/v1/fleet", headers={"accept": "text/csv"}).status_code == 401


def test_the_document_says_which_operations_need_a_token_and_of_which_roles(asked: Asked) -> None:
    document = asked.http.get("/openapi.json").json()
    assert document["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
    for operations in document["paths"].values():
        for operation in operations.values():
            need = need_of(operation["operationId"])
            refusals = {"401", "403", "429"} & set(operation["responses"])
            if need is None:
                assert (operation["security"], refusals) == ([], set())
            else:
                assert (operation["security"], len(refusals)) == ([{"bearer": []}], 3)
                assert f"Roles: {', '.join(need.roles)}." in operation["description"]


def test_metrics_are_for_a_viewer_of_every_job_unless_they_are_open(asked: Asked, database_url: str) -> None:
    assert asked.http.get("/metrics", headers=bearer(asked.whole["viewer"])).status_code == 200
    assert asked.http.get("/metrics", headers=bearer(asked.scoped["viewer"])).status_code == 403
    with Controller(database_url, metrics_open=True) as controller:
        make_token(controller)
        assert controller.http.get("/metrics").status_code == 200
        assert controller.http.get("/v1/fleet").status_code == 401


def test_an_event_says_by_whose_token_it_came_about(asked: Asked) -> None:
    path = "/v1/jobs/audit/streams/s"
    asked.http.put(f"{path}/policy", json={"mode": "Off"}, headers=bearer(asked.whole["operator"]))
    body = asked.http.get(f"{path}/events", headers=bearer(asked.whole["viewer"])).json()
    name = asked.http.get("/v1/tokens", headers=bearer(asked.whole["admin"])).json()["tokens"]
    (operator,) = [row["name"] for row in name if row["role"] == "operator" and row["jobs"] == ["*"]]
    assert [event["by"] for event in body["events"] if event["kind"] == "PolicySet"] == [operator]


# -- lists -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def listed(asked: Asked) -> Asked:
    """Return a controller with streams and pins of several jobs."""
    admin = bearer(asked.whole["admin"])
    for job in ("shop-1", "bank", "shop-2", "a", "zoo"):
        for stream in ("s", "t"):
            path = f"/v1/jobs/{job}/streams/{stream}"
            assert asked.http.put(f"{path}/policy", json={"mode": "Off"}, headers=admin).is_success
            pin = {"to": "Off", "reason": "a test"}
            where = f"/v1/pin?job={job}&stream={stream}"
            assert asked.http.put(where, json=pin, headers=admin).is_success
    assert asked.http.put("/v1/pin", json={"to": "Off", "reason": "a test"}, headers=admin).is_success
    return asked


def paged(asked: Asked, path: str, items: str, token: str, limit: int) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    cursor = None
    while True:
        params = {"limit": limit, **({} if cursor is None else {"cursor": cursor})}
        page = asked.http.get(path, params=params, headers=bearer(token)).json()
        assert len(page[items]) <= limit
        found += page[items]
        cursor = page["next_cursor"]
        if cursor is None:
            return found
        assert page[items], "a page that is not the last has something on it"


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_lists_show_what_is_in_reach_whatever_the_page(listed: Asked, limit: int) -> None:
    token = listed.scoped["viewer"]
    streams = paged(listed, "/v1/fleet", "streams", token, limit)
    assert [(row["job"], row["stream"]) for row in streams] == [
        ("shop-1", "s"),
        ("shop-1", "t"),
        ("shop-2", "s"),
        ("shop-2", "t"),
    ]
    jobs = paged(listed, "/v1/jobs", "jobs", token, limit)
    assert [row["job"] for row in jobs] == ["shop-1", "shop-2"]
    # The fleet's pin holds everybody, so everybody sees it.
    pins = paged(listed, "/v1/pins", "pins", token, limit)
    assert [row["job"] for row in pins] == [None, "shop-1", "shop-1", "shop-2", "shop-2"]


def test_a_filter_by_job_shows_nothing_out_of_reach(listed: Asked) -> None:
    headers = bearer(listed.scoped["viewer"])
    assert listed.http.get("/v1/fleet?job=bank", headers=headers).json()["streams"] == []
    assert len(listed.http.get("/v1/fleet?job=shop-1", headers=headers).json()["streams"]) == 2


def test_the_fleets_pin_says_what_it_does_to_the_jobs_in_reach(listed: Asked) -> None:
    body = listed.http.get("/v1/pin", headers=bearer(listed.scoped["viewer"])).json()
    assert {row["job"] for row in body["streams"]} == {"shop-1", "shop-2"}
    assert "bank" not in str(body)
    assert body["more_streams"] == 0


def test_an_unscoped_viewer_sees_all(listed: Asked) -> None:
    rows = paged(listed, "/v1/fleet", "streams", listed.whole["viewer"], 3)
    assert len({row["job"] for row in rows}) >= 5


def test_a_job_that_is_not_known_is_answered_with_jobs_in_reach_alone(listed: Asked) -> None:
    def said(tokens: dict[Role, str]) -> str:
        answer = listed.http.get("/v1/jobs/shop-of-another-name", headers=bearer(tokens["viewer"]))
        return str(answer.json()["detail"])

    assert said(listed.scoped) == "there is no job 'shop-of-another-name'; there are shop-1, shop-2"
    assert "there are a, " in said(listed.whole)
