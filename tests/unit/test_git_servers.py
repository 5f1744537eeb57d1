"""Real servers of git: git-daemon, httpd with git-http-backend, and sshd with git-shell."""

import json
import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from git_histories import FILE, Commit, git, make_git
from project import needs_root
from vcsbench import process_facts, processes
from vcsbench.axes.build_axis import why_no_sshd
from vcsbench.errors import UserError
from vcsbench.measure.git_servers import GitDaemon, GitHttpd, GitSshd
from vcsbench.measure.git_trace import GitTrace, read_git_trace
from vcsbench.programs import Programs

needs_daemon = pytest.mark.skipif(not Programs().find_git("git-daemon"), reason="no git-daemon")
needs_httpd = pytest.mark.skipif(
    not Programs().httpd or not Programs().find_module("cgi"), reason="no httpd with mod_cgi"
)
needs_sshd = pytest.mark.skipif(bool(why_no_sshd()), reason=why_no_sshd())
KINDS = [
    pytest.param(GitDaemon, marks=needs_daemon),
    pytest.param(GitHttpd, marks=needs_httpd),
    pytest.param(GitSshd, marks=needs_sshd),
]


@pytest.fixture
def served(folder):
    """A folder with the bare repository `one`, which is of the user who runs the tests."""
    (folder / "run").mkdir(mode=0o700)
    # Large enough to be seen in the counters of servers.
    commits = [Commit({b"a": (FILE, random.Random(n).randbytes(200_000))}) for n in range(2)]
    make_git(folder / "work", commits)
    root = folder / "root"
    root.mkdir()
    git(folder / "work", "clone", "-q", "--bare", ".", str(root / "one"))
    return root


@pytest.fixture(params=KINDS)
def server(folder, served, request, monkeypatch):
    server = request.param(served, folder, folder / "run")
    for name, value in server.client_variables().items():
        monkeypatch.setenv(name, value)
    yield server
    server.close()


def url(server, name="one"):
    return f"{server.scheme}://{server.address}/{name}"


def run_client(*arguments, **variables):
    return subprocess.run(
        ["git", *map(str, arguments)],
        env={**os.environ, "GIT_TERMINAL_PROMPT": "0", **variables},
        capture_output=True,
        text=True,
    )


def test_git_server_serves_another_user_and_counts_ended_processes(server, served, folder):
    server.start()
    before = process_facts.family_usage(server.pid)[1]
    assert run_client("clone", "-q", "--mirror", url(server), folder / "clone").returncode == 0
    server.await_connections()
    used = process_facts.family_usage(server.pid)[1]
    # upload-pack and pack-objects were children of the server: both wrote the pack. With mod_cgid, the
    # counts of its programs would be lost, and only httpd would have written it.
    packs = sum(path.stat().st_size for path in (folder / "clone/objects/pack").glob("*.pack"))
    assert used.wchar - before.wchar >= 2 * packs > 0
    refs = "--format=%(objectname) %(refname)"
    assert git(folder / "clone", "for-each-ref", refs) == git(served / "one", "for-each-ref", refs)
    assert server.system_version({"git": "2.39.5"}) == "2.39.5"
    assert processes.run_program(server.version_commands()["git"]).output.startswith("git version ")


@needs_root
def test_git_server_of_root_runs_as_another_user(server):
    server.start()
    assert Path(f"/proc/{server.pid}").stat().st_uid != 0


def test_git_server_refuses_a_push_and_unknown_repositories(server, folder):
    server.start()
    pushed = run_client("-C", folder / "work", "push", "-q", url(server), "HEAD:refs/heads/new")
    assert pushed.returncode != 0
    assert run_client("ls-remote", url(server, "two")).returncode != 0
    # Over ssh, git serves whatever the server's user may read.
    if not isinstance(server, GitSshd):
        assert run_client("ls-remote", url(server, "../root/one")).returncode != 0


@needs_sshd
def test_git_sshd_needs_no_program_of_subversion(folder, served, monkeypatch):
    # A git in the PATH of the test alone, with the programs of ssh: svnserve is missing.
    (folder / "bin").mkdir()
    for name in ("git", "ssh", "ssh-keygen"):
        (folder / "bin" / name).symlink_to(shutil.which(name))
    server = GitSshd(served, folder, folder / "run")
    monkeypatch.setenv("PATH", str(folder / "bin"))
    assert server.version_commands().keys() == {"sshd", "ssh", "git"}


