"""Real servers with https, passwords and access rules: they refuse what they must, and keep secrets."""

import os
import re
import shutil
import socket
import ssl
import stat
import subprocess
from contextlib import nullcontext
from pathlib import Path

import pytest

from project import CONFIG, NOBODY, make_served, needs, needs_root, start_python, write_program
from vcsbench import process_facts, server_user
from vcsbench.deployment import access_rules, credentials
from vcsbench.deployment.deployed_server import (
    Deployment,
    httpd_directives,
    svnserve_configuration,
)
from vcsbench.errors import UserError
from vcsbench.measure.server import HOST
from vcsbench.measure.server_kinds import SERVER_KINDS
from vcsbench.programs import Programs
from vcsbench.storages.workdir import remove_abandoned

DEFAULT = CONFIG / "servers" / "default"
needs_httpd = pytest.mark.skipif(not Programs().httpd, reason="no httpd with mod_dav_svn")
NO_SASL = credentials.why_no_sasl(shutil.which("svnserve") or "svnserve")


def httpd(name, *programs, **settings):
    """Return the parameter of a test of httpd that needs these programs."""
    return pytest.param(("httpd", settings), marks=[needs_httpd, needs(*programs)], id=name)


HTTPS = httpd("https", "openssl", is_encrypted=True)
WITH_PASSWORD = [
    httpd("bcrypt", "htpasswd", authentication="basic-bcrypt"),
    httpd("cached bcrypt", "htpasswd", authentication="basic-bcrypt-cached"),
    httpd("md5 over https", "htpasswd", "openssl", authentication="basic-md5", is_encrypted=True),
    pytest.param(
        ("svnserve", {"authentication": "password"}), marks=needs("svnserve"), id="password"
    ),
    pytest.param(
        ("svnserve", {"authentication": "sasl"}),
        marks=pytest.mark.skipif(bool(NO_SASL), reason=NO_SASL),
        id="sasl",
    ),
]
WITH_RULES = [
    httpd("httpd", has_rules=True),
    pytest.param(("svnserve", {"has_rules": True}), marks=needs("svnserve"), id="svnserve"),
]


@pytest.fixture
def folder(folder):
    make_served(folder)
    (folder / "client").mkdir()
    tree = ["mkdir", "trunk", "mkdir", "trunk/lib", "mkdir", "trunk/lib/a b"]
    make = ["svnmucc", "-m", "", "-U", f"file://{folder}/root/one", *tree]
    subprocess.run(make, check=True)
    return folder


@pytest.fixture
def make_server(folder):
    servers = []

    def make(kind, settings, files=DEFAULT):
        server = SERVER_KINDS[kind](
            folder / "root", files, folder / "run", deployment=Deployment(**settings)
        )
        servers.append(server)
        server.rules = access_rules.write_rules(["/trunk/lib"], 10)
        if server.credentials:
            credentials.store_credentials(folder / "client", server.realm, server.credentials)
        return server

    yield make
    for server in servers:
        server.close()


@pytest.fixture
def server(make_server, request):
    return make_server(*request.param)


def svn(server, config, *arguments, path=""):
    url = f"{server.scheme}://{HOST}:{server.port}/one{path}"
    argv = ["svn", *(word.replace("URL", url) for word in arguments)]
    argv += ["--non-interactive", "--config-dir", str(config)]
    if server.authority():
        argv += ["--config-option", f"servers:global:ssl-authority-files={server.authority()}"]
    return subprocess.run(argv, capture_output=True, text=True)


def info(server, config, path=""):
    return svn(server, config, "info", "--show-item", "revision", "URL", path=path)


@pytest.mark.parametrize("server", [HTTPS], indirect=True)
def test_https_server_has_tls_1_3_only_its_own_certificate_and_a_private_key(server, folder):
    server.start()
    assert info(server, folder / "client").stdout == "1\n"
    context = ssl.create_default_context(cafile=server.authority())
    plain = socket.create_connection((HOST, server.port))
    with context.wrap_socket(plain, server_hostname=HOST) as encrypted:
        assert encrypted.version() == "TLSv1.3"
        assert ("IP Address", HOST) in encrypted.getpeercert()["subjectAltName"]
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection((HOST, server.port)) as plain, pytest.raises(ssl.SSLError):
        context.wrap_socket(plain, server_hostname=HOST)
    url = f"https://{HOST}:{server.port}/one"
    argv = ["svn", "info", "--non-interactive", "--config-dir", folder / "other", url]
    distrusting = subprocess.run(argv, capture_output=True, text=True)
    assert distrusting.returncode == 1 and "certificate" in distrusting.stderr
    key = folder / "run" / "key.pem"
    shown = subprocess.run(["openssl", "pkey", "-in", key, "-text", "-noout"], capture_output=True)
    assert b"NIST CURVE: P-256" in shown.stdout
    assert_private(key)


