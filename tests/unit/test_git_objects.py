"""Trees and objects that git itself would not make are read safely or refused."""

import io
import shutil
import zlib

import pytest

from fuzz import limits
from git_histories import (
    FILE,
    SYMLINK,
    Commit,
    check_out,
    exported,
    git,
    git_source,
    make_git,
    needs_git,
    read_everything,
    refusal,
    resolve,
    tree_on_disk,
    write_and_load,
    write_blob,
)
from vcsbench.errors import UserError
from vcsbench.sources import git_objects, git_repository
from vcsbench.sources.dump_format import WHOLE_BYTES

pytestmark = needs_git


def raw_tree(path, *entries):
    """Write a tree of any modes, names and objects, even if git itself refuses them."""
    data = b"".join(
        b"%s %s\0%s" % (mode, name, bytes.fromhex(blob)) for mode, name, blob in entries
    )
    words = ("hash-object", "-t", "tree", "--literally", "-w", "--stdin")
    return git(path, *words, stdin=data).decode().strip()


def commit_tree(path, tree):
    name = git(path, "commit-tree", "-m", "a tree", tree).decode().strip()
    git(path, "update-ref", "refs/heads/main", name)


def test_git_tree_with_entries_that_leave_the_folder_writes_inside(work, tmp_path):
    blob = resolve(work, "HEAD:plain.txt")
    inner = raw_tree(work, (b"100644", b"evil", blob))
    commit_tree(work, raw_tree(work, (b"40000", b"..", inner), (b"100664", b".git", blob)))
    tree = read_everything(work, tmp_path / "out")
    assert sorted(p.relative_to(tree).as_posix() for p in tree.rglob("*")) == [
        "?\\046?\\046", "?\\046?\\046/evil", "?\\046git",
    ]  # fmt: skip
    assert (tree / "?\\046git").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    ("mode", "name", "mode_of_object"),
    [
        (b"100644", b"a", b"100644"),
        (b"40000", b"a", b"40000"),
        *((b"100644", name, b"100644") for name in (b"/etc/evil", b"b/c")),
        *((mode, b"b", b"40000") for mode in (b"100644", b"120000")),
    ],
)
def test_git_tree_with_a_damaged_entry_is_refused(work, tmp_path, mode, name, mode_of_object):
    target = write_blob(work, str(tmp_path).encode())
    inner = raw_tree(work, (b"100644", b"evil", target))
    other = inner if mode_of_object == b"40000" else target
    commit_tree(work, raw_tree(work, (b"120000", b"a", target), (mode, name, other)))
    source = git_source(work)
    if mode == mode_of_object:
        assert "damaged" in refusal(work)
    with pytest.raises(UserError, match="damaged"):
        source.write(io.BytesIO())
    with pytest.raises(UserError, match="damaged"):
        check_out(source, tmp_path / "out")
    assert not (tmp_path / "evil").exists()


def test_git_tree_that_holds_itself_many_times_ends_at_a_limit(work, monkeypatch):
    monkeypatch.setattr(git_repository, "MEMORY_BYTES", 1 << 26)
    small = tree = raw_tree(work, (b"100644", b"f", write_blob(work, b"x")))
    for _ in range(10):
        tree = raw_tree(work, *((b"40000", b"d%d" % n, tree) for n in range(10)))
    commit_tree(work, tree)
    youngest = git(work, "commit-tree", "-p", "main", "-m", "small", small).decode().strip()
    git(work, "update-ref", "refs/heads/main", youngest)
    source = git_source(work)
    source.estimate()
    with pytest.raises(UserError, match="git log failed"):
        source.write(io.BytesIO())


def test_git_tree_larger_than_the_free_space_is_refused(work, tmp_path):
    blob = write_blob(work, bytes(1 << 26))
    inner = raw_tree(work, *((b"100644", b"%04d" % n, blob) for n in range(200)))
    commit_tree(work, raw_tree(work, *((b"40000", b"%04d" % n, inner) for n in range(100))))
    with pytest.raises(UserError, match="tree has 1"):
        check_out(git_source(work), tmp_path / "out")


DEEP = pytest.param(b"d", 300, "deeper than 256", marks=pytest.mark.slow)
# Escapes make it longer.
LONG = (b"\x01" * 230, 15, "a path is longer than 3500")


@pytest.mark.parametrize(("name", "depth", "reason"), [DEEP, LONG])
def test_git_tree_that_is_too_deep_is_refused(work, tmp_path, name, depth, reason):
    tree = resolve(work, "HEAD^{tree}")
    for _ in range(depth):
        tree = raw_tree(work, (b"40000", name, tree))
    commit_tree(work, tree)
    source = git_source(work)
    for read in (
        source.estimate,
        lambda: source.write(io.BytesIO()),
        lambda: check_out(source, tmp_path / "out"),
    ):
        with pytest.raises(UserError, match=reason):
            read()


