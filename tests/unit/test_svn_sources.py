"""Subversion repositories as sources, local and at URLs, on real Subversion."""

import hashlib
import io
import os
import re
import shutil
import socket
from functools import partial
from pathlib import Path

import pytest

from dump_streams import BASE, DATE, file, folder, revision
from git_histories import digest, listing, run, write_and_load
from project import needs, serve_with_password, write_program
from vcsbench import sources
from vcsbench.errors import UserError
from vcsbench.sources import svn_files, svn_tree, svn_url_source
from vcsbench.sources.svn_url_source import export_head

pytestmark = needs("svnadmin", "svn", "svnserve", "svnrdump")


def create(path, stream=BASE, version="1.10"):
    run("svnadmin", "create", "--compatible-version", version, path)
    run("svnadmin", "load", "-q", "--bypass-prop-validation", path, stdin=stream)
    return path


def svnmucc(path, *words, text=b""):
    run("svnmucc", "-m", "A message.", "-U", f"file://{path}", "--", *words, stdin=text)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return create(tmp_path_factory.mktemp("template") / "it")


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """Four revisions: the layout, two files, a property and a tag."""
    path = tmp_path_factory.mktemp("svn") / "repository"
    run("svnadmin", "create", path)
    svnmucc(path, "mkdir", "trunk", "mkdir", "tags")
    svnmucc(path, "put", "-", "trunk/one", text=bytes(range(256)))
    svnmucc(path, "propset", "note", "é", "trunk", "put", "/dev/null", "trunk/é")
    svnmucc(path, "cp", "HEAD", "trunk", "tags/1")
    return path


def svn_source(path, **options):
    return sources.open_source("mine", {"source": "svn", "path": str(path), **options})


def url_source(url, **options):
    return sources.open_source("far", {"source": "svn", "url": url, **options})


def identity(path, **options):
    return svn_source(path, **options).identity()


def refusal(path, **options):
    with pytest.raises(UserError) as caught:
        svn_source(path, **options).check()
    return str(caught.value).removeprefix("config/config.yaml: `repositories.mine.")


def dumped(path):
    return re.sub(rb"\nUUID: .*\n", b"\n", run("svnadmin", "dump", "-q", path), count=1)


# Identities


def set_property(path, name, value):
    (path.parent / "value").write_bytes(value)
    run("svnadmin", "setrevprop", path, "-r", "1", name, path.parent / "value")


def filter_out(path):
    """Replace a repository by one without a folder, of the same UUID and youngest revision."""
    stream = run("svndumpfilter", "exclude", "huge", stdin=run("svnadmin", "dump", "-q", path))
    info = run("svnadmin", "info", path)
    version = re.findall(rb"Compatible With Version: (\d+\.\d+)", info)[0].decode()
    shutil.rmtree(path)
    create(path, stream, version)


CHANGES = {
    "commit": lambda path: svnmucc(path, "mkdir", "trunk/a"),
    "log": lambda path: set_property(path, "svn:log", b"y"),
    "date": lambda path: set_property(path, "svn:date", b"2006" + DATE[4:]),
    "filter": filter_out,
    "upgrade": lambda path: run("svnadmin", "upgrade", path),
    "settings": lambda path: (path / "db/fsfs.conf").write_text("[io]\nblock-size = 8\n"),
}
HUGE = BASE + folder(b"huge") + revision(2) + file(b"huge/big", os.urandom(30_000)) + revision(3)


@pytest.mark.parametrize("version", ["1.1", "1.8"])
@pytest.mark.parametrize("change", CHANGES)
def test_svn_identity_changes_with_history_and_settings_only(tmp_path, version, change):
    path = create(tmp_path / "it", HUGE + file(b"trunk/f"), version)
    before = identity(path)
    assert identity(path, tree="trunk") != before
    run("svn", "log", "-v", f"file://{path}")
    run("svn", "checkout", "-q", f"file://{path}", tmp_path / "work")
    for words in (["verify", "-q"], ["dump", "-q"], ["lslocks"]):
        run("svnadmin", *words, path)
    copy = ("rsync", "-a", f"{path}/") if shutil.which("rsync") else ("cp", "-a", path)
    run(*copy, tmp_path / "copy")
    assert identity(path) == identity(tmp_path / "copy") == before
    CHANGES[change](path)
    assert identity(path) != before


def test_svn_identity_edited_property_of_an_old_shard_changes(tmp_path):
    path = create(tmp_path / "it")
    for name in ("revs", "revprops"):
        for shard in range(1, 6):
            (path / "db" / name / str(shard)).mkdir()
            os.utime(path / "db" / name / str(shard), (1e9, 1e9))
        os.utime(path / "db" / name / "0", (1e9, 1e9))
    before = identity(path)
    set_property(path, "svn:log", b"y")
    assert identity(path) != before


