"""Builds: their folders, what they lack, the digests of their programs, and the libraries they load."""

import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from project import CONFIG, needs, needs_root, open_folder, run_python, write_program
from unit.study_grid import study_environment
from vcsbench import process_facts, processes, programs
from vcsbench.axes import axis_of
from vcsbench.axes.build_axis import binaries_of, installed_programs, linked_of, why_lacking
from vcsbench.config.builds import ON_PATH, Build, BuildReader
from vcsbench.config.models import BuildPlace
from vcsbench.config.validation import dotted, validate
from vcsbench.errors import UserError
from vcsbench.evidence import run_columns
from vcsbench.machine import Machine
from vcsbench.measure import round_context
from vcsbench.measure.cell_setup import CellSetup
from vcsbench.measure.server import Svnserve
from vcsbench.plan.recipe import draft_recipe
from vcsbench.programs import Programs, check_unchanged
from vcsbench.systems import SYSTEMS, programs_of_server

LOG = "{svn} log {url}"


def script(prefix, name, text):
    return write_program(prefix / "bin" / name, f"#!/bin/sh\n{text}\n")


def wrapper(prefix, *names):
    for name in names:
        script(prefix, name, f'exec {shutil.which(name)} "$@"')
    return prefix


def digests(build, argv, server, **keys):
    """Return the digests of a cell's programs as a new start of the workflow does."""
    programs._digest_file.cache_clear()
    programs.binaries.cache_clear()
    environment = SimpleNamespace(builds={"x": build}, machine=Machine())
    access = {"server": server, "scheme": keys.pop("scheme", "http")}
    draft = {"argv": argv, "access": access, "input": "repository", "build": {"name": "x"}, **keys}
    return binaries_of(draft, environment)


def test_modules_that_a_deployed_httpd_loads_have_digests(folder):
    modules = folder / "libexec"
    modules.mkdir()
    for name in ("dav", "dav_svn", "ssl", "authz_svn"):
        write_program(modules / f"mod_{name}.so", name)
    wrapper(folder, "svn")
    script(folder, "httpd", "exit 0")
    build = Build(Programs(str(folder)), Programs(str(folder)))
    plain = digests(build, LOG, "httpd")
    assert not {"server mod_ssl", "server mod_authz_svn"} & plain.keys()
    rules = {"scheme": "https", "access_rules": {"count": 10}}
    before = digests(build, LOG, "httpd", **rules)
    assert before["server mod_ssl"] and before["server mod_authz_svn"]
    (modules / "mod_ssl.so").write_text("another")
    changed = digests(build, LOG, "httpd", **rules)
    assert {key for key in before if changed[key] != before[key]} == {"server mod_ssl"}


def read(root, **definitions):
    kind = dict[str, dict[str, BuildPlace | None]]
    places = validate({"builds": definitions}, kind, lambda _keys: "my.yaml")["builds"]
    error = lambda keys, text: UserError(f"my.yaml: `{dotted(keys)}`: {text}")  # noqa: E731
    return BuildReader(places, root, error).read()


def test_read_builds_sides_have_configured_prefixes(folder):
    wrapper(folder / "a", "svn", "svnserve")
    builds = read(
        folder,
        system={},
        a={"prefix": "a"},
        mixed={"client": "a", "server": {"prefix": str(folder / "a")}},
        client={"client": "a"},
    )
    a = Programs(str(folder / "a"))
    assert builds["system"] == ON_PATH == Build(Programs(), Programs())
    assert builds["a"] == builds["mixed"] == Build(a, a)
    assert builds["client"] == Build(a, Programs())
    assert a.get("svn") == str(folder / "a" / "bin" / "svn")


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        ({"prefix": "/no/such"}, "`builds.x.prefix`: /no/such: "),
        ({"prefix": "~no-such-user"}, "~no-such-user: "),
        ({"prefix": "/usr/share"}, "/usr/share has no svn"),
        ({"prefix": "/usr", "conda": "x.yaml"}, "both `prefix` and `conda`"),
        ({"client": "z"}, "`builds.x.client`: there is no build 'z'. Use one of x, y"),
        ({"client": "y"}, "'y' has different"),
        ({"client": "y", "prefix": "/usr"}, "`builds.x`"),
        ({"conda": "empty.yaml"}, "`dependencies`"),
    ],
)
def test_read_builds_invalid_is_user_error(tmp_path, definition, expected):
    (tmp_path / "empty.yaml").write_text("channels: [conda-forge]\n")
    with pytest.raises(UserError, match=r"^my\.yaml: `builds\.[^\n]*$") as caught:
        read(tmp_path, x=definition, y={"client": {"prefix": "/usr"}})
    assert expected in str(caught.value)


