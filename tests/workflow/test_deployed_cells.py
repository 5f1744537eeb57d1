"""Cells of deployed servers: equal work, no secret in results, and a check of what a server refuses."""

import re
import tempfile
from pathlib import Path

import pytest

from project import needs, servers_of
from vcsbench.deployment.credentials import make_credentials
from vcsbench.programs import Programs

pytestmark = [
    needs("svn", "svnserve", "hyperfine", "openssl", "htpasswd"),
    pytest.mark.skipif(not Programs().httpd, reason="no httpd with mod_dav_svn"),
]

NAME = "deployed-test"
STUDY = """
title: "Deployed servers"
source: A test.
axes:
  command: [log, export]
  access: [http, https, svn, file]
  authentication: [none, basic-bcrypt, basic-bcrypt-cached, basic-md5, password, sasl]
  access_rules: ["0", "10", "1000"]
  path_authz: ["on", short_circuit, "off"]
  keep_alive: ["on", "off"]
  http_connections: ["1", "4"]
  bulk_updates: ["on", "off"]
  repo: repositories
defaults: {format: f7, packing: nopack, config: default, cache: hot-os}
block: [command]
variance_group: [command]
scenario_axes: [access, command, repo]
commands:
  log:
    argv: "{svn} log -v {url}"
    input: repository
    work: log
  export:
    argv: "{svn} export -q {url}/{tree} {target}"
    input: repository
    output: target
    work: tree
tables:
  elapsed:
    metric: elapsed_s
    rows: [access, authentication, access_rules, path_authz]
    columns: [keep_alive, http_connections, bulk_updates]
"""
PLAIN = {
    "access": "http",
    "authentication": "none",
    "access_rules": "0",
    "path_authz": "on",
    "keep_alive": "on",
    "http_connections": "4",
    "bulk_updates": "off",
}
ONE_CONNECTION = {"keep_alive": "off", "http_connections": "1", "bulk_updates": "on"}
CELLS = [
    PLAIN,
    {**PLAIN, "access": "https", "authentication": "basic-bcrypt", "access_rules": "1000"},
    {**PLAIN, **ONE_CONNECTION, "access": "https"},
    {**PLAIN, "authentication": "basic-md5", "access_rules": "10", "path_authz": "short_circuit"},
    {**PLAIN, "access_rules": "10", "path_authz": "off"},
    {**PLAIN, "access": "svn"},
    {**PLAIN, "access": "svn", "authentication": "password", "access_rules": "1000"},
    {**PLAIN, "access": "file"},
]
# The forms of a password, of hashes of it, and of a key.
SECRETS = {
    "password": rb"(?<![0-9a-f])[0-9a-f]{36}(?![0-9a-f])",
    "hash": rb"\$2y\$|\$apr1\$",
    "key": rb"PRIVATE KEY",
}


@pytest.fixture(scope="module")
def measured(shared_project):
    project = shared_project
    (project.path / "config" / "studies" / f"{NAME}.yaml").write_text(STUDY)
    project.configure(*CELLS, study=NAME)
    project.succeed("measured", f"results/tables/{NAME}")
    return project


def log_context(project, **axes):
    """Return the context of the first log with these axes."""
    axes |= {"command": "log"}
    return next(c for c in project.contexts().values() if axes.items() <= c["axes"].items())


def test_cells_of_all_settings_do_the_same_work(measured):
    runs = measured.rows(f"measurements/{NAME}.csv")
    for command in ("log", "export"):
        works = [run["work"] for run in runs if run["command"] == command]
        assert works[0] and works == [works[0]] * len(CELLS)
    assert servers_of(measured) == []


def test_context_has_settings_of_the_server_and_the_client(measured):
    settings = log_context(measured, authentication="basic-bcrypt")["server"]["settings"]
    for line in ("SSLProtocol -all +TLSv1.3", "Require valid-user", "SVNPathAuthz on"):
        assert line in settings
    assert "AuthzSVNAccessFile" in settings
    client = log_context(measured, keep_alive="off")
    words = " ".join(client["argv"])
    assert "http-max-connections=1" in words and "http-bulk-updates=yes" in words
    assert "ssl-authority-files=" in words and "KeepAlive Off" in client["server"]["settings"]
    svn = log_context(measured, authentication="password")
    assert "anon-access = none" in svn["server"]["settings"]
    plain = log_context(measured, access="svn", authentication="none")
    assert plain["server"]["settings"] == "" and "--config-file" not in plain["server"]["argv"]


def test_no_file_has_a_secret_and_no_key_is_left(measured):
    assert re.fullmatch(SECRETS["password"], make_credentials().password.encode())
    files = [path for path in measured.path.rglob("*") if path.is_file() and not path.is_symlink()]
    own = {measured.path / name for name in ("workflow", "config", "envs")}
    made = [path for path in files if own.isdisjoint(path.parents)]
    assert len([path for path in made if path.suffix == ".json"]) > 2 * len(CELLS)
    for name, pattern in SECRETS.items():
        assert [path for path in made if re.search(pattern, path.read_bytes())] == [], name
    for folder in Path(tempfile.gettempdir()).glob("vcsbench-*"):
        assert not list(folder.rglob("key.pem")), folder


def test_cells_that_a_server_cannot_have_are_skipped_with_the_reason(measured):
    parts = [{**PLAIN, "access": "svn", "authentication": "basic-md5"}]
    parts.append({**PLAIN, "path_authz": "short_circuit"})
    measured.configure(*parts, study=NAME)
    measured.succeed(f"results/grid/{NAME}.csv")
    grid = measured.rows(f"grid/{NAME}.csv")
    reasons = {row["access"]: row["skip"] for row in grid if row["command"] == "log"}
    assert "authentication of httpd" in reasons["svn"]
    assert "needs access rules" in reasons["http"]


@pytest.mark.parametrize(
    ("cell", "directive", "expected"),
    [
        ({"authentication": "basic-md5"}, "Require all granted", "without a password"),
        ({"authentication": "basic-md5"}, "Require all denied", "refuses the client"),
        ({"access_rules": "10"}, 'AuthzSVNAccessFile "/dev/null"', "access rules|refuses the"),
    ],
)
def test_server_with_directive_against_its_label_gives_no_result(
    measured, cell, directive, expected
):
    file = measured.path / "config" / "servers" / "default" / "httpd.conf"
    before = file.read_text()
    file.write_text(f'{before}<If "true">\n    {directive}\n</If>\n')
    measured.configure({**PLAIN, **cell, "command": "log"}, study=NAME)
    exports = measured.exports()
    try:
        output = measured.fail("measured")
    finally:
        file.write_text(before)
    assert re.search(expected, output), output
    assert measured.measured_since(exports) == set()