# Local repositories


def test_svn_source_writes_the_revisions_of_its_identity(tmp_path, template):
    path = shutil.copytree(template, tmp_path / "it")
    source = svn_source(path)
    before = source.identity()
    svnmucc(path, "mkdir", "trunk/late")
    assert write_and_load(source, tmp_path / "copy").revisions == 1 == source.youngest
    source.check_unchanged(before)
    with pytest.raises(UserError, match=r"mine.path`: .*/it changed since "):
        svn_source(path).check_unchanged(before)
    with pytest.raises(UserError, match="changed since "):
        source.from_copy(path)
    assert svn_source(path).from_copy(path).youngest == 2


def test_svn_source_makes_the_same_repository_and_writes_nothing(repository, tmp_path):
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


def test_svn_tree_is_trunk_if_there_is_one(repository, tmp_path):
    for given, tree in {None: "trunk", "/tags/1/": "tags/1", "/": ""}.items():
        assert svn_source(repository, tree=given).tree(repository) == tree
    for name, words in {"flat": ["mkdir", "trunk2"], "file": ["put", "-", "trunk"]}.items():
        run("svnadmin", "create", tmp_path / name)
        svnmucc(tmp_path / name, *words)
        assert svn_source(tmp_path / name).tree(tmp_path / name) == ""


def test_svn_tree_with_too_many_entries_is_refused(repository, monkeypatch):
    monkeypatch.setattr(svn_tree, "MAX_ENTRIES", 3)
    assert svn_source(repository).odd_paths() == (0, 0)
    with pytest.raises(UserError, match=r" 3 files.*TREE="):
        svn_source(repository, tree="").odd_paths()


TRUNKS = {
    "younger": [["mkdir", "a"], ["mkdir", "b"], ["mkdir", "trunk"]],
    "moved": [["mkdir", "old"], ["put", "/dev/null", "old/f"], ["mv", "old", "trunk"]],
    "replaced": [["mkdir", "trunk"], ["mkdir", "trunk/a"], ["rm", "trunk"], ["mkdir", "trunk"]],
}


@pytest.mark.parametrize("kind", TRUNKS)
def test_svn_source_without_its_trunk_in_revision_2_cannot_be_updated_from_there(tmp_path, kind):
    run("svnadmin", "create", tmp_path / kind)
    for words in TRUNKS[kind]:
        svnmucc(tmp_path / kind, *words)
    behind = len(TRUNKS[kind]) - 2
    reason = svn_source(tmp_path / kind).why_no_update(behind)
    assert reason.startswith("has no trunk in revision 2 (")
    # An update over more revisions begins at the same one.
    assert svn_source(tmp_path / kind).why_no_update(1000) == reason
    # The root is there.
    assert svn_source(tmp_path / kind, tree="").why_no_update(behind) == ""


def test_svn_source_can_be_updated_from_an_older_tree_at_the_same_path(repository, tmp_path):
    assert svn_source(repository).why_no_update(2) == ""
    reason = svn_source(repository, tree="tags/1").why_no_update(2)
    assert reason.startswith("has no tags/1 in revision 2 ")
    path = tmp_path / "it"
    run("svnadmin", "create", path)
    for words in (["mkdir", "sp é"], ["mkdir", "sp é/a"]):
        svnmucc(path, *words)
    expected = "has only 2 revisions, so an update has nothing to fetch"
    assert svn_source(path, tree="sp é").why_no_update(100) == expected
    svnmucc(path, "mkdir", "sp é/b")
    assert svn_source(path, tree="sp é").why_no_update(100) == ""


def test_svn_source_wrong_definitions_name_the_key(repository, tmp_path):
    run("svnadmin", "create", tmp_path / "empty")
    (tmp_path / "file").write_text("format")
    assert refusal(tmp_path / "none").startswith(f"path`: {tmp_path}/none ")
    assert refusal(tmp_path / "empty").startswith(f"path`: {tmp_path}/empty is empty")
    for path in (tmp_path, tmp_path / "file", repository / "db"):
        assert refusal(path).startswith(f"path`: {path} ")
    for tree in ("branches", "trunk/one"):
        assert re.match(f"tree`: .*'{tree}'", refusal(repository, tree=tree))
    for tree in ("a\0b", "a\ud800b", "-x", "x" * 200_000):
        assert refusal(repository, tree=tree).startswith("tree`: ")
    assert refusal(repository, branch="main").startswith("branch`: ")


@pytest.mark.parametrize("kind", ["svn", "git", "dump", "directory"])
def test_path_that_is_not_utf8_is_refused_with_the_remedy(tmp_path, kind):
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    with pytest.raises(UserError) as caught:
        sources.open_source("mine", {"source": kind, "path": str(path)})
    assert f"mine.path`: {tmp_path}/caf\\xe9 " in str(caught.value)


