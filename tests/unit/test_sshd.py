"""The private sshd of svn+ssh: what its sessions may do, what is counted of them, and what it needs."""

import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest

from project import (
    CONFIG,
    make_served,
    needs_root,
    opened,
    run_python,
    start_python,
    wait_for,
    write_program,
)
from unit.study_grid import study_environment
from vcsbench import process_facts, programs, server_user
from vcsbench.axes import axis_of
from vcsbench.axes.build_axis import why_no_sshd
from vcsbench.axes.cache_states import STATES
from vcsbench.deployment.deployed_server import Deployment
from vcsbench.errors import UserError
from vcsbench.measure import sshd
from vcsbench.measure.cell_setup import read_versions
from vcsbench.measure.run_evidence import EvidenceCollector
from vcsbench.measure.server import HOST, Svnserve, find_other_servers
from vcsbench.measure.sshd import Sshd

pytestmark = pytest.mark.skipif(bool(why_no_sshd()), reason=why_no_sshd())

SERVERS = CONFIG / "servers"
GREETING = b"( success ( 2 2 "
FILE_BYTES = 3 << 20
# It only ends a connection that hangs.
SSH_S = 60
# Debian and most systems have it. It has a name, and a shell that runs nothing.
ORDINARY = ["setpriv", "--reuid", "games", "--regid", "games", "--clear-groups", "--"]


@pytest.fixture
def folder(folder):
    return make_served(folder)


@pytest.fixture
def server(folder):
    server = Sshd(folder / "root", SERVERS / "default", folder / "run")
    yield server
    server.close()


def ssh(server, *words, options=()):
    argv = ["ssh", "-F", server.run / "ssh_config", *options, HOST, *words]
    return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=SSH_S)


def svn(server, folder, *words):
    """Run svn. URL stands for the repository `one` of a server."""
    config = folder / "config"
    config.mkdir(exist_ok=True)
    (config / "config").write_text(server.client_config())
    url = f"{server.scheme}://{server.address}/one"
    argv = ["svn", "--config-dir", config, *(str(word).replace("URL", url) for word in words)]
    return subprocess.run(argv, capture_output=True)


# Sessions


@pytest.mark.parametrize("words", [("id",), ("svnserve", "-t", "-r", "/"), ("sh", "-i"), ()])
def test_session_of_any_command_is_svnserve_of_the_served_folder(server, words):
    server.start()
    done = ssh(server, *words)
    assert done.stdout.startswith(GREETING) and b"uid=" not in done.stdout
    assert server.session_argv[1:4] == ["--tunnel", "--root", str(server.root)]


def test_session_of_a_subsystem_is_svnserve(server):
    server.start()
    assert not ssh(server, "sftp", options=["-s"]).stdout.startswith(b"\0")


def test_session_forwards_nothing_and_has_no_terminal(server):
    server.start()
    with socket.create_server((HOST, 0)) as target:
        port = target.getsockname()[1]
        done = ssh(server, options=["-W", f"{HOST}:{port}", "-o", "ClearAllForwardings=no"])
        assert done.returncode == 255 and b"stdio forwarding failed" in done.stderr
        target.setblocking(False)
        with pytest.raises(BlockingIOError):
            target.accept()
    done = ssh(server, options=["-tt", "-o", "LogLevel=INFO"])
    assert b"PTY allocation request failed" in done.stderr


def test_session_with_another_key_is_refused(server, folder):
    server.start()
    other = folder / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", other], check=True)
    config = (server.run / "ssh_config").read_text()
    changed = config.replace(str(server.run / "client_key"), str(other))
    (server.run / "ssh_config").write_text(changed)
    done = ssh(server)
    assert done.returncode == 255 and b"Permission denied (publickey)" in done.stderr


def test_client_refuses_a_server_with_another_host_key(server):
    server.start()
    known = server.run / "known_hosts"
    known.write_text(f"svn {(server.run / 'client_key.pub').read_text()}")
    done = ssh(server)
    assert done.returncode == 255 and b"Host key verification failed" in done.stderr


def test_client_uses_no_settings_keys_and_agent_of_its_user(server, folder, monkeypatch):
    home = folder / "home" / ".ssh"
    home.mkdir(parents=True)
    (home / "config").write_text("no such setting\n")
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(folder / "agent"))
        agent.listen()
        agent.setblocking(False)
        monkeypatch.setenv("HOME", str(home.parent))
        monkeypatch.setenv("SSH_AUTH_SOCK", str(folder / "agent"))
        server.start()
        with pytest.raises(BlockingIOError):
            agent.accept()
    assert [path.name for path in home.iterdir()] == ["config"]


