"""The work of real commands: digests and counts that are equal for each copy of a repository."""

import hashlib
import io
import random
import subprocess

import pytest

from project import needs
from vcsbench.measure import work
from vcsbench.measure.work import WORK_KINDS, UrlNormaliser, inspect_tree

pytestmark = needs("svn", "svnadmin", "svnbench")

# A message that looks like a log.
MISLEADING = f"""Quotes:
{"-" * 72}
r7 | somebody | 2020-01-01 00:00:00 +0000 (Wed, 01 Jan 2020) | 1 line
Changed paths:
   M /trunk/elsewhere

{"-" * 72}"""
LARGE = b"0123456789abcdef" * (3 << 16)  # 3 MiB


def sh(*argv, cwd=None):
    return subprocess.run(argv, cwd=cwd, check=True, capture_output=True).stdout


def random_bytes(length):
    return random.Random(length).randbytes(length)


def commit(working, message):
    sh("svn", "add", "-q", "--force", ".", cwd=working)
    sh("svn", "commit", "-q", "-m", message, cwd=working)


@pytest.fixture(scope="module")
def repositories(tmp_path_factory):
    """The same history in two formats, loaded from one stream without a UUID."""
    folder = tmp_path_factory.mktemp("work")
    made, working = folder / "made", folder / "working"
    sh("svnadmin", "create", made)
    sh("svn", "checkout", "-q", f"file://{made}", working)
    trunk = working / "trunk"
    trunk.mkdir()
    (trunk / "plain").write_text("plain\n")
    (trunk / "script").write_text("#!/bin/sh\n")
    (trunk / "script").chmod(0o755)
    (trunk / "link").symlink_to("plain")
    (trunk / "empty").mkdir()
    (trunk / "large").write_bytes(LARGE)
    fixed = "".join(f"$HeadURL::{' ' * width}$\n" for width in (60, 20))
    (trunk / "keywords").write_text(f"$HeadURL$ $Header$\n{fixed}")
    sh("svn", "add", "-q", trunk)
    sh("svn", "propset", "-q", "svn:keywords", "HeadURL Header", trunk / "keywords")
    commit(working, "The first")
    (trunk / "plain").write_text("other\n")
    commit(working, MISLEADING)
    (trunk / "script").write_text("#!/bin/bash\n")
    commit(working, "")
    lines = sh("svnadmin", "dump", "-q", made).split(b"\n")
    without = b"\n".join(line for line in lines if not line.startswith(b"UUID: "))
    loaded = []
    for name, version in (("f3", "1.5"), ("a-copy-of-format-7", "1.9")):
        path = folder / name
        sh("svnadmin", "create", "--compatible-version", version, path)
        subprocess.run(["svnadmin", "load", "-q", path], input=without, check=True)
        loaded.append(path)
    assert sh("svnlook", "uuid", loaded[0]) != sh("svnlook", "uuid", loaded[1])
    return loaded


def work_of(kind, *argv, url="file:///nowhere"):
    read = WORK_KINDS[kind].read
    assert read
    return read(io.BytesIO(sh(*argv)), UrlNormaliser(url))


def url_of(repository):
    return f"file://{repository}"


def test_log_work_counts_revisions_and_paths(repositories):
    works = [work_of("log", "svn", "log", "-v", url_of(path)) for path in repositories]
    assert works[0] == works[1]
    text = sh("svn", "log", "-v", url_of(repositories[0]))
    assert (works[0]["revisions"], works[0]["paths"], works[0]["bytes"]) == (3, 9, len(text))
    shorter = work_of("log", "svn", "log", "-v", "--limit", "2", url_of(repositories[0]))
    assert (shorter["revisions"], shorter["paths"]) == (2, 2)
    assert work_of("log", "svn", "log", url_of(repositories[0]))["paths"] == 0
    assert work_of("log", "svn", "log", "-q", url_of(repositories[0]))["revisions"] == 3