def test_read_builds_conda_folder_depends_on_content(tmp_path):
    file = tmp_path / "svn.yaml"
    file.write_text("dependencies: [subversion=1.15.0]\n")
    builds = read(tmp_path, x={"conda": "svn.yaml"}, again={"conda": "svn.yaml"})
    file.write_text("dependencies: [subversion=1.14.5]\n")
    assert builds["x"] == builds["again"] != read(tmp_path, x={"conda": "svn.yaml"})["x"]
    prefix = builds["x"].client.prefix
    assert prefix.startswith(f"{tmp_path}/results/builds/svn-")
    assert builds["x"].environments == {Path(prefix).name: str(file)}


OTHER_MACHINE = b"\x7fELF\2\1\1" + bytes(9) + b"\2\0\xff\xff" + bytes(100)


@pytest.mark.parametrize(
    "program",
    [
        *(OTHER_MACHINE, b"", b"#!/nope/python\n", b"#!/bin/sh\nprintf '\\377\\n'\n"),
        *(b"#!/bin/sh\nexit 3\n", b"#!/bin/sh\nexec yes\n", b"#!/bin/sh\nexec sleep 60\n"),
    ],
)
def test_why_lacking_program_that_does_not_run(folder, monkeypatch, program):
    monkeypatch.setattr("vcsbench.machine.VERSION_S", 0.5)
    path = script(wrapper(folder, "svnserve"), "svn", "")
    path.write_bytes(program)
    build = read(folder, x={"prefix": str(folder)})["x"]
    why = why_lacking(build, Machine(), LOG, "svnserve")
    assert why.startswith(f"{path} does not run")


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root: others' servers run as themselves")
def test_why_lacking_prefix_closed_to_server_user(folder):
    build = read(folder, x={"prefix": str(wrapper(folder, "svn", "svnserve"))})["x"]
    folder.chmod(0o700)
    assert f"cannot enter {folder}" in why_lacking(build, Machine(), LOG, "svnserve")
    assert why_lacking(build, Machine(), LOG, "") == ""


def test_why_lacking_conda_build_needs_conda_and_has_no_httpd(folder, monkeypatch):
    (folder / "svn.yaml").write_text("dependencies: [subversion=1.15.0]\n")
    build = read(folder, x={"conda": "svn.yaml"})["x"]
    monkeypatch.setenv("PATH", str(folder / "bin"))
    assert "pixi" in why_lacking(build, Machine(), LOG, "")
    script(folder, "mamba", "true")
    assert "no httpd" in why_lacking(build, Machine(), LOG, "httpd")


def test_digests_changed_side_leaves_other_side(folder):
    a, b = wrapper(folder / "a", "svn", "svnserve"), wrapper(folder / "b", "svn", "svnserve")
    library = b / "lib" / "libsvn_fs-1.so.0"
    library.parent.mkdir()
    library.write_bytes(b"one")
    build = read(folder, x={"client": {"prefix": str(a)}, "server": {"prefix": str(b)}})["x"]

    first = digests(build, LOG, "svnserve")
    of_client = {"client svn", "client libraries", "client hyperfine"}
    assert set(first) == {*of_client, "server svnserve", "server libraries"}
    script(a, "svnserve", "exec true")  # the server of the other side
    assert digests(build, LOG, "svnserve") == first
    library.write_bytes(b"two")
    second = digests(build, LOG, "svnserve")
    assert {key for key in first if first[key] != second[key]} == {"server libraries"}
    script(a, "svn", "exec true")
    third = digests(build, LOG, "svnserve")
    assert {key for key in second if second[key] != third[key]} == {"client svn"}
    check_unchanged(third, build.client, build.server)
    with pytest.raises(UserError, match="client svn changed"):
        check_unchanged(second, build.client, build.server)