def test_svn_source_damaged_repository_is_refused(tmp_path):
    path = create(tmp_path / "damaged", HUGE)
    (path / "db/current").write_text("not a number\n")
    assert "db/current: 'not'" in refusal(path)
    (path / "db/current").write_text("3\n")
    victim = path / "db/revs/0/2"
    victim.chmod(0o644)
    victim.write_bytes(victim.read_bytes()[:40])
    with pytest.raises(UserError, match="svnadmin dump failed"):
        svn_source(path).write(io.BytesIO())


def test_svn_tree_of_a_damaged_repository_has_the_reason_of_svnlook(tmp_path, template):
    path = shutil.copytree(template, tmp_path / "damaged")
    youngest = path / "db/revs/0/1"
    youngest.chmod(0o644)
    youngest.write_bytes(youngest.read_bytes()[:40])
    for options in ({}, {"tree": "trunk"}):
        assert refusal(path, **options).startswith(f"{path}: svnlook tree failed")


def test_svn_estimate_without_shards_counts_all_files_of_a_small_repository(tmp_path):
    stream = HUGE + b"".join(revision(number) for number in range(4, 31))
    path = create(tmp_path / "it", stream, "1.1")
    size = sum(file.stat().st_size for file in (path / "db/revs").iterdir())
    estimate = svn_source(path).estimate()
    assert (estimate.revisions, estimate.repository_bytes) == (30, size)


def test_svn_repository_without_a_file_of_its_format_is_of_format_1(tmp_path):
    path = create(tmp_path / "it", version="1.1")
    (path / "db/format").unlink()
    source = svn_source(path)
    source.check()
    assert source.identity() == identity(path)
    assert source.read_layout()[:3] == (1, 0, False)
    assert write_and_load(source, tmp_path / "copy").revisions == 1
    set_property(path, "svn:log", b"y")
    assert identity(path) != source.identity()


@pytest.mark.parametrize("name", ["db/current", "db/uuid", "db/fs-type", "db/format", "format"])
def test_svn_file_with_odd_content_is_refused(tmp_path, template, name):
    path = shutil.copytree(template, tmp_path / "it")
    for content in (b"\xff\xfe\n", b"9" * 5000, b"", None):
        (path / name).unlink()
        if content is not None:
            (path / name).write_bytes(content)
        with pytest.raises(UserError, match=r"\A[^\n]*\Z"):
            sources.open_source("it", sources.detect(str(path))).check()


@pytest.mark.parametrize("name", ["a@5", "-r", "50%25", "50%2F", "it's", "sp ace", "é"])
def test_svn_odd_names_are_detected_and_loaded(tmp_path, template, name, monkeypatch):
    shutil.copytree(template, tmp_path / name)
    url = (tmp_path / name).as_uri()
    for given in (url, f"file://{tmp_path}/{name}", url.replace("//", "//localhost", 1)):
        assert sources.detect(given) == {"source": "svn", "path": str(tmp_path / name)}
    monkeypatch.chdir(tmp_path)
    source = svn_source(name, tree="trunk")
    source.check()
    assert source.write(io.BytesIO()).revisions == 1


# Repositories at URLs

USER, PASSWORD = "bob", "s3cr/et p@ss"


@pytest.fixture(scope="module")
def server(tmp_path_factory, repository):
    """Serve `repository` to a user with a password. Yield the address of its folder."""
    path = shutil.copytree(repository, tmp_path_factory.mktemp("served") / "repository")
    with serve_with_password(path, USER, PASSWORD) as address:
        yield address


@pytest.fixture
def stored(server, repository, tmp_path, monkeypatch):
    """Store the password as svn does, in a home of the test's own."""
    uuid = (repository / "db/uuid").read_text().split()[0]
    realm = f"<svn://{server}> {uuid}"
    values = {"passtype": "simple", "svn:realmstring": realm}
    values |= {"username": USER, "password": PASSWORD}
    text = "".join(f"K {len(k)}\n{k}\nV {len(v)}\n{v}\n" for k, v in values.items()) + "END\n"
    folder = tmp_path / ".subversion/auth/svn.simple"
    folder.mkdir(parents=True)
    (folder / hashlib.md5(realm.encode()).hexdigest()).write_text(text)
    monkeypatch.setenv("HOME", str(tmp_path))
    return folder


def test_svn_url_of_a_server_with_a_password_uses_the_stored_one(
    server, stored, repository, tmp_path
):
    before = listing(stored)
    source = url_source(f"svn://{server}/repository")
    assert source.estimate().revisions == 4
    assert write_and_load(source, tmp_path / "copy").revisions == 4
    for path in (tmp_path / "copy", repository):
        run("svn", "export", "--force", "-q", f"file://{path}", tmp_path / f"{path.name}-tree")
    run("diff", "-r", tmp_path / "copy-tree", tmp_path / "repository-tree")
    assert listing(stored) == before


