"""Hot copies of a user's repository: all bytes are equal, and the original is only read."""

import os
import re
import shutil
import sqlite3
import subprocess
import threading

import pytest

from dump_streams import DATE, HEAD, revision
from git_histories import listing
from project import needs, write_program
from shards import set_shard_size
from vcsbench import formats, sources
from vcsbench.advice.vocabulary import load_vocabulary
from vcsbench.errors import UserError
from vcsbench.measure.runs import Invocation
from vcsbench.measure.syscalls import trace_command
from vcsbench.prepare import verify
from vcsbench.prepare.loader import load_source
from vcsbench.prepare.subversion_loader import MEMCACHED_NOTE, hotcopy, make_packed
from vcsbench.systems import fsfs

pytestmark = needs("svnadmin")


def run(*argv):
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def make(tmp_path):
    def make_it(fmt="f6", pack_at=0, name="mine"):
        path = tmp_path / name
        fsfs.create(path, fmt)
        if formats.read_shape(path).shard:
            set_shard_size(path, 2)
        for number in range(5):
            if pack_at == number + 1:
                fsfs.run_svnadmin("pack", path)
            options = ("-q", "--parents", "-m", "a message")
            run("svn", "mkdir", *options, f"{path.as_uri()}/trunk/folder{number}")
        text = tmp_path / "text"
        text.write_text(fmt)
        run("svn", "import", "-q", "-m", "", text, f"{path.as_uri()}/trunk/text")
        if pack_at > 5:
            fsfs.run_svnadmin("pack", path)
        return path

    return make_it


def content(path):
    """Return the files of db/ with revisions or their layout."""
    names = ("revs", "revprops", "fsfs.conf", "min-unpacked-rev", "current", "fs-type", "format")
    roots = [path / "db" / name for name in names]
    files = [file for root in roots for file in (root, *root.rglob("*")) if file.is_file()]
    files = [file for file in files if file.name not in ("revprops.db", "revprops.db-journal")]
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def revs(path):
    return {name: data for name, data in content(path).items() if "/revs/" in name}


def svn_source(path):
    return sources.open_source("mine", {"source": "svn", "path": str(path)}, where="my.yaml")


def copied(original, into):
    """Copy a repository. It is unchanged, and its revisions and layout are equal in the sound copy."""
    before = listing(original)
    copy, facts = hotcopy(original, into)
    assert listing(original) == before
    assert content(copy) == content(original) and fsfs.list_files(copy)
    run("svnadmin", "verify", "-q", copy)
    return copy, facts.notes


@pytest.mark.parametrize(
    ("fmt", "pack_at", "packing"),
    [
        *(("f1", 0, "nopack"), ("f3", 0, "nopack"), ("f4", 9, "pack"), ("f6", 4, "partly")),
        *(("f7", 9, "pack"), ("f8", 0, "nopack"), ("f4-to-f8", 0, "nopack")),
    ],
)
def test_hotcopy_keeps_every_byte_of_revisions_and_settings(make, tmp_path, fmt, pack_at, packing):
    original = make(fmt, pack_at)
    copy, notes = copied(original, tmp_path)
    assert copy == tmp_path / f"as-is.{packing}" and notes == [] and len(content(original)) > 10
    assert formats.read_shape(copy)[:3] == formats.read_shape(original)[:3]
    assert fsfs.mismatch(copy, "as-is", packing, 6) == ""
    shared = [path / "db" / "rep-cache.db" for path in (original, copy)]
    if shared[0].exists():
        rows = [list(sqlite3.connect(path).iterdump()) for path in shared]
        assert rows[0] == rows[1] and any("INSERT" in row for row in rows[0])


def reads(path, *words):
    """Return the reads of a client on a repository, and their bytes."""
    argv = ["svn", *words, path.as_uri()]
    counts = trace_command(Invocation(argv, "", {"PATH": os.environ["PATH"]}, 60))
    return counts["reads"], counts["bytes_read"]


@needs("strace")
@pytest.mark.parametrize("pack_at", [0, 9])
def test_hotcopy_is_read_by_the_same_calls_and_a_load_is_not(make, tmp_path, pack_at):
    original, into = make("f6", pack_at), tmp_path / "into"
    into.mkdir()
    copy, loaded = into / f"as-is.{'pack' if pack_at else 'nopack'}", into / "f8.nopack"
    for fmt in ("as-is", "f8"):
        load_source(svn_source(original), fmt, into)
    for words in (("log", "-v"), ("list", "--recursive")):
        assert reads(copy, *words) == reads(original, *words) != reads(loaded, *words), words


