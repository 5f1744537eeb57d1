"""Measurements are isolated from other users, other measurements and settings of the machine."""

import os
import stat
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from project import AS_USER, HANGING_S, ODD_FILES, ROOT, needs_root, start_python
from vcsbench import isolation
from vcsbench.errors import UserError
from vcsbench.machine_lock import describe_process, lock_holder, machine_lock
from vcsbench.measure.cell_setup import CLIENTS
from vcsbench.plan import recipe as recipes

WORKFLOW = ROOT / "workflow"
needs_namespaces = pytest.mark.skipif(
    not isolation.is_allowed(isolation.unshare_network), reason="takes root and namespaces"
)


def can_connect(port, prefix):
    """Return True if a process started with `prefix` reaches a port of its loopback interface."""
    program = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5)"
    argv = [*prefix, "/usr/bin/python3", "-c", program]
    return subprocess.run(argv, stderr=subprocess.DEVNULL).returncode == 0


INSIDE = """
import socket, sys
from vcsbench import isolation
isolation.unshare_network()
isolation.unshare_network()
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
sys.stdin.read()
"""
INTERFACES = """
from vcsbench import isolation
isolation.unshare_network()
from vcsbench.measure.counters import NFS_CLIENT
for path in ("/proc/net/dev", NFS_CLIENT.replace("rpc/nfs", "dev")):
    print(*(line.split()[0] for line in open(path) if ":" in line))
"""


@needs_namespaces
def test_nfs_client_is_counted_in_the_network_of_the_parent():
    found, errors = start_python(INTERFACES).communicate()
    lines = Path("/proc/net/dev").read_text().splitlines()
    interfaces = [line.split()[0] for line in lines if ":" in line]
    assert found.splitlines() == ["lo:", " ".join(interfaces)], errors


@needs_namespaces
def test_own_network_is_reached_from_within_only():
    with start_python(INSIDE) as process:
        assert process.stdin and process.stdout
        port = int(process.stdout.readline())
        within = ["nsenter", f"--net=/proc/{process.pid}/ns/net"]
        assert can_connect(port, within) and can_connect(port, [*within, *AS_USER])
        assert not can_connect(port, []) and not can_connect(port, AS_USER)


def environment_of(definition, shared=False):
    config = SimpleNamespace(settings=SimpleNamespace(shared_servers=shared))
    return SimpleNamespace(repositories={"one": definition}, config=config)


@pytest.mark.parametrize(
    ("root", "user", "is_closed", "network", "is_skipped"),
    [
        *((True, True, True, "own", False), (True, True, False, "own", False)),
        *((False, True, True, "user", False), (False, True, False, "shared", False)),
        *((False, False, True, "shared", True), (False, False, False, "shared", False)),
    ],
)
def test_isolation_of_a_server_cell_depends_on_rights_and_source(
    tmp_path, monkeypatch, root, user, is_closed, network, is_skipped
):
    (tmp_path / "closed/db").mkdir(parents=True)
    (tmp_path / "closed").chmod(0o700)
    private = {"source": "svn", "path": str(tmp_path / "closed")}
    rights = {isolation.unshare_network: root, isolation.unshare_user: user}
    monkeypatch.setattr(isolation, "is_allowed", rights.get)
    recipe = {"access": {"server": "svnserve"}, "repository": {"name": "one"}}
    environment = environment_of(private if is_closed else {"source": "generated"})
    recipe["network"] = recipes.choose_network(recipe, environment)
    assert recipe["network"] == network
    assert bool(recipes.why_not_isolated(recipe, environment)) == is_skipped
    assert not recipes.why_not_isolated(recipe, environment_of(private, shared=True))
    for other in ({"access": {"server": ""}}, {"filesystem": {"guest": "ext4"}}):
        assert recipes.choose_network({**recipe, **other}, environment) == ""


IN_GUEST = {"make": "", "guest": "ext4", "root": "/mnt/nfs", "scratch": "flat"}


@pytest.mark.parametrize(
    ("storage", "keys", "is_skipped"),
    [
        ("disk", {"output": ""}, False),
        ("flat", {"output": ""}, True),
        ("disk", {"output": "target", "output_location": "scratch"}, True),
        ("disk", {"output": "target", "output_location": "storage"}, False),
        ("disk", {"output": "working_copy", "filesystem": {"make": "", "root": "flat"}}, True),
        ("disk", {"output": "working_copy", "filesystem": {"make": "ext4", "root": "disk"}}, False),
        ("disk", {"output": "working_copy", "filesystem": IN_GUEST}, True),
    ],
)
def test_private_cell_with_files_where_no_modes_are_kept_is_skipped(
    tmp_path, monkeypatch, storage, keys, is_skipped
):
    (tmp_path / "closed").mkdir(mode=0o700)
    settings = SimpleNamespace(scratch="flat", output_location="auto")
    monkeypatch.setattr(recipes, "can_be_closed", lambda folder: folder.name != "flat")
    draft = {"repository": {"name": "one"}, "storage": {"path": storage}, **keys}
    private = {"source": "directory", "path": str(tmp_path / "closed")}
    for definition, expected in ((private, is_skipped), ({"source": "generated"}, False)):
        environment = SimpleNamespace(
            repositories={"one": definition},
            config=SimpleNamespace(settings=settings),
            root=tmp_path,
        )
        assert bool(recipes.why_not_closed(draft, environment)) == expected


