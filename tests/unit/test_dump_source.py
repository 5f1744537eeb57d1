"""Dump files as sources: whole and damaged, plain and compressed, and mutated streams."""

import argparse
import bz2
import contextlib
import errno
import gzip
import io
import lzma
import os
import random
import re
import subprocess
from pathlib import Path

import pytest

from dump_streams import BASE, HEAD, copied, deleted, file, folder, revision
from fuzz import damaged, dice_of, limits
from git_histories import digest, listing, run, write_and_load
from project import ODD_FILES, needs
from unit.study_grid import study_environment
from vcsbench import sources
from vcsbench.errors import UserError, printable
from vcsbench.plan.plan import Plan
from vcsbench.prepare.loader import load_source
from vcsbench.sources import dump_source as dump_source_module
from vcsbench.sources.dump_reader import BYPASS, DumpReader
from vcsbench.sources.text_sample import TextSample
from vcsbench.storages.file_trees import IMPOSSIBLE_PATHS, MAX_DEPTH, RESERVED_PATHS
from vcsbench.words import count_of

pytestmark = needs("svnadmin")

COMPRESSIONS = ["", "gz", "xz", pytest.param("zst", marks=needs("zstd"))]
DUMPS = {"2": [], "3": ["--deltas"]}
# About 100 KB of Python.
SOURCE_CODE = Path(argparse.__file__).read_bytes()


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """Twenty revisions of a text and a binary file that change, with a copy and a deletion."""
    path = tmp_path_factory.mktemp("dump") / "repository"
    run("svnadmin", "create", path)
    numbers = random.Random(1)
    lines = [b"line %d\n" % number for number in range(400)]
    stream = b"SVN-fs-dump-format-version: 2\n\n"
    for number in range(1, 21):
        stream += revision(number, {b"svn:log": b"one\n2"})
        stream += folder(b"trunk") if number == 1 else b""
        lines[numbers.randrange(400)] = b"changed in %d\n" % number
        files = file(b"trunk/text", b"".join(lines))
        files += file(b"trunk/binary", numbers.randbytes(3000), {b"a": b"%02d" % number})
        stream += files if number == 1 else files.replace(b"action: add", b"action: change")
    run("svnadmin", "load", "-q", path, stdin=stream)
    url = f"file://{path}"
    run("svn", "cp", "-q", "-m", "", f"{url}/trunk", f"{url}/tag")
    run("svn", "rm", "-q", "-m", "", f"{url}/trunk/binary")
    return path


@pytest.fixture(scope="module")
def dumps(repository):
    return {fmt: run("svnadmin", "dump", "-q", *words, repository) for fmt, words in DUMPS.items()}


def compressed(content, how):
    if how == "gz":
        return gzip.compress(content, mtime=0)
    if how == "xz":
        return lzma.compress(content)
    return run("zstd", "-qc", stdin=content) if how == "zst" else content


def dump_source(path, **options):
    return sources.open_source("mine", {"source": "dump", "path": str(path), **options})


def refused(path):
    """Return the error of write()."""
    with pytest.raises(UserError) as caught:
        dump_source(path).write(io.BytesIO())
    return str(caught.value)


@pytest.mark.parametrize("fmt", DUMPS)
@pytest.mark.parametrize("how", COMPRESSIONS)
def test_dump_write_any_compression_makes_the_same_repository(dumps, tmp_path, how, fmt):
    path = tmp_path / "history"  # a name without an ending
    path.write_bytes(compressed(dumps[fmt], how))
    source = dump_source(path)
    source.check()
    before = listing(tmp_path)
    out = io.BytesIO()
    assert source.write(out).revisions == 22
    assert out.getvalue() == dumps[fmt]
    assert digest(source) == digest(dump_source(path))
    assert sources.detect(str(path)) == {"source": "dump", "path": str(path)}
    assert listing(tmp_path) == before
    write_and_load(source, tmp_path / "copy")
    assert source.tree(tmp_path / "copy") == "trunk"
    again, uuid = run("svnadmin", "dump", "-q", tmp_path / "copy"), rb"\nUUID: .*\n"
    assert re.sub(uuid, b"", again, count=1) == re.sub(uuid, b"", dumps["2"], count=1)