@pytest.mark.parametrize(("fmt", "packed"), [("f3", False), ("f6", True)])
def test_hotcopy_of_a_date_that_subversion_cannot_read_has_none_there(make, tmp_path, fmt, packed):
    dump = subprocess.check_output(["svnadmin", "dump", "-q", make("f6", name="good")])
    *dates, _ = re.findall(rb"V 27\n(.*Z)\n", dump)
    for date in (dates[0], *dates[2:4]):  # of revisions 0, 2 and 3
        dump = dump.replace(date, b"first monday of <the school")
    original = tmp_path / "original"
    fsfs.create(original, fmt)
    if packed:
        set_shard_size(original, 2)
    load = ["svnadmin", "load", "-q", "--bypass-prop-validation", original]
    subprocess.run(load, input=dump, check=True)
    if packed:
        fsfs.run_svnadmin("pack", original)
    before = listing(original)
    copy, facts = hotcopy(original, tmp_path)
    (note,) = facts.notes
    assert "3 revisions, first revision 0: 'first monday of <the" in note
    assert facts.revisions == 6
    assert listing(original) == before
    assert run("svn", "log", "-q", copy.as_uri()).count("(no date)") == 2
    run("svnadmin", "verify", "-q", copy)


def test_hotcopy_has_no_hooks_passwords_and_transactions(make, tmp_path):
    original = make()
    canary = tmp_path / "canary"
    (original / "conf" / "passwd").write_text("[users]\nharry = secret\n")
    write_program(original / "hooks" / "pre-commit", "#!/bin/sh\nkill -9 $PPID\n")
    argv = ["svn", "mkdir", "-q", "-m", "", f"{original.as_uri()}/lost"]
    subprocess.run(argv, capture_output=True)
    assert run("svnadmin", "lstxns", original).strip()
    for name in ("start-commit", "pre-lock", "post-commit", "pre-revprop-change"):
        write_program(original / "hooks" / name, f"#!/bin/sh\ntouch {canary}\n")
    copy, _ = copied(original, tmp_path)
    assert [*(copy / "hooks").iterdir()] == [*(copy / "conf").iterdir()] == []
    assert run("svnadmin", "lstxns", copy) == "" and not canary.exists()


def test_hotcopy_of_a_private_repository_with_a_lock_is_readable_by_all(make, tmp_path):
    original = make()
    run("svn", "lock", "--username", "harry", f"{original.as_uri()}/trunk/text")
    for path in original.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    copy, _ = hotcopy(original, tmp_path)
    assert {p.stat().st_mode & 0o777 for p in copy.rglob("*")} <= {0o755, 0o644, 0o444}
    run("svn", "export", "-q", f"{copy.as_uri()}/trunk", tmp_path / "exported")
    assert (tmp_path / "exported" / "text").read_text() == "f6"


def test_hotcopy_leaves_out_links_that_are_not_of_subversion(make, tmp_path):
    original, shared = make(), tmp_path / "shared"
    shared.mkdir()
    (shared / "passwd").write_text("[users]\nharry = secret\n")
    for name in ("hooks", "conf"):
        shutil.rmtree(original / name)
        (original / name).symlink_to(shared)
    (original / "backup").symlink_to(shared)
    (original / "backup.tar").write_text("large")
    (original / "gone").symlink_to("/nonexistent/file")
    os.mkfifo(original / "pipe")
    svn_source(original).check()
    copy, notes = copied(original, tmp_path)
    assert notes == []
    names = {"backup.tar", "pipe"}
    assert not [path for path in copy.rglob("*") if path.is_symlink() or path.name in names]
    assert [*(copy / "hooks").iterdir()] == [*(copy / "conf").iterdir()] == []
    assert [path.name for path in shared.iterdir()] == ["passwd"]


def test_hotcopy_of_a_live_repository_is_whole(make, tmp_path):
    original, ended = make("f8"), threading.Event()

    def commit():
        number = 0
        while not ended.is_set():
            number += 1
            run("svn", "mkdir", "-q", "-m", "", f"{original.as_uri()}/trunk/live{number}")

    writer = threading.Thread(target=commit)
    writer.start()
    try:
        copy, _ = hotcopy(original, tmp_path)
    finally:
        ended.set()
        writer.join()
    assert 6 <= fsfs.youngest(copy) <= fsfs.youngest(original)
    run("svnadmin", "verify", "-q", copy)
    assert revs(copy).items() <= revs(original).items()


def test_hotcopy_contacts_no_server_of_memcached(make, tmp_path):
    original, section = make(), "MemCached-Servers"
    with (original / "db" / "fsfs.conf").open("a") as file:
        file.write(f"[{section}]\nfirst = [::1]:1\n[caches]\nfail-stop = false\n[x]\n[{section}]\n")
    copy, facts = hotcopy(original, tmp_path)
    assert facts.notes == [MEMCACHED_NOTE]
    text = (copy / "db" / "fsfs.conf").read_text()
    assert section not in text and "fail-stop = false" in text
    assert not formats.has_memcached(copy)
    assert formats.read_settings(copy) == formats.read_settings(original)


