"""Builds: where they are, what they lack, what makes their cells stale, and whether their label is true."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from project import needs, open_folder
from vcsbench import processes
from vcsbench.axes.client_server import binaries_of, why_lacking
from vcsbench.axes.table import resolved_tables, values_of
from vcsbench.config.builds import ON_PATH, Build, read_builds
from vcsbench.config.study import Study
from vcsbench.errors import UserError
from vcsbench.evidence import run_columns
from vcsbench.machine import Machine
from vcsbench.measure.capture import client_libraries, server_libraries
from vcsbench.measure.server import Server
from vcsbench.programs import Programs, check_unchanged, digest

DEFAULT = Path(__file__).parents[2] / "config" / "servers" / "default"
LOG = "{svn} log {url}"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the servers' user can enter."""
    with open_folder("/var/tmp") as path:
        yield path


def script(prefix: Path, name: str, text: str) -> Path:
    path = prefix / "bin" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def wrapper(prefix: Path, *names: str) -> Path:
    """A prefix whose programs run the system's."""
    for name in names:
        script(prefix, name, f'exec {shutil.which(name)} "$@"')
    return prefix


def digests(build: Build, argv: str, server: str) -> dict[str, str]:
    """What binaries_of() says of a cell with a build, asked anew."""
    here: Any = SimpleNamespace(builds={"x": build}, machine=Machine())
    return binaries_of({"build": "x"}, {"argv": argv, "server": server}, here)


def read(root: Path, **definitions: Any) -> dict[str, Build]:
    return read_builds(definitions, root, lambda _keys: "my.yaml")


def test_each_side_comes_from_where_the_build_says(folder: Path) -> None:
    wrapper(folder / "a", "svn", "svnserve")
    made = read(
        folder,
        system={},
        a={"prefix": "a"},
        mixed={"client": "a", "server": {"prefix": str(folder / "a")}},
        client={"client": "a"},
    )
    a = Programs(str(folder / "a"))
    assert made["system"] == ON_PATH == Build(Programs(), Programs())
    assert made["a"] == made["mixed"] == Build(a, a)
    assert made["client"] == Build(a, Programs())
    assert a.get("svn") == str(folder / "a" / "bin" / "svn")


@pytest.mark.parametrize(
    ("definition", "said"),
    [
        ({"prefix": "/no/such"}, "`builds.x.prefix`: /no/such: there is no such folder"),
        ({"prefix": "/usr/share"}, "/usr/share has no svn, svnserve"),
        ({"prefix": "/usr", "conda": "x.yaml"}, "has both `prefix` and `conda`"),
        ({"prefix": "/usr", "client": "y"}, "has `client` and `prefix`"),
        ({"library_path": "/usr/lib"}, "has `library_path` without `prefix`"),
        ({"prefix": "/usr", "library_path": "/no"}, "`builds.x.library_path`: /no: there is no"),
        ({"client": "z"}, "`builds.x.client`: 'z' is not defined; `builds` has x, y"),
        ({"client": "y"}, "'y' has a client and a server of its own"),
        ({"conda": "no.yaml"}, "no.yaml: there is no such file"),
        ({"conda": "empty.yaml"}, "has no `dependencies`"),
    ],
)
def test_a_build_that_is_not_there_is_one_sentence(
    tmp_path: Path, definition: dict[str, Any], said: str
) -> None:
    (tmp_path / "empty.yaml").write_text("channels: [conda-forge]\n")
    with pytest.raises(UserError) as caught:
        read(tmp_path, x=definition, y={"client": {"prefix": "/usr"}})
    text = str(caught.value)
    assert text.startswith("my.yaml: `builds.") and said in text and "\n" not in text


def test_a_conda_build_is_in_a_folder_that_tells_its_files_content(tmp_path: Path) -> None:
    file = tmp_path / "svn.yaml"
    file.write_text("dependencies: [subversion=1.15.0]\n")
    one = read(tmp_path, one={"conda": "svn.yaml"}, again={"conda": "svn.yaml"})
    file.write_text("dependencies: [subversion=1.14.5]\n")
    other = read(tmp_path, one={"conda": "svn.yaml"})
    assert one["one"] == one["again"] != other["one"]
    assert one["one"].client.prefix.startswith(f"{tmp_path}/results/builds/svn-")
    assert one["one"].environments == {Path(one["one"].client.prefix).name: str(file)}


