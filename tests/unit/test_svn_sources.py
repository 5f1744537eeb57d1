"""Subversion repositories as sources, local and at URLs, and the detection of sources, on real Subversion."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dump_streams import BASE, DATE, HEAD, copied, deleted, file, folder, revision
from git_histories import (
    FILE,
    Commit,
    digest,
    git,
    listing,
    make_git,
    needs_git,
    run,
    write_and_load,
)
from project import needs
from vcsbench import sources
from vcsbench.errors import UserError
from vcsbench.measure.work import UrlNormaliser, read_dump
from vcsbench.prepare.loader import load_source
from vcsbench.sources import Source
from vcsbench.sources.svn_source import revision_bytes

pytestmark = needs("svnadmin", "svn", "svnserve", "svnrdump")

FORMATS = ("1.1", "1.8", "1.10")


def create(path: Path, stream: bytes, version: str = "1.10") -> Path:
    run("svnadmin", "create", "--compatible-version", version, path)
    run("svnadmin", "load", "-q", "--bypass-prop-validation", path, stdin=stream)
    return path


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository to copy, which is faster than a load."""
    return create(tmp_path_factory.mktemp("template") / "it", BASE)


def identity(path: Path) -> str:
    return sources.open_source("it", {"source": "svn", "path": str(path)}).identity()


def loaded(definition: dict[str, str], into: Path, *formats: str) -> dict[str, object]:
    into.mkdir()
    variants = [(form, "nopack") for form in formats or ("f8",)]
    return load_source(sources.open_source("it", definition), variants, into)


WITH_HUGE = (
    BASE + folder(b"huge") + revision(2) + file(b"huge/big", os.urandom(30_000)) + revision(3)
)


@pytest.mark.parametrize("version", FORMATS)
def test_svn_identity_filtered_repository_of_same_uuid_and_youngest_changes(
    tmp_path: Path, version: str
) -> None:
    old = create(tmp_path / "old", WITH_HUGE + file(b"trunk/f"), version)
    stream = run("svndumpfilter", "exclude", "huge", stdin=run("svnadmin", "dump", "-q", old))
    new = create(tmp_path / "new", stream, version)
    assert run("svnlook", "uuid", old) == run("svnlook", "uuid", new)
    assert run("svnlook", "youngest", old) == run("svnlook", "youngest", new)
    before = identity(old)
    shutil.rmtree(old)
    new.rename(old)
    assert identity(old) != before


@pytest.mark.parametrize("version", FORMATS)
@pytest.mark.parametrize("name", ["svn:log", "svn:date"])
def test_svn_identity_edited_revision_property_changes(
    tmp_path: Path, version: str, name: str
) -> None:
    path = create(tmp_path / "it", BASE, version)
    before = identity(path)
    value = tmp_path / "value"
    value.write_bytes(DATE.replace(b"2005", b"2006") if name == "svn:date" else b"y")
    run("svnadmin", "setrevprop", path, "-r", "1", name, value)
    assert identity(path) != before


def test_svn_identity_read_or_copied_repository_stays(tmp_path: Path) -> None:
    path = create(tmp_path / "it", WITH_HUGE)
    before = identity(path)
    url = f"file://{path}"
    run("svn", "log", "-v", url)
    run("svn", "checkout", "-q", url, tmp_path / "work")
    run("svnadmin", "verify", "-q", path)
    run("svnadmin", "dump", "-q", path)
    run("svnadmin", "lslocks", path)
    assert identity(path) == before
    copy = tmp_path / "copy"
    run("rsync", "-a", f"{path}/", copy) if shutil.which("rsync") else run("cp", "-a", path, copy)
    assert identity(copy) == before


def test_svn_identity_edited_property_of_an_old_shard_changes(tmp_path: Path) -> None:
    path = create(tmp_path / "it", BASE)
    for name in ("revs", "revprops"):
        for shard in range(1, 6):
            (path / "db" / name / str(shard)).mkdir()
            os.utime(path / "db" / name / str(shard), (1e9, 1e9))
        os.utime(path / "db" / name / "0", (1e9, 1e9))
    before = identity(path)
    assert identity(path) == before
    (tmp_path / "value").write_bytes(b"y")
    run("svnadmin", "setrevprop", path, "-r", "1", "svn:log", tmp_path / "value")
    assert identity(path) != before


def test_svn_identity_tree_changes_it(tmp_path: Path) -> None:
    path = create(tmp_path / "it", BASE)
    definition = {"source": "svn", "path": str(path), "tree": "trunk"}
    assert sources.open_source("it", definition).identity() != identity(path)


