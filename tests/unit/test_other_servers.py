"""Real servers of Mercurial and Fossil, and the clones that are made of their repositories."""

import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from project import needs, needs_root
from vcsbench import processes
from vcsbench.environment import program_environment
from vcsbench.measure.other_servers import FossilServer, HgServe
from vcsbench.prepare.preparations import preparation_of
from vcsbench.sources.generated import GeneratedSource
from vcsbench.systems import FOSSIL, MERCURIAL
from vcsbench.systems.base import COMMITS
from vcsbench.systems.fossil import FOSSIL_FILE

pytestmark = needs("hg", "fossil", "git")
KINDS = {HgServe: MERCURIAL, FossilServer: FOSSIL}
COPY = "h.one.plain.1"


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """The folder with a small history in each system, by the format."""
    folder = tmp_path_factory.mktemp("loaded")
    for system in KINDS.values():
        source = GeneratedSource("h", {"profile": "ruby", "scale": 0.0005, "seed": 1}, "here")
        (folder / system.fmt).mkdir()
        preparation_of(system.fmt).load(source, system.fmt, folder / system.fmt)
    return folder


@pytest.fixture(params=KINDS)
def server(folder, loaded, request):
    system = KINDS[request.param]
    (folder / "run").mkdir(mode=0o700)
    root = folder / "root"
    root.mkdir()
    source = loaded / system.fmt / f"{system.fmt}.plain"
    subprocess.run(["cp", "-a", source, root / COPY], check=True)
    system.store.finish_copy(root / COPY, system.store.list_files(source))
    server = request.param(root, folder, folder / "run")
    yield server
    server.close()


def clone(server, folder, name=COPY):
    """Clone a repository over the server. Return the folder of the clone, or None if that fails."""
    system = KINDS[type(server)]
    url = f"{server.scheme}://{server.address}/{system.name_on_server(name)}"
    target = folder / "clone"
    argv = ["hg", "clone", "-q", "-u", "trunk", url, target]
    if system is FOSSIL:
        argv = ["fossil", "open", url, "trunk", "--workdir", target, "--repodir", folder]
    environment = program_environment({"FOSSIL_HOME": str(folder), "USER": "vcsbench"})
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60)
    return target if done.returncode == 0 and (target / "ChangeLog").exists() else None


def test_server_serves_a_copy_that_it_does_not_change(server, folder):
    system = KINDS[type(server)]
    copy = server.root / COPY
    before = system.store.list_files(copy)
    states = {path: path.stat().st_mtime_ns for path in copy.rglob("*")}
    server.start()
    assert clone(server, folder)
    server.stop()
    assert system.store.list_files(copy) == before
    assert {path: path.stat().st_mtime_ns for path in copy.rglob("*")} == states
    assert int((copy / COMMITS).read_text()) > 10


def test_copies_and_the_empty_repository_of_fossil_are_read_only(loaded, tmp_path):
    # Without root, the server runs as the owner of both.
    copy, empty = tmp_path / "copy", tmp_path / "empty"
    shutil.copytree(loaded / FOSSIL.fmt / f"{FOSSIL.fmt}.plain", copy)
    FOSSIL.store.finish_copy(copy, FOSSIL.store.list_files(copy))
    FOSSIL.store.create_empty(empty)
    modes = [stat.S_IMODE((path / FOSSIL_FILE).stat().st_mode) for path in (copy, empty)]
    assert modes == [0o444, 0o444]


def test_server_serves_nothing_else_and_knows_its_version(server, folder):
    server.start()
    assert not clone(server, folder, "two")
    commands = server.version_commands().items()
    versions = {name: processes.run_program(argv).output for name, argv in commands}
    assert any(character.isdigit() for character in server.system_version(versions))


@needs_root
def test_server_of_root_runs_as_another_user_and_listens_on_loopback(server):
    server.start()
    assert Path(f"/proc/{server.pid}").stat().st_uid != 0
    listening = subprocess.run(["ss", "-Hltn"], capture_output=True, text=True).stdout
    addresses = {line.split()[3] for line in listening.splitlines() if f":{server.port}" in line}
    assert addresses in ({f"127.0.0.1:{server.port}"}, set())


def test_push_is_refused(server, folder):
    server.start()
    target = clone(server, folder)
    if KINDS[type(server)] is FOSSIL:
        argv = ["fossil", "push", "--chdir", target]
    else:
        (target / "ChangeLog").write_text("changed\n")
        hg = ["hg", "-R", target]
        subprocess.run(
            [*hg, "commit", "-q", "-u", "x", "-m", "x"], env=program_environment(), check=True
        )
        argv = [*hg, "push", "-q"]
    copy = server.root / COPY
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    subprocess.run(argv, env=program_environment({"FOSSIL_HOME": str(folder), "USER": "vcsbench"}))
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == before
