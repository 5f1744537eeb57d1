"""Loading, packing, verifying and copying real repositories, and the state that detects changes of a copy."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from project import needs, open_folder, write_program
from shards import small_shards
from vcsbench import formats, kernel, sources
from vcsbench.errors import UserError
from vcsbench.files import write_json
from vcsbench.prepare import verify
from vcsbench.prepare.copies import (
    CopyJob,
    CopySettings,
    copy_and_compare,
    interleave,
    make_copies,
)
from vcsbench.prepare.loader import load_source
from vcsbench.prepare.repositories import (
    PreparedRepositories,
    count_replaced_bytes,
    estimate_spacer_bytes,
    missing_copies,
)
from vcsbench.prepare.subversion_loader import make_packed
from vcsbench.sources.generated import GeneratedSource
from vcsbench.storages import folder_states
from vcsbench.storages.filesystems import IN_MEMORY, mount_of, mounted_at
from vcsbench.storages.workdir import LOADED_FOLDER, WorkDir
from vcsbench.subjects.repository import (
    REPOSITORIES,
    Variant,
    check_copy,
    copy_path,
    empty_copy_ok,
    metadata_file,
    read_metadata,
    scaled_revisions,
    write_metadata,
)
from vcsbench.systems import SUBVERSION, fsfs
from vcsbench.systems.subversion import EMPTY_FORMAT

pytestmark = needs("svnadmin", "svn")

SMALL = {"source": "generated", "profile": "ruby", "scale": 0.0005, "seed": 1}
BOTH = [(fmt, packing) for fmt in ("f6", "f7", "f6-to-f8") for packing in ("nopack", "pack")]
VARIANTS = [Variant("ruby", *pair, "i1") for pair in BOTH]


@pytest.fixture(scope="module", autouse=True)
def _small_shards():
    """Use shards of 10 revisions, so that a small repository has something to pack."""
    with small_shards():
        yield


@pytest.fixture(scope="module")
def loaded(tmp_path_factory, _small_shards):
    into = tmp_path_factory.mktemp("loaded")
    for fmt in dict.fromkeys(fmt for fmt, _ in BOTH):
        facts = load_source(sources.open_source("ruby", SMALL), fmt, into)
        assert facts["revisions"] == 23
        make_packed(into / f"{fmt}.nopack")
    return into


def flip_bits(file, *places):
    """Flip a bit at each of these places of a file, from 0 to 1."""
    file.chmod(0o644)
    content = bytearray(file.read_bytes())
    for place in places:
        content[int(place * len(content))] ^= 1
    file.write_bytes(content)


def test_load_with_another_result_raises(tmp_path, monkeypatch):
    class Shorter(GeneratedSource):
        def write(self, out):
            return sources.Facts(super().write(out).revisions + 1)

    source = Shorter("it", {"source": "generated", "profile": "ruby", "scale": 0.0001}, "")
    with pytest.raises(UserError, match="5 of 6"):
        load_source(source, "f7", tmp_path)
    monkeypatch.setitem(formats.RELEASES, "f6", "1.9")
    with pytest.raises(UserError, match="f7, not of"):
        load_source(sources.open_source("ruby", SMALL), "f6", tmp_path)


def test_interleave_makes_equal_copies_with_spacers_between_revisions(loaded, tmp_path):
    plain, packed, spacers = loaded / "f7.nopack", loaded / "f7.pack", tmp_path / "spacers"
    spacers.mkdir()
    sources_of = {"a": plain, "b": plain, "c": packed}
    jobs = [CopyJob(of, tmp_path / n, fsfs.list_files(of)) for n, of in sources_of.items()]
    interleave(jobs, spacers, fragmentation_kib=4, seed=1)
    for copying in jobs:
        subprocess.run(["diff", "-r", copying.source, copying.destination], check=True)
        subprocess.run(["svnadmin", "verify", "-q", copying.destination], check=True)
    sizes = [path.stat().st_size for path in spacers.iterdir()]
    assert len(sizes) >= 24 and 2048 < sum(sizes) / len(sizes) < 6144


def test_copy_and_compare_damaged_copy_raises(loaded, tmp_path, monkeypatch):
    source = loaded / "f7.nopack"

    def damaged(*arguments, **options):
        interleave(*arguments, **options)
        flip_bits(tmp_path / "a" / "db" / "revs" / "0" / "7", 0.5)

    monkeypatch.setattr("vcsbench.prepare.copies.interleave", damaged)
    job = CopyJob(source, tmp_path / "a", fsfs.list_files(source))
    with pytest.raises(OSError, match="not the same"):
        copy_and_compare([job], tmp_path, fragmentation_kib=0, seed=1)


@pytest.fixture
def into(loaded, tmp_path):
    """A copy of the loaded repositories: in three formats, packed and not."""
    shutil.copytree(loaded, tmp_path / "loading" / "ruby")
    return tmp_path / "loading" / "ruby"


def make(loaded, *variants, fragmentation=0, workdir=None):
    """Make two copies of each variant, by default on the storage next to the loaded repositories."""
    workdir = workdir or WorkDir(loaded.parent, loaded)
    record = {"identity": "i1", "path": str(loaded)}
    loads = dict.fromkeys([("ruby", fmt) for fmt, _ in BOTH], record)
    settings = CopySettings(2, fragmentation, seed=1, mounted=mounted_at(workdir.path))
    make_copies(workdir, variants, loads, settings)


def test_make_copies_includes_spacers_in_space(into):
    # A terabyte for each of 24 revisions of two copies.
    with pytest.raises(UserError, match=r"spacers of 4[0-9.]* TiB .*`fragmentation_kib`"):
        make(into, VARIANTS[2], fragmentation=1e12 / 1024)
    assert copied(into) == []


def test_make_copies_in_memory_needs_available_memory(into, monkeypatch):
    # As in a container whose programs use most of its memory.
    monkeypatch.setattr(kernel, "memory", lambda: kernel.Memory(1 << 30, 300 << 20, 1 << 30))
    with open_folder("/dev/shm") as memory:
        if mount_of(memory).filesystem not in IN_MEMORY:
            pytest.skip("/dev/shm is not in memory")
        workdir = WorkDir(memory, into)
        make(into, VARIANTS[2], workdir=workdir)
        monkeypatch.setattr(kernel, "memory", lambda: kernel.Memory(1 << 30, 200 << 20, 1 << 30))
        with pytest.raises(UserError, match="the copies need"):
            make(into, VARIANTS[3], workdir=workdir)


def test_copies_with_another_fragmentation_are_made_again(into):
    variants, folder = [VARIANTS[2]], WorkDir(into.parent, into).path

    def made():
        return [path.stat().st_ino for path in sorted(folder.rglob("repositories/*/format"))]

    make(into, *variants)
    first = made()
    make(into, *variants)
    assert made() == first
    missing = missing_copies(folder, variants, 2, fragmentation_kib=1)
    assert {number for _, number in missing} == {1, 2}
    make(into, *variants, fragmentation=1)
    assert missing_copies(folder, variants, 2, fragmentation_kib=1) == {}
    assert missing_copies(folder, variants, 2, fragmentation_kib=0).keys() == missing.keys()
    record = json.loads(metadata_file(copy_path(folder, variants[0].name, 2)).read_text())
    assert record["fragmentation_kib"] == 1


# Verification


@pytest.mark.parametrize(
    ("fmt", "place"), [("f6", 0.5), ("f7", 0.05), ("f7", 0.5), ("f7", 0.95), ("f6-to-f8", 0.5)]
)
@pytest.mark.parametrize("file", ["nopack/db/revs/1/12", "pack/db/revs/1.pack/pack", "behind"])
def test_verify_all_one_flipped_bit_is_damage(fmt, place, file, into):
    if file == "behind":  # the packed shards
        file = f"nopack/db/revs/2/{fsfs.youngest(into / f'{fmt}.nopack')}"
    flip_bits(into / f"{fmt}.{file}", place)
    with pytest.raises(verify.DamagedError, match=rf"{fmt}\.(no)?pack") as raised:
        verify.verify_all(into)
    assert raised.value.staging == into


@pytest.mark.parametrize("fmt", ["f6", "f7"])
@pytest.mark.parametrize(("revision", "name"), [("0/0", b"svn:date"), ("1/12", b"svn:author")])
def test_verify_all_compares_revision_properties(fmt, revision, name, into):
    file = into / f"{fmt}.nopack" / "db" / "revprops" / revision
    file.chmod(0o644)
    content = file.read_bytes()
    assert name in content
    file.write_bytes(content.replace(name, name.upper()))
    with pytest.raises(verify.DamagedError, match="in the properties"):
        verify.verify_all(into)


def copied(into):
    return [path.name for path in into.parents[1].rglob(f"{REPOSITORIES}/*.json")]


def test_make_copies_makes_all_of_sound_and_none_of_damaged_repositories(into):
    flip_bits(into / "f6.nopack" / "db" / "revs" / "1" / "12", 0.5)
    with pytest.raises(verify.DamagedError, match=r"f6\.nopack") as raised:
        make(into, *VARIANTS)
    assert raised.value.staging == into and copied(into) == []
    flip_bits(into / "f6.nopack" / "db" / "revs" / "1" / "12", 0.5)
    make(into, *VARIANTS)
    assert len(copied(into)) == 2 * len(BOTH) + 1, "and the empty repository"


def test_empty_repository_of_an_earlier_format_is_not_used(into):
    workdir = WorkDir(into.parent, into)
    earlier = workdir.make(REPOSITORIES) / "empty"
    fsfs.create(earlier, "f7")
    write_metadata(earlier, {"state": folder_states.read_state(earlier)})
    assert not empty_copy_ok(workdir.path, SUBVERSION)
    make(into, VARIANTS[0], workdir=workdir)
    assert empty_copy_ok(workdir.path, SUBVERSION)
    empty = workdir.path / REPOSITORIES / SUBVERSION.empty_name
    assert formats.read_shape(empty).format == EMPTY_FORMAT


# The state of a copy

REVISION = "db/revs/0/1"


@pytest.fixture
def copy(loaded, tmp_path):
    return Path(shutil.copytree(loaded / "f7.nopack", tmp_path / "copy"))


def flip_and_set_back_its_time(copy):
    path = copy / REVISION
    before = path.stat()
    flip_bits(path, 0.5)
    path.chmod(0o444)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)


CHANGES = {
    "removed": ("db/revs/0", lambda copy: (copy / REVISION).unlink()),
    "flipped": ("db/revs/0", flip_and_set_back_its_time),
    "truncated": ("db/revs/0", lambda copy: os.truncate(copy / REVISION, 10)),
    "appended to": ("db/revs/0", lambda copy: (copy / REVISION).open("ab").write(b"x")),
    "added": ("db/revs/0", lambda copy: (copy / "db/revs/0/2").write_bytes(b"x")),
    "chmod": ("db/revs/0", lambda copy: (copy / REVISION).chmod(0o600)),
    "linked to": ("db/revs/0", lambda copy: os.link(copy / REVISION, copy.parent / "link")),
    "a hook": ("hooks", lambda copy: (copy / "hooks/start-commit").write_text("#!/bin/sh\n")),
    "svnserve.conf": ("conf", lambda copy: (copy / "conf/svnserve.conf").write_text("")),
    "fsfs.conf": ("db", lambda copy: (copy / "db/fsfs.conf").write_text("")),
    "a shard": ("db/revprops", lambda copy: (copy / "db/revprops/9").mkdir()),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changed_folder_names_the_change(copy, name):
    where, change = CHANGES[name]
    before = folder_states.read_state(copy)
    assert SUBVERSION.store.changed_folder(copy, before) == ""
    change(copy)
    seen = SUBVERSION.store.changed_folder(copy, before)
    # A new or removed file changes the time of its folder.
    assert seen in (where, str(Path(where).parent)), seen


def test_changed_folder_after_reading_is_empty(copy):
    before = folder_states.read_state(copy)
    for command in ("verify", "dump"):
        subprocess.run(["svnadmin", command, "-q", copy], check=True, capture_output=True)
    subprocess.run(["svn", "log", "-v", f"file://{copy}"], check=True, capture_output=True)
    assert SUBVERSION.store.changed_folder(copy, before) == ""
    subprocess.run(["svn", "mkdir", "-qm", "x", f"file://{copy}/new"], check=True)
    assert SUBVERSION.store.changed_folder(copy, before, 0)
    shutil.rmtree(copy)
    assert SUBVERSION.store.changed_folder(copy, before, 0) == "."


# Copies against their metadata, their path, and the repository itself

PLAIN, _, NEWER, *_ = VARIANTS


class Prepared(NamedTuple):
    """Two copies of three variants."""

    workdir: WorkDir
    loaded: Path

    def path(self, variant, number):
        return copy_path(self.workdir.path, variant.name, number)

    def missing(self):
        """Return the copies that a start of the workflow rebuilds, with reasons. It reads no shards."""
        missing = missing_copies(self.workdir.path, VARIANTS[:3], 2, 0, checked_files=0)
        return {(variant.name, number): why for (variant, number), why in missing.items()}

    def make_missing(self):
        make(self.loaded, *VARIANTS[:3], workdir=self.workdir)
        assert self.missing() == {}

    def check(self, variant, number):
        return check_copy(self.workdir.path, variant, number)


@pytest.fixture
def prepared(loaded, tmp_path):
    prepared = Prepared(WorkDir(tmp_path, tmp_path / "checkout"), loaded)
    prepared.make_missing()
    return prepared


def edit_json(label, **values):
    """Change or remove (None) keys without a new checksum."""
    content = {**json.loads(label.read_text()), **values}
    label.write_text(json.dumps({k: v for k, v in content.items() if v is not None}))


UNWRITTEN = ".1.json is not as it was written"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda copy: edit_json(metadata_file(copy), variant=None, copy=None), "elsewhere"),
        (lambda copy: os.truncate(metadata_file(copy), 100), UNWRITTEN),
        (lambda copy: fsfs.run_svnadmin("upgrade", copy), "f8, not of f6"),
        (lambda copy: fsfs.run_svnadmin("pack", "-q", copy), "2 of its 2 full shards"),
        (lambda copy: (copy / "db/revs/0.pack").mkdir(), "0 packed shards, but packed are 0"),
        (lambda copy: (copy / "db/fs-type").write_text("bdb\n"), "is bdb"),
        (lambda copy: (copy / "db/current").write_text("22\n"), "youngest revision is 22, not 23"),
    ],
)
@pytest.mark.parametrize("same_state", [False, True])
def test_copy_changed_is_rebuilt(prepared, change, why, same_state):
    copy = prepared.path(PLAIN, 1)
    change(copy)
    if same_state and why != UNWRITTEN:  # no time or size shows the change
        write_metadata(copy, {**read_metadata(copy), "state": folder_states.read_state(copy)})
    missing = prepared.missing()
    assert set(missing) == {(PLAIN.name, 1)} and why in missing[PLAIN.name, 1]
    assert "something changed" not in missing[PLAIN.name, 1]
    with pytest.raises(UserError, match=why):
        prepared.check(PLAIN, 1)
    assert not read_metadata(copy)
    prepared.make_missing()


def test_check_copy_changed_other_source_or_gone_is_refused(prepared):
    (prepared.path(NEWER, 1) / "db/uuid").write_text("x")
    assert prepared.missing().keys() == {(NEWER.name, 1)}
    with pytest.raises(UserError, match="another source"):
        prepared.check(PLAIN._replace(identity="i2"), 1)
    assert read_metadata(prepared.path(PLAIN, 1))
    shutil.rmtree(prepared.path(PLAIN, 1))
    with pytest.raises(UserError, match="not exist"):
        prepared.check(PLAIN, 1)


def test_check_copy_moved_from_another_storage_is_refused(prepared):
    moved = prepared.workdir.path.rename(prepared.workdir.path.with_name("moved"))
    expected = f"of copy 1 of {PLAIN.name}, made as {prepared.workdir.path}/"
    with pytest.raises(UserError, match=expected):
        check_copy(moved, PLAIN, 1)


# `svnadmin verify` misses some single bits of f6.
DAMAGES_LOADED = f"""#!{sys.executable}
import os, subprocess, sys
code = subprocess.call(["{shutil.which("svnadmin")}", *sys.argv[1:]])
if sys.argv[1] == "load":
    path = os.path.join(sys.argv[-1], "db/revs/1/12")
    os.chmod(path, 0o644)
    with open(path, "r+b") as file:
        content = bytearray(file.read())
        for place in {{int((0.5 + at / 1000) * len(content)) for at in range(100)}}:
            content[place] ^= 1
        file.seek(0)
        file.write(content)
