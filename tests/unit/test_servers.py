"""Real servers: their start and end, next to other users and in folders with odd names."""

import os
import shutil
import signal
import socket
import subprocess
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from project import (
    CONFIG,
    NOBODY,
    WITHOUT_PTRACE,
    make_served,
    needs,
    needs_root,
    run_python,
    start_python,
    wait_for,
)
from vcsbench import process_facts
from vcsbench.axes.build_axis import why_no_sshd
from vcsbench.errors import UserError
from vcsbench.measure.server import HOST
from vcsbench.measure.server_kinds import SERVER_KINDS
from vcsbench.programs import Programs
from vcsbench.server_user import SERVER_GROUP

DEFAULT = CONFIG / "servers" / "default"
KINDS = [
    pytest.param("svnserve", marks=needs("svnserve")),
    pytest.param(
        "httpd", marks=pytest.mark.skipif(not Programs().httpd, reason="no httpd with mod_dav_svn")
    ),
    pytest.param("sshd", marks=pytest.mark.skipif(bool(why_no_sshd()), reason=why_no_sshd())),
]
ODD = ["a b", "a%2Fb", "a@5", "gr\u00fcn", "q\"u'o", "d${PATH}$x", "b[3]{4}*?", "b\\s", "#h"]


@pytest.fixture
def folder(folder):
    return make_served(folder)


@pytest.fixture(params=KINDS)
def server(folder, request):
    server = SERVER_KINDS[request.param](folder / "root", DEFAULT, folder / "run")
    yield server
    server.close()


def svn(server, *arguments):
    url = f"{server.scheme}://{server.address}/one"
    client = server.run / "config"
    client.mkdir(exist_ok=True)
    (client / "config").write_text(server.client_config())
    argv = ["svn", *(word.replace("URL", url) for word in arguments), "--non-interactive"]
    argv += ["--config-dir", client]
    return subprocess.run(argv, capture_output=True, text=True)


def test_server_wrong_file_is_named_by_the_user_s_path(server, folder):
    server.files = folder / "copy"
    shutil.copytree(DEFAULT, server.files)
    (server.files / server.file).write_text("#\n--no-such-option yes\n")
    server.source = Path("config/servers/mine", server.file)
    with pytest.raises(UserError) as caught:
        server.start()
    text = str(caught.value)
    assert text.startswith(f"{server.source}: {server.kind} ")
    assert server.kind != "httpd" or f"line 2 of {server.source}: " in text
    assert "no-such-option" in text and str(server.files) not in text


def test_server_answers_after_start_on_loopback_only_and_ends_at_stop(server):
    server.start()
    assert svn(server, "info", "--show-item", "revision", "URL").stdout == "0\n"
    assert " ".join(server.argv) in " ".join(process_facts.command_line(server.pid))
    if os.geteuid() == 0:
        assert Path(f"/proc/{server.pid}").stat().st_uid != 0
    assert process_facts.usage([server.pid]).cpu_s > 0
    table = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
    rows = [line.split() for line in table.splitlines()]
    listening = {row[1] for row in rows if row[3] == "0A"}
    port = f":{server.port:04X}"
    assert {row for row in listening if row.endswith(port)} == {f"0100007F{port}"}
    pid = server.pid
    server.stop()
    assert process_facts.command_line(pid) == [] and server.pid == 0


def test_server_start_on_taken_port_raises(server):
    server.start()
    server.stop()
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind((HOST, server.port))
        other.listen()
        # One line.
        with pytest.raises(UserError, match=r"\A.*start.* in use.*\Z"):
            server.start()


@pytest.mark.parametrize("server", KINDS[:2], indirect=True)
def test_server_that_listens_and_does_not_answer_has_not_started(server, monkeypatch):
    await_listeners = server._await_listeners

    def pause_listeners():
        listeners = await_listeners()
        # httpd listens before it starts its child. While it is stopped, it starts none.
        os.kill(server.pid, signal.SIGSTOP)
        for pid in process_facts.family(server.pid):
            os.kill(pid, signal.SIGSTOP)
        return listeners

    monkeypatch.setattr(server, "_await_listeners", pause_listeners)
    monkeypatch.setattr("vcsbench.measure.server.START_LIMIT_S", 2.0)
    with pytest.raises(UserError) as caught:
        server.start()
    assert str(caught.value).startswith(f"{server.source}: {server.kind} did not start with it: ")
    assert server.pid == 0


def test_server_port_is_reserved_until_close(server):
    port = server.port
    for act in (server.start, server.stop, server.start, server.stop):
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind((HOST, port))
        act()
    assert server.port == port
    server.close()
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind((HOST, port))
        other.listen()


