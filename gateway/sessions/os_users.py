"""The OS user that owns the files of a principal, with impersonation."""

import pwd

from gateway.errors import not_impersonated
from workspace.identifiers import Principal
from workspace.locations import Owner


def find_owner(principal: Principal) -> Owner:
    """Return the OS user with the name of a principal. Blocks.

    Raises:
        GatewayError: No OS user has that name.
    """
    try:
        user = pwd.getpwnam(principal)
    except (KeyError, ValueError) as error:  # ValueError: no OS user can have that name
        raise not_impersonated(principal, "there is no OS user of that name") from error
    return Owner(user.pw_uid, user.pw_gid)