def test_digests_of_mercurial_change_with_its_modules_on_both_sides(folder, monkeypatch):
    # The program stays the same in an upgrade: it is a short script that runs the installed modules. The
    # stand-in for `hg debuginstall` prints their folder, and counts its calls.
    hg = script(folder, "hg", 'echo >>"$0.calls"; printf %s "${0%/*}"')
    modules, calls = hg.parent, hg.with_name("hg.calls")
    monkeypatch.setenv("PATH", f"{folder}/bin:{os.environ['PATH']}")
    (modules / "utils").mkdir()
    (modules / "__version__.py").write_text('version = b"6.3.2"\n')
    found = []
    # A security update changes a module, and leaves the version. Bytecode is made by any run.
    for change, bytecode in (("1", "a"), ("1", "b"), ("2", "b")):
        (modules / "utils" / "stringutil.py").write_text(f"x = {change}\n")
        (modules / "utils" / "stringutil.pyc").write_text(bytecode)
        found.append(digests(ON_PATH, "hg clone {url} {target}", "hg-serve"))
    assert found[0] == found[1]
    keys = {f"{side} {modules}" for side in ("client", "server")}
    assert set(found[0]) == {"client hg", "server hg", "client hyperfine", *keys}
    assert {key for key in found[0] if found[0][key] != found[2][key]} == keys
    # A cell-round reads files only.
    calls.unlink()
    check_unchanged(found[2], Programs(), Programs())
    with pytest.raises(UserError, match=f"client {modules} changed"):
        check_unchanged(found[0], Programs(), Programs())
    assert not calls.exists()


@needs("hg")
def test_digests_have_the_modules_of_the_installed_mercurial():
    modules = programs.find_mercurial_modules(programs.path_of("hg"))
    assert "version" in (Path(modules) / "__version__.py").read_text()
    assert digests(ON_PATH, "hg log", "")[f"client {modules}"]


def test_digest_of_breezy_changes_with_its_modules(tmp_path, monkeypatch):
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    for folder in ("breezy", "breezy-3.3.dist-info"):
        (packages / folder).mkdir(parents=True)
    (packages / "breezy-3.3.dist-info" / "METADATA").write_text("Version: 3.3\n")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    found = []
    for change in ("1", "1", "2"):
        (packages / "breezy" / "transform.py").write_text(f"x = {change}\n")
        programs._digest_file.cache_clear()
        found.append(Programs().digest_of("python3:breezy"))
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize(
    ("argv", "keys", "has_python"),
    [
        ("{program} {source} {target}", {}, True),
        ("{python} -m breezy log {source}", {}, True),
        ("git log", {}, False),
        # The programs that start several clients, and that send requests, are in Python.
        ("git log", {"clients": 4}, True),
        ("git log", {"traffic": {"commit": "", "seconds": 1}}, True),
    ],
)
def test_digests_have_the_python_that_a_cell_times(argv, keys, has_python):
    found = digests(ON_PATH, argv, "", **keys)
    assert ("client interpreter" in found) is has_python
    expected = programs.digest(sys.executable) if has_python else None
    assert found.get("client interpreter") == expected
    check_unchanged(found, Programs(), Programs())


def test_digest_of_hyperfine_changes_with_a_wrapper_on_the_path(folder, monkeypatch):
    monkeypatch.setenv("PATH", f"{folder}/bin:{os.environ['PATH']}")
    found = []
    for start in ("exec", "exec nice -n 19"):
        script(folder, "hyperfine", f'{start} /usr/bin/hyperfine "$@"')
        found.append(digests(ON_PATH, "tar c", ""))
    changed = {key for key in found[0] if found[0][key] != found[1][key]}
    assert changed == {"client hyperfine"} and found[0]["client hyperfine"]
    with pytest.raises(UserError, match="client hyperfine changed"):
        check_unchanged(found[0], Programs(), Programs())