@pytest.mark.parametrize("how", COMPRESSIONS)
def test_dump_at_a_link_is_detected_and_written(dumps, tmp_path, how):
    (tmp_path / "history").write_bytes(compressed(dumps["2"], how))
    link = tmp_path / "link"
    link.symlink_to("history")
    assert sources.detect(str(link)) == {"source": "dump", "path": str(tmp_path / "history")}
    source = dump_source(link)
    source.check()
    out = io.BytesIO()
    assert source.write(out).revisions == 22
    assert out.getvalue() == dumps["2"]


METHODS = ("identity", "describe", "odd_paths", "expected_revisions", "head", "read_layout")


@pytest.mark.parametrize("odd", ["pipe", "device", "folder", "missing"])
@pytest.mark.parametrize("kind", ["directory", "dump", "git", "svn"])
def test_source_at_an_odd_path_without_check_raises_only_user_errors(tmp_path, kind, odd):
    path = tmp_path / "odd"
    ODD_FILES.get(odd, lambda _: None)(path)
    source = sources.open_source("it", {"source": kind, "path": str(path)})
    if (kind, odd) != ("directory", "folder"):
        with pytest.raises(UserError):
            source.estimate()
        with pytest.raises(UserError):
            source.write(io.BytesIO())
    for method in METHODS:
        with contextlib.suppress(UserError):
            getattr(source, method)()


@pytest.mark.parametrize("how", COMPRESSIONS[1:])
def test_dump_write_corrupt_compressed_file_is_refused(dumps, tmp_path, how):
    whole = bytearray(compressed(dumps["2"], how))
    for at in (len(whole) // 2, len(whole) - 3):  # within, and its checksum
        broken = whole.copy()
        broken[at] ^= 0x55
        (tmp_path / "corrupt").write_bytes(whole[:at])
        assert re.search(r"byte [\d,]+ of the stream", refused(tmp_path / "corrupt"))
        (tmp_path / "corrupt").write_bytes(broken)
        assert refused(tmp_path / "corrupt").startswith(f"{tmp_path}/corrupt: ")
        refused_in_plan(tmp_path / "corrupt")


def refused_in_plan(path):
    for read in (lambda s: s.estimate(), lambda s: s.odd_paths()):
        with pytest.raises(UserError, match=f"^{path}: "):
            read(dump_source(path))


@pytest.mark.parametrize("how", COMPRESSIONS)
def test_dump_damage_is_refused_in_a_plan_if_it_is_in_the_part_that_it_reads(
    dumps, tmp_path, monkeypatch, how
):
    path, whole = tmp_path / "it", dumps["2"]
    last = whole.rindex(b"Revision-number")
    ends = (whole.rindex(b"PROPS-END"), last - 5000)
    for broken in (*(whole[:end] for end in ends), whole[:last] + b"odd"):
        path.write_bytes(compressed(broken, how))
        assert "(at revision " in refused(path)
        refused_in_plan(path)
    # The part that is read has no fault, and is not all of the file.
    monkeypatch.setattr(dump_source_module, "SAMPLE_RECORDS", 20)
    monkeypatch.setattr(dump_source_module, "SAMPLE_BYTES", 20_000)
    source = dump_source(path)
    assert source.estimate().revisions > 1
    assert not source._sample.is_whole and source.odd_paths() == (0, 0)
    assert 20_000 // 4 < source._sample.offset < len(whole) // 2


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "empty"),
        (compressed(b"no dump", "gz"), "(not a Subversion dump|neither)"),
        *((begin, "decompressed") for begin in (b"\x1f\x8bno", b"\xfd7zXZ\0")),
        (bz2.compress(BASE), "bunzip2"),
        (gzip.compress(lzma.compress(BASE), mtime=0), "twice"),
        (b"PK\x03\x04" + BASE, r"\.zip"),
        (b"\0" * 257 + b"ustar", r"\.tar"),
        (BASE.decode("latin-1").encode("utf-16"), "UTF-16"),
        (b"\xef\xbb\xbf" + BASE, "byte order mark"),
        (b"\n" + BASE, "blank line"),
    ],
)
def test_dump_check_and_detect_other_content_is_refused_with_the_reason(tmp_path, content, what):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(UserError, match=rf"repositories\.mine\.path`: {path} .*{what}"):
        dump_source(path).check()
    with pytest.raises(UserError, match=rf"^{path}: .*{what}"):
        sources.detect(str(path))
    refused(path)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_dump_detect_of_a_file_that_cannot_be_read_has_the_reason(tmp_path, monkeypatch, number):
    path = tmp_path / "file"
    path.write_bytes(BASE)

    def refuse(path):
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(dump_source_module, "open_decompressed", refuse)
    with pytest.raises(UserError, match=rf"^{path}: cannot be read: {os.strerror(number)}\. "):
        sources.detect(str(path))