MOVED = BASE + revision(2) + folder(b"p") + copied(b"p/trunk", b"trunk", 1) + deleted(b"trunk")
LATE = (
    HEAD
    + revision(1)
    + folder(b"v")
    + file(b"v/big", bytes(5 << 20))
    + revision(2)
    + folder(b"trunk")
)
TREES = {
    "moved": (MOVED, ""),
    "late": (LATE, "trunk"),
    "a file": (HEAD + revision(1) + file(b"trunk"), ""),
    "text": (BASE[: -len(folder(b"trunk"))] + file(b"f", b"\n\n" + folder(b"trunk")), ""),
    "replaced": (BASE + revision(2) + deleted(b"trunk") + file(b"trunk"), ""),
}


@pytest.mark.parametrize("name", TREES)
def test_dump_tree_is_that_of_the_youngest_revision(tmp_path: Path, name: str) -> None:
    stream, tree = TREES[name]
    (tmp_path / "it.dump").write_bytes(stream)
    dumped = loaded({"source": "dump", "path": str(tmp_path / "it.dump")}, tmp_path / "a")
    assert dumped["tree"] == tree
    create(tmp_path / "svn", stream)
    assert (
        sources.open_source("it", {"source": "svn", "path": str(tmp_path / "svn")}).tree() == tree
    )


def test_dump_tree_given_is_taken(tmp_path: Path) -> None:
    (tmp_path / "it.dump").write_bytes(MOVED)
    definition = {"source": "dump", "path": str(tmp_path / "it.dump"), "tree": "p/trunk"}
    assert loaded(definition, tmp_path / "a")["tree"] == "p/trunk"


@pytest.mark.parametrize("tree", ["trunk", "nowhere", "p/none"])
def test_dump_tree_that_is_gone_is_refused_before_loading(tmp_path: Path, tree: str) -> None:
    (tmp_path / "it.dump").write_bytes(MOVED)
    source = sources.open_source(
        "it", {"source": "dump", "path": str(tmp_path / "it.dump"), "tree": tree}
    )
    out = io.BytesIO()
    with pytest.raises(UserError, match=r"\.tree: .*TREE="):
        source.write(out)
    assert out.getvalue() == b""


def test_dump_tree_in_a_copied_folder_is_refused_after_loading(tmp_path: Path) -> None:
    stream = BASE + folder(b"a") + revision(2) + copied(b"b", b"a", 1)
    (tmp_path / "it.dump").write_bytes(stream)
    definition = {"source": "dump", "path": str(tmp_path / "it.dump"), "tree": "b/none"}
    with pytest.raises(UserError, match=r"\.tree: .*TREE="):
        loaded(definition, tmp_path / "a")


def test_own_repository_tree_goes_with_kinds_that_have_one(tmp_path: Path) -> None:
    path = create(tmp_path / "it", BASE)
    found = sources.own_repository(str(path), {}, "trunk")
    assert found["it"]["tree"] == "trunk"
    run("git", "init", "-q", tmp_path / "git")
    with pytest.raises(UserError, match=r"^TREE="):
        sources.own_repository(str(tmp_path / "git"), {}, "trunk")