@needs("git")
@pytest.mark.parametrize(
    ("server", "helper"),
    [("git-httpd", "git-remote-http"), ("git-sshd", "ssh"), ("git-daemon", "")],
)
def test_digests_have_the_program_that_a_client_of_git_starts(server, helper):
    found = digests(ON_PATH, "git clone {url} {target}", server)
    helpers = {f"client {helper}"} if helper else set()
    of_client = {key for key in found if key.startswith("client ")}
    assert of_client == {"client git", "client hyperfine", *helpers}
    for key in helpers:
        assert found[key] == programs.digest(Programs().path(helper))
    check_unchanged(found, Programs(), Programs())


def test_each_server_of_a_system_has_its_programs():
    kinds = []
    for system in SYSTEMS.values():
        servers = {access["server"] for access in system.accesses.values()} - {""}
        assert servers == system.servers.keys()
        kinds += servers
    # The kind of a server leads to its system.
    assert len(set(kinds)) == len(kinds)


def test_server_without_an_entry_has_the_program_of_its_name():
    # A person who adds a server meets a reason, and no traceback.
    server = "no-such-server"
    assert programs_of_server("hg-serve") == ("hg",)
    assert programs_of_server(server) == (server,)
    why = why_lacking(ON_PATH, Machine(), "tar c", server)
    assert why == "no-such-server is not installed (put it on the PATH)"
    assert digests(ON_PATH, "tar c", server)["server no-such-server"] == ""


@pytest.mark.parametrize("server", ["sshd", "git-sshd", "git-httpd"])
def test_programs_that_snakemake_deploys_have_no_digests(server):
    environment = SimpleNamespace(builds={"x": ON_PATH}, machine=Machine(deployed=True))
    access = {"server": server, "scheme": "http"}
    draft = {"argv": LOG, "access": access, "input": "repository", "build": {"name": "x"}}
    assert binaries_of(draft, environment) == {}
    assert linked_of(draft, environment) == {"client": ""}


PLACES = {"": {"prefix": "", "library_path": ""}, "x": {"prefix": "/x", "library_path": ""}}


@pytest.mark.parametrize(
    ("argv", "server", "place", "keys", "expected"),
    [
        (LOG, "", "", {}, {"svn"}),
        (LOG, "svnserve", "x", {}, set()),
        (LOG, "sshd", "", {}, {"svn", "sshd", "svnserve", "ssh"}),
        ("rsync {source}", "", "x", {"needs": ["tar"]}, {"rsync", "tar"}),
        (
            "{svn} export {url}",
            "httpd",
            "",
            {"access_rules": {"count": 10}, "traffic": {"commit": "{svnmucc} put {change}"}},
            {"svn", "svnmucc", "svnlook", "httpd", "mod_dav_svn"},
        ),
        ("hg clone {url}", "hg-serve", "", {"repository": {"system": "mercurial"}}, {"hg"}),
        # The repository is loaded by git, whatever the command is.
        ("tar c", "", "x", {"repository": {"system": "git"}}, {"tar", "git"}),
    ],
)
def test_installed_programs_are_those_of_no_prefix(argv, server, place, keys, expected):
    build = {"name": "x", "client": PLACES[place], "server": PLACES[place]}
    recipe = {"argv": argv, "access": {"server": server}, "build": build, **keys}
    assert installed_programs(recipe) == expected


