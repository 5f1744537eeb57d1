"""The axes of deployed servers: their keys in recipes, and the cells that they are for."""

import os
import shutil

import pytest

from unit.study_grid import study_environment
from vcsbench.axes import AXES
from vcsbench.axes.build_axis import why_no_module
from vcsbench.plan.recipe import draft_recipe
from vcsbench.systems import SUBVERSION

WORDS = ("https", "svn+ssh", "authentication", "authorisation", "hooks", "commit", "blame")
# The system's Python, which hooks find.
PYTHON = os.path.realpath(shutil.which("python3", path=os.defpath) or "")
MOST_RULES = {"access_rules": {"count": 1000}}
BULK_OPTIONS = ["--config-option", "servers:global:http-bulk-updates=yes"]


@pytest.mark.parametrize(
    ("axis", "value", "keys"),
    [
        ("authentication", "none", {}),
        ("authentication", "basic-bcrypt", {"authentication": "basic-bcrypt"}),
        ("authentication", "sasl", {"authentication": "sasl"}),
        ("access_rules", "0", {}),
        ("access_rules", "1000", MOST_RULES),
        ("path_authz", "short_circuit", {"path_authz": "short_circuit"}),
        ("keep_alive", "off", {"keep_alive": "off"}),
        ("bulk_updates", "on", {"bulk_updates": "on", "http_options": BULK_OPTIONS}),
        ("network", "loopback", {}),
        ("hooks", "none", {}),
        ("hooks", "python", {"hooks": "python", "hook_program": PYTHON}),
    ],
)
def test_recipe_keys_of_a_value(axis, value, keys):
    assert AXES[axis].recipe_keys(value, None) == keys
    assert AXES[axis].recipe_keys("", None) == {}
    assert AXES[axis].why_invalid(value) == "" and AXES[axis].why_invalid("tepid")


def draft_of(**axes):
    environment = study_environment("fsfs-san-2014")
    study = environment.config.studies["fsfs-san-2014"]
    cell = {"command": "log", "repo": "ruby", "format": "f7", "packing": "nopack"}
    return draft_recipe(study, {**cell, "cache": "hot-os", **axes}, environment)


@pytest.mark.parametrize(
    ("network", "cache", "runs"),
    [("loopback", "hot-os", 4), ("office", "hot-os", 4), ("line", "hot-os", 1), ("far", "cold", 1)],
)
def test_runs_auto_is_one_over_a_slow_line(network, cache, runs):
    assert draft_of(access="svn", network=network, cache=cache)["runs"] == runs


def test_recipe_has_the_options_of_both_axes_of_the_client():
    draft = draft_of(access="https", http_connections="8", bulk_updates="off")
    options = ["servers:global:http-bulk-updates=no", "servers:global:http-max-connections=8"]
    assert sorted(draft["http_options"][1::2]) == options
    assert draft["http_options"][::2] == ["--config-option"] * 2
    assert draft["access"]["server"] == "httpd" and draft["access"]["scheme"] == "https"


def test_recipe_without_deployment_is_as_before():
    draft = draft_of(access="http")
    neutral = draft_of(access="http", authentication="none", access_rules="0", network="loopback")
    assert draft == neutral
    assert not draft.keys() & {"authentication", "access_rules", "http_options", "link", "hooks"}


def test_neutral_values_apply_to_each_access_with_a_server():
    neutral = {"authentication": "none", "path_authz": "on", "keep_alive": "on"}
    neutral |= {"http_connections": "4", "bulk_updates": "off"}
    others = {"authentication": "basic-md5", "path_authz": "off", "keep_alive": "off"}
    others |= {"http_connections": "8", "bulk_updates": "on"}
    for axis, value in neutral.items():
        applies = AXES[axis].applies
        assert applies({"access": "svn+ssh", axis: value})
        assert not applies({"access": "file", axis: value})
        assert not applies({"access": "svn+ssh", axis: others[axis]})


@pytest.mark.parametrize(
    ("axis", "accesses"),
    [
        ("authentication", {"http", "https", "svn"}),
        ("access_rules", {"http", "https", "svn", "svn+ssh"}),
        ("path_authz", {"http", "https"}),
        ("keep_alive", {"http", "https"}),
        ("http_connections", {"http", "https"}),
        ("bulk_updates", {"http", "https"}),
        ("network", {"http", "https", "svn", "svn+ssh"}),
    ],
)
def test_axis_applies_to_the_accesses_that_have_its_setting(axis, accesses):
    applies = AXES[axis].applies
    assert {access for access in SUBVERSION.accesses if applies({"access": access})} == accesses


@pytest.mark.parametrize(
    ("axis", "draft", "reason"),
    [
        ("authentication", {"authentication": "basic-md5"}, "of httpd"),
        ("authentication", {"authentication": "password"}, ""),
        ("path_authz", {"path_authz": "short_circuit"}, "needs access rules"),
        ("path_authz", {"path_authz": "short_circuit", **MOST_RULES}, ""),
        ("path_authz", {"path_authz": "on"}, ""),
        ("keep_alive", {"keep_alive": "on"}, ""),
    ],
)
def test_why_not_of_a_setting_that_the_server_cannot_have(axis, draft, reason):
    recipe = {"access": {"server": "svnserve"}, "build": {"client": {}, "server": {}}, **draft}
    found = AXES[axis].why_not("", recipe, None)
    assert reason in found and bool(found) == bool(reason)


def test_why_no_module_names_the_module_that_httpd_lacks(tmp_path):
    for name in ("bin/httpd", "modules/mod_dav.so", "modules/mod_dav_svn.so", "modules/mod_ssl.so"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch(0o755)
    draft = {"build": {"server": {"prefix": str(tmp_path)}}}
    assert why_no_module(draft, ["ssl"]) == ""
    reason = why_no_module(draft, ["ssl", "authz_svn"])
    assert "mod_authz_svn.so" in reason and f"{tmp_path}/modules" in reason
    # A missing httpd has a reason of its own.
    assert why_no_module({"build": {"server": {"prefix": "/nonexistent"}}}, ["ssl"]) == ""


@pytest.mark.parametrize(
    ("measured", "left_out"),
    [
        ({"access": ["http", "svn"], "command": ["log"]}, [*WORDS, "loopback"]),
        (
            {
                "access": ["https", "svn+ssh"],
                "command": ["commit-large", "blame"],
                "authentication": ["none", "basic-bcrypt"],
                "access_rules": ["0"],
                "network": ["loopback", "far"],
            },
            ["authorisation", "hooks"],
        ),
        # Each system has a command of its own.
        (
            {"access": ["svn", "http"], "command": ["svn blame", "git blame", "svn log"]},
            [*(word for word in WORDS if word != "blame"), "loopback"],
        ),
        ({"access": ["file"]}, []),
    ],
)
def test_limits_of_access_name_what_the_study_leaves_out(measured, left_out):
    sentences = AXES["access"].limits(measured["access"], [], measured)
    found = {word for word in (*WORDS, "loopback") if word in " ".join(sentences)}
    assert found == set(left_out)