@pytest.fixture
def session(server):
    """Open a session, and yield the process of its svnserve."""
    server.start()
    argv = ["ssh", "-F", server.run / "ssh_config", HOST]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
        assert client.stdout.read(len(GREETING)) == GREETING
        yield process_facts.family(server.pid)[-1]
        client.stdin.close()


def test_session_has_environment_of_a_server_only(server, monkeypatch):
    monkeypatch.setenv("CI_TOKEN", "secret")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/lib")
    server.start()
    argv = ["ssh", "-F", server.run / "ssh_config", "-o", "SetEnv=LANG=de_DE", HOST]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
        client.stdout.read(1)
        pid = process_facts.family(server.pid)[-1]
        variables = dict(word.split("=", 1) for word in process_facts.environment(pid))
        client.stdin.close()
    assert variables.pop("LD_LIBRARY_PATH") == "/opt/lib"
    assert variables.pop("LC_ALL") == "C.UTF-8"
    assert variables.keys() - {"VCSBENCH_RUN_ROOT"} == {"PATH", "VCSBENCH_SERVER"}


@needs_root
def test_session_runs_as_the_user_of_the_servers(session):
    ids = server_user.server_ids()
    status = Path(f"/proc/{session}/status").read_text()
    assert f"Uid:\t{ids.uid}\t{ids.uid}" in status and f"Gid:\t{ids.gid}\t{ids.gid}" in status


def test_session_gets_options_of_its_file_without_those_of_a_daemon(folder):
    server = Sshd(folder / "root", SERVERS / "fast", folder / "run", options=["--compression", "9"])
    server.start()
    server.close()
    argv = server.session_argv
    assert argv[:2] == [shutil.which("svnserve"), "--tunnel"] and "--threads" not in argv
    assert argv[-4:] == ["--block-read", "yes", "--compression", "9"] and "--read-only" in argv
    assert any("libsvn_repos" in path for path in server.mapped_files())


@pytest.mark.parametrize(("rules", "code"), [("[/]\n* = r\n", 0), ("[/]\n* =\n", 1)])
def test_session_reads_access_rules(folder, rules, code):
    deployment = Deployment(has_rules=True)
    server = Sshd(folder / "root", SERVERS / "default", folder / "run", deployment=deployment)
    server.rules = rules
    server.start()
    assert svn(server, folder, "ls", "URL").returncode == code
    server.close()


@pytest.mark.parametrize("is_writable", [True, False])
def test_session_allows_commits_to_a_writable_repository_only(folder, is_writable):
    subprocess.run(["chmod", "-R", "a+rwX", folder / "root"], check=True)
    deployment = Deployment(is_writable=is_writable)
    server = Sshd(folder / "root", SERVERS / "default", folder / "run", deployment=deployment)
    server.start()
    done = svn(server, folder, "mkdir", "-m", "", "URL/new")
    server.close()
    assert done.returncode == (0 if is_writable else 1)


def test_start_of_a_wrapper_that_drops_options_is_refused(folder):
    svnserve = shutil.which("svnserve")
    write_program(folder / "bin/svnserve", f"#!/bin/sh\nexec {svnserve} --tunnel --root /\n")
    server = Sshd(
        folder / "root", SERVERS / "default", folder / "run", programs.Programs(str(folder))
    )
    with pytest.raises(UserError, match="other options"):
        server.start()
    server.close()


# Keys


def test_private_keys_are_readable_by_user_and_server_only(server):
    server.start()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in server.run.iterdir()}
    shared = 0o640 if os.geteuid() == 0 else 0o600
    assert modes["client_key"] == 0o600 and modes["host_key"] == shared
    for path in (server.run, server.run.parent):
        assert not path.stat().st_mode & 0o007
    for name in ("client_key", "host_key"):
        secret = (server.run / name).read_text().splitlines()[1]
        assert secret not in " ".join([*server.argv, server.client_config(), *server.last_output()])


def test_keys_are_new_for_each_server(folder):
    keys = set()
    for number in range(2):
        (folder / f"{number}/run").mkdir(parents=True)
        server = Sshd(folder / "root", SERVERS / "default", folder / f"{number}/run")
        server.command()
        server.close()
        keys |= {(server.run / name).read_text() for name in ("host_key", "client_key")}
    assert len(keys) == 4


def test_folder_with_a_character_of_settings_is_refused(folder):
    (folder / "%h/run").mkdir(parents=True)
    server = Sshd(folder / "root", SERVERS / "default", folder / "%h/run")
    with pytest.raises(UserError, match="TMPDIR"):
        server.start()
    server.close()