def test_default_build_has_its_own_programs_in_checks_and_digests(folder):
    svn = script(folder, "svn", "echo 1.14.0")
    environment = study_environment("fsfs-san-2014", builds={"mine": {"prefix": str(folder)}})
    study = environment.config.studies["fsfs-san-2014"]
    study = study.model_copy(update={"defaults": {"build": "mine"}})
    axes = {"command": "log", "access": "file", "repo": "ruby", "format": "f7", "packing": "nopack"}
    draft = draft_recipe(study, {**axes, "config": "slow", "cache": "hot-os"}, environment)
    assert draft["build"]["name"] == "mine"
    mine = Programs(str(folder))
    assert binaries_of(draft, environment)["client svn"] == mine.digest_of("svn")
    assert linked_of(draft, environment) == {"client": programs.linked_digest(mine, ("svn",))}
    assert axis_of("build").why_not("", draft, environment) == ""
    svn.unlink()
    assert str(folder) in axis_of("build").why_not("", draft, environment)


@pytest.mark.parametrize(
    ("access", "fmt", "opened", "release"),
    [
        ("svn", "f6", "f6", ""),
        ("svn", "f6-today", "f6", ""),
        ("svn", "f7", "f7", "1.9"),
        ("svn", "f6-to-f8", "f8", "1.10"),
        ("file", "f8", "f8", "1.10"),
        ("file", "f4", "f4", ""),
    ],
)
def test_format_that_is_too_new_for_a_build_has_a_reason(folder, access, fmt, opened, release):
    for name in ("svn", "svnserve"):
        script(folder, name, "echo 1.8.19")
    here = study_environment("fsfs-san-2014", builds={"old": {"prefix": str(folder)}})
    study = here.config.studies["fsfs-san-2014"].model_copy(update={"defaults": {"build": "old"}})
    axes = {"command": "log", "access": access, "repo": "ruby", "format": fmt, "packing": "nopack"}
    draft = draft_recipe(study, {**axes, "config": "slow", "cache": "hot-os"}, here)
    # The server opens the repository, or the client without one.
    opener = folder / "bin" / ("svn" if access == "file" else "svnserve")
    why = f"{opener} is 1.8.19, and {opened} needs Subversion {release} or later"
    assert axis_of("build").why_not("", draft, here) == (why if release else "")


@pytest.mark.parametrize(
    ("output", "is_opened"),
    [("", False), ("working_copy", True), ("changed_working_copy", True)],
)
def test_format_that_is_too_new_for_the_client_of_a_working_copy_has_a_reason(
    folder, output, is_opened
):
    script(folder / "old", "svn", "echo 1.8.19")
    for name in ("svn", "svnserve"):
        script(folder / "new", name, "echo 1.14.2")
    sides = {"client": {"prefix": f"{folder}/old"}, "server": {"prefix": f"{folder}/new"}}
    here = study_environment("fsfs-san-2014", builds={"mixed": sides})
    study = here.config.studies["fsfs-san-2014"].model_copy(update={"defaults": {"build": "mixed"}})
    axes = {"command": "log", "access": "svn", "repo": "ruby", "format": "f8", "packing": "nopack"}
    draft = draft_recipe(study, {**axes, "config": "slow", "cache": "hot-os"}, here)
    # The client checks the working copy out from the copy of the repository.
    why = f"{folder}/old/bin/svn is 1.8.19, and f8 needs Subversion 1.10 or later"
    expected = why if is_opened else ""
    assert axis_of("build").why_not("", {**draft, "output": output}, here) == expected


@needs("svnserve")
def test_server_of_wrapper_without_exec_is_refused(folder):
    script(folder, "svnserve", f'{shutil.which("svnserve")} "$@"\nexit 0')
    (folder / "run").mkdir()
    files = CONFIG / "servers" / "default"
    server = Svnserve(folder, files, folder / "run", Programs(str(folder)))
    try:
        with pytest.raises(UserError, match="`exec"):
            server.start()
        pids = process_facts.family(server.pid)
    finally:
        server.stop()
    assert all(process_facts.command_line(pid) == [] for pid in pids)


