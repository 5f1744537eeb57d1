"""Real servers: they answer, say why they do not start, and die with the process that owns them."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from vcsbench import processes
from vcsbench.errors import UserError
from vcsbench.machine import Machine
from vcsbench.measure import server as servers
from vcsbench.measure.server import HOST, Server, free_port

DEFAULT = Path(__file__).parent.parent.parent / "config" / "servers" / "default"
KINDS = [
    pytest.param(
        "svnserve", marks=pytest.mark.skipif(not shutil.which("svnserve"), reason="no svnserve")
    ),
    pytest.param(
        "httpd", marks=pytest.mark.skipif(not Machine().httpd, reason="no httpd with mod_dav_svn")
    ),
]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with an empty repository that the servers' user can enter."""
    path = Path(tempfile.mkdtemp(prefix="vcsbench-test-"))
    path.chmod(0o755)
    (path / "run").mkdir()
    (path / "root").mkdir(exist_ok=True)
    subprocess.run(["svnadmin", "create", path / "root" / "one"], check=True)
    yield path
    shutil.rmtree(path)


def url(server: Server) -> str:
    scheme = {"svnserve": "svn", "httpd": "http"}[server.kind]
    return f"{scheme}://{HOST}:{server.port}/one"


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_answers_when_start_returns_and_is_gone_after_stop(
    folder: Path, kind: str
) -> None:
    server = Server(kind, folder / "root", DEFAULT, folder / "run")
    server.start()
    try:
        done = subprocess.run(
            ["svn", "info", url(server)], capture_output=True, text=True, check=True
        )
        assert "Revision: 0" in done.stdout
        assert processes.command_line(server.pid) == server.argv
        if os.geteuid() == 0:
            owner = Path(f"/proc/{server.pid}").stat().st_uid
            assert owner != 0, "the server runs unprivileged"
        assert processes.usage([server.pid]).cpu_s > 0
    finally:
        pid = server.pid
        server.stop()
    assert processes.command_line(pid) == [] and server.pid == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_listens_on_loopback_only(folder: Path, kind: str) -> None:
    server = Server(kind, folder / "root", DEFAULT, folder / "run")
    server.start()
    try:
        listening = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
        addresses = {
            line.split()[1].split(":")[0]
            for line in listening.splitlines()
            if line.split()[1].endswith(f":{server.port:04X}") and line.split()[3] == "0A"
        }
        assert addresses == {"0100007F"}
    finally:
        server.stop()


@pytest.mark.parametrize("kind", KINDS)
def test_a_taken_port_is_replaced_at_the_first_start(
    folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as other:
        other.bind((HOST, 0))
        other.listen()
        taken = other.getsockname()[1]
        ports = iter([taken, free_port()])
        monkeypatch.setattr(servers, "free_port", lambda: next(ports))
        server = Server(kind, folder / "root", DEFAULT, folder / "run")
        server.start()
        try:
            assert server.port != taken
        finally:
            server.stop()


@pytest.mark.parametrize("kind", KINDS)
def test_a_port_that_gets_taken_between_two_starts_is_one_sentence(folder: Path, kind: str) -> None:
    server = Server(kind, folder / "root", DEFAULT, folder / "run")
    server.start()
    server.stop()
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind((HOST, server.port))
        other.listen()
        with pytest.raises(
            UserError, match=rf"found its port on {HOST} taken \({server.port}\)"
        ) as said:
            server.start()
    assert "\n" not in str(said.value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_port_that_is_settled_is_kept_until_the_server_starts(folder: Path, kind: str) -> None:
    server = Server(kind, folder / "root", DEFAULT, folder / "run")
    server.reserve_port()
    port = server.port
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind((HOST, port))
    server.start()
    try:
        assert server.port == port and server.greet()
    finally:
        server.stop()


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_dies_with_its_owner(folder: Path, kind: str) -> None:
    program = f"""
import sys, time
sys.path.insert(0, {str(DEFAULT.parent.parent.parent / "workflow")!r})
from pathlib import Path
from vcsbench.measure.server import Server
folder, slow = Path({str(folder)!r}), Path({str(DEFAULT)!r})
server = Server({kind!r}, folder / "root", slow, folder / "run")
server.start()
print(server.pid, flush=True)
time.sleep(60)
"""
    owner = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert owner.stdout
    pid = int(owner.stdout.readline())
    family = processes.family(pid)
    assert processes.command_line(pid)
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    deadline = time.monotonic() + 5
    while any(processes.command_line(p) for p in family) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [processes.command_line(p) for p in family if processes.command_line(p)] == []
