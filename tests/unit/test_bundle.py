"""Bundles: packed, imported by another checkout and rendered again. Damaged and hostile ones are refused."""

import gzip
import hashlib
import io
import json
import os
import shlex
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from fuzz import damaged, dice_of, limits
from project import WITHOUT_CAPABILITIES, run_python
from unit.report_files import CONFIG, default_study, make_files, order_of, results_of
from vcsbench.errors import UserError
from vcsbench.report.page import build_page
from vcsbench.run import bundle

STUDY = "fsfs-san-2014"
AXES = {
    **{"command": ["log"], "ra": ["svn"], "repo": ["ruby"], "format": ["f6", "f7"]},
    **{"packing": ["nopack", "pack"], "config": ["slow"], "cache": ["cold", "hot-os"]},
}
HERE = {"vcsbench": "0.1.0", "commit": "a" * 40, "changed": [], "command": ""}
HERE |= {"config_digest": "c" * 64}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("measured")
    made = make_files(root, axes=AXES)
    results, study = made.results, default_study(STUDY)
    for part in ("studies", "published"):
        shutil.copytree(CONFIG / part, root / "config" / part)
    shutil.copy(CONFIG / "words.yaml", root / "config")
    page = {"order": order_of(study, made.axes), "expectations": [], "baselines": []}
    for name, content in (("provenance", HERE), ("page", page)):
        (results / name).mkdir()
        (results / name / f"{STUDY}.json").write_text(json.dumps(content))
    (root / "reports").mkdir()
    (root / "reports" / f"{STUDY}.html").write_text(build_page(results_of(made)))
    return root


@pytest.fixture(scope="module")
def packed(root):
    return bundle.pack("january", [], root)