# Ends


OWNER = f"""
import os, subprocess, sys
from pathlib import Path
from vcsbench import process_facts, processes
from vcsbench.measure.sshd import Sshd
folder = Path(sys.argv[1])
server = Sshd(folder / "root", Path({str(SERVERS / "default")!r}), folder / "run")
server.start()
argv = ["ssh", "-F", server.run / "ssh_config", "127.0.0.1"]
with processes.background(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
    client.stdout.read(1)
    print(*process_facts.family(server.pid), flush=True)
    if sys.argv[2:]:
        print(os.getuid(), *(os.stat(f"/proc/{{pid}}").st_uid for pid in process_facts.family(server.pid)))
        print(server.session_argv[:2], flush=True)
    sys.stdin.read()
server.close()
"""


def test_sessions_end_with_a_killed_run(folder):
    owner = start_python(OWNER, folder)
    family = [int(pid) for pid in owner.stdout.readline().split()]
    assert len(family) >= 4 and all(map(process_facts.command_line, family))
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    wait_for(lambda: not any(map(process_facts.command_line, family)))


@needs_root
def test_sshd_of_an_ordinary_user_runs_as_this_user(folder):
    shutil.chown(folder, "games", "games")
    for path in folder.rglob("*"):
        shutil.chown(path, "games", "games")
    done = run_python(OWNER, folder, "ids", start=opened(ORDINARY))
    uids = done.stdout.splitlines()[1].split() if done.stdout else []
    assert len(uids) >= 5 and len(set(uids)) == 1 and uids[0] != "0", done.stderr
    assert "svnserve', '--tunnel'" in done.stdout


def test_left_sshd_is_seen_by_other_runs(folder, session):
    (folder / "vcsbench-left").mkdir()
    found = find_other_servers([])
    assert any("svnserve --tunnel" in line for line in found)
    # sshd writes over its environment, with the mark of a server. Its title has the path of its run.
    run = tempfile.mkdtemp(prefix="vcsbench-", dir=folder)
    left = Sshd(folder / "root", SERVERS / "default", Path(run))
    left.start()
    found = find_other_servers([])
    left.close()
    assert any("[listener]" in line and run in line for line in found)


# Counts


def evidence_of_exports(server, folder):
    """Return the evidence of an untimed and a timed export."""
    collector = EvidenceCollector(None, None, server, "")
    for is_timed in (False, True):
        collector.begin(os.getpid(), is_timed=is_timed)
        target = folder / f"{server.kind}{is_timed}"
        done = svn(server, folder, "export", "-q", "URL", target)
        assert done.returncode == 0, done.stderr
        evidence = collector.end(os.getpid())
    return evidence


def test_evidence_has_all_that_ended_sessions_have_read_and_sent(server, folder):
    (folder / "file").write_bytes(os.urandom(FILE_BYTES))
    url = f"file://{folder}/root/one/file"
    subprocess.run(["svn", "import", "-q", "-m", "", folder / "file", url], check=True)
    subprocess.run(["chmod", "-R", "a+rX", folder / "root"], check=True)
    (folder / "daemon").mkdir()
    daemon = Svnserve(folder / "root", SERVERS / "default", folder / "daemon")
    daemon.start()
    of_daemon = evidence_of_exports(daemon, folder)
    daemon.close()
    server.start()
    of_sshd = evidence_of_exports(server, folder)
    # sshd reads from a pipe and sends what svnserve has read from files and sent to the pipe.
    extra_read = of_sshd["server_rchar"] - of_daemon["server_rchar"]
    assert FILE_BYTES < extra_read < 2 * FILE_BYTES
    assert of_sshd["server_wchar"] > 2 * FILE_BYTES
    assert of_sshd["server_processes_changed"] and of_sshd["server_same"]
    assert of_sshd["server_peak_memory_bytes"] is None
    assert of_daemon["server_peak_memory_bytes"] > 0


def test_versions_name_ssh_sshd_and_svnserve(server):
    versions = read_versions(server.version_commands())
    assert versions["ssh"][0].isdigit() and versions["sshd"][0].isdigit()
    assert server.system_version(versions) == versions["svnserve"]
    assert versions["svnserve"].startswith("1.")