@needs_sshd
@pytest.mark.parametrize("command", ["", "true", "git-upload-pack /x; true", "svnserve -t"])
def test_git_sshd_runs_no_other_command(folder, served, command):
    server = GitSshd(served, folder, folder / "run")
    server.start()
    argv = ["ssh", "-F", str(folder / "run/ssh_config"), server.host, *filter(None, [command])]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True)
    server.close()
    assert done.returncode != 0 and not done.stdout


def test_git_server_reads_no_configuration_of_its_user(server, folder, served):
    hook = folder / "canary"
    git(served / "one", "config", "uploadpack.packObjectsHook", f"touch {hook};")
    server.start()
    assert run_client("clone", "-q", "--mirror", url(server), folder / "clone").returncode == 0
    # git follows this key in configuration of its user only, which servers do not have.
    assert not hook.exists()
    words = process_facts.environment(server.pid)
    if isinstance(server, GitDaemon):
        assert "GIT_CONFIG_NOSYSTEM=1" in words and "GIT_CONFIG_KEY_0=gc.auto" in words


@pytest.mark.parametrize("protocol", ["0", "2"])
def test_git_trace_has_the_protocol_that_was_used(server, folder, protocol):
    server.start()
    trace = folder / "trace"
    command = ("-c", f"protocol.version={protocol}", "ls-remote", "-q", url(server))
    assert run_client(*command, GIT_TRACE2_EVENT=str(trace)).returncode == 0
    assert read_git_trace(trace) == GitTrace(protocol, 0)


def test_git_trace_counts_objects_of_a_fetch(server, served, folder):
    count = int(git(served / "one", "rev-list", "--count", "--objects", "--all"))
    git(folder, "init", "-q", "--bare", str(folder / "empty"))
    server.start()
    trace = folder / "trace"
    command = ("--git-dir", folder / "empty", "fetch", "-q", url(server), "+refs/*:refs/*")
    assert run_client(*command, GIT_TRACE2_EVENT=str(trace)).returncode == 0
    assert read_git_trace(trace).objects == count


def test_git_trace_adds_received_packs_and_prefers_them_to_a_written_one(tmp_path):
    def data(key, value):
        return json.dumps({"event": "data", "key": key, "value": value})

    def started(*argv):
        return json.dumps({"event": "child_start", "key": "", "value": "", "argv": argv})

    trace = tmp_path / "trace"
    lines = [
        data("negotiated-version", "2"),
        started("git", "index-pack", "--stdin", "--pack_header=2,120"),
        started("git", "unpack-objects", "--pack_header=2,3"),
        started("git", "rev-list", "--pack_header=2,x"),
        data("write_pack_file/wrote", "999"),
    ]
    trace.write_text("\n".join(lines) + "\n")
    assert read_git_trace(trace) == GitTrace("2", 123)
    trace.write_text(lines[-1] + "\n")
    assert read_git_trace(trace) == GitTrace("", 999)
    trace.write_text("")
    assert read_git_trace(trace) == GitTrace("", 0)


def test_git_trace_of_an_old_git_is_missing(tmp_path):
    with pytest.raises(UserError, match=r"git 2\.22"):
        read_git_trace(tmp_path / "trace")


def test_git_trace_has_line_separators_within_its_lines(tmp_path):
    event = {"event": "child_start", "argv": ["git", "a\u2028b", "--pack_header=2,7"]}
    trace = tmp_path / "trace"
    trace.write_text(json.dumps(event, ensure_ascii=False) + "\n", encoding="utf-8")
    assert read_git_trace(trace) == GitTrace("", 7)


@needs_daemon
def test_git_daemon_that_does_not_start_names_no_private_folder(folder, served):
    server = GitDaemon(served, folder, folder / "run", options=["--no-such-option"])
    with pytest.raises(UserError) as caught:
        server.start()
    server.close()
    text = str(caught.value)
    assert text.startswith("git-daemon did not start: ") and str(folder) not in text
    assert text.endswith(". Check the installation of git-daemon.")


@needs_daemon
def test_git_daemon_wrapper_is_refused(folder, served):
    class Wrapped(GitDaemon):
        def command(self):
            return [Programs().find_git("git"), "daemon", *super().command()[1:]]

    server = Wrapped(served, folder, folder / "run")
    with pytest.raises(UserError, match=r"wrapper .*git-daemon"):
        server.start()
    server.close()