def test_printed_counts_are_those_of_svnbench(repositories):
    url = url_of(repositories[0]) + "/trunk"
    exported = work_of("printed_counts", "svnbench", "null-export", url)
    names = ("plain", "script", "large", "keywords", "link")
    size = sum(len(sh("svnlook", "cat", repositories[0], f"trunk/{name}")) for name in names)
    assert exported == {"directories": 2, "files": 5, "bytes_in_files": size}
    logged = work_of("printed_counts", "svnbench", "null-log", "-v", url_of(repositories[0]))
    assert (logged["revisions"], logged["changes"]) == (3, 9)
    assert work_of("printed_counts", "svnbench", "null-log", "-q", url_of(repositories[0])) == {}


def test_dump_work_is_equal_in_all_formats(repositories, tmp_path):
    (tmp_path / "date").write_bytes(b"2005-05-05T05:05:05.000000Z")
    sh("svnadmin", "setrevprop", repositories[1], "-r0", "svn:date", tmp_path / "date")
    works = [work_of("dump", "svnadmin", "dump", "-q", path) for path in repositories]
    assert works[0] == works[1] and works[0]["revisions"] == 4


def test_dump_work_includes_content_that_looks_like_headers(tmp_path):
    sh("svnadmin", "create", tmp_path / "r")
    dumped = "UUID: 1\nRevision-number: 9\nNode-path: x\nContent-length: 1000000\n\n"
    (tmp_path / "f").write_text(dumped)
    sh("svn", "import", "-q", "-m", "A dump", tmp_path / "f", f"file://{tmp_path}/r/f")
    before = work_of("dump", "svnadmin", "dump", "-q", tmp_path / "r")
    assert (before["revisions"], before["nodes"]) == (2, 1)
    (tmp_path / "f").write_text(dumped.replace("UUID: 1", "UUID: 2"))
    sh("svnadmin", "create", tmp_path / "s")
    sh("svn", "import", "-q", "-m", "A dump", tmp_path / "f", f"file://{tmp_path}/s/f")
    assert work_of("dump", "svnadmin", "dump", "-q", tmp_path / "s")["digest"] != before["digest"]


def exported(repository, target):
    sh("svn", "export", "-q", url_of(repository) + "/trunk", target)
    return inspect_tree(target, UrlNormaliser(url_of(repository)))


def test_inspect_tree_of_copies_is_equal_with_keywords(repositories, tmp_path):
    works = [exported(path, tmp_path / str(n)) for n, path in enumerate(repositories)]
    assert works[0] == works[1]
    counted = {key: works[0][key] for key in ("files", "directories", "symlinks")}
    assert counted == {"files": 4, "directories": 2, "symlinks": 1}
    # The digest ignores the URL of this repository only.
    assert url_of(repositories[0]) in (tmp_path / "0" / "keywords").read_text()
    other = inspect_tree(tmp_path / "0", UrlNormaliser(url_of(repositories[1])))
    assert other["digest"] != works[0]["digest"]


def _touch_up(path):
    path.write_bytes(path.read_bytes()[:-1] + b"!")


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        (lambda t: (t / "plain").unlink(), {"files", "bytes", "digest"}),
        (lambda t: _touch_up(t / "plain"), {"digest"}),
        (lambda t: _touch_up(t / "large"), {"digest"}),
        (lambda t: (t / "script").chmod(0o644), {"digest"}),
        (lambda t: (t / "plain").rename(t / "empty" / "plain"), {"digest"}),
        (lambda t: (t / "empty").rmdir(), {"directories", "digest"}),
        (lambda t: ((t / "link").unlink(), (t / "link").symlink_to("script")), {"digest"}),
    ],
)
def test_inspect_tree_detects_each_change(repositories, tmp_path, change, differs):
    whole = exported(repositories[0], tmp_path / "t")
    change(tmp_path / "t")
    after = inspect_tree(tmp_path / "t", UrlNormaliser(url_of(repositories[0])))
    assert {key for key in whole if whole[key] != after[key]} == differs


def test_inspect_tree_excludes_administrative_files(repositories, tmp_path):
    whole = exported(repositories[0], tmp_path / "exported")
    sh("svn", "checkout", "-q", url_of(repositories[0]) + "/trunk", tmp_path / "checked-out")
    assert inspect_tree(tmp_path / "checked-out", UrlNormaliser(url_of(repositories[0]))) == whole