def test_what_a_build_lacks_is_said(folder: Path) -> None:
    folder = wrapper(folder, "svn", "svnserve")
    build = read(folder, x={"prefix": str(folder)})["x"]
    machine = Machine()
    assert why_lacking(build, machine, LOG, "svnserve") == ""
    assert why_lacking(build, machine, "{svnbench} null-log {url}", "") == (
        f"{folder} has no svnbench in bin or sbin"
    )
    assert "has no mod_dav_svn.so" in why_lacking(build, machine, LOG, "httpd")
    (folder / "bin" / "svnserve").unlink()
    assert "has no svnserve" in why_lacking(build, machine, LOG, "svnserve")


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root: others' servers run as themselves")
def test_a_server_that_its_user_cannot_reach_is_said(folder: Path) -> None:
    build = read(folder, x={"prefix": str(wrapper(folder, "svn", "svnserve"))})["x"]
    folder.chmod(0o700)
    said = why_lacking(build, Machine(), LOG, "svnserve")
    assert f"nobody, who cannot enter {folder}" in said
    assert why_lacking(build, Machine(), LOG, "") == ""


def test_an_environment_that_is_to_be_made_lacks_httpd_only(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "svn.yaml").write_text("dependencies: [subversion=1.15.0]\n")
    build = read(folder, x={"conda": "svn.yaml"})["x"]
    monkeypatch.setenv("PATH", str(folder / "bin"))
    assert "no micromamba, mamba, conda, pixi" in why_lacking(build, Machine(), LOG, "")
    script(folder, "mamba", "true")
    assert why_lacking(build, Machine(), "{svnbench} null-log {url}", "svnserve") == ""
    assert "conda environment" in why_lacking(build, Machine(), LOG, "httpd")
    assert digests(build, LOG, "svnserve") == {}


def test_what_makes_cells_stale_is_each_sides_own(folder: Path) -> None:
    a, b = wrapper(folder / "a", "svn", "svnserve"), wrapper(folder / "b", "svn", "svnserve")
    (b / "lib").mkdir()
    (b / "lib" / "libsvn_fs-1.so.0").write_bytes(b"one")
    build = read(folder, x={"client": {"prefix": str(a)}, "server": {"prefix": str(b)}})["x"]

    def now() -> dict[str, str]:
        from vcsbench import programs

        programs._file_digest.cache_clear()  # each start of the workflow looks anew
        return digests(build, LOG, "svnserve")

    first = now()
    assert set(first) == {"client svn", "client libraries", "server svnserve", "server libraries"}
    script(a, "svnserve", "exec true")  # the client's side has no part in the server
    assert now() == first
    (b / "lib" / "libsvn_fs-1.so.0").write_bytes(b"two")
    second = now()
    assert {key for key in first if first[key] != second[key]} == {"server libraries"}
    script(a, "svn", "exec true")
    third = now()
    assert {key for key in second if second[key] != third[key]} == {"client svn"}
    check_unchanged(third, build.client, build.server)
    with pytest.raises(UserError, match="the client svn changed during the run"):
        check_unchanged(second, build.client, build.server)


def test_a_wrappers_digest_is_also_that_of_what_it_runs(tmp_path: Path) -> None:
    from vcsbench import programs

    real = tmp_path / "real"
    real.write_bytes(b"one")
    before = digest(str(script(tmp_path, "svn", f'exec {real} "$@"')))
    real.write_bytes(b"two")
    programs._file_digest.cache_clear()
    assert digest(str(tmp_path / "bin" / "svn")) != before != ""


def test_only_its_own_library_path_is_in_a_builds_environment() -> None:
    inherited = {"PATH": "/bin", "LD_LIBRARY_PATH": "/elsewhere"}
    assert Programs().environment(inherited) == inherited
    assert Programs("/x").environment(inherited) == {"PATH": "/bin"}
    assert Programs("/x", "/y").environment(inherited)["LD_LIBRARY_PATH"] == "/y"
    words = Programs("/usr", "/y").as_words()
    done = subprocess.run([*words, "env"], capture_output=True, text=True, check=True)
    assert "LD_LIBRARY_PATH=/y\n" in done.stdout


@pytest.fixture
def served(folder: Path) -> Path:
    """A folder for a server, with an empty repository."""
    (folder / "run").mkdir()
    (folder / "root").mkdir()
    subprocess.run(["svnadmin", "create", folder / "root" / "one"], check=True)
    return folder


@needs("svn", "svnserve", "svnadmin")
def test_a_wrapped_server_runs_and_shows_what_it_has_loaded(served: Path) -> None:
    """As a build with a C library of its own: the wrapper runs the loader, which runs the program."""
    real, loader = shutil.which("svnserve"), "/lib64/ld-linux-x86-64.so.2"
    if not os.path.exists(loader):
        pytest.skip("no x86-64 glibc")
    script(served / "x", "svnserve", f'exec {loader} --library-path /usr/lib {real} "$@"')
    programs = Programs(str(served / "x"))
    server = Server("svnserve", served / "root", DEFAULT, served / "run", programs)
    server.start()
    try:
        assert processes.command_line(server.pid)[0] == loader
        names = {os.path.basename(path).partition("-")[0] for path in server_libraries(server.pid)}
        assert {"libsvn_repos", "libsvn_fs", "libsvn_subr"} <= names
        asked = ["svn", "info", f"svn://127.0.0.1:{server.port}/one"]
        assert subprocess.run(asked, capture_output=True).returncode == 0
    finally:
        server.stop()


