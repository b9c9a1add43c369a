"""The OS users that own the files of principals when impersonation is enabled."""

import pwd

from gateway.errors import not_impersonated
from workspace.identifiers import Principal
from workspace.locations import Owner


def find_owner(principal: Principal) -> Owner:
    """Return the OS user that has the same name as a principal. Blocks.

    Raises:
        GatewayError: If no OS user has that name.
    """
    try:
        user = pwd.getpwnam(principal)
    except (KeyError, ValueError) as error:  # pwd raises ValueError for invalid names
        raise not_impersonated(principal, "there is no OS user with this name") from error
    return Owner(user.pw_uid, user.pw_gid)
