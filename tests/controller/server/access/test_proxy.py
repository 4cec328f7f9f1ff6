"""What an authenticating proxy says, and from whom it is believed."""

from __future__ import annotations

import pytest

from tidemark.controller.base.principal import Grant, Need, Proxy, parse_group_grants, parse_networks

PROXY = Proxy(
    "X-User",
    "X-Groups",
    parse_networks("10.1.0.0/16, 127.0.0.1, fd00::/8"),
    parse_group_grants("sre=operator, root=admin, shop team=operator:shop-*, *=viewer:public-*"),
)


@pytest.mark.parametrize(
    ("peer", "trusted"),
    [
        ("10.1.2.3", True),
        ("127.0.0.1", True),
        ("::ffff:10.1.2.3", True),
        ("fd00::1", True),
        ("10.2.0.1", False),
        ("127.0.0.2", False),
        ("::1", False),
        ("testclient", False),
        ("", False),
        (None, False),
    ],
)
def test_only_the_addresses_that_are_named_are_trusted(peer: str | None, trusted: bool) -> None:
    assert PROXY.trusts(peer) is trusted


def test_the_groups_of_a_user_add_up_and_everybody_is_in_the_star() -> None:
    user = PROXY.principal(["kim"], ["shop team, unknown, sre"])
    assert user is not None
    assert user.name == "kim"
    assert user.grants == (Grant("operator"), Grant("operator", ("shop-*",)), Grant("viewer", ("public-*",)))
    assert user.role == "operator"


def test_of_two_headers_of_one_name_one_may_be_forged_and_nobody_is_believed() -> None:
    assert PROXY.principal(["kim", "root"], ["sre"]) is None
    assert PROXY.principal(["kim"], ["shop team", "root"]) is None
    user = PROXY.principal(["kim"], [])
    assert user is not None
    assert user.grants == (Grant("viewer", ("public-*",)),)


def test_each_grant_holds_for_its_own_jobs_only() -> None:
    user = PROXY.principal(["kim"], ["shop team"])
    assert user is not None
    assert user.may(Need("Operate"), "shop-1")
    assert not user.may(Need("Operate"), "public-1")
    assert user.may(Need("Read"), "public-1")
    assert not user.may(Need("Operate", "fleet"), None)
    assert [user.sees(job) for job in ("shop-1", "public-1", "other")] == [True, True, False]


def test_a_group_cannot_be_named_like_the_star_to_gain_anything() -> None:
    user = PROXY.principal(["kim"], ["*"])
    assert user is not None
    assert user.grants == (Grant("viewer", ("public-*",)),)


@pytest.mark.parametrize("users", [[], [""], [" "], ["kim", "root"], ["a" * 201], ["a\tb"]])
def test_no_user_two_users_or_an_odd_one_is_nobody(users: list[str]) -> None:
    assert PROXY.principal(users, ["root"]) is None


@pytest.mark.parametrize("text", ["10.1.0.0/33", "proxy.local", "10.1.0.1/16"])
def test_what_is_no_address_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="is neither an address nor a network"):
        parse_networks(text)


@pytest.mark.parametrize("text", ["sre", "sre=", "=admin", "sre=root", "sre=operator:", "sre=operator:a/b"])
def test_a_rule_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"sre|admin"):
        parse_group_grants(text)


def test_a_group_may_have_an_equals_sign_in_its_name() -> None:
    assert parse_group_grants("cn=sre=admin")[0].group == "cn=sre"
