"""Real servers next to other users of the machine, and in folders with odd names."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from vcsbench.errors import UserError
from vcsbench.machine import Machine
from vcsbench.measure.server import HOST, Server, server_environment
from vcsbench.processes import SERVER_GROUP

DEFAULT = Path(__file__).parent.parent.parent / "config" / "servers" / "default"
SCHEMES = {"svnserve": "svn", "httpd": "http"}
KINDS = [
    pytest.param(
        "svnserve", marks=pytest.mark.skipif(not shutil.which("svnserve"), reason="no svnserve")
    ),
    pytest.param(
        "httpd", marks=pytest.mark.skipif(not Machine().httpd, reason="no httpd with mod_dav_svn")
    ),
]
ODD = ["a b", "a%2Fb", "a@5", "gr\u00fcn", "q\"u'o", "d${PATH}$x", "b[3]{4}*?", "b\\s", "#h"]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="takes root to be another user")
NOBODY = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", "--"]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a repository `one`; `run` can be entered by its owner alone."""
    path = Path(tempfile.mkdtemp(prefix="vcsbench-test-"))
    path.chmod(0o755)
    (path / "run").mkdir(mode=0o700)
    (path / "root").mkdir()
    subprocess.run(["svnadmin", "create", path / "root" / "one"], check=True)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def server(folder: Path, request: pytest.FixtureRequest) -> Iterator[Server]:
    server = Server(request.param, folder / "root", DEFAULT, folder / "run")
    yield server
    server.close()


def svn(server: Server, *arguments: str) -> subprocess.CompletedProcess[str]:
    url = f"{SCHEMES[server.kind]}://{HOST}:{server.port}/one"
    argv = ["svn", *(word.replace("URL", url) for word in arguments), "--non-interactive"]
    return subprocess.run(argv, capture_output=True, text=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ODD)
def test_server_in_folders_with_odd_names_serves_the_repository(
    folder: Path, kind: str, name: str
) -> None:
    (folder / name / "run").mkdir(parents=True)
    shutil.move(folder / "root", folder / name / "root")
    server = Server(kind, folder / name / "root", DEFAULT, folder / name / "run")
    server.start()
    try:
        done = svn(server, "info", "--show-item", "revision", "URL")
        assert done.stdout == "0\n", done.stderr
    finally:
        server.close()


@pytest.mark.parametrize("server", KINDS[1:], indirect=True)
def test_httpd_with_a_line_end_in_the_served_path_is_refused(server: Server) -> None:
    server.root = Path("/srv/a\nAllow from all")
    with pytest.raises(UserError, match="control character") as refused:
        server.start()
    assert "\n" not in str(refused.value) and server.pid == 0


@pytest.mark.parametrize("server", KINDS, indirect=True)
def test_server_of_a_writable_repository_refuses_commits(server: Server) -> None:
    subprocess.run(["chmod", "-R", "a+rwX", server.root], check=True)
    server.start()
    assert svn(server, "mkdir", "-m", "", "URL/new").returncode == 1
    assert svn(server, "propset", "--revprop", "-r0", "svn:log", "x", "URL").returncode == 1
    assert svn(server, "info", "--show-item", "revision", "URL").stdout == "0\n"


@pytest.mark.parametrize("server", KINDS, indirect=True)
def test_server_starts_without_the_secrets_of_its_environment(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI_TOKEN", "secret")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/lib")
    server.start()
    environment = Path(f"/proc/{server.pid}/environ").read_text().split("\0")
    assert "LD_LIBRARY_PATH=/opt/lib" in environment
    assert not [word for word in environment if "secret" in word or word.startswith("HOME=")]


def test_server_environment_has_allowed_names_only() -> None:
    given = {"PATH": "/bin", "SVN_PASSWORD": "x", "http_proxy": "x", "MALLOC_ARENA_MAX": "1"}
    assert server_environment(given) == {
        "LC_ALL": "C.UTF-8", "PATH": "/bin", "MALLOC_ARENA_MAX": "1",
    }  # fmt: skip


@needs_root
@pytest.mark.parametrize("server", KINDS, indirect=True)
def test_server_owns_nothing_that_root_opens_by_name(server: Server, folder: Path) -> None:
    """Another process of the servers' user may put links anywhere into the writable folder."""
    precious = folder / "precious"
    precious.write_text("root's")
    precious.chmod(0o600)
    for attempt in range(2):
        with suppress(UserError) if attempt else nullcontext():
            server.start()
        for path in folder.joinpath("run").rglob("*"):
            if not path.is_relative_to(folder / "run" / "writable"):
                assert path.lstat().st_uid == 0 and not path.lstat().st_mode & 0o002, path
        server.stop()
        if (folder / "run" / "writable").exists():
            for name in ("httpd.pid", "httpd.conf", "output", "directives.conf"):
                (folder / "run" / "writable" / name).unlink(missing_ok=True)
                (folder / "run" / "writable" / name).symlink_to(precious)
    assert sorted(path.name for path in folder.iterdir()) == ["precious", "root", "run"]
    assert precious.read_text() == "root's" and precious.stat().st_uid == 0


@needs_root
@pytest.mark.parametrize("server", KINDS, indirect=True)
def test_server_runs_in_a_group_that_other_daemons_are_not_in(server: Server) -> None:
    server.start()
    status = Path(f"/proc/{server.pid}/status").read_text()
    assert f"Gid:\t{SERVER_GROUP}\t" in status and "Groups:\t \n" in status
    for what in ("environ", "fd/2", "mem"):
        done = subprocess.run(
            [*NOBODY, "head", "-c1", f"/proc/{server.pid}/{what}"], capture_output=True
        )
        assert done.returncode != 0 and done.stdout == b"", what


@pytest.mark.parametrize("server", KINDS[1:], indirect=True)
def test_httpd_with_a_broken_configuration_names_its_file(server: Server, folder: Path) -> None:
    shutil.copytree(DEFAULT, folder / "files")
    (folder / "files" / "httpd.conf").write_text("# a comment\nNoSuchDirective on\n")
    server.files = folder / "files"
    with pytest.raises(UserError, match=f"line 2 of {folder}/files/httpd.conf"):
        server.start()
