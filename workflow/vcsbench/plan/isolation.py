"""Decide how the server of a cell is kept from other users of the machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vcsbench import namespaces
from vcsbench.axes.here import Here
from vcsbench.sources.base import is_private

# A network namespace made by root, one in a user namespace, the machine's own network.
OWN, USER, SHARED = "own", "user", "shared"
KEY = "shared_servers"


def network_of(parts: Mapping[str, Any], here: Here) -> str:
    """Return the network of a cell's server; "" without a server of ours, and in a guest."""
    if "within" in parts or not parts["access"]["server"]:
        return ""
    if namespaces.can_own_network():
        return OWN
    is_closed = is_private_cell(parts, here)
    return USER if is_closed and namespaces.can_enter_user_namespace() else SHARED


def why_not_isolated(parts: Mapping[str, Any], here: Here) -> str:
    """Return why a cell must not be measured: its server would show a private repository to all users."""
    if (
        parts["network"] != SHARED
        or here.config.settings.shared_servers
        or not is_private_cell(parts, here)
    ):
        return ""
    name = parts["repository"]["name"]
    return (
        f"{name} is not readable by all users of this machine, and its server would be: this user may have "
        f"no network namespace; run as root, or set `{KEY}: true` if all users may read it"
    )


def is_private_cell(parts: Mapping[str, Any], here: Here) -> bool:
    """Return True if the repository of a cell is private (sources.privacy)."""
    name = parts.get("repository", {}).get("name", "")
    return is_private(here.repositories.get(name, {}))