def test_dump_estimate_of_a_small_file_counts_revisions_but_not_in_texts(tmp_path):
    path = tmp_path / "it.dump"
    text = file(b"trunk/f", b"x\n\nRevision-number: 99999999999\n\n")
    path.write_bytes(BASE + text + revision(2))
    estimate = dump_source(path).estimate()
    assert (estimate.revisions, estimate.repository_bytes) == (2, path.stat().st_size // 4)


@pytest.fixture(scope="module")
def deltas_of_code(tmp_path_factory):
    """The dump with deltas of a text of source code."""
    path = tmp_path_factory.mktemp("code") / "repository"
    run("svnadmin", "create", path)
    run("svnadmin", "load", "-q", path, stdin=BASE + file(b"trunk/f", SOURCE_CODE))
    return run("svnadmin", "dump", "-q", "--deltas", path)


@pytest.mark.parametrize("how", COMPRESSIONS[:3])
def test_dump_estimate_depends_on_the_compression_of_its_texts(
    dumps, deltas_of_code, tmp_path, how
):
    path = tmp_path / "it"
    archive = BASE + file(b"trunk/f", random.Random(1).randbytes(40_000))
    # A stream, and the least and the largest share of its bytes that the repository has.
    cases = [
        (BASE + file(b"trunk/f", SOURCE_CODE), 0.25, 0.35),
        (archive, 1, 1),
        (deltas_of_code, 0.25, 0.6),
        (dumps["3"], 0.9, 1),
    ]
    for stream, least, most in cases:
        path.write_bytes(compressed(stream, how))
        estimated = dump_source(path).estimate().repository_bytes
        assert int(least * len(stream)) <= estimated <= most * len(stream)


def share_of(texts, is_delta=False):
    """Return the estimated share of a sample of texts, in which source code has 1/4."""
    sample = TextSample()
    for text in texts:
        head = text[: sample.count(len(text), is_delta=is_delta)]
        sample.compress(head, len(text), is_delta=is_delta)
    return sample.estimate_share(1 / 4)


def test_text_sample_few_large_texts_count_by_their_bytes():
    archive = random.Random(1).randbytes(1 << 20)
    assert 0.9 < share_of([b"x" * 1000] * 1000 + [archive] * 20) <= 1


@pytest.mark.parametrize("is_delta", [False, True])
def test_text_sample_has_texts_of_the_whole_source(is_delta):
    code, archive = SOURCE_CODE[:20_000], random.Random(1).randbytes(20_000)
    # The first texts are of another kind than the others.
    assert 0.8 < share_of([code] * 500 + [archive] * 4500, is_delta) < 1
    # Commits change two files in turn.
    assert 0.45 < share_of([code, archive] * 2500, is_delta) < 0.78


@pytest.mark.parametrize("how", ["gz", "xz"])
def test_dump_estimate_of_a_part_of_few_bytes_uses_the_usual_compression(
    tmp_path, monkeypatch, how
):
    # The first text is larger than the part to read. Python has read much more of the file than that part.
    monkeypatch.setattr(dump_source_module, "SAMPLE_BYTES", 1 << 16)
    path = tmp_path / "it"
    path.write_bytes(compressed(BASE + file(b"trunk/f", random.Random(1).randbytes(1 << 20)), how))
    factor = dump_source_module.COMPRESSED_FACTOR
    assert dump_source(path).estimate().repository_bytes == factor * path.stat().st_size // 4


@pytest.mark.parametrize("how", ["gz", "xz"])
def test_dump_estimate_of_a_part_has_at_least_the_bytes_of_the_file(tmp_path, monkeypatch, how):
    numbers = random.Random(1)
    archives = [file(b"trunk/%d" % number, numbers.randbytes(1 << 20)) for number in range(4)]
    # Two of the archives. Python has read more of the file than them.
    monkeypatch.setattr(dump_source_module, "SAMPLE_BYTES", 5 << 19)
    path = tmp_path / "it"
    path.write_bytes(compressed(BASE + b"".join(archives), how))
    size = path.stat().st_size
    assert size <= dump_source(path).estimate().repository_bytes < 1.02 * size


@pytest.mark.parametrize("how", ["gz", "xz"])
def test_dump_estimate_of_a_part_uses_the_compression_of_that_part(tmp_path, monkeypatch, how):
    numbers = random.Random(1)
    records = []
    for number in range(2, 1001):
        # About 1 KB of 20 is left after the compression, so a factor of 6 is far too small.
        text = numbers.randbytes(1000) + b"x" * 19_000
        records += [revision(number), file(b"trunk/%d" % number, text)]
    path = tmp_path / "it"
    path.write_bytes(compressed(BASE + b"".join(records), how))
    # Half of the revisions. Python reads a part of the file ahead, so the estimate is a little too small.
    monkeypatch.setattr(dump_source_module, "SAMPLE_RECORDS", 1000)
    source = dump_source(path)
    assert 600 < source.estimate().revisions <= 1010
    assert not source._sample.is_whole


def test_dump_check_unusable_path_is_refused(tmp_path, monkeypatch):
    (tmp_path / "zstd").write_bytes(b"\x28\xb5\x2f\xfd")
    monkeypatch.setenv("PATH", "/nonexistent")
    for name, why in {"none": "does not", "": "is no file", "zstd": "only the program"}.items():
        with pytest.raises(UserError, match=f"mine.path`: {tmp_path / name} {why}"):
            dump_source(tmp_path / name).check()


MOVED = BASE + revision(2) + folder(b"p") + copied(b"p/trunk", b"trunk", 1) + deleted(b"trunk")
COPIED = BASE + folder(b"a") + revision(2) + copied(b"b", b"a", 1)
TRUNK_ELSEWHERE = HEAD + revision(1) + folder(b"trunk2") + folder(b"a") + folder(b"a/trunk")


@pytest.mark.parametrize(
    ("stream", "tree", "exported"),
    [
        (MOVED, None, ""),
        (HEAD + revision(1) + file(b"trunk"), None, ""),
        (BASE[: -len(folder(b"trunk"))] + file(b"f", b"\n\n" + folder(b"trunk")), None, ""),
        (BASE + revision(2) + deleted(b"trunk") + file(b"trunk"), None, ""),
        (MOVED, "p/trunk", "p/trunk"),
        (BASE + revision(2) + copied(b"trunk2", b"trunk", 1), "trunk2", "trunk2"),
    ],
    ids=["moved", "file", "text", "replaced", "given", "copied"],
)
def test_dump_and_svn_tree_is_that_of_the_youngest_revision(tmp_path, stream, tree, exported):
    (tmp_path / "it.dump").write_bytes(stream)
    options = {} if tree is None else {"tree": tree}
    source = dump_source(tmp_path / "it.dump", **options)
    assert load_source(source, "f8", tmp_path)["tree"] == exported
    own = {"source": "svn", "path": str(tmp_path / "f8.nopack"), **options}
    assert sources.open_source("it", own).tree(tmp_path) == exported


@pytest.mark.parametrize(
    ("stream", "tree"),
    [
        *((MOVED, tree) for tree in ("trunk", "nowhere")),
        *((stream, "trunk") for stream in (BASE + deleted(b"/trunk/"), TRUNK_ELSEWHERE)),
        (HEAD + revision(1) + file(b"trunk") + revision(2), "trunk"),
        (COPIED, "b/none"),
    ],
)
def test_dump_tree_that_is_gone_is_refused(tmp_path, stream, tree):
    (tmp_path / "it.dump").write_bytes(stream)
    source = dump_source(tmp_path / "it.dump", tree=tree)
    with pytest.raises(UserError, match=r"\.tree`: .*TREE="):
        load_source(source, "f8", tmp_path)


LONG = b"x" * 256


def nested(name, depth):
    """Folders in each other below trunk, and a file."""
    paths = [b"/".join([b"trunk", *[name] * n]) for n in range(1, depth + 1)]
    return b"".join(map(folder, paths)) + file(paths[-1] + b"/f")


# svn writes it, and Python cannot remove it.
TOO_DEEP = nested(b"d", MAX_DEPTH + 1)
SVN = b"trunk/a/.svn"
MANY = b"".join(folder(b"trunk/%d" % d) for d in (1, 10))
MANY += b"".join(file(b"trunk/%d/%d%s" % (d, n, LONG)) for d in (1, 10) for n in range(120))
# Records, and the number of impossible or reserved paths in the history and in its last tree.
LONG_NAMES = {
    "folder": (folder(b"trunk/" + LONG) + file(b"trunk/%s/%s" % (LONG, LONG)), 2, 2),
    "255": (file(b"trunk/" + LONG[:255]), 0, 0),
    "elsewhere": (folder(b"branch") + file(b"branch/" + LONG), 1, 0),
    "copied": (folder(b"a") + file(b"a/" + LONG) + revision(2) + copied(b"trunk/a", b"a", 1), 1, 1),
    "many": (MANY + revision(2) + deleted(b"trunk/1"), 240, 120),
    "too deep": (TOO_DEEP, 1, 1),
    "long path": (nested(b"d" * 200, 21), 5, 5),
}
RESERVED_NAMES = {
    "svn": (folder(b"trunk/a") + folder(SVN) + file(SVN + b"/f"), 1, 1),
    "nested svn": (folder(b"trunk/.svn") + folder(b"trunk/.svn/.svn"), 2, 2),
    "svn elsewhere": (folder(b".svn") + folder(b"a") + file(b"a/.svn"), 2, 0),
    "deleted svn": (folder(b"trunk/a") + folder(SVN) + revision(2) + deleted(b"trunk/a"), 1, 0),
    "similar to svn": (b"".join(folder(b"trunk/" + n) for n in (b".SVN", b"a.svn", b".git")), 0, 0),
}


@pytest.mark.parametrize("name", [*LONG_NAMES, *RESERVED_NAMES])
def test_dump_odd_paths_are_noted_and_cells_that_write_them_skipped(tmp_path, name):
    is_long, path, loaded = name in LONG_NAMES, tmp_path / "mine", tmp_path / "f8.nopack"
    records, in_history, in_tree = (LONG_NAMES if is_long else RESERVED_NAMES)[name]
    path.write_bytes(BASE + records)
    facts = load_source(dump_source(path), "f8", tmp_path)
    kind = IMPOSSIBLE_PATHS if is_long else RESERVED_PATHS
    noted = [f": {in_history}, first " in note for note in facts["notes"]]
    assert noted == [True] * bool(in_history)
    (tmp_path / "deltas").write_bytes(run("svnadmin", "dump", "-q", "--deltas", loaded))
    own = sources.open_source("it", {"source": "svn", "path": str(loaded)})
    others = ((own, "as-is"), (dump_source(tmp_path / "deltas"), "f7"))
    for counted in (facts, *(load_source(s, fmt, tmp_path) for s, fmt in others)):
        numbers = (in_tree, 0) if is_long else (0, in_tree)
        assert (counted["long_names"], counted["reserved_names"]) == numbers
    command = "export" if is_long else "checkout"
    argv = ["svn", command, "-q", f"file://{loaded}/trunk", tmp_path / "tree"]
    fails = subprocess.run(argv, capture_output=True).returncode
    assert bool(fails) is (bool(in_tree) and records is not TOO_DEEP)

    study = "server-prototype-2010"
    commands = {"command": ["export", "checkout"], "access": "file", "build": "trunk"}
    plan = Plan(study_environment(study, commands, repository=str(path)))
    skips = {cell.axes["command"]: cell.skip for cell in plan.grids[study]}
    # The sample of the file does not follow copies: such cells are refused when they are measured.
    is_foreseen = bool(in_tree) and name != "copied"
    action = "written" if is_long else "checked out"
    reason = f"mine has {count_of(in_tree, 'path')} {kind}, so its tree cannot be {action}"
    assert skips["checkout"] == reason * is_foreseen
    assert skips["export"] == reason * (is_foreseen and is_long)


WHOLE = (
    BASE
    + file(b"trunk/f", b"text\n", {b"svn:eol-style": b"native", b"a": b"b"})
    + revision(2, {b"svn:log": b"Gr\xc3\xbc\xc3\x9fe", b"svn:date": b"2006-01-01T00:00:00.0Z"})
    + copied(b"tag", b"trunk", 1)
    + deleted(b"trunk/f")
    + revision(4)
    + folder(b"trunk/g")
    + file(b"trunk/g/h", bytes(range(256)))
)
PIECES = [
    b"\n", b"\n\n", b" ", b"\0", b"\r\n", b"0", b"-1", b"9" * 30, b": ", b"K 3\nabc\n", b"V 2\nxy\n",
    b"D 1\na\n", b"PROPS-END\n", b"Node-path: x\n", b"Revision-number: 3\n\n", b"Content-length: 7\n",
    b"UUID: \n\n", b"Prop-delta: true\n", b"Text-delta: true\n", b"SVN-fs-dump-format-version: 3\n\n",
    b" # comment\n", b"\xff\xfe",
]  # fmt: skip


@pytest.mark.parametrize(
    ("seed", "cases", "loads"),
    [(1, 1500, 10), *(pytest.param(n, 20_000, 300, marks=pytest.mark.slow) for n in range(2, 6))],
)
def test_reader_mutated_streams_raise_only_user_errors(tmp_path, seed, cases, loads):
    numbers = dice_of("dump", seed)
    accepted = loaded = 0
    refused = []
    for case in range(cases):
        out = io.BytesIO()
        reader = DumpReader("it", io.BytesIO(damaged(numbers, WHOLE, PIECES, 2)), out=out)
        try:
            with limits():
                reader.run()
        except UserError as error:
            refused.append(str(error))
            continue
        accepted += 1
        if accepted <= loads:
            path = tmp_path / str(case)
            run("svnadmin", "create", path)
            argv = ["svnadmin", "load", "-q", BYPASS, path]
            # The reader does not follow the tree: svnadmin finds paths that are missing.
            if subprocess.run(argv, input=out.getvalue(), capture_output=True).returncode == 0:
                loaded += 1
                assert int(run("svnlook", "youngest", path)) == reader.revisions, (seed, case)
    print(f"{cases} mutated dumps: {accepted} read, {len(refused)} refused, {loaded} loaded")
    assert all(printable(text) == text and "\n" not in text for text in refused)
    assert accepted > cases / 20
    assert loaded > 0