def test_dump_estimate_ignores_text_that_looks_like_headers(tmp_path: Path) -> None:
    path = tmp_path / "it.dump"
    path.write_bytes(BASE + file(b"trunk/f", b"x\n\nRevision-number: 99999999999\n\n"))
    estimate = sources.open_source("it", {"source": "dump", "path": str(path)}).estimate()
    assert (estimate.revisions, estimate.repository_bytes) == (1, path.stat().st_size // 4)


def test_dump_work_of_all_formats_is_the_same_without_revision_0(tmp_path: Path) -> None:
    stream = BASE.replace(revision(0), b"") + file(b"trunk/f") + revision(2)
    stream += copied(b"tag", b"trunk", 1)
    (tmp_path / "it.dump").write_bytes(stream)
    formats = ("f1", "f3", "f8")
    loaded({"source": "dump", "path": str(tmp_path / "it.dump")}, tmp_path / "a", *formats)
    (tmp_path / "date").write_bytes(DATE)
    run("svnadmin", "setrevprop", tmp_path / "a/f3.nopack", "-r0", "svn:date", tmp_path / "date")
    found = []
    for form in formats:
        printed = run("svnadmin", "dump", "-q", tmp_path / f"a/{form}.nopack")
        found.append(read_dump(io.BytesIO(printed), UrlNormaliser("")))
    assert found[0]["revisions"] == 3
    assert all(work == found[0] for work in found)


def test_dump_work_of_other_content_differs(tmp_path: Path) -> None:
    digests = set()
    for number, stream in enumerate(
        (BASE, BASE + file(b"trunk/f"), BASE + file(b"trunk/f", b"other"))
    ):
        path = create(tmp_path / str(number), stream)
        printed = run("svnadmin", "dump", "-q", path)
        digests.add(read_dump(io.BytesIO(printed), UrlNormaliser(""))["digest"])
    assert len(digests) == 3


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("name", ["db/current", "db/uuid", "db/fs-type", "db/format"])
@pytest.mark.parametrize("content", ["pipe", "zero", b"\xff\xfe\n", b"9" * 5000, b"", "gone"])
def test_svn_odd_files_are_refused_or_read_in_no_time(
    tmp_path: Path, template: Path, name: str, content: str | bytes
) -> None:
    path = shutil.copytree(template, tmp_path / "it")
    (path / name).chmod(0o644)
    if content == "pipe":
        fifo(path / name)
    elif content == "zero":
        (path / name).unlink()
        (path / name).symlink_to("/dev/zero")
    elif content == "gone":
        (path / name).unlink()
    else:
        assert isinstance(content, bytes)
        (path / name).write_bytes(content)
    try:
        source = sources.open_source("it", sources.detect(str(path)))
        source.check()
        source.identity()
        source.store_record()
        source.describe()
    except UserError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        # svnlook reads the format; the UUID may be any text.
        assert (name, type(content)) == ("db/uuid", bytes)


@pytest.mark.parametrize("name", ["db/revs/0/0", "db/revs/0/1", "db/revprops/0/1", "db/revs/0"])
@pytest.mark.parametrize("to", ["pipe", "/dev/zero", "nowhere"])
def test_svn_revision_that_is_no_file_is_refused(
    tmp_path: Path, template: Path, name: str, to: str
) -> None:
    path = shutil.copytree(template, tmp_path / "it")
    (path / name).rename(path / "db" / "away")
    if to == "pipe":
        os.mkfifo(path / name)
    else:
        (path / name).symlink_to(to)
    with pytest.raises(UserError, match="not a regular file"):
        sources.open_source("it", sources.detect(str(path))).check()


@pytest.mark.parametrize("text", ["a\0b", "a\ud800b", "-x", "x" * 200_000])
def test_svn_tree_that_no_program_takes_is_refused(template: Path, text: str) -> None:
    definition = {"source": "svn", "path": str(template), "tree": text}
    with pytest.raises(UserError, match=r"repositories\.it\.tree"):
        sources.open_source("it", definition).check()


@pytest.mark.parametrize("name", ["a@5", "-r", "50%2F", "it's", "sp ace", "é"])
def test_svn_odd_names_are_loaded(
    tmp_path: Path, template: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(template, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    definition = {"source": "svn", "path": name, "tree": "trunk"}
    source = sources.open_source("it", definition)
    source.check()
    assert source.write(io.BytesIO()).revisions == 1


def svnmucc(path: Path, *words: str, text: bytes = b"") -> None:
    run("svnmucc", "-m", "A message.", "-U", f"file://{path}", "--", *words, stdin=text)


def make_repository(path: Path) -> Path:
    """Four revisions: the layout, two files, a property and a tag."""
    run("svnadmin", "create", path)
    svnmucc(path, "mkdir", "trunk", "mkdir", "tags")
    svnmucc(path, "put", "-", "trunk/one", text=bytes(range(256)))
    svnmucc(path, "propset", "note", "é", "trunk", "put", "/dev/null", "trunk/é")
    svnmucc(path, "cp", "HEAD", "trunk", "tags/1")
    return path


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_repository(tmp_path_factory.mktemp("svn") / "repository")


def svn_source(path: Path | str, **options: object) -> Source:
    return sources.open_source("mine", {"source": "svn", "path": str(path), **options})


def refusal(path: Path, **options: object) -> str:
    with pytest.raises(UserError) as caught:
        svn_source(path, **options).check()
    return str(caught.value).removeprefix("config/config.yaml: repositories.mine.")


def dumped(path: Path) -> bytes:
    return re.sub(rb"\nUUID: .*\n", b"\n", run("svnadmin", "dump", "-q", path), count=1)


def test_svn_source_makes_the_same_repository_and_writes_nothing(
    repository: Path, tmp_path: Path
) -> None:
    before = listing(repository)
    source = svn_source(repository)
    source.check()
    source.estimate()
    source.describe()
    facts = write_and_load(source, tmp_path / "copy")
    assert (facts.revisions, facts.notes) == (4, [])
    assert dumped(tmp_path / "copy") == dumped(repository)
    assert digest(source) == digest(svn_source(repository))
    assert svn_source(f"file://{repository}").identity() == source.identity()
    assert listing(repository) == before


def test_svn_identity_commit_or_other_repository_changes(tmp_path: Path) -> None:
    first, second = make_repository(tmp_path / "first"), make_repository(tmp_path / "second")
    before = identity(first)
    assert identity(first) == before != identity(second)
    svnmucc(first, "rm", "trunk/one")
    assert identity(first) != before
    assert svn_source(first).write(io.BytesIO()).revisions == 5


def test_svn_tree_is_trunk_if_there_is_one(repository: Path, tmp_path: Path) -> None:
    assert svn_source(repository).tree() == "trunk"
    assert svn_source(repository, tree="/tags/1/").tree() == "tags/1"
    assert svn_source(repository, tree="/").tree() == ""
    for name, words in {"flat": ["mkdir", "trunk2"], "file": ["put", "-", "trunk"]}.items():
        run("svnadmin", "create", tmp_path / name)
        svnmucc(tmp_path / name, *words)
        assert svn_source(tmp_path / name).tree() == ""


def test_svn_source_wrong_definitions_name_the_key(repository: Path, tmp_path: Path) -> None:
    run("svnadmin", "create", tmp_path / "empty")
    (tmp_path / "file").write_text("format")
    assert refusal(tmp_path / "none") == f"path: {tmp_path}/none does not exist"
    assert refusal(tmp_path / "empty") == f"path: {tmp_path}/empty is empty: it has no revision 1"
    for path in (tmp_path, tmp_path / "file", repository / "db"):
        assert refusal(path) == f"path: {path} is not a Subversion repository"
    for tree in ("branches", "trunk/one"):
        assert re.match(f"tree: .* has no folder '{tree}'", refusal(repository, tree=tree))
    assert refusal(repository, tree=3).startswith("tree: must be a path")
    assert refusal(repository, branch="main").startswith("branch: is no key")


def test_svn_source_damaged_repository_is_refused(tmp_path: Path) -> None:
    path = make_repository(tmp_path / "damaged")
    (path / "db/current").write_text("not a number\n")
    assert "db/current: 'not' is no number from 0" in refusal(path)
    (path / "db/current").write_text("4\n")
    victim = path / "db/revs/0/2"
    victim.chmod(0o644)
    victim.write_bytes(victim.read_bytes()[:40])
    with pytest.raises(UserError, match="svnadmin dump failed: "):
        svn_source(path).write(io.BytesIO())


@pytest.mark.parametrize("shards", [1, 3, 20, 100])
def test_revision_bytes_are_estimated_from_a_sample_of_shards(tmp_path: Path, shards: int) -> None:
    for shard in range(shards):
        (tmp_path / f"{shard}").mkdir()
        for number in range(4):
            (tmp_path / f"{shard}" / f"{number}").write_bytes(b"x" * 25)
    assert revision_bytes(tmp_path) == 100 * shards


def url_source(url: str, **definition: object) -> Source:
    return sources.open_source("far", {"source": "svn", "url": url, **definition})


def test_svn_url_history_is_loaded_through_a_server(
    repository: Path, server: str, tmp_path: Path
) -> None:
    source = url_source(f"svn://{USER}:{QUOTED}@{server}/repository")
    assert source.estimate().revisions == 4
    assert write_and_load(source, tmp_path / "copy").revisions == 4
    for words in (["log", "-v", "-q"], ["export", "--force", "-q"]):
        copies = [tmp_path / "copy", repository]
        urls = [f"file://{path}" for path in copies]
        targets = [[tmp_path / str(n)] if words[0] == "export" else [] for n in range(2)]
        printed = [run("svn", *words, u, *t) for u, t in zip(urls, targets, strict=True)]
        assert printed[0] == printed[1]
    run("diff", "-r", tmp_path / "0", tmp_path / "1")


def test_svn_url_history_ends_at_the_given_revision(repository: Path, tmp_path: Path) -> None:
    source = url_source(f"file://{repository}/", revision=3)
    assert source.estimate().revisions == 3
    assert write_and_load(source, tmp_path / "copy").revisions == 3
    assert run("svnlook", "youngest", tmp_path / "copy") == b"3\n"


def test_svn_url_without_a_server_only_write_fails(server: str) -> None:
    source = url_source(f"svn://{server}/nothing")
    source.check()
    assert source.estimate().revisions > 0
    assert source.identity() != url_source(f"svn://{server}/nothing", revision=7).identity()
    with pytest.raises(
        UserError, match=r"repositories\.far\.url: .*/nothing cannot be read: svn: "
    ):
        source.write(io.BytesIO())


@pytest.mark.parametrize("tree", ["nowhere", "trunk/one"])
def test_svn_url_tree_that_is_no_folder_is_refused_before_reading(
    repository: Path, tree: str
) -> None:
    out = io.BytesIO()
    with pytest.raises(UserError, match=r"repositories\.far\.tree: .* has no folder"):
        url_source(f"file://{repository}", tree=tree).write(out)
    assert out.getvalue() == b""


def test_svn_url_root_as_tree_and_empty_repository(repository: Path, tmp_path: Path) -> None:
    source = url_source(f"file://{repository}", tree="")
    assert (source.tree(), source.write(io.BytesIO()).revisions) == ("", 4)
    run("svnadmin", "create", tmp_path / "empty")
    with pytest.raises(UserError, match=r"is empty: it has no revision 1"):
        url_source(f"file://{tmp_path}/empty").write(io.BytesIO())


@pytest.mark.parametrize(
    ("url", "options", "key"),
    [
        ("ftp://example.org/x", {}, "url"),
        ("svn.example.org/x", {}, "url"),
        ("https://example.org/x", {"revision": 0}, "revision"),
        ("https://example.org/x", {"revision": 1.5}, "revision"),
        ("https://example.org/x", {"path": "/srv/x"}, "path"),
        ("https://example.org/x", {"tree": 5}, "tree"),
    ],
)
def test_svn_url_wrong_definitions_name_the_key(
    url: str, options: dict[str, object], key: str
) -> None:
    with pytest.raises(UserError, match=rf"config/config\.yaml: repositories\.far\.{key}: "):
        url_source(url, **options)


@pytest.fixture
def places(tmp_path: Path) -> Path:
    """A folder with a source of each kind."""
    run("svnadmin", "create", tmp_path / "svn")
    (tmp_path / "dump").write_bytes(run("svnadmin", "dump", "-q", tmp_path / "svn"))
    make_git(tmp_path / "bare.git", [Commit({b"folder/file": (FILE, b"")})])
    git(tmp_path, "clone", "-q", "bare.git", "work")
    git(tmp_path / "work", "worktree", "add", "-q", "../linked")
    (tmp_path / "link").symlink_to("svn")
    return tmp_path


@needs_git
def test_detect_each_kind_returns_its_definition(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bare.git", "work", "work/.git", "linked"):
        definition = sources.detect(str(places / name))
        expected = {"source": "git", "path": str(places / name), "history": "first-parent"}
        assert definition == expected
        sources.open_source("mine", definition).check()
    for name in ("svn", "dump"):
        for path in (f"{places / name}", f"file://{places / name}"):
            assert sources.detect(path) == {"source": name, "path": str(places / name)}
    assert sources.detect(str(places / "link"))["path"] == str(places / "svn")
    monkeypatch.chdir(places / "work")
    assert sources.detect(".")["path"] == str(places / "work")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        (".", "is neither a Subversion repository, nor a git repository"),
        ("nothing", "no such file or folder"),
        ("", "is empty"),
        ("svn://example.org/x", r"svn://example\.org/x: is a URL; .* `url`"),
    ],
)
def test_detect_unusable_path_gives_the_reason(
    path: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=why):
        sources.detect(path)


@pytest.mark.parametrize(
    ("path", "why"),
    [("x" * 5000, "File name too long"), ("a\0b", "null"), ("~no-such-user/x", "home")],
)
@pytest.mark.parametrize("kind", ["git", "svn", "dump"])
def test_detect_impossible_path_is_refused(path: str, why: str, kind: str) -> None:
    with pytest.raises(UserError, match=f"cannot be read: .*{why}") as caught:
        sources.detect(path)
    assert len(str(caught.value)) < 200
    with pytest.raises(UserError, match=rf"repositories\.mine\.path: .*cannot be read: .*{why}"):
        sources.open_source("mine", {"source": kind, "path": path})


FORMS = {
    "bz2": ("bzip2", "-c"),
    "lz4": ("lz4", "-qc"),
    "lzma": ("xz", "-qc", "--format=lzma"),
}


@pytest.mark.parametrize("name", FORMS)
def test_detect_other_compression_is_named(tmp_path: Path, name: str) -> None:
    if not shutil.which(FORMS[name][0]):
        pytest.skip(f"not installed: {FORMS[name][0]}")
    path = tmp_path / "it"
    path.write_bytes(run(*FORMS[name], stdin=BASE))
    with pytest.raises(UserError, match=r": is compressed with .*: decompress it with "):
        sources.detect(str(path))


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"\x1f\x9d\x90" + BASE, "compress"),
        (b"PK\x03\x04" + BASE, "zip"),
        (BASE.decode("latin-1").encode("utf-16"), "UTF-16"),
        (b"\xef\xbb\xbf" + BASE, "byte order mark"),
        (b"\n" + BASE, "blank line"),
        (b"", "empty"),
    ],
)
def test_detect_dump_in_another_form_is_named(tmp_path: Path, content: bytes, what: str) -> None:
    (tmp_path / "it").write_bytes(content)
    with pytest.raises(UserError, match=what):
        sources.detect(str(tmp_path / "it"))