@pytest.mark.parametrize(
    "url", ["svn://{}@host/x", "svn+ssh://{}@host/x", "{}@host:x", "//{}@host/x"]
)
def test_url_with_a_password_is_refused_without_showing_it(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for password in ("s3cret", "s3c/r@et", 's3c r"et'):
        given = url.format(f"bob:{password}")
        refusers = [partial(url_source, given), partial(sources.detect, given)]
        for kind in ("git", "svn", "dump", "directory"):
            definition = {"source": kind, "path": given}
            refusers.append(partial(sources.open_source, "it", definition))
        for refuse in refusers:
            with pytest.raises(UserError) as caught:
                refuse()
            assert "s3" not in str(caught.value)


def test_svn_url_without_a_server_only_write_fails(server):
    source = url_source(f"svn://{server}/nothing")
    source.check()
    assert source.estimate().revisions > 0
    with pytest.raises(UserError, match=r"repositories\.far\.url`: .*/nothing .*: svn: "):
        source.write(io.BytesIO())


def test_svn_url_root_as_tree_is_written_and_other_paths_are_refused(repository, tmp_path):
    source = url_source(f"file://{repository}/", tree="")
    assert (source.write(io.BytesIO()).revisions, source.tree(tmp_path)) == (4, "")
    assert export_head(f"file://{repository}", str(tmp_path / "head"), "svn", "0") == []
    assert (tmp_path / "head" / "one").read_bytes() == bytes(range(256))
    run("svnadmin", "create", tmp_path / "empty")
    for path, tree, why in (
        (repository, "nowhere", r"tree`: .* has no folder"),
        (repository, "trunk/one", r"tree`: .* has no folder"),
        (tmp_path / "empty", "", r"url`: .* is empty: it has no revision 1"),
    ):
        out, source = io.BytesIO(), url_source(f"file://{path}", tree=tree)
        with pytest.raises(UserError, match=rf"repositories\.far\.{why}"):
            source.write(out)
        assert out.getvalue() == b""


def test_failure_of_svn_is_not_a_repository_without_trunk(repository, tmp_path, monkeypatch):
    svn = shutil.which("svn")
    failing = f'#!/bin/sh\n[ "$1" = list ] && echo "svn: E175002: timed out" >&2 && exit 1\nexec {svn} "$@"\n'
    write_program(tmp_path / "bin" / "svn", failing)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    out = io.BytesIO()
    with pytest.raises(UserError, match="svn: E175002"):
        url_source(f"file://{repository}").write(out)
    assert out.getvalue() == b""


@pytest.mark.parametrize(
    "wrong", [{"url": "ftp://example.org/x"}, {"url": "svn.example.org/x"}, {"path": "/srv/x"}]
)
def test_svn_url_wrong_definitions_name_the_key(wrong):
    (key,) = wrong
    with pytest.raises(UserError, match=rf"config/config\.yaml: `repositories\.far\.{key}`: "):
        sources.open_source("far", {"source": "svn", "url": "https://example.org/x", **wrong})


def test_file_url_of_another_host_is_refused_in_one_sentence():
    with pytest.raises(UserError, match=r"^file://otherhost/srv/x: .*\. Correct the address\.$"):
        svn_files.check_local_url("file://otherhost/srv/x")


@pytest.mark.slow
def test_svn_url_of_a_server_that_stalls_is_refused(server, stored, tmp_path, monkeypatch):
    # Not the end of a dump, but a pause in it.
    script = f'#!/bin/sh\n{shutil.which("svnrdump")} "$@" | head -c 300\nexec sleep 3600\n'
    write_program(tmp_path / "bin" / "svnrdump", script)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setattr(svn_url_source, "PAUSE_S", 10)
    out = io.BytesIO()
    with pytest.raises(UserError, match=r"svnrdump dump failed: .* within 10 s"):
        url_source(f"svn://{server}/repository").write(out)
    assert 0 < len(out.getvalue()) <= 300


@pytest.mark.parametrize(
    ("read", "key", "limit"),
    [
        (lambda url, _: url_source(url).write(io.BytesIO()), "far.url`: ", "ANSWER_S"),
        (lambda *to: export_head(*to, "svn", "0"), "", "ANSWER_S"),
        (lambda *to: export_head(*to, "svn", "3", "trunk"), "", "PAUSE_S"),
    ],
)
def test_svn_url_of_a_silent_server_is_refused(read, key, limit, monkeypatch, tmp_path):
    monkeypatch.setattr(svn_url_source, limit, 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"svn://127.0.0.1:{server.getsockname()[1]}/x"
        with pytest.raises(UserError, match=rf"{key}{url}.* within 0\.5 s"):
            read(url, str(tmp_path / "tree"))