def assert_private(file):
    status = file.stat()
    ids = server_user.server_ids()
    assert stat.S_IMODE(status.st_mode) == (0o640 if ids else 0o600), file
    assert status.st_uid == os.geteuid() and status.st_gid == (ids.gid if ids else os.getegid())


@pytest.mark.parametrize("server", WITH_PASSWORD, indirect=True)
def test_server_with_password_refuses_clients_without_it_and_with_another(server, folder):
    server.start()
    assert info(server, folder / "client").stdout == "1\n"
    wrong = server.credentials._replace(password="another")
    credentials.store_credentials(folder / "wrong", server.realm, wrong)
    for client in ("anonymous", "wrong"):
        refused = info(server, folder / client)
        assert (refused.returncode, refused.stdout) == (1, ""), client


@pytest.mark.parametrize("server", WITH_PASSWORD, indirect=True)
def test_server_password_is_in_private_files_only(server, folder):
    server.start()
    assert info(server, folder / "client").returncode == 0
    password = server.credentials.password
    assert len(password) == 36 and password not in repr(server.credentials)
    for pid in process_facts.family(server.pid):
        words = [*process_facts.command_line(pid), *process_facts.environment(pid)]
        assert not any(password in word for word in words)
    assert password not in server.settings and password not in " ".join(server.last_output())
    for file in (folder / "run").rglob("*"):
        if file.is_file() and file.name not in ("output", "httpd.pid"):
            assert_private(file)
    (stored,) = (folder / "client").rglob("svn.simple/*")
    assert password in stored.read_text() and stat.S_IMODE(stored.stat().st_mode) == 0o600
    assert svn(server, folder / "client", "mkdir", "-m", "", "URL/new").returncode == 1


@needs("htpasswd")
@pytest.mark.parametrize(
    ("authentication", "start"), [("basic-bcrypt", "$2y$05$"), ("basic-md5", "$apr1$")]
)
def test_hash_password_has_the_kind_of_its_label(authentication, start):
    user = credentials.make_credentials()
    line = credentials.hash_password(user, authentication)
    assert line.startswith(f"vcsbench:{start}") and line.count("\n") == 1
    assert credentials.make_credentials().password != user.password


@pytest.mark.parametrize("server", WITH_RULES, indirect=True)
def test_server_with_rules_refuses_a_forbidden_path_only(server, folder):
    server.start()
    assert info(server, folder / "client").stdout == "1\n"
    listed = svn(server, folder / "client", "ls", "-R", "URL")
    assert listed.stdout == "trunk/\ntrunk/lib/\ntrunk/lib/a b/\n"
    path = f"/{access_rules.FORBIDDEN}"
    refused = info(server, folder / "client", path)
    assert re.search("E175013|E170001", refused.stderr), refused.stderr
    missing = info(server, folder / "client", "/missing")
    assert missing.returncode == 1 and not re.search("E175013|E170001", missing.stderr)


@needs_httpd
@pytest.mark.parametrize("path_authz", ["on", "short_circuit", "off"])
def test_path_authz_decides_whether_rules_are_read_for_each_path(make_server, folder, path_authz):
    server = make_server("httpd", {"has_rules": True, "path_authz": path_authz})
    server.rules = "[/]\n* = r\n[/trunk/lib]\n* =\n"
    server.start()
    assert f"    SVNPathAuthz {path_authz}\n" in server.settings
    listed = svn(server, folder / "client", "export", "-q", "URL/trunk", str(folder / "exported"))
    assert listed.returncode == 0, listed.stderr
    assert (folder / "exported" / "lib").exists() is (path_authz == "off")