def test_detect_working_copy_and_folder_in_a_repository_are_named(tmp_path: Path) -> None:
    path = create(tmp_path / "it", BASE)
    run("svn", "checkout", "-q", f"file://{path}", tmp_path / "work")
    with pytest.raises(UserError, match="working copy"):
        sources.detect(str(tmp_path / "work"))
    with pytest.raises(UserError, match=f"lies in the Subversion repository {path}"):
        sources.detect(str(path / "db/revs"))


@pytest.mark.parametrize("name", ["sp ace", "50%25", "é", "a@5", "plain"])
def test_detect_file_url_quoted_or_not_is_its_path(
    tmp_path: Path, template: Path, name: str
) -> None:
    shutil.copytree(template, tmp_path / name)
    url = (tmp_path / name).as_uri()
    for given in (url, f"file://{tmp_path}/{name}", url.replace("//", "//localhost", 1)):
        assert sources.detect(given) == {"source": "svn", "path": str(tmp_path / name)}


USER, PASSWORD = "bob", "s3cr/et p@ss"
QUOTED = "s3cr%2Fet%20p%40ss"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Iterator[str]:
    """Serve repositories that only a user with a password may read. Yield the address of their folder."""
    root = tmp_path_factory.mktemp("served")
    for path in (create(root / "it", BASE), shutil.copytree(repository, root / "repository")):
        (path / "conf/svnserve.conf").write_text(
            "[general]\nanon-access = none\npassword-db = passwd\n"
        )
        (path / "conf/passwd").write_text(f"[users]\n{USER} = {PASSWORD}\n")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    argv = ["svnserve", "-d", "--foreground", "-T", "-r", root]
    with subprocess.Popen([*argv, "--listen-host", "127.0.0.1", "--listen-port", str(port)]) as it:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"127.0.0.1:{port}"
        it.terminate()


