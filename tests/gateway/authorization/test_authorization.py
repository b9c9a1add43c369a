"""The rules for administrators and owners."""

import pytest

from gateway.authorization.authorization import Authorization, owner_groups
from gateway.messages.identity import Identity
from workspace.identifiers import Principal
from workspace.table_owners import TableOwner

RULES = Authorization(["ops", "group:admins"])
OWNER = TableOwner(Principal("ada"), ("data", "staff"), "dfs", "t")


def identity(principal: str, *groups: str) -> Identity:
    return Identity(Principal(principal), frozenset(groups), "jwt")


@pytest.mark.parametrize(
    ("who", "expected"),
    [
        (identity("ops"), True),
        (identity("ada", "admins"), True),
        (identity("ada", "ops"), False),
        (identity("admins"), False),
        (identity("group:admins"), False),
        (None, False),
    ],
)
def test_administrators_are_named_principals_and_members_of_named_groups(who, expected):
    assert RULES.is_admin(who) is expected


def test_nobody_is_administrator_by_default():
    assert not Authorization().is_admin(identity("ops", "admins"))


@pytest.mark.parametrize(
    ("who", "expected"),
    [
        (identity("ada"), True),
        (identity("bob", "data"), True),
        (identity("bob", "ada"), False),
        (identity("bob"), False),
        (identity("data"), False),
        (identity("ops"), True),
        (None, True),
    ],
)
def test_owner_group_members_and_administrators_may_drop(who, expected):
    assert RULES.may_drop(who, OWNER) is expected


def test_only_administrators_drop_table_without_owner():
    assert not RULES.may_drop(identity("ada", "data"), None)
    assert RULES.may_drop(identity("ops"), None)
    assert RULES.may_drop(None, None)


def test_groups_of_everybody_do_not_share_tables():
    pod = identity("system:serviceaccount:a:b", "system:authenticated", "system:serviceaccounts", "system:x:a")
    assert owner_groups(pod) == ("system:x:a",)
    assert owner_groups(None) == ()