def files_of(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def at(name):
    return f"{bundle.INSIDE}/{name}"


def members_of(packed):
    with tarfile.open(packed) as archive:
        return {m.name: archive.extractfile(m).read() for m in archive}


def write_archive(members, path):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def pack_again(members, path, **more):
    """Pack other files, with a manifest that fits them."""
    manifest = json.loads(members.pop(bundle.MANIFEST)) | more
    manifest["files"] = {
        name.removeprefix(at("")): {"bytes": len(c), "sha256": hashlib.sha256(c).hexdigest()}
        for name, c in members.items()
    }
    return write_archive({bundle.MANIFEST: json.dumps(manifest).encode(), **members}, path)


def import_bundle(archive, root):
    return bundle.unpack_bundle(archive, "", root)


def error_of(archive, root):
    """Return why an archive is refused, and check that nothing of it remains."""
    before = {*root.rglob("*")}
    with pytest.raises(UserError) as raised:
        import_bundle(archive, root)
    assert {*root.rglob("*")} == before
    text = str(raised.value)
    assert text.isprintable() and text.startswith((str(archive), str(root)))
    return text


@pytest.mark.parametrize(
    "name", ["a b.csv", "x\ny.json", os.fsdecode(b"\xff.csv"), "-x.csv", "y" * 201, "\x1b[2J"]
)
def test_pack_file_with_an_odd_name_is_refused(root, name):
    odd = root / "results" / "tables" / STUDY / name
    odd.touch()
    with pytest.raises(UserError, match="no file of") as raised:
        bundle.pack("odd", [], root)
    odd.unlink()
    assert str(raised.value).isprintable() and not (root / "bundles/odd.tar.gz").exists()


def test_pack_context_of_an_earlier_version_or_damaged_is_refused(root):
    path = root / "results" / "cells" / STUDY / "old" / "round1.context.json"
    path.parent.mkdir(parents=True)
    for content, reason in (
        ('{"runs": [{"certificate": {}}]}', "an earlier"),
        ("[", "the file is dam"),
    ):
        path.write_text(content)
        with pytest.raises(UserError, match=rf"round1\.context\.json: {reason}.*make report"):
            bundle.pack("old", [], root)
    shutil.rmtree(path.parent)


@pytest.mark.parametrize("name", ["loaded", "tables", f"tables/{STUDY}"])
def test_pack_folder_that_cannot_be_read_is_refused(root, name):
    folder = root / "results" / name
    folder.mkdir(exist_ok=True)
    mode = folder.stat().st_mode
    folder.chmod(0)
    program = "import sys; from vcsbench.run import bundle; from pathlib import Path\n"
    program += "bundle.pack('closed', [], Path(sys.argv[1]))"
    done = run_python(program, root, start=WITHOUT_CAPABILITIES)
    folder.chmod(mode)
    assert f"PermissionError: [Errno 13] Permission denied: '{folder}'" in done.stderr
    assert not (root / "bundles/closed.tar.gz").exists()


@pytest.mark.parametrize("content", ["", "[]", '{"baselines": 3}', '{"baselines": ["../x"]}', "["])
def test_pack_damaged_params_of_a_page_are_refused(root, content):
    page = root / "results" / "page" / f"{STUDY}.json"
    before = page.read_bytes()
    page.write_text(content)
    with pytest.raises(UserError, match=rf"^results/page/{STUDY}\.json: .*damaged"):
        bundle.pack("damaged", [], root)
    page.write_bytes(before)


def test_import_has_the_same_files_and_page(root, packed, tmp_path):
    before = files_of(root)
    lines = import_bundle(packed, tmp_path)
    folder = tmp_path / "opened" / "january"
    again = folder / "again" / f"{STUDY}.html"
    assert lines[1:] == [f"Report: {again}"]
    assert again.read_bytes() == (root / "reports" / f"{STUDY}.html").read_bytes()
    for part in ("tables", "published", "measurements", "findings", "advice", "cells", "grid"):
        theirs, ours = (files_of(where / "results" / part) for where in (folder, root))
        assert ours and theirs == {n: c for n, c in ours.items() if "/." not in f"/{n}"}, part
    assert files_of(root) == before
    assert not (folder / "results/measurements" / f"{STUDY}.csv").stat().st_mode & 0o222
    assert "the folder exists" in error_of(packed, tmp_path)


@pytest.fixture
def copy(root, tmp_path):
    shutil.copytree(root, tmp_path / "copy")
    return tmp_path / "copy"


def test_pack_is_reproducible_and_overwrites_nothing(packed, copy):
    content = packed.read_bytes()
    assert bundle.pack("january", [STUDY], copy).read_bytes() == content
    with (copy / "results" / "grid" / f"{STUDY}.csv").open("a") as file:
        file.write("\n")
    with pytest.raises(UserError, match="another bundle"):
        bundle.pack("january", [], copy)
    assert (copy / "bundles" / "january.tar.gz").read_bytes() == content


@pytest.mark.parametrize(
    ("name", "studies", "expected"),
    [
        ("../a", [], "--name: '../a'"),
        ("a", ["toy"], "--study: 'toy'"),
        ("", [".."], r"--study: '\.\.'"),
        ("b", [], rf"{STUDY}\.yaml: no such file"),
    ],
)
def test_pack_unsuitable_name_or_study_is_refused(copy, name, studies, expected):
    (copy / "config" / "studies" / f"{STUDY}.yaml").unlink()
    with pytest.raises(UserError, match=expected):
        bundle.pack(name, studies, copy)


FOREIGN = "does not belong in a bundle. Nothing is unpacked."


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({at(f"results/measurements/{STUDY}.csv"): b"2"}, f"{STUDY}.csv is damaged"),
        ({at(f"results/grid/{STUDY}.csv"): None}, f"grid/{STUDY}.csv is missing"),
        ({bundle.MANIFEST: None}, "is no bundle of vcsbench"),
        *(
            ({bundle.MANIFEST: m}, "its manifest is damaged")
            for m in (b"{}", b'{"files":' * 50_000)
        ),
        *(({n: b"x"}, FOREIGN) for n in (at("../../evil"), "/etc/evil", at("results/more.csv"))),
    ],
    ids=range(8),
)
def test_unpack_changed_archive_is_refused(packed, tmp_path, changes, expected):
    members = {n: c for n, c in (members_of(packed) | changes).items() if c is not None}
    assert expected in error_of(write_archive(members, tmp_path / "other.tar.gz"), tmp_path)


