"""Keep the server of a measurement from other users, as the recipe demands (plan.recipe)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from vcsbench import namespaces
from vcsbench.errors import UserError


def begin(recipe: Mapping[str, Any]) -> None:
    """Enter a user namespace if the recipe demands it. A process has to do so before it starts a thread."""
    if recipe.get("network") == "user" and not recipe.get("looked_at"):
        try:
            namespaces.enter_user_namespace()
        except OSError as error:
            raise _refusal(error) from None


def isolate(recipe: Mapping[str, Any], stack: ExitStack) -> None:
    """Give the process the network that the recipe demands, until `stack` ends. A guest has its own."""
    begin(recipe)
    if recipe.get("network") == "own" and not recipe.get("looked_at"):
        try:
            stack.enter_context(namespaces.own_network())
        except OSError as error:
            raise _refusal(error) from None


def _refusal(error: OSError) -> UserError:
    return UserError(
        f"the server's network: this process may not have its own, as it could when the run began "
        f"({error.strerror}). Run again, as the same user."
    )
