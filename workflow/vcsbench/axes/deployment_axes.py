"""Define the axes of deployed servers: authentication, access rules, connection and hooks."""

from collections.abc import Callable, Mapping
from typing import cast

from vcsbench.axes.axis import Axis, Environment, choice_axis
from vcsbench.axes.build_axis import why_no_module
from vcsbench.axis_names import (
    ACCESS_AXIS,
    AUTHENTICATION_AXIS,
    BULK_AXIS,
    CONNECTIONS_AXIS,
    HOOKS_AXIS,
    KEEP_ALIVE_AXIS,
    PATH_AUTHZ_AXIS,
    RULES_AXIS,
)
from vcsbench.deployment import credentials, hooks
from vcsbench.deployment.deployed_server import RULES_MODULES, authentication_modules
from vcsbench.programs import Programs
from vcsbench.records import Recipe

HTTP = ("http", "https")
SERVED = (*HTTP, "svn", "svn+ssh")
SHORT_CIRCUIT = "short_circuit"
# The server of each kind of authentication.
SERVERS_OF = {
    **dict.fromkeys(credentials.HASHES, "httpd"),
    "password": "svnserve",
    "sasl": "svnserve",
}
MOST_CONNECTIONS = 8

# The keys of the recipe by value. A value without keys is the same as no such axis.
AUTHENTICATION: dict[str, Recipe] = {
    "none": {},
    **{kind: {"authentication": kind} for kind in SERVERS_OF},
}
RULES: dict[str, Recipe] = {
    "0": {},
    **{str(count): {"access_rules": {"count": count}} for count in (10, 1000, 10_000)},
}
PATH_AUTHZ: dict[str, Recipe] = {
    value: {"path_authz": value} for value in ("on", SHORT_CIRCUIT, "off")
}
KEEP_ALIVE: dict[str, Recipe] = {value: {"keep_alive": value} for value in ("on", "off")}
CONNECTIONS: dict[str, Recipe] = {
    str(number): {
        "http_options": ["--config-option", f"servers:global:http-max-connections={number}"]
    }
    for number in range(1, MOST_CONNECTIONS + 1)
}
BULK_UPDATES: dict[str, Recipe] = {
    value: {
        "bulk_updates": value,
        "http_options": ["--config-option", f"servers:global:http-bulk-updates={word}"],
    }
    for value, word in {"on": "yes", "off": "no"}.items()
}


def _has_access_or(axis: str, neutral: str, *names: str) -> Callable[[Mapping[str, str]], bool]:
    """Return the function `applies` of an axis, which returns True if the axis applies to a cell.

    The axis applies over the accesses `names`, such as "http" and "https". Over another access with a server,
    such as "svn", only its `neutral` value applies, which changes nothing. So cells over http and svn can
    share a value, and be compared.
    """

    def applies(axes: Mapping[str, str]) -> bool:
        access = axes.get(ACCESS_AXIS)
        has_neutral_value = access in SERVED and axes.get(axis) == neutral
        return access in names or has_neutral_value

    return applies


def _why_no_authentication(authentication: str, recipe: Recipe, env: Environment) -> str:
    """Return why the server of a cell cannot have its authentication, in a clause; "" if it can.

    The parameters are those of each function `why_not` of an axis. The cell's own value, `authentication`, is
    not used, because a cell may get its authentication from a default. `recipe` has it in both cases.
    """
    # The kind, such as "basic-md5". The value `none` of the axis sets no key of the recipe.
    kind = recipe.get("authentication")
    if not kind:
        return ""
    server = SERVERS_OF[kind]
    if recipe["access"]["server"] != server:
        return f"{kind} is an authentication of {server}, and the cell has none"
    # httpd needs modules that check passwords, and a program that makes its password file.
    if server == "httpd":
        return why_no_module(recipe, authentication_modules(kind)) or credentials.why_no_hash()
    if kind == "sasl":
        svnserve = Programs(**recipe["build"]["server"]).find("svnserve")
        # A missing svnserve has a reason of its own, from the axis `build`.
        return credentials.why_no_sasl(svnserve) if svnserve else ""
    # The kind `password` is left: svnserve itself checks these passwords.
    return ""


def _why_no_rules(rules: str, recipe: Recipe, env: Environment) -> str:
    """Return why the server of a cell cannot have its access rules, in a clause; "" if it can."""
    if "access_rules" not in recipe:
        return ""
    if not Programs(**recipe["build"]["server"]).find("svnlook"):
        return "svnlook is not installed, which lists the folders for access rules (Debian: subversion)"
    if recipe["access"]["server"] == "httpd":
        return why_no_module(recipe, RULES_MODULES)
    return ""


def _why_no_short_circuit(path_authz: str, recipe: Recipe, env: Environment) -> str:
    """Return why a cell cannot have the value short_circuit, in a clause; "" if it can, or has another."""
    if recipe.get("path_authz") == SHORT_CIRCUIT and "access_rules" not in recipe:
        # Without rules, httpd would do the same as with `on`.
        return f"`SVNPathAuthz {SHORT_CIRCUIT}` needs access rules"
    return ""


AXES = (
    choice_axis(
        AUTHENTICATION_AXIS,
        AUTHENTICATION,
        ", ".join(AUTHENTICATION),
        needs_server=True,
        applies=_has_access_or(AUTHENTICATION_AXIS, "none", *HTTP, "svn"),
        why_not=_why_no_authentication,
    ),
    choice_axis(
        RULES_AXIS,
        RULES,
        ", ".join(RULES),
        needs_server=True,
        applies=lambda axes: axes.get(ACCESS_AXIS) in SERVED,
        why_not=_why_no_rules,
    ),
    choice_axis(
        PATH_AUTHZ_AXIS,
        PATH_AUTHZ,
        ", ".join(PATH_AUTHZ),
        needs_server=True,
        applies=_has_access_or(PATH_AUTHZ_AXIS, "on", *HTTP),
        why_not=_why_no_short_circuit,
    ),
    choice_axis(
        KEEP_ALIVE_AXIS,
        KEEP_ALIVE,
        "on or off",
        needs_server=True,
        applies=_has_access_or(KEEP_ALIVE_AXIS, "on", *HTTP),
    ),
    choice_axis(
        CONNECTIONS_AXIS,
        CONNECTIONS,
        f"a number from 1 to {MOST_CONNECTIONS}",
        # The default of Subversion's clients.
        applies=_has_access_or(CONNECTIONS_AXIS, "4", *HTTP),
    ),
    choice_axis(
        BULK_AXIS,
        BULK_UPDATES,
        "on or off",
        # The client then fetches each file by itself, and svnserve has no such choice.
        applies=_has_access_or(BULK_AXIS, "off", *HTTP),
    ),
    Axis(
        HOOKS_AXIS,
        needs_server=True,
        why_invalid=hooks.why_unknown_hooks,
        recipe_keys=lambda value, env: cast("Recipe", hooks.hook_keys(value)),
        why_not=lambda value, recipe, env: hooks.why_no_hooks(value, recipe["storage"]["path"]),
    ),
)