BROKEN = """
import subprocess
from pathlib import Path
from vcsbench import isolation
from vcsbench.kernel import check_result, libc
from vcsbench.measure.cell_setup import CLIENTS, CellSetup
from vcsbench.programs import Programs
from vcsbench.systems.fsfs import run_client
isolation.unshare_mounts()
check_result(libc.mount({there!r}, b"/etc/subversion", None, 0x1000, None))
url, folder = {url!r}, Path({folder!r})
run_client(Programs(), "checkout", url, folder / "wc")
stage = object.__new__(CellSetup)
stage.folder, stage.files = folder, folder / "files"
stage.recipe, stage.subjects = {{"axes": {{}}}}, []
stage.input = stage.output = None
stage.client, stage.server = Programs(), None
commands = {{"svn": "ls", "svnbench": "null-list", "svnmucc": "mkdir"}}
commands |= {{"svnrdump": "dump", "svnsync": "info"}}
for name in CLIENTS:
    program, *options = stage.fill_template("{{" + name + "}}")
    for given in ([], options):
        argv = [program, commands[name], *given, url]
        print(name, "Section header" in subprocess.run(argv, capture_output=True, text=True).stderr)
"""


@needs_namespaces
@pytest.mark.skipif(not Path("/etc/subversion").is_dir(), reason="no /etc/subversion")
def test_clients_read_no_settings_of_the_machine(tmp_path):
    there, folder = tmp_path / "there", tmp_path / "run"
    folder.mkdir()
    there.mkdir()
    # A client that reads these fails: no client can parse them.
    (there / "config").write_text("[miscellany\n")
    (there / "servers").write_text("[global\n")
    subprocess.run(["svnadmin", "create", tmp_path / "r"], check=True)
    url = f"file://{tmp_path}/r"
    program = BROKEN.format(there=bytes(there), folder=str(folder), url=url)
    found, errors = start_python(program).communicate()
    expected = [f"{name} {fails}" for name in CLIENTS for fails in (True, False)]
    assert found.split("\n")[:-1] == expected, errors


# The lock of all measurements on a machine with several users

HOLD = """
import sys
sys.path.insert(0, {workflow!r})
from vcsbench import machine_lock
machine_lock.LOCK_PATH = {path!r}
with machine_lock.machine_lock():
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path, monkeypatch):
    """The path of the lock in a folder with the mode of /tmp."""
    tmp_path.chmod(0o1777)
    monkeypatch.setattr("vcsbench.machine_lock.LOCK_PATH", str(tmp_path / "lock"))
    return tmp_path / "lock"


def hold(path):
    """Start a process that holds the lock until its standard input ends."""
    return start_python(HOLD.format(workflow=str(WORKFLOW), path=str(path)))


@contextmanager
def closing(*processes):
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


MADE_BEFORE = {
    **ODD_FILES,
    "dangling link": lambda path: path.symlink_to(path.with_name("new")),
    "link to a file": lambda path: path.symlink_to("/etc/hostname"),
    "hard link": lambda path: (
        path.with_name("other").touch(),
        os.link(path.with_name("other"), path),
    ),
}


@pytest.mark.parametrize("kind", MADE_BEFORE)
def test_lock_of_another_file_type_is_refused(path, kind):
    MADE_BEFORE[kind](path)
    with pytest.raises(UserError, match=rf"{path}: .*remove it") as refused, machine_lock():
        pass
    assert "\n" not in str(refused.value)
    assert not path.with_name("new").exists()


def test_lock_that_became_a_link_while_waiting_is_refused(path, monkeypatch):
    def replace_by_link(fd):
        path.unlink()
        path.symlink_to("new")
        return False

    monkeypatch.setattr("vcsbench.machine_lock._acquire", replace_by_link)
    with pytest.raises(UserError, match=str(path)), machine_lock():
        pass


@needs_root
@pytest.mark.parametrize("mode", [0o000, 0o600])
def test_lock_that_the_user_may_not_read_is_refused(path, mode):
    path.touch()
    path.chmod(mode)
    program = HOLD.format(workflow=str(WORKFLOW), path=str(path))
    path.parent.parent.chmod(0o755)
    argv = [*AS_USER, "/usr/bin/python3", "-c", program, "0"]
    done = subprocess.run(argv, capture_output=True, text=True)
    if "Permission denied: '/work" in done.stderr or "No module" in done.stderr:
        pytest.skip("that user cannot read this checkout")
    assert f"{path}: " in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(("umask", "is_old"), [(0o077, False), (0o000, False), (0o022, True)])
def test_lock_under_any_umask_is_readable_by_all(path, umask, is_old):
    if is_old:  # of an earlier release
        path.touch(mode=0o600)
    before = os.umask(umask)
    try:
        with machine_lock():
            assert stat.S_IMODE(path.stat().st_mode) == 0o644
    finally:
        os.umask(before)


def test_lock_holder_is_the_process_that_holds_it(path):
    assert lock_holder() == 0
    holding = hold(path)
    with closing(holding):
        assert holding.stdout and holding.stdout.readline() == "held\n"
        assert lock_holder() == holding.pid
        holder = describe_process(holding.pid)
        assert " of ? " not in holder and sys.executable in holder and "started at" in holder
        waiting = hold(path)
        assert waiting.stderr and f"process {holding.pid} of " in waiting.stderr.readline()
    assert waiting.communicate(timeout=HANGING_S)[0] == "held\n"
    assert lock_holder() == 0


def test_lock_file_that_was_replaced_while_waiting_is_taken_again(path):
    holding = hold(path)
    assert holding.stdout and holding.stdout.readline() == "held\n"
    waiting = hold(path)
    with closing(holding, waiting):
        assert waiting.stderr and "waiting" in waiting.stderr.readline()
        path.unlink()
        holding.stdin.close()
        assert waiting.stdout and waiting.stdout.readline() == "held\n"
        assert lock_holder() == waiting.pid
