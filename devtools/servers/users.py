"""The users that servers run as: never root."""

import os
import pwd
from contextlib import suppress
from typing import Any

from devtools.messages import Problem


def unprivileged_user(candidates: list[str]) -> str:
    """The user to run a server as: ourselves, but never root (PostgreSQL refuses to)."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid()).pw_name
    for name in [*candidates, "nobody"]:
        with suppress(KeyError):
            if pwd.getpwnam(name).pw_uid != 0:
                return name
    raise Problem(f"There is none of the users {', '.join(candidates)}, nobody to run a server as.")


def run_as(user: str) -> dict[str, Any]:
    """The arguments that make subprocess run a program as this user."""
    if os.geteuid() != 0:
        return {}
    entry = pwd.getpwnam(user)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