@needs_httpd
@pytest.mark.parametrize("keep_alive", ["on", "off"])
def test_keep_alive_replaces_the_directive_of_the_configuration(make_server, folder, keep_alive):
    files = folder / "files"
    files.mkdir()
    (files / "httpd.conf").write_text(f"KeepAlive {'off' if keep_alive == 'on' else 'on'}\n")
    server = make_server("httpd", {"keep_alive": keep_alive}, files)
    server.start()
    request = b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n"
    with socket.create_connection((HOST, server.port), timeout=5) as connection:
        connection.sendall(request)
        assert connection.recv(4096)
        connection.sendall(request)
        assert bool(connection.recv(4096)) is (keep_alive == "on")


@needs_httpd
@pytest.mark.parametrize(("before", "after"), [("on", "off"), ("off", "on")])
def test_server_with_another_keep_alive_than_its_label_is_refused(make_server, before, after):
    server = make_server("httpd", {"keep_alive": before})
    server.start()
    server.stop()
    # Its configuration is written only once.
    server.deployment = Deployment(keep_alive=after)
    with pytest.raises(UserError, match=f"does not use `KeepAlive {after}`"):
        server.start()


@needs_httpd
@pytest.mark.parametrize(("most_requests", "is_refused"), [(400, True), (25, False)])
def test_httpd_with_several_children_is_refused(make_server, folder, most_requests, is_refused):
    files = folder / "files"
    files.mkdir()
    # With 25 threads in each child, 25 requests need one child.
    lines = ["StartServers 4", "ServerLimit 16", f"MaxRequestWorkers {most_requests}"]
    (files / "httpd.conf").write_text("\n".join(lines) + "\n")
    server = make_server("httpd", {}, files)
    refusal = pytest.raises(UserError, match=f"^{files}/httpd.conf: `StartServers`")
    with refusal if is_refused else nullcontext():
        server.start()


@needs_httpd
def test_bulk_updates_replace_the_directive_of_the_configuration(make_server, folder):
    put = ["svnmucc", "-m", "", "-U", f"file://{folder}/root/one", "put", __file__, "trunk/file"]
    subprocess.run(put, check=True)
    files = folder / "files"
    files.mkdir()
    # Without bulk updates, the client gets each file by GET.
    directives = ["SVNAllowBulkUpdates Off", "Require method OPTIONS PROPFIND REPORT"]
    lines = ['<Location "/">', *directives, "</Location>"]
    (files / "httpd.conf").write_text("\n".join(lines) + "\n")
    server = make_server("httpd", {"bulk_updates": "on"}, files)
    server.start()
    options = ["--config-option", "servers:global:http-bulk-updates=yes"]
    exported = folder / "exported"
    done = svn(server, folder / "client", "export", "-q", *options, "URL/trunk", str(exported))
    assert done.returncode == 0, done.stderr
    assert (exported / "file").read_bytes() == Path(__file__).read_bytes()


@pytest.mark.parametrize("value", ["off", ""])
def test_client_that_asks_for_no_bulk_update_needs_no_directive(value):
    assert httpd_directives(Deployment(bulk_updates=value), {}) == []


def test_svnserve_configuration_ignores_settings_of_httpd():
    of_httpd = Deployment(keep_alive="on", path_authz="on", bulk_updates="on")
    assert svnserve_configuration(of_httpd, {}) == ""
    writable = svnserve_configuration(of_httpd._replace(is_writable=True), {})
    assert "anon-access = write\n" in writable and "auth-access = write\n" in writable


FOLDERS = [f"/trunk/folder {number}/lib" for number in range(700)]