@needs("hyperfine")
def test_versions_of_a_build_are_read_with_its_libraries(folder):
    # The programs print their library path in the place of their version.
    for name in ("svn", "svnserve"):
        script(folder, name, 'echo "1$LD_LIBRARY_PATH"')
    (folder / "run").mkdir()
    build = Programs(str(folder), "/opt/lib")
    server = Svnserve(folder, CONFIG / "servers" / "default", folder / "run", build)
    cell = SimpleNamespace(argv=[build.get("svn")], client=build, server=server)
    versions = CellSetup._read_versions(cell)
    server.close()
    assert versions["svn"] == versions["svnserve"] == "1/opt/lib"


OWN, MIXED = ["/x/lib/libsvn_fs-1.so"], ["/x/lib/libsvn_fs-1.so", "/usr/lib/libsvn_ra-1.so"]


@pytest.mark.parametrize(
    ("libraries", "places", "flags"),
    [
        (OWN, ["/x"], []),
        (["/xy/lib/libsvn_fs-1.so"], ["/x"], ["other-libraries"]),
        (MIXED, ["/x"], ["other-libraries"]),
        (MIXED, ["/x", "/usr"], []),
        (MIXED, [], []),
        (None, ["/x"], ["libraries-unknown"]),
    ],
)
def test_build_flags_follow_places_of_libraries(libraries, places, flags):
    side = {"program": "/x/bin/svn", "version": "1", "places": places, "libraries": libraries}
    for client, server in ((side, None), (side, side)):
        build = {"name": "x", "client": client, "server": server}
        assert run_columns.build_flags({"build": build}) == flags


@pytest.mark.parametrize(
    ("client", "server", "places"),
    [
        ("svn", "svnserve", ["/x"]),
        ("svn", "httpd", ["/x"]),
        # Programs of git, and tar, have no libraries of Subversion that could be those of another build.
        ("git", "git-daemon", []),
        ("git", "git-httpd", []),
        ("git", "git-sshd", []),
        ("tar", "", []),
    ],
)
def test_libraries_are_expected_of_programs_of_subversion_only(client, server, places):
    build = Programs("/x")
    served = SimpleNamespace(
        kind=server, pid=1, programs=build, system_command=lambda: [f"/x/bin/{server}"],
        system_version=lambda versions: "1", mapped_files=lambda: [f"/x/bin/{server}"],
    )  # fmt: skip
    cell = SimpleNamespace(
        argv=[f"/x/bin/{client}"], client=build, server=served if server else None,
        versions={client: "1"}, recipe={"build": {"name": "x"}},
    )  # fmt: skip
    captured = SimpleNamespace(mapped=[f"/x/bin/{client}"])
    described = round_context._describe_build(cell, captured)
    sides = [described[side] for side in ("client", "server") if described[side]]
    assert [side["places"] for side in sides] == [places] * len(sides)
    flags = run_columns.build_flags({"build": described})
    assert flags == (["libraries-unknown"] if places else [])


# Runs in a mount namespace of its own, in which /etc has one more file.
PRELOADED = """
import os, subprocess, sys
from pathlib import Path
from vcsbench import isolation, programs
from vcsbench.measure import untimed_runs

shim, upper = sys.argv[1:]
argv = ["svn", "--version", "--quiet"]
before = programs.linked_digest(programs.Programs(), ("svn",))
isolation.unshare_mounts()
Path(upper, "upper").mkdir(); Path(upper, "work").mkdir()
Path(upper, "upper", "ld.so.preload").write_text(shim)
options = f"lowerdir=/etc,upperdir={upper}/upper,workdir={upper}/work"
if subprocess.run(["mount", "-t", "overlay", "-o", options, "none", "/etc"]).returncode:
    sys.exit(77)
programs.linked_digest.cache_clear()
print(before != programs.linked_digest(programs.Programs(), ("svn",)))
print(shim in untimed_runs.trace_mapped_files(argv, programs.Programs().environment()))
"""


