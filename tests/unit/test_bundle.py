"""Bundles: packed, opened by another checkout and made again without measuring; damage is refused."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unit.report_files import CONFIG, default_study, make_files, order_of, results_of
from vcsbench.errors import UserError
from vcsbench.report.page import build_page
from vcsbench.run import bundle, opening

STUDY = "fsfs-san-2014"
AXES = {
    "command": ["log"],
    "ra": ["svn"],
    "repo": ["ruby"],
    "format": ["f6", "f7"],
    "packing": ["nopack", "pack"],
    "config": ["slow"],
    "cache": ["cold", "hot-os"],
}
HERE = {
    "vcsbench": "0.1.0",
    "commit": "a" * 40,
    "changed": [],
    "command": "",
    "config_digest": "c" * 64,
}
Change = Callable[[dict[str, bytes]], None]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout in which a small study was measured, and its report made."""
    root = tmp_path_factory.mktemp("measured")
    made = make_files(root, axes=AXES)
    results, study = made.results, default_study(STUDY)
    for part in ("studies", "published"):
        shutil.copytree(CONFIG / part, root / "config" / part)
    shutil.copy(CONFIG / "words.yaml", root / "config")
    (results / "provenance").mkdir()
    (results / "provenance" / f"{STUDY}.json").write_text(json.dumps(HERE))
    (results / "page").mkdir()
    with_ = {"order": order_of(study, made.axes), "expectations": [], "baselines": []}
    (results / "page" / f"{STUDY}.json").write_text(json.dumps(with_))
    (root / "reports").mkdir()
    (root / "reports" / f"{STUDY}.html").write_text(build_page(results_of(made)))
    return root


@pytest.fixture(scope="module")
def packed(root: Path) -> Path:
    return bundle.pack("january", [], root)


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def changed(packed: Path, path: Path, change: Change) -> Path:
    """The archive again, with other members."""
    with tarfile.open(packed) as archive:
        members = {m.name: archive.extractfile(m).read() for m in archive}  # type: ignore[union-attr]
    change(members)
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def test_another_checkout_opens_it_and_has_the_same_byte_by_byte(
    root: Path, packed: Path, tmp_path: Path
) -> None:
    before = files_of(root)
    folder, manifest = opening.unpack(packed, "", tmp_path)
    assert folder == tmp_path / "opened" / "january"
    made = opening.make_again(folder, manifest)
    assert made[0].read_bytes() == (root / "reports" / f"{STUDY}.html").read_bytes()
    for part in ("tables", "published", "measurements", "findings", "advice", "cells", "grid"):
        theirs, ours = (files_of(where / "results" / part) for where in (folder, root))
        assert ours and theirs == {n: c for n, c in ours.items() if "/." not in f"/{n}"}, part
    assert files_of(root) == before
    assert opening.said(folder, manifest, HERE)[1:] == [f"{STUDY}: made again, the same page"]
    path = folder / "results" / "measurements" / f"{STUDY}.csv"
    assert not path.stat().st_mode & 0o222, "it is there to be read"
    assert "is there already" in refusal(packed, tmp_path)