def test_version_of_svnserve_is_read_with_the_libraries_of_its_build(folder):
    # The program prints its library path in the place of its version.
    write_program(folder / "bin/svnserve", '#!/bin/sh\necho "1$LD_LIBRARY_PATH"\n')
    build = programs.Programs(str(folder), "/opt/lib")
    server = Sshd(folder / "root", SERVERS / "default", folder / "run", build)
    assert read_versions(server.version_commands())["svnserve"] == "1/opt/lib"
    server.close()


# What it needs


def test_cache_state_with_a_kept_server_is_skipped():
    environment = study_environment("fsfs-san-2014")
    for name, state in STATES.items():
        promises = [state.steps.get(key, {}) for key in ("promises", "later_promises")]
        keeps = any(promise.get("server") == "kept" for promise in promises)
        draft = {"state": state.steps, "storage": {"path": "/var/tmp"}}
        for server in ("sshd", "svnserve"):
            draft["access"] = {"server": server}
            reason = axis_of("cache").why_not(name, draft, environment)
            assert ("svnserve -t" in reason) == (keeps and server == "sshd"), name


@pytest.mark.parametrize("missing", ["ssh", "ssh-keygen", "sshd", "libnss_wrapper.so"])
def test_why_no_sshd_names_what_is_missing(folder, monkeypatch, missing):
    for name in {"ssh", "ssh-keygen", "sshd"} - {missing}:
        write_program(folder / "bin" / name, "#!/bin/sh\n")
    monkeypatch.setenv("PATH", str(folder / "bin"))
    monkeypatch.setattr(programs, "UNPACKED_SSHD", folder / "unpacked")
    if missing == "libnss_wrapper.so":
        monkeypatch.setattr(programs, "NSS_WRAPPER", "no-such-library.so")
        monkeypatch.setattr("vcsbench.axes.build_axis.NSS_WRAPPER", "libnss_wrapper.so")
    else:
        (folder / "lib").mkdir()
        (folder / "lib/libnss_wrapper.so").touch()
    assert re.match(rf"(there is no {missing}|{missing} is not installed) ", why_no_sshd())


@pytest.mark.parametrize(("name", "is_refused"), [("a b", True), ("a:b", True), ("plain", False)])
def test_why_no_sshd_names_a_library_that_cannot_be_preloaded(
    folder, monkeypatch, name, is_refused
):
    prefix = folder / name
    for program in ("ssh", "ssh-keygen", "sshd"):
        write_program(prefix / "bin" / program, "#!/bin/sh\n")
    (prefix / "lib").mkdir()
    (prefix / "lib/libnss_wrapper.so").touch()
    # A path in PATH cannot have a colon.
    monkeypatch.setattr(shutil, "which", lambda program: f"{prefix}/bin/{program}")
    monkeypatch.setattr(programs, "UNPACKED_SSHD", folder / "unpacked")
    assert ("LD_PRELOAD" in why_no_sshd()) is is_refused


def test_why_no_sshd_names_folders_that_it_cannot_use(folder, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "%h"))
    assert "TMPDIR" in why_no_sshd()
    if os.geteuid() == 0:
        (folder / "closed").mkdir(mode=0o700)
        monkeypatch.setattr(tempfile, "tempdir", str(folder / "closed"))
        assert f"cannot enter {folder}/closed" in why_no_sshd()


@needs_root
def test_why_no_sshd_of_a_user_without_a_name():
    start = ["setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups", "--"]
    program = "from vcsbench.axes.build_axis import why_no_sshd; print(why_no_sshd())"
    done = run_python(program, start=opened(start))
    assert "user 54321 has none" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("printed", "has_penalties"), [("9.2p1", False), ("9.8p1", True), ("10.0p2", True)]
)
def test_newer_sshd_gets_directives_that_older_ones_do_not_know(
    folder, monkeypatch, printed, has_penalties
):
    unpacked = folder / "unpacked"
    text = f"#!/bin/sh\necho 'OpenSSH_{printed} Debian-5, OpenSSL 3.5.1' >&2\n"
    write_program(unpacked / "usr/sbin/sshd", text)
    write_program(unpacked / "usr/lib/openssh/sshd-session", "")
    (unpacked / "usr/lib/libnss_wrapper.so").touch()
    for module in (programs, sshd):
        monkeypatch.setattr(module, "UNPACKED_SSHD", unpacked)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    server = Sshd(folder / "root", SERVERS / "default", folder / "run")
    server.command()
    server.close()
    lines = (server.run / "sshd_config").read_text().splitlines()
    assert ("PerSourcePenalties no" in lines) == has_penalties
    assert f"SshdSessionPath {unpacked}/usr/lib/openssh/sshd-session" in lines
    assert not any(line.startswith("SshdAuthPath") for line in lines)