sys.exit(code)
"""


@pytest.mark.parametrize("fmt", ["f6", "f7"])
@pytest.mark.parametrize("is_packed", [False, True])
def test_load_damaged_revision_is_refused(fmt, is_packed, tmp_path, monkeypatch):
    write_program(tmp_path / "bin" / "svnadmin", DAMAGES_LOADED)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    into = tmp_path / "into"
    into.mkdir()

    def load_and_verify():
        load_source(sources.open_source("ruby", SMALL), fmt, into)
        if is_packed:
            make_packed(into / f"{fmt}.nopack")
        verify.verify_all(into)

    with pytest.raises(UserError, match=rf"{fmt}\..*pack(\.new)?: svnadmin (verify|pack) failed"):
        load_and_verify()


# The mount of a storage


def recorded(tmp_path, **changes):
    """Return the prepared repositories of a storage without copies, but with a record of them."""
    workdir = WorkDir(tmp_path, tmp_path)
    mounted = mounted_at(tmp_path)
    record = {"storage": "disk", "place": str(workdir.path), "mounted": mounted, **changes}
    (tmp_path / "results" / "repositories").mkdir(parents=True)
    write_json(tmp_path / "results" / "repositories" / "disk.json", record)
    return PreparedRepositories(
        {"disk": VARIANTS[:1]}, {"disk": str(tmp_path)}, 1, tmp_path, dumps={}, fragmentation_kib=0
    )


@pytest.mark.parametrize("method", ["missing", "copies_token"])
def test_missing_copies_on_a_storage_that_was_unmounted_are_not_made(tmp_path, method):
    prepared = recorded(tmp_path, mounted=["xfs", "/data"])
    with pytest.raises(UserError, match="was on xfs, mounted at /data"):
        getattr(prepared, method)("disk")


@pytest.mark.parametrize("changes", [{}, {"mounted": []}, {"place": "/x", "mounted": ["xfs", "/"]}])
def test_missing_copies_on_the_same_mount_or_another_folder_are_made(tmp_path, changes):
    assert len(recorded(tmp_path, **changes).missing("disk")) == 1


def test_space_for_copies_on_two_storages_of_one_folder_is_added(tmp_path):
    needed = {"disk": VARIANTS[:1], "ssd": VARIANTS[1:2]}
    folder = str(tmp_path)
    folders = dict.fromkeys(needed, folder)
    prepared = PreparedRepositories(needed, folders, 3, tmp_path, dumps={}, fragmentation_kib=0)
    # Three copies for each storage, the packed repository, and the loaded one.
    assert prepared.load_request("ruby", "f6") == {"home": folder, "repositories": {folder: 8}}


def test_space_for_a_load_is_less_by_the_copies_and_the_load_that_it_replaces(tmp_path):
    needed, folders = {"disk": VARIANTS[:1]}, {"disk": str(tmp_path)}
    prepared = PreparedRepositories(needed, folders, 3, tmp_path, dumps={}, fragmentation_kib=0)
    workdir = WorkDir(tmp_path, tmp_path).path
    old_copy = copy_path(workdir, VARIANTS[0].name, 2)
    old_load = workdir / LOADED_FOLDER / "ruby" / "f6"
    for path in (old_copy, old_load / "f6.nopack", old_load / "f6.pack"):
        path.mkdir(parents=True)
        (path / "file").write_bytes(os.urandom(1 << 16))
    # It is of another source, so it may have another size.
    write_metadata(old_copy, {"identity": "i0"})
    os.sync()
    request = prepared.load_request("ruby", "f6")
    # Three copies, and the loaded repository.
    folder = str(tmp_path)
    assert request["repositories"] == {folder: 4}
    old_bytes = sum(request["replaced"][folder])
    assert old_bytes == pytest.approx(3 << 16, rel=0.1)
    assert count_replaced_bytes(request, 1 << 20) == {folder: old_bytes}
    # The larger ones count as much as the new ones.
    assert count_replaced_bytes(request, 1000) == {folder: 3000}


def test_load_request_counts_the_copies_between_which_spacers_lie(tmp_path):
    # f6 not packed and packed on one storage, packed on the other.
    needed = {"disk": VARIANTS[:2], "ssd": VARIANTS[1:2]}
    folders = {"disk": str(tmp_path / "disk"), "ssd": str(tmp_path / "ssd")}
    prepared = PreparedRepositories(needed, folders, 3, tmp_path, dumps={}, fragmentation_kib=64)
    request = prepared.load_request("ruby", "f6")
    assert request["fragmentation_kib"] == 64
    assert request["copies"] == {
        folders["disk"]: {"nopack": 3, "pack": 3},
        folders["ssd"]: {"pack": 3},
    }


@pytest.mark.parametrize(
    ("fmt", "state", "steps"),
    [
        ("f7", "nopack", 5526),
        # Five full shards, and 527 revisions behind them.
        ("f7", "pack", 532),
        ("as-is", "partly", 5526),
        ("git", "many-packs", 6),
    ],
)
def test_spacers_are_as_many_as_the_steps_of_a_copy(fmt, state, steps):
    assert estimate_spacer_bytes(fmt, state, 5526, 64) == steps * 64 * 1024
    assert estimate_spacer_bytes(fmt, state, 5526, 0) == 0


@pytest.mark.parametrize(
    ("scale", "keys", "revisions"),
    [
        (0.12, {}, 12),
        (None, {}, 100),
        (0.12, {"scale_revisions": True}, 12),
        (0.12, {"scale_revisions": False}, 100),
        (None, {"scale_revisions": False}, 100),
    ],
)
def test_scaled_revisions_may_be_counted_as_they_are(scale, keys, revisions):
    assert scaled_revisions(100, {"repository": {"scale": scale}, **keys}) == revisions
