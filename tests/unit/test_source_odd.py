"""Sources that changed in place, have an odd tree, odd files or a password, on real Subversion."""

from __future__ import annotations

import io
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dump_streams import BASE, DATE, HEAD, copied, deleted, file, folder, revision
from project import needs
from vcsbench import sources
from vcsbench.errors import UserError
from vcsbench.measure.work import dump as dump_work
from vcsbench.measure.work.neutral import Neutral
from vcsbench.subjects.repository.loader import load_source

pytestmark = needs("svnadmin", "svn", "svnserve", "svnrdump")

FORMATS = ("1.1", "1.8", "1.10")


def sh(*argv: str | Path, text: bytes = b"") -> bytes:
    return subprocess.run(argv, input=text, check=True, capture_output=True).stdout


def create(path: Path, stream: bytes, version: str = "1.10") -> Path:
    sh("svnadmin", "create", "--compatible-version", version, path)
    sh("svnadmin", "load", "-q", "--bypass-prop-validation", path, text=stream)
    return path


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository to copy: that is faster than to load one."""
    return create(tmp_path_factory.mktemp("template") / "it", BASE)


def identity(path: Path) -> str:
    return sources.open_source("it", {"source": "svn", "path": str(path)}).identity()


def loaded(definition: dict[str, str], into: Path, *formats: str) -> dict[str, object]:
    into.mkdir()
    variants = [(form, "nopack") for form in formats or ("f8",)]
    return load_source(sources.open_source("it", definition), variants, into)


# Identity


WITH_HUGE = (
    BASE + folder(b"huge") + revision(2) + file(b"huge/big", os.urandom(30_000)) + revision(3)
)


@pytest.mark.parametrize("version", FORMATS)
def test_svn_identity_filtered_repository_of_same_uuid_and_youngest_changes(
    tmp_path: Path, version: str
) -> None:
    old = create(tmp_path / "old", WITH_HUGE + file(b"trunk/f"), version)
    stream = sh("svndumpfilter", "exclude", "huge", text=sh("svnadmin", "dump", "-q", old))
    new = create(tmp_path / "new", stream, version)
    assert sh("svnlook", "uuid", old) == sh("svnlook", "uuid", new)
    assert sh("svnlook", "youngest", old) == sh("svnlook", "youngest", new)
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
    sh("svnadmin", "setrevprop", path, "-r", "1", name, value)
    assert identity(path) != before


def test_svn_identity_read_or_copied_repository_stays(tmp_path: Path) -> None:
    path = create(tmp_path / "it", WITH_HUGE)
    before = identity(path)
    url = f"file://{path}"
    sh("svn", "log", "-v", url)
    sh("svn", "checkout", "-q", url, tmp_path / "work")
    sh("svnadmin", "verify", "-q", path)
    sh("svnadmin", "dump", "-q", path)
    sh("svnadmin", "lslocks", path)
    assert identity(path) == before
    copy = tmp_path / "copy"
    sh("rsync", "-a", f"{path}/", copy) if shutil.which("rsync") else sh("cp", "-a", path, copy)
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
    sh("svnadmin", "setrevprop", path, "-r", "1", "svn:log", tmp_path / "value")
    assert identity(path) != before


def test_svn_identity_tree_changes_it(tmp_path: Path) -> None:
    path = create(tmp_path / "it", BASE)
    definition = {"source": "svn", "path": str(path), "tree": "trunk"}
    assert sources.open_source("it", definition).identity() != identity(path)


# The tree


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
    sh("git", "init", "-q", tmp_path / "git")
    with pytest.raises(UserError, match=r"^TREE="):
        sources.own_repository(str(tmp_path / "git"), {}, "trunk")


# Estimates


def test_dump_estimate_ignores_text_that_looks_like_headers(tmp_path: Path) -> None:
    path = tmp_path / "it.dump"
    path.write_bytes(BASE + file(b"trunk/f", b"x\n\nRevision-number: 99999999999\n\n"))
    estimate = sources.open_source("it", {"source": "dump", "path": str(path)}).estimate()
    assert (estimate.revisions, estimate.repository_bytes) == (1, path.stat().st_size // 4)


# dump as work


def test_dump_work_of_all_formats_is_the_same_without_revision_0(tmp_path: Path) -> None:
    stream = BASE.replace(revision(0), b"") + file(b"trunk/f") + revision(2)
    stream += copied(b"tag", b"trunk", 1)
    (tmp_path / "it.dump").write_bytes(stream)
    formats = ("f1", "f3", "f8")
    loaded({"source": "dump", "path": str(tmp_path / "it.dump")}, tmp_path / "a", *formats)
    (tmp_path / "date").write_bytes(DATE)
    sh("svnadmin", "setrevprop", tmp_path / "a/f3.nopack", "-r0", "svn:date", tmp_path / "date")
    found = []
    for form in formats:
        printed = sh("svnadmin", "dump", "-q", tmp_path / f"a/{form}.nopack")
        found.append(dump_work.read(io.BytesIO(printed), Neutral("")))
    assert found[0]["revisions"] == 3
    assert all(work == found[0] for work in found)


def test_dump_work_of_other_content_differs(tmp_path: Path) -> None:
    digests = set()
    for number, stream in enumerate(
        (BASE, BASE + file(b"trunk/f"), BASE + file(b"trunk/f", b"other"))
    ):
        path = create(tmp_path / str(number), stream)
        printed = sh("svnadmin", "dump", "-q", path)
        digests.add(dump_work.read(io.BytesIO(printed), Neutral(""))["digest"])
    assert len(digests) == 3


# Odd files


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
        source.stored()
        source.describe()
    except UserError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        # svnlook reads the format; the UUID may be any text.
        assert (name, type(content)) == ("db/uuid", bytes)


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


# Detection


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
    path.write_bytes(sh(*FORMS[name], text=BASE))
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
    sh("svn", "checkout", "-q", f"file://{path}", tmp_path / "work")
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


# Passwords


USER, PASSWORD = "bob", "s3cr/et p@ss"
QUOTED = "s3cr%2Fet%20p%40ss"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a repository that only a user with a password may read."""
    root = tmp_path_factory.mktemp("served")
    path = create(root / "it", BASE)
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
        yield f"127.0.0.1:{port}/it"
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
    url = f"svn://{USER}:{QUOTED}@{server}"
    source = sources.open_source("it", {"source": "svn", "url": url})
    assert source.write(io.BytesIO()).revisions == 1
    seen = argvs.read_text() + source.describe() + json.dumps(source.head()) + source.identity()
    assert "svnrdump" in seen
    assert not any(secret in seen for secret in (PASSWORD, QUOTED, "s3cr"))
    assert not any(PASSWORD in p.read_text() for p in argvs.parent.rglob("svn.simple/*"))
    other = sources.open_source("it", {"source": "svn", "url": f"svn://{server}"})
    assert other.identity() == source.identity()


def test_svn_url_wrong_password_is_refused_without_it(server: str, argvs: Path) -> None:
    source = sources.open_source("it", {"source": "svn", "url": f"svn://{USER}:wr0ng@{server}"})
    with pytest.raises(UserError) as caught:
        source.write(io.BytesIO())
    assert "wr0ng" not in str(caught.value) + argvs.read_text()
