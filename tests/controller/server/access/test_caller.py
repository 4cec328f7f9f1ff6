"""Who calls: every role learns its name and its rights, over a job or over the fleet."""

from __future__ import annotations

import pytest

from tidemark.controller.base.principal import RIGHTS, ROLES, Role

from support.controller_app import Controller
from support.tokens import bearer, make_token


@pytest.mark.parametrize("role", ROLES)
def test_a_token_learns_its_role_and_its_rights_over_a_job(controller: Controller, role: Role) -> None:
    token = make_token(controller, role, "shop-*")
    answer = controller.http.get("/v1/caller?job=shop-1", headers=bearer(token)).json()
    assert answer["role"] == role
    assert sorted(answer["rights"]) == sorted(RIGHTS[role])


def test_a_token_for_some_jobs_has_no_right_over_the_fleet(controller: Controller) -> None:
    token = make_token(controller, "operator", "shop-*")
    assert controller.http.get("/v1/caller", headers=bearer(token)).json()["rights"] == []
    assert controller.http.get("/v1/caller?job=bank", headers=bearer(token)).status_code == 403


def test_whoever_calls_from_this_machine_without_a_token_may_do_all(controller: Controller) -> None:
    answer = controller.http.get("/v1/caller").json()
    assert (answer["name"], answer["role"]) == ("loopback", "admin")
    assert "Operate" in answer["rights"]