@pytest.mark.parametrize("missing", ["locks/db.lock", "locks", "hooks", "conf"])
def test_hotcopy_adds_nothing_to_its_source(make, tmp_path, missing):
    original = make()
    path = original / missing
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    copied(original, tmp_path)
    assert [path.name for path in tmp_path.glob("as-is*")] == ["as-is.nopack"]


@pytest.mark.parametrize(
    ("damaged", "reason"),
    [
        ("db/rep-cache.db", "not a database.* db/rep-cache.db "),
        ("db/revs/2/5", r"\br5\b"),
        ("db/revprops/2/5", "terminator"),
    ],
)
def test_load_source_of_a_damaged_repository_names_it(make, tmp_path, damaged, reason):
    original = make("f8")
    (original / damaged).chmod(0o644)
    (original / damaged).write_bytes(b"damaged " * 100)

    def load_both():
        for fmt in ("f7", "as-is"):
            load_source(svn_source(original), fmt, tmp_path)

    with pytest.raises(UserError, match=f"^{original}: .*{reason}"):
        load_both()


@pytest.mark.parametrize(
    ("pack_at", "fmt", "packing", "shape"),
    [
        (0, "as-is", "nopack", (6, 2, False)),
        (4, "as-is", "partly", (6, 2, False)),
        (9, "as-is", "pack", (6, 2, False)),
        (0, "as-is-to-f8", "nopack", (8, 2, False)),
        (0, "f6", "nopack", (6, 1000, False)),
    ],
)
def test_load_and_pack_make_one_repository_each(make, tmp_path, pack_at, fmt, packing, shape):
    original, into = make("f6", pack_at), tmp_path / "into"
    into.mkdir()
    before = listing(original)
    facts = load_source(svn_source(original), fmt, into)
    assert listing(original) == before
    loaded = into / f"{fmt}.{packing}"
    assert [*into.iterdir()] == [loaded]
    assert (facts["packing"], facts["revisions"], facts["long_names"]) == (packing, 6, 0)
    if fmt == "as-is":
        assert content(loaded) == content(original)
    if fmt == "f6":
        assert formats.read_settings(loaded)["enable-dir-deltification"] == "false"
    assert formats.read_shape(loaded)[:3] == shape
    assert (revs(loaded) == revs(original)) == (fmt != "f6")
    make_packed(loaded)
    packed = into / f"{fmt}.pack"
    assert {*into.iterdir()} == {loaded, packed}
    assert fsfs.check_shape(packed).packed == 6 // shape[1]
    verify.verify_all(into)


def advised_loads():
    """Return the command that loads a repository into each format."""
    formats_of_words = load_vocabulary().axis("format").values
    actions = {fmt: words.action for fmt, words in formats_of_words.items() if words.action}
    return [(fmt, a.command) for fmt, a in actions.items() if "svnadmin load" in a.command]


@pytest.mark.parametrize(("fmt", "command"), advised_loads())
def test_advised_load_makes_measured_format(make, tmp_path, fmt, command):
    old = HEAD + revision(1, {b"svn:log": b"a\r\nb", b"svn:date": DATE})
    argv = ["svnadmin", "load", "-q", "--bypass-prop-validation", make(name="OLD")]
    subprocess.run(argv, input=old, check=True)
    script = f"set -o pipefail; {command}"
    subprocess.run(["bash", "-ec", script], cwd=tmp_path, check=True)
    new, release = tmp_path / "NEW", formats.parse_format(fmt)
    assert f"f{formats.read_shape(new).number}" == release.format and fsfs.youngest(new) == 7
    # The command writes only the options that differ from the defaults of today's svnadmin.
    expected = formats.release_settings(release) or {}
    assert formats.read_settings(new).items() <= expected.items()
    if expected:
        assert formats.effective_settings(new, int(release.format[1])) == expected


def test_hotcopy_takes_links_and_odd_names(make, tmp_path):
    original = make(name="name @3 %2F é")
    (tmp_path / "a link").symlink_to(original)
    source = svn_source(tmp_path / "a link").repository
    assert source == original
    copied(source, tmp_path)


def test_load_source_without_shards_is_verified_with_its_packed_copy(make, tmp_path):
    source = svn_source(make("f2-to-f8"))
    load_source(source, "as-is", tmp_path)
    make_packed(tmp_path / "as-is.nopack")
    verify.verify_all(tmp_path)
    copies = [content(tmp_path / f"as-is.{packing}") for packing in ("nopack", "pack")]
    assert copies[0] == copies[1] and "db/revs/6" in copies[0]
    (tmp_path / "as-is.nopack/db/revs/3").write_bytes(b"other")
    with pytest.raises(verify.DamagedError, match="has other bytes"):
        verify.verify_all(tmp_path)
