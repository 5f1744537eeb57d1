"""Measurements are isolated from other users and from settings of the machine, in real namespaces."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from git_histories import git
from project import AS_USER, ROOT, needs, open_folder
from vcsbench import isolation
from vcsbench.measure.prepared_cell import CLIENTS
from vcsbench.measure.server import MARKER, other_servers
from vcsbench.plan import recipe as recipes
from vcsbench.sources import is_private, svn_source

WORKFLOW = ROOT / "workflow"
needs_root = pytest.mark.skipif(
    not isolation.is_allowed(isolation.unshare_network), reason="takes root and namespaces"
)


def can_connect(port, prefix):
    """Return True if a process started with `prefix` reaches a port of its loopback interface."""
    program = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5)"
    argv = [*prefix, "/usr/bin/python3", "-c", program]
    return subprocess.run(argv, stderr=subprocess.DEVNULL).returncode == 0


INSIDE = """
import socket, sys
sys.path.insert(0, {workflow!r})
from vcsbench import isolation
isolation.unshare_network()
isolation.unshare_network()
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
sys.stdin.read()
"""


@needs_root
def test_own_network_is_reached_from_within_only():
    argv, pipe = [sys.executable, "-c", INSIDE.format(workflow=str(WORKFLOW))], subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin and process.stdout
        port = int(process.stdout.readline())
        within = ["nsenter", f"--net=/proc/{process.pid}/ns/net"]
        assert can_connect(port, within) and can_connect(port, [*within, *AS_USER])
        assert not can_connect(port, []) and not can_connect(port, AS_USER)


def test_other_servers_of_vcsbench_have_marker_or_folder(tmp_path):
    program = tmp_path / "vcsbench-0a1b" / "svnserve"
    program.parent.mkdir()
    shutil.copy2(shutil.which("sleep") or "", program)
    started = [
        subprocess.Popen(["sleep", "61.1"], env={**os.environ, MARKER: "/tmp/somewhere"}),
        subprocess.Popen([program, "61.2"]),
        subprocess.Popen(["sleep", "61.3"]),
    ]
    try:
        servers = [line for line in other_servers([]) if " 61." in line]
        assert sorted(line[-4:] for line in servers) == ["61.1", "61.2"]
        ignored = [process.pid for process in started]
        assert not [line for line in other_servers(ignored) if " 61." in line]
    finally:
        for process in started:
            process.kill()
            process.wait()


PROGRAM = """
import os, socket, sys
sys.path.insert(0, {workflow!r})
from vcsbench import isolation
before = os.readlink("/proc/self/ns/net")
isolation.unshare_user()
assert os.readlink("/proc/self/ns/net") != before
listening = socket.create_server(("127.0.0.1", 0))
socket.create_connection(listening.getsockname(), 5)
print(os.geteuid(), os.stat(".").st_uid == os.stat("/").st_uid, flush=True)
"""


@pytest.mark.skipif(
    not isolation.is_allowed(isolation.unshare_user), reason="this kernel allows no user namespace"
)
def test_user_namespace_of_a_plain_user_has_a_network_of_its_own(tmp_path):
    shutil.copytree(
        WORKFLOW / "vcsbench", tmp_path / "vcsbench", ignore=shutil.ignore_patterns("report")
    )
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and str(folder).startswith("/tmp/"):
            folder.chmod(0o755)
    program = PROGRAM.format(workflow=str(tmp_path))
    prefix = AS_USER if os.geteuid() == 0 else []
    done = subprocess.run(
        [*prefix, "/usr/bin/python3", "-c", program], capture_output=True, text=True, cwd="/"
    )
    if "SyntaxError" in done.stderr:
        pytest.skip("the system's Python is too old")
    uid = "12345" if prefix else str(os.geteuid())
    assert done.stdout == f"{uid} True\n", done.stderr


def environment_of(definition, shared=False):
    config = SimpleNamespace(settings=SimpleNamespace(shared_servers=shared))
    return SimpleNamespace(repositories={"one": definition}, config=config)


def parts(scheme="svnserve", **more):
    return {"access": {"server": scheme}, "repository": {"name": "one"}, **more}


@pytest.fixture
def private(tmp_path):
    (tmp_path / "closed" / "db").mkdir(parents=True)
    (tmp_path / "closed").chmod(0o700)
    return {"source": "svn", "path": str(tmp_path / "closed")}


CASES = [
    # root, user namespaces, private: network, and if the cell is skipped
    (True, True, True, "own", False),
    (True, True, False, "own", False),
    (False, True, True, "user", False),
    (False, True, False, "shared", False),
    (False, False, True, "shared", True),
    (False, False, False, "shared", False),
]


@pytest.mark.parametrize(("root", "user", "is_closed", "network", "is_skipped"), CASES)
def test_isolation_of_a_server_cell_depends_on_rights_and_source(
    private, monkeypatch, root, user, is_closed, network, is_skipped
):
    rights = {isolation.unshare_network: root, isolation.unshare_user: user}
    monkeypatch.setattr(isolation, "is_allowed", rights.get)
    recipe = parts()
    environment = environment_of(private if is_closed else {"source": "generated"})
    recipe["network"] = recipes.network_of(recipe, environment)
    assert recipe["network"] == network
    assert bool(recipes.why_not_isolated(recipe, environment)) == is_skipped
    assert not recipes.why_not_isolated(recipe, environment_of(private, shared=True))
    for without_our_server in (parts(""), parts(filesystem={"guest": "ext4"})):
        assert recipes.network_of(without_our_server, environment) == ""


@pytest.mark.parametrize(
    ("closed", "mode", "expected"),
    [
        (".", 0o700, True), (".", 0o711, True), ("..", 0o710, True), ("db", 0o750, True),
        ("db/revs", 0o700, True), ("db/current", 0o640, True), (".", 0o755, False),
        ("db/revs/0", 0o711, True), ("db/revs/0/0", 0o600, True), ("db/revprops/0/0", 0o640, True),
        ("../elsewhere", 0o700, True), ("db/fsfs.conf", 0o600, False), ("conf", 0o700, False),
    ],
)  # fmt: skip
def test_svn_source_is_private_if_one_folder_or_file_of_it_is(closed, mode, expected):
    with open_folder("/tmp") as folder:
        path = folder / "above" / "one"
        for name in ("db/revs/0/0", "db/revprops/0/0", "conf/passwd"):
            (path / name).parent.mkdir(parents=True)
            (path / name).touch()
        for name in ("db/current", "format", "db/fsfs.conf"):
            (path / name).touch()
        # An old shard on another disk.
        (folder / "above/elsewhere/1").mkdir(parents=True)
        (path / "db/revs/1").symlink_to("../../../elsewhere/1")
        (path / closed).resolve().chmod(mode)
        assert is_private({"source": "svn", "path": str(path)}) == expected
        assert is_private({"url": f"file://{path}"}) == expected


@pytest.mark.parametrize(("revisions", "listed"), [(100, 100), (101, 51), (250, 84)])
def test_svn_source_of_many_revisions_lists_even_sample(tmp_path, monkeypatch, revisions, listed):
    monkeypatch.setattr(svn_source, "LISTED_FILES", 100)
    for number in range(revisions):
        shard = tmp_path / "db/revs" / str(number // 50)
        shard.mkdir(parents=True, exist_ok=True)
        (shard / str(number)).touch()
    entries = list(svn_source.list_history(tmp_path))
    assert sum(entry.is_file() for entry in entries) == listed
    # The folders db and revs, and all shards.
    assert sum(entry.is_dir() for entry in entries) == 2 + -(-revisions // 50)


@pytest.mark.parametrize(
    ("closed", "mode", "expected"),
    [
        (".", 0o755, False), (".", 0o711, True), ("a", 0o750, True), ("a/b", 0o600, True),
        ("a/b", 0o640, True), ("a/.git/b", 0o600, False), ("a/pipe", 0o600, False),
    ],
)  # fmt: skip
def test_directory_source_is_private_if_one_folder_or_file_of_it_is(closed, mode, expected):
    with open_folder("/tmp") as folder:
        (folder / "a/.git").mkdir(parents=True)
        for name in ("a/b", "a/.git/b", "kit.tar"):
            (folder / name).touch()
        os.mkfifo(folder / "a/pipe")
        (folder / "a/link").symlink_to("/root")
        (folder / closed).chmod(mode)
        assert is_private({"source": "directory", "path": str(folder)}) == expected
        (folder / "kit.tar").chmod(0o640)
        assert is_private({"source": "archive", "path": str(folder / "kit.tar")})


GIT_FOLDERS = ("", "/objects", "/objects/??/*", "/objects/??", "/objects/pack/*.pack")


@needs("git")
@pytest.mark.parametrize("closed", ["", "main", *(f"main/.git{path}" for path in GIT_FOLDERS)])
def test_git_source_is_private_if_a_folder_or_file_elsewhere_is(closed):
    with open_folder("/tmp") as folder:
        git(folder, "init", "-q", "main")
        git(folder / "main", "commit", "-q", "--allow-empty", "-m", "x")
        git(folder / "main", "worktree", "add", "-q", "../linked")
        git(folder, "clone", "-q", "--shared", "main", "borrower")
        shutil.copytree(folder / "main/.git", folder / "main/moved")
        (folder / "link").mkdir()
        (folder / "link/.git").symlink_to("../main/moved")
        git(folder / "main", "repack", "-q")
        # As git creates them for an interrupted fetch, a pack to keep, and a partial clone.
        for name in ("tmp_pack_1", "pack-1.keep", "pack-1.promisor"):
            (folder / "main/.git/objects/pack" / name).touch(0o600)
        (folder / "main/.git/config").chmod(0o600)
        for path in [*folder.glob(closed)][:1] if closed else []:
            path.chmod(0o700)
        for name in ("linked", "borrower") + ("link",) * (closed in ("", "main")):
            definition = {"source": "git", "path": str(folder / name)}
            assert is_private(definition) == bool(closed), name


def test_source_behind_a_server_is_private_and_a_generated_one_is_not():
    assert is_private({"source": "svn", "url": "https://example.org/svn"})
    assert not is_private({"source": "generated"})


BROKEN = """
import subprocess, sys
sys.path.insert(0, {workflow!r})
from pathlib import Path
from vcsbench import isolation
from vcsbench.kernel import check_result, libc
from vcsbench.measure.prepared_cell import CLIENTS, PreparedCell
from vcsbench.programs import Programs
from vcsbench.subjects.fsfs import run_client
isolation.unshare_mounts()
check_result(libc.mount({there!r}, b"/etc/subversion", None, 0x1000, None))
url, folder = {url!r}, Path({folder!r})
run_client("svn", "checkout", url, folder / "wc")
stage = object.__new__(PreparedCell)
stage.folder, stage.files = folder, folder / "files"
stage.recipe, stage.input, stage.subjects = {{"axes": {{}}}}, None, []
stage.client = Programs()
commands = {{"svn": "ls", "svnbench": "null-list", "svnrdump": "dump", "svnsync": "info"}}
for name in CLIENTS:
    program, *options = stage.fill_template("{{" + name + "}}")
    for given in ([], options):
        argv = [program, commands[name], *given, url]
        print(name, "Section header" in subprocess.run(argv, capture_output=True, text=True).stderr)
"""


@needs_root
@pytest.mark.skipif(not Path("/etc/subversion").is_dir(), reason="no /etc/subversion")
def test_clients_read_no_settings_of_the_machine(tmp_path):
    """Each client that reads the settings fails, because no client can parse them."""
    there, folder = tmp_path / "there", tmp_path / "run"
    folder.mkdir()
    there.mkdir()
    (there / "config").write_text("[miscellany\n")
    (there / "servers").write_text("[global\n")
    subprocess.run(["svnadmin", "create", tmp_path / "r"], check=True)
    program = BROKEN.format(
        workflow=str(WORKFLOW), there=bytes(there), folder=str(folder), url=f"file://{tmp_path}/r"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    expected = [f"{name} {fails}" for name in CLIENTS for fails in (True, False)]
    assert done.stdout.split("\n")[:-1] == expected, done.stderr