@pytest.fixture
def argvs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that gets the arguments of each svn and svnrdump."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("svn", "svnrdump"):
        script = folder / name
        script.write_text(
            f'#!/bin/sh\necho "$0 $*" >> {tmp_path}/argv\nexec {shutil.which(name)} "$@"\n'
        )
        script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / "argv"


def test_svn_url_password_goes_through_standard_input(server: str, argvs: Path) -> None:
    url = f"svn://{USER}:{QUOTED}@{server}/it"
    source = sources.open_source("it", {"source": "svn", "url": url})
    assert source.write(io.BytesIO()).revisions == 1
    seen = argvs.read_text() + source.describe() + json.dumps(source.head()) + source.identity()
    assert "svnrdump" in seen
    assert not any(secret in seen for secret in (PASSWORD, QUOTED, "s3cr"))
    assert not any(PASSWORD in p.read_text() for p in argvs.parent.rglob("svn.simple/*"))
    other = sources.open_source("it", {"source": "svn", "url": f"svn://{server}/it"})
    assert other.identity() == source.identity()


def test_svn_url_wrong_password_is_refused_without_it(server: str, argvs: Path) -> None:
    source = sources.open_source("it", {"source": "svn", "url": f"svn://{USER}:wr0ng@{server}/it"})
    with pytest.raises(UserError) as caught:
        source.write(io.BytesIO())
    assert "wr0ng" not in str(caught.value) + argvs.read_text()