def test_git_tree_and_loaded_history_have_equal_names(tmp_path):
    nodes = {
        b"a/.svn/format": (FILE, b"12"), b"CVS/Root": (FILE, b"x"), b"b/.GIT": (FILE, b"y"),
        b"x" * 300: (FILE, b"z"), b"link": (SYMLINK, b"../a"), b"empty": (SYMLINK, b""),
        b"esc\x1b[31m/bell\x07": (FILE, b"c"), b"latin-\xe9": (FILE, b"l"), b"line\n": (FILE, b"n"),
        b"odd-link": (SYMLINK, b"to\x1b\xe9"), b"?\\027[31m": (FILE, b"not an escape"),
        b"empty-too": (SYMLINK, b""), b"large": (SYMLINK, b"x" * (WHOLE_BYTES + 1)),
        b"n" * 252: (SYMLINK, b"a"), b"m" * 251: (SYMLINK, b"a"),
    }  # fmt: skip
    source = git_source(make_git(tmp_path / "git", [Commit(nodes)]))
    facts = write_and_load(source, tmp_path / "svn")
    notes = check_out(source, tmp_path / "out")
    tree = tree_on_disk(tmp_path / "out/tree")
    assert tree == exported(tmp_path / "svn", 2)
    names = {b"esc?\\027[31m/bell?\\007", b"latin-?\\233", b"line?\\010", b"a/?\\046svn/format"}
    assert names | {b"?\\063\\027[31m"} <= tree.keys()
    assert tree[b"odd-link"] == ("file", b"to\x1b\xe9") and tree[b"empty"] == ("file", b"")
    assert sorted(facts.notes) == sorted(notes) and len(notes) == 2


def make_loose(path, history):
    """Create a repository with a file for each object."""
    make_git(path, history)
    if pack := next(path.glob("objects/pack/*.pack"), None):
        moved = pack.rename(path.with_name("pack"))
        shutil.rmtree(path / "objects/pack")
        git(path, "unpack-objects", "-q", stdin=moved.read_bytes())
    return path


def object_file(path, name):
    identity = resolve(path, name)
    return path / "objects" / identity[:2] / identity[2:]


@pytest.mark.parametrize("name", ["main", "main~1^{tree}", "main:big"])
@pytest.mark.parametrize("damage", ["missing", "short", "changed", "sizes"])
def test_git_source_damaged_object_is_refused(tmp_path, name, damage, monkeypatch):
    # git waits for ever after an object that is shorter than it states.
    monkeypatch.setattr(git_objects, "BLOB_ANSWER_S", 1)
    big = bytes(number * number % 251 for number in range(300_000))
    commits = [Commit({b"a/b": (FILE, b"1"), b"big": (FILE, big)}), Commit({b"a/b": (FILE, b"2")})]
    path = make_loose(tmp_path / "git", commits)
    victim = object_file(path, name)
    content = victim.read_bytes()
    half = len(content) // 2
    kind, _, text = zlib.decompress(content).partition(b"\0")
    sizes = [len(text) + more for more in (-1, 1, 44, 9**12)]  # 44: up to the end of all answers
    contents = {
        "missing": [None],
        "short": [content[:half]],
        "changed": [content[:half] + bytes([content[half] ^ 8]) + content[half + 1 :]],
        "sizes": [zlib.compress(b"%s %d\0%s" % (kind.split()[0], n, text)) for n in sizes],
    }
    for damaged in contents[damage]:
        victim.unlink()
        if damaged is not None:
            victim.write_bytes(damaged)
        with limits(60), pytest.raises(UserError):
            git_source(path).write(io.BytesIO())


def test_blob_with_a_blank_line_behind_its_stated_size_is_refused_at_once(work):
    blob = resolve(work, "HEAD:plain.txt")
    damaged = "ab" * 20
    folder = work / ".git" / "objects" / damaged[:2]
    folder.mkdir(exist_ok=True)
    (folder / damaged[2:]).write_bytes(zlib.compress(b"blob 2\0ab\n\nrest"))
    with (
        limits(60),
        git_repository.open_repository(work, root=".") as opened,
        git_objects.open_blobs(opened) as blobs,
    ):
        contents = blobs.read([damaged.encode(), blob.encode()])
        # The damaged object is read up to its stated size. The rest of it answers the next request.
        assert b"".join(next(contents).chunks) == b"ab"
        with pytest.raises(UserError, match="another size"):
            next(contents)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *(("main", b""), ("main~1^{tree}", b"damaged"), ("main~1:old", b"")),
        *(("main~1:old", b"damaged"), ("main:f", b"damaged")),
    ],
)
def test_plan_git_missing_or_damaged_object_is_named(tmp_path, name, content):
    nodes = [{b"f": (FILE, b"f"), b"old": (FILE, b"old")}, {b"old": None}]
    path = make_loose(tmp_path / "git", [Commit(of) for of in nodes])
    git_source(path).estimate()
    victim = object_file(path, name)
    victim.unlink()
    if content:
        victim.write_bytes(content)
    assert victim.parent.name + victim.name in refusal(path)