def test_the_same_results_give_the_same_archive_and_another_is_not_overwritten(
    root: Path, packed: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    content = packed.read_bytes()
    assert bundle.pack("january", [STUDY], copy).read_bytes() == content
    with (copy / "results" / "grid" / f"{STUDY}.csv").open("a") as file:
        file.write("\n")
    with pytest.raises(UserError, match=r"is not overwritten; choose another NAME"):
        bundle.pack("january", [], copy)
    assert (copy / "bundles" / "january.tar.gz").read_bytes() == content


@pytest.mark.parametrize(
    ("name", "study", "said"),
    [("../a", "", "NAME=../a: a bundle's name has"), ("a", "toy", "STUDY=toy: has no report")],
)
def test_what_cannot_be_packed_is_said(root: Path, name: str, study: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        bundle.pack(name, [study] if study else [], root)


def test_pack_missing_file_is_refused(root: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    (copy / "config" / "studies" / f"{STUDY}.yaml").rename(tmp_path / "study.yaml")
    with pytest.raises((UserError, OSError), match=rf"{STUDY}.yaml"):
        bundle.pack("a", [], copy)


def refusal(archive: Path, root: Path) -> str:
    """Why an archive is not opened; nothing of it may be there afterwards."""
    before = files_of(root)
    with pytest.raises(UserError) as raised:
        opening.unpack(archive, "", root)
    assert files_of(root) == before
    text = str(raised.value)
    assert "\n" not in text and text.startswith((str(archive), str(root)))
    return text


def edit_csv(members: dict[str, bytes]) -> None:
    name = f"vcsbench-bundle/results/measurements/{STUDY}.csv"
    members[name] = members[name].replace(b"1", b"2", 1)


def add(name: str) -> Change:
    return lambda members: members.update({name: b"x"})


def set_layout(members: dict[str, bytes]) -> None:
    manifest = json.loads(members[bundle.MANIFEST])
    members[bundle.MANIFEST] = json.dumps({**manifest, "layout": 9}).encode()


def climb(members: dict[str, bytes]) -> None:
    """A file that the manifest has, and whose name leads out of the folder."""
    manifest = json.loads(members[bundle.MANIFEST])
    name = "../../outside"
    manifest["files"][name] = manifest["files"].pop("config/published/findings.yaml")
    content = members.pop("vcsbench-bundle/config/published/findings.yaml")
    members[bundle.MANIFEST] = json.dumps(manifest).encode()
    members[f"vcsbench-bundle/{name}"] = content


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (edit_csv, "fsfs-san-2014.csv is damaged"),
        (
            lambda m: m.pop(f"vcsbench-bundle/results/grid/{STUDY}.csv"),
            "grid/fsfs-san-2014.csv is missing",
        ),
        (lambda m: m.pop(bundle.MANIFEST), "is no bundle of vcsbench"),
        (lambda m: m.update({bundle.MANIFEST: b"{}"}), "its manifest is damaged"),
        (set_layout, "has layout 9, and this vcsbench"),
        (climb, "has no place in a bundle"),
        (add("vcsbench-bundle/../../evil"), "has no place in a bundle"),
        (add("/etc/evil"), "has no place in a bundle"),
        (add("vcsbench-bundle/results/more.csv"), "has no place in a bundle"),
    ],
    ids=range(9),
)
def test_a_changed_archive_is_refused(
    packed: Path, tmp_path: Path, change: Change, said: str
) -> None:
    assert said in refusal(changed(packed, tmp_path / "other.tar.gz", change), tmp_path)


def test_a_link_is_refused(packed: Path, tmp_path: Path) -> None:
    path = tmp_path / "other.tar"
    path.write_bytes(gzip.decompress(packed.read_bytes()))
    with tarfile.open(path, "a") as archive:
        member = tarfile.TarInfo("vcsbench-bundle/link")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(member)
    whole = tmp_path / "other.tar.gz"
    whole.write_bytes(gzip.compress(path.read_bytes()))
    assert "'vcsbench-bundle/link' has no place" in refusal(whole, tmp_path)


@pytest.mark.parametrize("kept", [0, 10, 5000, -100])
def test_half_an_archive_is_refused(packed: Path, tmp_path: Path, kept: int) -> None:
    path = tmp_path / "half.tar.gz"
    path.write_bytes(packed.read_bytes()[:kept])
    assert "cannot be read as a bundle" in refusal(path, tmp_path)


def test_what_is_no_archive_or_is_not_there_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("<html>")
    assert "cannot be read as a bundle" in refusal(path, tmp_path)
    assert "No such file" in refusal(tmp_path / "none.tar.gz", tmp_path)


@pytest.mark.parametrize(
    ("here", "said"),
    [
        ({**HERE, "commit": "b" * 40}, "is of vcsbench 0.1.0, commit bbbbbbbbbbbb"),
        ({**HERE, "vcsbench": "0.2.0"}, "is of vcsbench 0.2.0, commit aaaaaaaaaaaa"),
        ({**HERE, "changed": ["Snakefile"]}, "commit aaaaaaaaaaaa with changes"),
        ({**HERE, "commit": ""}, "is of vcsbench 0.1.0, of no commit that is known"),
    ],
)
def test_another_vcsbench_is_said(
    packed: Path, tmp_path: Path, here: dict[str, Any], said: str
) -> None:
    folder, manifest = opening.unpack(packed, "again", tmp_path)
    opening.make_again(folder, manifest)
    line = opening.said(folder, manifest, here)[-1]
    assert "tables and findings are those of vcsbench 0.1.0, commit aaaaaaaaaaaa;" in line
    assert said in line


def test_what_a_checkout_of_another_layout_packed_is_no_traceback(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    (copy / "results" / "page" / f"{STUDY}.json").write_text('{"baselines": [], "shelf": 1}')
    archive = bundle.pack("odd", [], copy)
    monkeypatch.chdir(tmp_path)
    assert opening.main([str(archive)]) == 1
    assert "this vcsbench cannot show what is in it" in capsys.readouterr().err


def packed_again(members: dict[str, bytes], path: Path, **more: Any) -> Path:
    """A bundle of other files, with a manifest that fits them."""
    prefix = f"{bundle.INSIDE}/"
    manifest = json.loads(members.pop(bundle.MANIFEST)) | more
    manifest["files"] = {
        name.removeprefix(prefix): {"bytes": len(c), "sha256": hashlib.sha256(c).hexdigest()}
        for name, c in members.items()
    }
    with tarfile.open(path, "w:gz") as archive:
        for name, content in {bundle.MANIFEST: json.dumps(manifest).encode(), **members}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def members_of(packed: Path) -> dict[str, bytes]:
    with tarfile.open(packed) as archive:
        return {m.name: archive.extractfile(m).read() for m in archive}  # type: ignore[union-attr]


def at(name: str) -> str:
    return f"{bundle.INSIDE}/{name}"


LAUGHS = b"a: &a [x, x]\n" + b"".join(
    b"%c: &%c [*%c, *%c]\n" % (n + 1, n + 1, n, n) for n in range(97, 122)
)
STRANGE: dict[str, tuple[dict[str, bytes], dict[str, Any]]] = {
    "deep page": ({f"results/page/{STUDY}.json": b"[" * 100_000}, {}),
    "deep manifest": ({}, {"vcsbench": "x"}),
    "aliases": ({f"config/studies/{STUDY}.yaml": LAUGHS}, {}),
    "deep yaml": ({f"config/studies/{STUDY}.yaml": b"[" * 1000}, {}),
    "large yaml": ({"config/published/findings.yaml": b"# " + bytes(2**20)}, {}),
    "wide csv": ({"results/grid/x.csv": b"," * 50_000 + b"\n" * 50_000}, {}),
    "cell with a command": ({"results/grid/x.csv": b"cell\nlog/svn/x$(touch RAN)/f7\n"}, {}),
    "cell that leaves": ({f"results/measurements/{STUDY}.csv": b"cell,round\n../../x,1\n"}, {}),
    "baseline that leaves": (
        {f"results/page/{STUDY}.json": b'{"order": {}, "baselines": ["../../x"]}'},
        {},
    ),
    "no studies": ({}, {"studies": []}),
    "study that leaves": ({}, {"studies": ["../x"]}),
    "control characters": ({}, {"layout": 2, "vcsbench": "\x1b]0;title\x07\x1b[2J"}),
    "name with control characters": ({"results/\x1b[2J.csv": b"x"}, {}),
    "name in another folder": ({"again/x.html": b"x"}, {}),
    "name with a dot": ({"results/.hidden": b"x"}, {}),
    "large": ({"results/grid/x.txt": bytes(70 * 2**20)}, {}),
}


@pytest.mark.parametrize("case", STRANGE)
def test_opening_strange_bundle_is_one_sentence_and_leaves_nothing(
    case: str,
    packed: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    files, more = STRANGE[case]
    members = members_of(packed) | {at(name): content for name, content in files.items()}
    if case == "deep manifest":
        archive = changed(
            packed,
            tmp_path / "a.tar.gz",
            lambda m: m.update({bundle.MANIFEST: b'{"files":' * 50_000}),
        )
    else:
        archive = packed_again(members, tmp_path / "a.tar.gz", **more)
    monkeypatch.chdir(tmp_path)
    assert opening.main([archive.name]) == 1
    said = capsys.readouterr()
    assert not said.out and said.err.count("\n") == 1 and said.err.strip().isprintable()
    assert os.listdir(tmp_path) == ["a.tar.gz"]


def test_opening_sparse_member_is_refused(packed: Path, tmp_path: Path) -> None:
    plain = bytearray(gzip.decompress(packed.read_bytes()))
    second = plain.index(b"vcsbench-bundle/", 512)
    plain[second + 156 : second + 157] = b"S"
    plain[second + 148 : second + 156] = b" " * 8
    plain[second + 148 : second + 155] = b"%06o\0" % sum(plain[second : second + 512])
    archive = tmp_path / "a.tar.gz"
    archive.write_bytes(gzip.compress(bytes(plain)))
    assert "sparse" in refusal(archive, tmp_path)


def test_opening_pages_of_a_stranger_have_another_ending(
    packed: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    members = members_of(packed)
    page, provenance = f"reports/{STUDY}.html", f"results/provenance/{STUDY}.json"
    members[at(page)] = b"<script>alert(1)</script>"
    members[at(provenance)] = json.dumps(
        {**HERE, "vcsbench": "\x1b[2J\n9", "commit": "\x9b2J"}
    ).encode()
    archive = packed_again(members, tmp_path / "a.tar.gz")
    monkeypatch.chdir(tmp_path)
    assert opening.main([archive.name]) == 0
    said = capsys.readouterr().out
    assert said.replace("\n", "").isprintable()
    assert f"{page}.theirs is a stranger's page" in said
    pages = {str(path.relative_to("opened/a")) for path in Path("opened/a").rglob("*.html")}
    assert pages == {f"again/{STUDY}.html", "again/index.html"}
    for made in pages:
        assert b"Content-Security-Policy" in (Path("opened/a") / made).read_bytes()


@pytest.mark.skipif(not shutil.which("node"), reason="no node here (Debian: nodejs)")
def test_page_command_pasted_into_a_shell_runs_nothing_of_a_cell_name(tmp_path: Path) -> None:
    script = (Path(opening.__file__).parents[2] / "report/script/detail.js").read_text()
    functions = script[script.index("// Quotes an argument") : script.index("function drawn(")]
    cells = ["x$(touch A)", "x'$(touch B)'", "x`touch C`", "x\ntouch D\n", 'x"; touch E; "']
    cells.append("x$(shell touch F)")
    node = (
        "const commands = { explain: 'show', measure: 'run-cell' };\n"
        "const known = { own: '$(touch G)', study: 's', commands };\n"
        f"const runsOf = () => [{{ round: 1 }}];\n{functions}\n"
        f"console.log(commandsOf({json.dumps(cells)}).map(([, line]) => line).join('\\n'));"
    )
    line = subprocess.run(["node", "-e", node], capture_output=True, text=True, check=True).stdout
    (tmp_path / "Makefile").write_text("report:\n\t@printf '%s\\0' $(subst $(nl), ,$(ARGS))\n")
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, cwd=tmp_path)
    assert os.listdir(tmp_path) == ["Makefile"], done.stderr