OWNER = f"""
import sys, time
from pathlib import Path
from vcsbench.measure.server_kinds import SERVER_KINDS
folder, default = Path(sys.argv[2]), Path({str(DEFAULT)!r})
server = SERVER_KINDS[sys.argv[1]](folder / "root", default, folder / "run")
server.start()
print(server.pid, flush=True)
time.sleep(3600)
"""


def test_server_ends_with_its_owner(server, folder):
    owner = start_python(OWNER, server.kind, folder)
    family = process_facts.family(int(owner.stdout.readline()))
    assert process_facts.command_line(family[0])
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    wait_for(lambda: not any(map(process_facts.command_line, family)))


WITHOUT_PTRACE_STARTED = f"""
import sys
from pathlib import Path
from vcsbench import process_facts
from vcsbench.errors import UserError
from vcsbench.measure.server_kinds import SERVER_KINDS
from vcsbench.programs import Programs
folder, default = Path(sys.argv[2]), Path({str(DEFAULT)!r})
programs = Programs(prefix=sys.argv[3])
server = SERVER_KINDS[sys.argv[1]](folder / "root", default, folder / "run", programs)
try:
    server.start()
    used = process_facts.usage([server.pid])
    print("started", bool(used.rchar and used.syscr), server.pid in server.listeners)
    print("owner", Path(f"/proc/{{server.pid}}").stat().st_uid != 0)
except UserError as error:
    print("refused", "SYS_PTRACE" in str(error))
finally:
    server.close()
"""


@needs_root
def test_server_starts_and_is_counted_for_root_without_the_right_to_trace(server, folder):
    done = run_python(WITHOUT_PTRACE_STARTED, server.kind, folder, "", start=WITHOUT_PTRACE)
    assert done.stdout == "started True True\nowner True\n", done.stderr


@needs_root
def test_server_whose_open_files_are_hidden_is_refused_with_the_right_that_is_missing(folder):
    (folder / "bin").mkdir()
    program = folder / "bin" / "svnserve"
    shutil.copy(shutil.which("svnserve"), program)
    # The kernel hides the open files of a program that its user cannot read.
    program.chmod(0o711)
    done = run_python(WITHOUT_PTRACE_STARTED, "svnserve", folder, folder, start=WITHOUT_PTRACE)
    assert done.stdout == "refused True\n", done.stderr


@pytest.mark.parametrize("name", ODD)
def test_server_in_folders_with_odd_names_serves_the_repository(server, folder, name):
    (folder / name / "run").mkdir(parents=True)
    shutil.move(folder / "root", folder / name / "root")
    server.root = folder / name / "root"
    # The names of files in the configuration of ssh have fewer characters (test_sshd.py).
    if server.kind != "sshd":
        server.run = folder / name / "run"
    server.start()
    done = svn(server, "info", "--show-item", "revision", "URL")
    assert done.stdout == "0\n", done.stderr


@pytest.mark.parametrize("server", KINDS[1:2], indirect=True)
def test_httpd_with_a_line_end_in_the_served_path_is_refused(server):
    server.root = Path("/srv/a\nAllow from all")
    with pytest.raises(UserError, match=r"\A.*control character.*\Z"):
        server.start()
    assert server.pid == 0


def test_server_with_writable_repository_refuses_commits(server):
    subprocess.run(["chmod", "-R", "a+rwX", server.root], check=True)
    server.start()
    assert svn(server, "mkdir", "-m", "", "URL/new").returncode == 1
    assert svn(server, "propset", "--revprop", "-r0", "svn:log", "x", "URL").returncode == 1
    assert svn(server, "info", "--show-item", "revision", "URL").stdout == "0\n"


# sshd writes over its environment. That of its sessions is in test_sshd.py.
@pytest.mark.parametrize("server", KINDS[:2], indirect=True)
def test_server_environment_has_allowed_names_only(server, monkeypatch):
    monkeypatch.setenv("CI_TOKEN", "secret")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/lib")
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    server.start()
    variables = dict(word.split("=", 1) for word in process_facts.environment(server.pid))
    assert variables.pop("LD_LIBRARY_PATH") == "/opt/lib"
    assert variables.pop("LC_ALL") == "C.UTF-8"
    assert variables.keys() - {"VCSBENCH_RUN_ROOT"} == {"PATH", "VCSBENCH_SERVER"}


@needs_root
def test_server_owns_no_file_that_root_opens(server, folder):
    """Other processes of the user of the servers may make links in the writable folder."""
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
def test_server_runs_in_a_separate_group(server):
    server.start()
    status = Path(f"/proc/{server.pid}/status").read_text()
    assert f"Gid:\t{SERVER_GROUP}\t" in status and "Groups:\t \n" in status
    for what in ("environ", "fd/2", "mem"):
        argv = [*NOBODY, "head", "-c1", f"/proc/{server.pid}/{what}"]
        done = subprocess.run(argv, capture_output=True)
        assert done.returncode != 0 and done.stdout == b"", what