@pytest.fixture
def linked(tmp_path):
    """A program with a library of its own, and a function that compiles another library in its place."""
    if not shutil.which("gcc"):
        pytest.skip("takes gcc")
    prefix = tmp_path / "prefix"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "lib").mkdir()

    def compile_library(folder, number):
        source, library = tmp_path / "library.c", folder / "libapr-x.so"
        source.write_text(f"int number(void) {{ return {number}; }}")
        processes.run_program(["gcc", "-shared", "-fPIC", "-o", library, source])

    compile_library(prefix / "lib", 1)
    main = tmp_path / "main.c"
    main.write_text("int number(void); int main(void) { return number(); }")
    options = ["-L", prefix / "lib", "-lapr-x", "-Wl,-rpath," + str(prefix / "lib")]
    processes.run_program(["gcc", "-o", prefix / "bin" / "svn", main, *options])
    return prefix, compile_library


def linked_digest(build, *names):
    programs._digest_file.cache_clear()
    programs.linked_digest.cache_clear()
    return programs.linked_digest(build, names or ("svn",))


def test_linked_digest_changes_with_a_library_of_the_prefix_and_of_a_wrapper(linked, tmp_path):
    prefix, compile_library = linked
    script(tmp_path / "wrapped", "svn", f'exec {prefix}/bin/svn "$@"')
    build, wrapped = Programs(str(prefix)), Programs(str(tmp_path / "wrapped"))
    before, before_of_wrapped = linked_digest(build), linked_digest(wrapped)
    assert before and linked_digest(build) == before
    compile_library(prefix / "lib", 2)
    assert linked_digest(build) != before and linked_digest(wrapped) != before_of_wrapped
    # The digest of Subversion's own libraries does not see it.
    assert build.digest_of("libraries") == ""


def test_linked_digest_changes_with_the_library_path(linked, tmp_path, monkeypatch):
    prefix, compile_library = linked
    compile_library(tmp_path, 2)
    build = Programs(str(prefix))
    # A run path (RUNPATH) comes after the library path.
    assert linked_digest(Programs(str(prefix), str(tmp_path))) != linked_digest(build)
    # Programs on the PATH have that of the caller.
    monkeypatch.setenv("PATH", f"{prefix}/bin:{os.environ['PATH']}")
    before = linked_digest(Programs())
    assert before == linked_digest(build)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert linked_digest(Programs()) != before


def test_linked_digest_changes_with_a_library_of_a_module_of_httpd(linked, tmp_path):
    prefix, compile_library = linked
    modules = prefix / "libexec"
    modules.mkdir()
    # The folder with this module is that of httpd's modules.
    (modules / "mod_dav.so").touch()
    sources = {
        "httpd": "int main(void) { return 0; }",
        "mod_ssl": "int number(void); int ssl(void) { return number(); }",
    }
    for name, text in sources.items():
        (tmp_path / f"{name}.c").write_text(text)
    options = ["-L", prefix / "lib", "-lapr-x", "-Wl,-rpath," + str(prefix / "lib")]
    argv = ["gcc", "-shared", "-fPIC", "-o", modules / "mod_ssl.so", tmp_path / "mod_ssl.c"]
    processes.run_program([*argv, *options])
    processes.run_program(["gcc", "-o", prefix / "bin" / "httpd", tmp_path / "httpd.c"])
    build = Programs(str(prefix))
    found = []
    for number in (1, 2):
        compile_library(prefix / "lib", number)
        plain, encrypted = linked_digest(build, "httpd"), linked_digest(build, "httpd", "mod_ssl")
        found.append((plain, encrypted))
    (plain_before, encrypted_before), (plain, encrypted) = found
    assert plain == plain_before != "" and encrypted not in ("", plain, encrypted_before)


@needs("svn", "gcc")
@needs_root
def test_preloaded_library_changes_digest_and_is_mapped(tmp_path):
    (tmp_path / "shim.c").write_text("int fsync(int file) { return 0; }")
    shim = tmp_path / "shim.so"
    processes.run_program(["gcc", "-shared", "-fPIC", "-o", shim, tmp_path / "shim.c"])
    # An overlay needs an upper folder on a real file system.
    with open_folder("/dev/shm") as upper:
        done = run_python(PRELOADED, shim, upper)
    if done.returncode == 77:
        pytest.skip("no overlay can be mounted here")
    assert done.stdout.split() == ["True", "True"], done.stderr