@needs("svnserve", "svnadmin")
def test_a_wrapper_that_stays_before_its_server_is_refused(served: Path) -> None:
    script(served / "x", "svnserve", f'{shutil.which("svnserve")} "$@"\nexit 0')
    server = Server(
        "svnserve", served / "root", DEFAULT, served / "run", Programs(str(served / "x"))
    )
    try:
        with pytest.raises(UserError, match="it has to end with `exec"):
            server.start()
        pids = processes.family(server.pid)
    finally:
        server.stop()
    assert all(processes.command_line(pid) == [] for pid in pids)


@needs("svn")
def test_a_client_shows_what_it_loads_through_a_wrapper(folder: Path) -> None:
    prefix = wrapper(folder, "svn")
    found = client_libraries(
        [str(prefix / "bin" / "svn"), "--version", "--quiet"], os.environ, folder
    )
    assert found and any(os.path.basename(path).startswith("libsvn_client") for path in found)
    assert all(os.path.isfile(path) for path in found)


def test_a_client_whose_loader_tells_nothing_is_unknown(folder: Path) -> None:
    (folder / "told").mkdir()
    assert client_libraries(["/no/such/svn"], os.environ, folder / "told") is None


def context(**client: Any) -> dict[str, Any]:
    side = {"program": "/x/bin/svn", "version": "1", "places": ["/x"], "libraries": [], **client}
    return json.loads(json.dumps({"build": {"name": "x", "client": side, "server": None}}))


def test_libraries_from_elsewhere_make_a_false_label() -> None:
    from vcsbench.evidence.flags import is_invalid

    own, other = ["/x/lib/libsvn_fs-1.so"], ["/x/lib/libsvn_fs-1.so", "/usr/lib/libsvn_ra-1.so"]
    assert run_columns.build_flags(context(libraries=own)) == []
    assert run_columns.build_flags(context(libraries=["/xy/lib/libsvn_fs-1.so"])) == [
        "other-libraries"
    ]
    words = run_columns.build_flags(context(libraries=other))
    assert words == ["other-libraries"] and is_invalid(words[0])
    assert run_columns.build_flags(context(libraries=other, places=["/x", "/usr"])) == []
    assert run_columns.build_flags(context(libraries=other, places=[])) == []
    assert run_columns.build_flags(context(libraries=None)) == ["libraries-unknown"]
    assert run_columns.build_flags({}) == []


def test_a_build_compared_with_itself_is_found() -> None:
    ran = pd.DataFrame(
        [
            ("log", "system", "1"),
            ("log", "again", "1"),
            ("log", "trunk", "2"),
            ("dump", "trunk", "1"),
            ("dump", "system", ""),
            ("dump", "again", ""),
        ],
        columns=["command", "build", "binaries"],
    )
    table = pd.DataFrame(
        [(c, "system", b, "too-short") for c in ("log", "dump") for b in ("again", "trunk")],
        columns=["command", "baseline", "candidate", "flags"],
    )
    found = list(run_columns.same_binaries(table, ran, ["command"]))
    assert found == ["same-binaries too-short", "too-short", "too-short", "too-short"]
    without = ran.drop(columns="binaries")
    assert list(run_columns.same_binaries(table, without, ["command"])) == ["too-short"] * 4


def study(axis: Any, compare: dict[str, Any]) -> Study:
    table = {"compare": {"axis": "build", **compare}, "rows": [], "columns": []}
    return Study("s", "S", "", {"build": axis}, {"t": table})


def test_first_and_rest_are_the_configurations_builds_in_its_order() -> None:
    here: Any = SimpleNamespace(builds=dict.fromkeys(("b", "a", "c"), ON_PATH))
    named = study("builds", {"baseline": "first", "candidates": "rest"})
    values = values_of(named, here)
    assert values == {"build": ["b", "a", "c"]}
    assert resolved_tables(named, values)["t"]["compare"] == {
        "axis": "build",
        "baseline": "b",
        "candidates": ["a", "c"],
    }


def test_a_study_may_name_its_builds_itself() -> None:
    named = study(["trunk", "prototype"], {"baseline": "trunk", "candidates": ["prototype"]})
    here: Any = SimpleNamespace(builds={"a": ON_PATH, "b": ON_PATH})
    values = values_of(named, here)
    assert values == {"build": ["trunk", "prototype"]}
    assert resolved_tables(named, values) == named.tables