@pytest.mark.parametrize("count", [10, 1000, 10_000])
@pytest.mark.parametrize("folders", [[], FOLDERS[:3], FOLDERS])
def test_write_rules_has_the_number_of_paths(count, folders):
    rules = access_rules.write_rules(folders, count)
    paths = re.findall(r"^\[(/.*)\]$", rules, re.MULTILINE)
    assert len(paths) == len(set(paths)) == count
    assert rules.count("\n[") == count
    named = set(paths) & set(folders)
    assert len(named) == min(len(folders), (count - 2) // 2)
    # Half of the rest has rules that Subversion has to look at.
    generated = [path for path in paths if access_rules.GENERATED in path]
    assert len(generated) == count - 2 - len(named)
    assert all(re.sub(r"/vcsbench-private-\d+$", "", p) in {*folders, ""} for p in generated)


@needs("svnauthz")
@pytest.mark.parametrize("user", [None, "vcsbench"])
def test_write_rules_let_all_users_read_and_write_what_exists(tmp_path, user):
    file = tmp_path / "authz"
    file.write_text(access_rules.write_rules(FOLDERS, 1000))
    assert subprocess.run(["svnauthz", "validate", file]).returncode == 0

    def rights(path):
        argv = ["svnauthz", "accessof", file, "--path", path]
        argv += ["--username", user] if user else []
        return subprocess.run(argv, capture_output=True, text=True).stdout.strip()

    for path in ("/", "/trunk", FOLDERS[0], f"{FOLDERS[-1]}/new/file", "/branches/new"):
        assert rights(path) == "rw", path
    for path in (f"/{access_rules.FORBIDDEN}", f"{FOLDERS[0]}/{access_rules.GENERATED}-0"):
        assert rights(path) == "no", path


@needs("svnlook", "svnmucc")
def test_list_tree_folders_has_folders_that_rules_can_name(tmp_path):
    repository = tmp_path / "one"
    subprocess.run(["svnadmin", "create", repository], check=True)
    usable = ["trunk", "trunk/a b", "trunk/a b/c", "trunk/gr\u00fcn"]
    names = [*usable, "trunk/x]y", "trunk/d:e", "tags"]
    make = [word for name in names for word in ("mkdir", name)]
    make += ["put", os.devnull, "trunk/file"]
    argv = ["svnmucc", "-m", "", "-U", f"file://{repository}", *make]
    subprocess.run(argv, check=True, env={**os.environ, "LC_ALL": "C.UTF-8"})

    def found(tree):
        return set(access_rules.list_tree_folders("svnlook", repository, tree))

    assert found("trunk") == {f"/{name}" for name in usable}
    assert found("") == {f"/{name}" for name in (*usable, "tags")}
    with pytest.raises(UserError, match="svnlook tree failed"):
        found("missing")


def test_list_tree_folders_runs_svnlook_with_the_libraries_of_its_build(tmp_path):
    # It prints its library path in the place of a folder.
    svnlook = write_program(tmp_path / "bin/svnlook", '#!/bin/sh\necho "$LD_LIBRARY_PATH/"\n')
    environment = Programs(str(tmp_path), "/opt/lib").environment()
    folders = access_rules.list_tree_folders(str(svnlook), tmp_path, "", environment)
    assert folders == ["/opt/lib"]


HOLD = """
import sys
from pathlib import Path
from vcsbench.deployment.credentials import make_certificate, make_credentials, store_credentials
from vcsbench.storages.workdir import run_folder
with run_folder(".") as folder:
    make_certificate(folder, "127.0.0.1")
    store_credentials(folder / "client", "<http://x> y", make_credentials())
    print(folder, flush=True)
    sys.stdin.read()
"""


@needs("openssl")
def test_secrets_of_a_killed_run_are_removed_by_the_next_one(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with start_python(HOLD, start=("env", f"TMPDIR={tmp_path}")) as run:
        folder = Path(run.stdout.readline().strip())
        assert (folder / "key.pem").exists() and stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert remove_abandoned(os.getcwd(), []) == []
        run.kill()
    assert remove_abandoned(os.getcwd(), []) == [folder]
    assert list(tmp_path.iterdir()) == []


@needs_root
@pytest.mark.parametrize("server", [HTTPS, *WITH_PASSWORD], indirect=True)
def test_secrets_cannot_be_read_by_another_daemon_of_the_servers_user(server, folder):
    server.start()
    (folder / "run").chmod(0o755)
    for name in ("key.pem", "passwords", "sasl/sasldb", "svnserve.conf"):
        if (folder / "run" / name).exists():
            argv = [*NOBODY, "cat", folder / "run" / name]
            done = subprocess.run(argv, capture_output=True)
            assert done.returncode != 0 and done.stdout == b"", name


@pytest.mark.parametrize(
    ("authentication", "is_cached"), [("basic-bcrypt", False), ("basic-bcrypt-cached", True)]
)
def test_httpd_remembers_passwords_only_if_the_kind_says_so(authentication, is_cached):
    deployment = Deployment(authentication=authentication)
    lines = "\n".join(httpd_directives(deployment, {"passwords": "/p"}))
    assert ("AuthBasicProvider socache file" in lines) == is_cached
    assert ("AuthnCacheSOCache shmcb" in lines) == is_cached
    assert ("authn_socache" in deployment.modules) == is_cached