def test_estimate_compressed_bytes_of_random_text_and_equal_files(tmp_path):
    noise, zeros = random_bytes(3 << 20), bytes(3 << 20)
    contents = {"noise": noise, "zeros": zeros, "mixed": noise + zeros, "small": b"ab", "none": b""}
    estimates = {}
    for name, content in contents.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(content)
        estimates[name] = work.estimate_compressed_bytes(tmp_path / name)
    assert estimates["noise"] == pytest.approx(3 << 20, rel=0.01)
    assert 3000 < estimates["zeros"] < 6000
    assert estimates["mixed"] == pytest.approx(3 << 20, rel=0.05)
    # No server sends a file in a larger form than it has.
    assert (estimates["small"], estimates["none"]) == (2, 0)
    assert work.estimate_compressed_bytes(tmp_path / "missing") == 0


def test_estimate_compressed_bytes_of_a_large_tree_reads_a_part_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr(work, "COMPRESSED_PIECES", 8)
    for number in range(64):
        content = random_bytes(20_000) if number % 2 else bytes(60_000)
        (tmp_path / f"{number:02}").write_bytes(content)
    pieces = []
    compress = work.zlib.compress
    monkeypatch.setattr(work.zlib, "compress", lambda data: compress(pieces.append(data) or data))
    assert 0 < work.estimate_compressed_bytes(tmp_path) <= 64 * 40_000
    assert len(pieces) == 8


def test_estimate_compressed_bytes_of_a_working_copy_has_equal_contents_once(tmp_path):
    repository, tree, checked_out = (tmp_path / name for name in ("r", "tree", "out"))
    tree.mkdir()
    content = random_bytes(50_000)
    for name in ("a", "b", "c"):
        (tree / name).write_bytes(content)
    sh("svnadmin", "create", repository)
    sh("svn", "import", "-q", "-m", "", tree, repository.as_uri())
    sh("svn", "checkout", "-q", repository.as_uri(), checked_out)
    assert work.estimate_compressed_bytes(checked_out) == pytest.approx(50_000, rel=0.01)
    assert work.estimate_compressed_bytes(tree) == pytest.approx(150_000, rel=0.01)


def test_url_free_digest_finds_url_across_pieces():
    url = "svn://127.0.0.1:3690/ruby.f7.pack.1"
    text = f"$HeadURL: {url}/a $".encode()
    expected = UrlNormaliser(url).replace(text)
    assert url.encode() not in expected
    ends = (work.CHUNK, work.CHUNK - work.LONGEST_URL)
    for before in (end - back for end in ends for back in range(-2, len(text) + 2, 7)):
        whole, digest = b"x" * before + text + b"y" * 5000, work.UrlFreeDigest(UrlNormaliser(url))
        for start in range(0, len(whole), work.CHUNK // 2):
            digest.update(whole[start : start + work.CHUNK // 2])
        neutralised = b"x" * before + expected + b"y" * 5000
        assert digest.end() == hashlib.sha256(neutralised).hexdigest()[:16]
        assert digest.bytes == len(neutralised)


@pytest.mark.parametrize("kind", ["log", "dump", "stdout", "verified", "printed_counts"])
def test_work_of_command_that_prints_nothing_is_unknown(kind):
    assert WORK_KINDS[kind].read(io.BytesIO(b""), UrlNormaliser()) == {}


def test_work_of_command_that_does_nothing_is_unknown(tmp_path):
    verified = WORK_KINDS["verified"].read
    assert verified(io.BytesIO(b"* Verified revision 0.\n"), UrlNormaliser())["revisions"] == 1
    nothing = io.BytesIO(b"0 files\n0 directories\n")
    assert WORK_KINDS["printed_counts"].read(nothing, UrlNormaliser()) == {}
    # Neither files that are missing, nor a folder without files.
    for name in ("tree", "built_tree"):
        assert WORK_KINDS[name].inspect(tmp_path / "missing", UrlNormaliser()) == {}
        assert WORK_KINDS[name].inspect(tmp_path, UrlNormaliser()) == {}
    sh("svnadmin", "create", tmp_path / "repository")
    assert WORK_KINDS["repository"].inspect(tmp_path / "repository", UrlNormaliser()) == {}
