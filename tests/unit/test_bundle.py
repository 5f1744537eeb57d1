"""Bundles: packed, and imported by another checkout, which makes the page again."""

import io
import json
import shutil
import tarfile

import pytest

from project import CONFIG, STUDY
from unit.html_tree import parse
from unit.report_files import default_study, make_files, order_of, results_of
from vcsbench.errors import UserError
from vcsbench.report.index_page import make_record
from vcsbench.report.page import build_page_with_charts
from vcsbench.run import bundle

AXES = {
    **{"command": ["log"], "access": ["svn"], "repo": ["ruby"], "format": ["f6", "f7"]},
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
    (results / "cluster").mkdir()
    lost = {"node": "n2", "at": "", "to": "n1", "blocks": [f"{STUDY}/log/ruby"]}
    (results / "cluster/job1.assignment.json").write_text(json.dumps({"lost": [lost]}))
    (results / "cluster/job1.work.json").write_text("{}")
    # A repository may have the name of an administrative folder.
    (results / "cells" / STUDY / "log" / "CVS").mkdir(parents=True)
    (results / "cells" / STUDY / "log" / "CVS" / "note.json").write_text("{}")
    # This is a part of the page.
    (results / "provenance").mkdir()
    (results / "provenance" / f"{STUDY}.json").write_text(json.dumps(HERE))
    (root / "reports").mkdir()
    page, facts = build_page_with_charts(results_of(made), root / "results" / "charts" / STUDY)
    (root / "reports" / f"{STUDY}.html").write_text(page)
    params = {"order": order_of(study, made.axes), "expectations": [], "baselines": []}
    (results / "page").mkdir()
    record = make_record(params, facts)
    (results / "page" / f"{STUDY}.json").write_text(json.dumps(record))
    return root


@pytest.fixture(scope="module")
def packed(root):
    return bundle.pack("january", [], root)


def member_of(name, kind=tarfile.REGTYPE, size=0):
    member = tarfile.TarInfo(name)
    member.type, member.size, member.linkname = kind, size, "/etc/passwd"
    return member


def test_pack_has_the_results_of_a_repository_named_cvs(packed):
    with tarfile.open(packed) as archive:
        names = archive.getnames()
    assert [name for name in names if name.endswith(f"{STUDY}/log/CVS/note.json")] != []


def test_import_makes_the_page_of_the_packed_results(root, packed, tmp_path):
    lines = bundle.unpack_bundle(packed, "", tmp_path)
    folder = tmp_path / "opened" / "january"
    page = folder / "again" / f"{STUDY}.html"
    assert str(page) in lines[-1]
    assert page.read_text() == (root / "reports" / f"{STUDY}.html").read_text()
    # The index has the facts of the page.
    (row,) = parse((folder / "again" / "index.html").read_text()).all("tbody")[0].all("tr")
    (link,) = row.all("a")
    assert link.attributes["href"] == f"{STUDY}.html" and "Another version" not in row.text
    assert len(row.all("td")) == 6
    measured = f"results/measurements/{STUDY}.csv"
    assert (folder / measured).read_bytes() == (root / measured).read_bytes()
    # It may have scripts of a stranger.
    assert not (folder / "reports").exists()
    with pytest.raises(UserError, match="january: "):
        bundle.unpack_bundle(packed, "", tmp_path)


def test_import_has_the_lost_nodes_of_a_cluster(packed, tmp_path):
    bundle.unpack_bundle(packed, "", tmp_path)
    folder = tmp_path / "opened" / "january"
    files = [path.name for path in (folder / "results" / "cluster").iterdir()]
    assert files == ["job1.assignment.json"]
    assert "Measured again on n1: log/ruby" in (folder / "again" / f"{STUDY}.html").read_text()


def test_pack_again_keeps_the_archive(root, packed):
    before = packed.read_bytes()
    with pytest.raises(UserError, match=str(packed)):
        bundle.pack("january", [STUDY], root)
    assert packed.read_bytes() == before


def test_pack_names_no_user_and_no_link(packed):
    with tarfile.open(packed) as archive:
        members = archive.getmembers()
    assert {(member.uname, member.gname, member.uid) for member in members} == {("", "", 0)}
    assert all(member.isreg() for member in members)


def test_pack_study_without_report_is_refused(root):
    with pytest.raises(UserError, match="--study "):
        bundle.pack("none", ["no-such-study"], root)


def test_pack_more_than_an_import_takes_is_refused(root, monkeypatch):
    monkeypatch.setattr(bundle, "UNPACKED_BYTES", 3000)
    with pytest.raises(UserError, match=r"bundles/large\.tar\.gz: .* 3,000\. "):
        bundle.pack("large", [], root)
    assert not [*(root / "bundles").glob("large*")]


@pytest.mark.parametrize(
    "members",
    [
        [member_of("vcsbench-bundle/link", tarfile.SYMTYPE)],
        [member_of("vcsbench-bundle/hard", tarfile.LNKTYPE)],
        [member_of("vcsbench-bundle/pipe", tarfile.FIFOTYPE)],
        [member_of("../outside", size=9)],
        [member_of("vcsbench-bundle/big", size=2000), member_of("vcsbench-bundle/more", size=2000)],
        [member_of("vcsbench-bundle/results/no-page.csv")],
    ],
)
def test_import_other_archive_is_refused_and_leaves_nothing(tmp_path, monkeypatch, members):
    monkeypatch.setattr(bundle, "UNPACKED_BYTES", 3000)
    archive, root = tmp_path / "x.tar.gz", tmp_path / "root"
    with tarfile.open(archive, "w:gz") as opened:
        for member in members:
            opened.addfile(member, io.BytesIO(bytes(member.size)))
    root.mkdir()
    with pytest.raises(UserError, match=str(archive)):
        bundle.unpack_bundle(archive, "", root)
    assert [path.name for path in tmp_path.iterdir() if path != root] == ["x.tar.gz"]
    assert [*root.iterdir()] == []


def test_import_of_deeply_nested_json_is_refused_and_leaves_nothing(tmp_path):
    archive, content = tmp_path / "x.tar.gz", b"[" * 100_000
    member = member_of(f"vcsbench-bundle/results/page/{STUDY}.json", size=len(content))
    with tarfile.open(archive, "w:gz") as opened:
        opened.addfile(member, io.BytesIO(content))
    with pytest.raises(UserError, match=f"{archive}: this version of vcsbench cannot show it"):
        bundle.unpack_bundle(archive, "", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["x.tar.gz"]


@pytest.mark.parametrize("content", [b"", b"no archive", b"cut"])
def test_import_damaged_archive_is_refused(packed, tmp_path, content):
    archive = tmp_path / "x.tar.gz"
    whole = packed.read_bytes()
    archive.write_bytes(whole[: len(whole) // 2] if content == b"cut" else content)
    with pytest.raises(UserError, match=str(archive)):
        bundle.unpack_bundle(archive, "", tmp_path)
    assert not (tmp_path / "opened").exists()