@pytest.mark.parametrize("size", [0, 10, 5000, -100, None, "# Notes"])
def test_unpack_incomplete_missing_or_other_file_is_refused(packed, tmp_path, size):
    path, reason = tmp_path / "half.tar.gz", bundle.ASK
    if size is None:
        reason = "No such file or directory. Check the path."
    elif isinstance(size, str):
        path.write_text(size)
        reason = f"is not compressed by gzip, so it is no bundle. {bundle.ASK}"
    else:
        path.write_bytes(packed.read_bytes()[:size])
    assert error_of(path, tmp_path).endswith(reason)


LAUGHS = b"a: &a [x, x]\n" + b"".join(
    b"%c: &%c [*%c, *%c]\n" % (n + 1, n + 1, n, n) for n in range(97, 122)
)
OUTER_BASELINE = b'{"order": {}, "baselines": ["../../x"]}'
RUNS = f"results/measurements/{STUDY}.csv"
MERGES = b"a: &a {x: 1}\n" + b"".join(
    b"%c: &%c {<<: [*%c, *%c]}\n" % (n + 1, n + 1, n, n) for n in range(97, 122)
)
HOSTILE = {
    "page of another layout": ({f"results/page/{STUDY}.json": b'{"shelf": 1}'}, {}),
    "deep page": ({f"results/page/{STUDY}.json": b"[" * 100_000}, {}),
    "aliases": ({f"config/studies/{STUDY}.yaml": LAUGHS}, {}),
    "large yaml": ({"config/published/findings.yaml": b"# " + bytes(2**20)}, {}),
    "wide csv": ({"results/grid/x.csv": b"," * 50_000 + b"\n" * 50_000}, {}),
    "cell with a command": ({"results/grid/x.csv": b"cell\nlog/svn/x$(touch RAN)/f7\n"}, {}),
    "cell that leaves, second line": ({RUNS: b'"a\n",cell,round\n1,../../x,1\n'}, {}),
    "deep yaml": ({f"config/studies/{STUDY}.yaml": b"[" * 1000}, {}),
    "yaml tag": ({f"config/studies/{STUDY}.yaml": b"!!python/object/apply:os.mkdir [x]\n"}, {}),
    "alias of itself": ({"config/words.yaml": b"axes: &a {b: *a}\n"}, {}),
    "two documents": ({"config/words.yaml": b"{}\n---\n{}\n"}, {}),
    "merged aliases": ({"config/words.yaml": MERGES}, {}),
    "UTF-16 csv": ({f"results/grid/{STUDY}.csv": "cell,skip\n".encode("utf-16")}, {}),
    "bytes of a file": ({f"results/grid/{STUDY}.csv": b"cell,skip\nx\0,y\n"}, {}),
    "long field": ({f"results/grid/{STUDY}.csv": b"cell,skip\nx," + b"y" * 300_000}, {}),
    "half of a character": ({}, {"vcsbench": "\ud800"}),
    "folder and file that is not stored": ({"results/x.csv": b"", "results/x.csv/y": b""}, {}),
    "folder and file": ({"results/x.csv": b"", "results/x.csv/y.csv": b""}, {}),
    "folder of another page": ({f"results/page/{STUDY}.json": b'{"order": {}, "folder": "/"}'}, {}),
    "cell that leaves": ({RUNS: b"cell,round\n../../x,1\n"}, {}),
    "baseline that leaves": ({f"results/page/{STUDY}.json": OUTER_BASELINE}, {}),
    "file that leaves": ({"../../outside": b"x"}, {}),
    "no studies": ({}, {"studies": []}),
    "study without a page": ({}, {"studies": ["other"]}),
    "studies of another type": ({}, {"studies": [1]}),
    "earlier layout": ({}, {"layout": 1}),
    "another layout": ({}, {"layout": "3.1", "files": [], "studies": None}),
    "study that leaves": ({}, {"studies": ["../x"]}),
    "control characters": ({}, {"layout": 9, "vcsbench": "\x1b]0;title\x07\x1b[2J"}),
    "name with control characters": ({"results/\x1b[2J.csv": b"x"}, {}),
    "name in another folder": ({"again/x.html": b"x"}, {}),
    "name with a dot": ({"results/.hidden": b"x"}, {}),
    "wide manifest": ({}, {"more": [[]] * 3_000_000}),
    "large": ({"results/grid/x.txt": bytes(70 * 2**20)}, {}),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_import_hostile_bundle_is_one_line_and_leaves_nothing(case, packed, tmp_path):
    files, more = HOSTILE[case]
    members = members_of(packed) | {at(name): content for name, content in files.items()}
    archive = tmp_path / "a.tar.gz"
    error_of(pack_again(members, archive, **more), tmp_path)
    assert os.listdir(tmp_path) == ["a.tar.gz"]


GNU, PAX = tarfile.GNU_FORMAT, tarfile.PAX_FORMAT
GRID = f"results/grid/{STUDY}.csv"
# Headers by their format, fields and records: before the manifest, or after it.
HEADERS = {
    "device": (GNU, {"type": tarfile.CHRTYPE}, {}, 1),
    "pipe": (GNU, {"type": tarfile.FIFOTYPE}, {}, 1),
    "folder": (GNU, {"type": tarfile.DIRTYPE}, {}, 1),
    "link": (GNU, {"type": tarfile.SYMTYPE, "linkname": "/etc"}, {}, 0),
    "hard link": (GNU, {"type": tarfile.LNKTYPE, "linkname": "/etc/passwd"}, {}, 1),
    "sparse file": (GNU, {"type": tarfile.GNUTYPE_SPARSE}, {}, 1),
    "unknown type": (GNU, {"type": b"~"}, {}, 1),
    "volume labels": (GNU, {"type": b"V"}, {}, 0),
    "size of 2^70": (GNU, {"size": 2**70}, {}, 0),
    "size below 0 in a record": (PAX, {}, {"size": "-1"}, 1),
    "sparse record": (PAX, {}, {"GNU.sparse.realsize": "9" * 12}, 1),
    "absolute path": (PAX, {}, {"path": "/etc/x"}, 1),
    "path that leaves": (PAX, {}, {"path": at("results/../../x")}, 1),
    "path with control characters": (PAX, {}, {"path": at("results/\x1b[2J\nx.csv")}, 1),
    "long path": (GNU, {"name": at("x/" * 3000)}, {}, 1),
    "long record": (PAX, {}, {"comment": "x" * 2**21}, 0),
    "block device": (GNU, {"type": tarfile.BLKTYPE}, {}, 0),
    "size of 2^80 in a record": (PAX, {}, {"size": str(2**80)}, 1),
    "backslashes": (GNU, {"name": at("results\\..\\x.csv")}, {}, 1),
    "path in Latin-1": (GNU, {"name": at("results/\udce9.csv")}, {}, 1),
    "second file": (GNU, {"name": at(GRID)}, {}, 1),
    "second manifest": (GNU, {"name": bundle.MANIFEST}, {}, 1),
}


@pytest.mark.parametrize("case", HEADERS)
def test_import_hostile_header_is_one_line_and_leaves_nothing(case, packed, tmp_path):
    form, fields, records, place = HEADERS[case]
    header = tarfile.TarInfo(at("results/x.csv"))
    for name, value in {"pax_headers": records, **fields}.items():
        setattr(header, name, value)
    block = header.tobuf(form, "utf-8", "surrogateescape")
    parts = []
    for name, content in members_of(packed).items():
        member = tarfile.TarInfo(name)
        member.size = len(content)
        parts += [member.tobuf(GNU), content, bytes(-len(content) % tarfile.BLOCKSIZE)]
    at_end = len(parts) if place else 0
    parts[at_end:at_end] = [block] * (300 if case == "volume labels" else 1)
    archive = tmp_path / "a.tar.gz"
    archive.write_bytes(gzip.compress(b"".join(parts) + bytes(1024)))
    error_of(archive, tmp_path)
    assert os.listdir(tmp_path) == ["a.tar.gz"]


def test_import_foreign_page_is_not_stored(packed, tmp_path):
    members = members_of(packed)
    page = f"reports/{STUDY}.html"
    hostile = {**HERE, "vcsbench": "\x1b[2J\n9", "commit": "\x9b2J"}
    members[at(page)] = b"<script>alert(1)</script>"
    members[at(f"results/provenance/{STUDY}.json")] = json.dumps(hostile).encode()
    lines = import_bundle(pack_again(members, tmp_path / "a.tar.gz"), tmp_path)
    assert all(line.isprintable() for line in lines)
    opened = tmp_path / "opened/a"
    pages = {str(path.relative_to(opened)): path.read_bytes() for path in opened.rglob("*.html")}
    assert pages.keys() == {f"again/{name}.html" for name in (STUDY, "index")}
    assert all(b"Content-Security-Policy" in content for content in pages.values())


@pytest.mark.skipif(not shutil.which("node"), reason="no node here (Debian: nodejs)")
def test_page_command_pasted_into_a_shell_runs_nothing_of_a_cell_name(tmp_path):
    script = (Path(bundle.__file__).parents[2] / "report/script/detail.js").read_text()
    functions = script[script.index("// Quotes an argument") : script.index("function drawn(")]
    cells = ["x$(touch A)", "x'$(touch B)'", "x`touch C`", "x\ntouch D\n", 'x"; touch E; "']
    cells.append("x$(shell touch F)")
    arguments = shlex.join(["--configfile", "x; touch H", "$(touch I)", "$(shell touch J)"])
    of = {"own": "$(touch G)", "tree": "`touch K`", "study": "s", "args": arguments}
    of["files"] = arguments
    node = (
        f"const known = {{ of: {json.dumps(of)} }};\n"
        f"const runsOf = () => [{{ round: 1 }}];\n{functions}\n"
        f"console.log(commandsOf({json.dumps(cells)}).map(([, line]) => line).join('\\n'));"
    )
    line = subprocess.run(["node", "-e", node], capture_output=True, text=True, check=True).stdout
    (tmp_path / "Makefile").write_text(
        "override CELL := $(value CELL)\noverride REPO := $(value REPO)\noverride TREE := $(value TREE)\n"
        "report show measure:\n\t@printf '%s\\n' $(subst $(nl), ,$(ARGS))\n"
    )
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, cwd=tmp_path)
    assert os.listdir(tmp_path) == ["Makefile"], done.stderr
    # `make show` and `make measure` get the configuration files of the run.
    assert done.stdout.count("--configfile\nx; touch H\n$(touch I)\n") == 2 * len(cells)


ODD = [b"\0", b"\x1b[2J", b"../", b"&a [*a]", b"9" * 5000, b'{"a":' * 500, b"\xff\xfe", b"-"]


def fuzzed(dice, packed, path):
    """Write a bundle that is damaged as a file, as an archive, or in members that fit their manifest."""
    kind = dice.choice(("file", "archive", "manifest", "member"))
    if kind == "file":
        path.write_bytes(damaged(dice, packed.read_bytes(), ODD))
        return path
    if kind == "archive":
        path.write_bytes(gzip.compress(damaged(dice, gzip.decompress(packed.read_bytes()), ODD), 1))
        return path
    members = members_of(packed)
    name = bundle.MANIFEST if kind == "manifest" else dice.choice(sorted(members))
    members[name] = damaged(dice, members[name], ODD)
    return (write_archive if name == bundle.MANIFEST else pack_again)(members, path)


@pytest.mark.parametrize("cases", [20, pytest.param(2000, marks=pytest.mark.slow)])
def test_import_damaged_bundles_are_read_or_refused(packed, tmp_path, cases):
    dice, read, errors = dice_of("bundle", cases), 0, []
    home = tmp_path / "home"
    for _ in range(cases):
        home.mkdir()
        archive = fuzzed(dice, packed, tmp_path / "january.tar.gz")
        try:
            with limits():
                import_bundle(archive, home)
        except UserError as error:
            errors.append(str(error))
            assert not os.listdir(home)
        else:
            read += 1
            assert os.listdir(home) == ["opened"]
        assert {*os.listdir(tmp_path)} == {"home", "january.tar.gz"}
        shutil.rmtree(home)
    print(f"{cases} damaged bundles: {read} read, {cases - read} refused")
    assert 0 < read < cases and all(map(str.isprintable, errors))
