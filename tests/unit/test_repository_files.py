"""Links, pipes and endless files in a user's repository are refused, and nothing changes through a link."""

import io
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from fuzz import limits
from git_histories import git, git_source, listing, make_work, needs_git, read_everything
from project import make_socket
from vcsbench import sources
from vcsbench.errors import UserError
from vcsbench.prepare.loader import hotcopy, load_source
from vcsbench.sources.git_repository import read_alternates
from vcsbench.subjects import fsfs

pytestmark = needs_git

# Entries of a Subversion repository. Those that do not exist are made.
SVN_ENTRIES = (
    "format", "db/format", "db/current", "db/uuid", "db/fs-type", "db/fsfs.conf", "db/write-lock",
    "db/min-unpacked-rev", "db/rep-cache.db", "db/revs/0/0", "db/revs/0/1", "db/revs/0/new",
    "db/revprops/0/1", "db/locks/new", "db/locks/abc/new", "db/node-origins/new",
    "db/transactions/1-1.txn/new", "db/txn-protorevs/new", "db/new", "locks/db.lock", "locks/new",
)  # fmt: skip
SVN_FOLDERS = (
    "db", "db/revs", "db/revs/0", "db/revprops", "db/revprops/0", "db/locks", "db/node-origins",
    "db/transactions", "db/txn-protorevs", "db/new", "locks",
)  # fmt: skip
GIT_ENTRIES = (
    "HEAD", "config", "packed-refs", "shallow", "commondir", "refs/heads/main", "refs/heads/new",
    "refs/tags/new", "refs/remotes/origin/HEAD", "refs/new", "objects/info/alternates", "objects/info/new",
    "objects/pack/new.pack", "objects/pack/new.idx", "objects/17/new",
)  # fmt: skip
GIT_FOLDERS = (
    "refs", "refs/heads", "refs/new", "objects", "objects/pack", "objects/info", "objects/17", "objects/new",
)  # fmt: skip
# Makers of entries. `victim` is a file of the user's outside of the repository.
ODD = {
    "link to a file": lambda path, victim: path.symlink_to(victim),
    "link to nothing": lambda path, victim: path.symlink_to("/nonexistent/file"),
    "link to a file without end": lambda path, victim: path.symlink_to("/proc/self/pagemap"),
    "link to a file that blocks": lambda path, victim: path.symlink_to("/proc/kmsg"),
    "link to a device": lambda path, victim: path.symlink_to("/dev/zero"),
    "link to itself": lambda path, victim: path.symlink_to(path.name),
    "pipe": lambda path, victim: os.mkfifo(path),
    "socket": lambda path, victim: make_socket(path),
}


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    path = tmp_path_factory.mktemp("template") / "svn"
    fsfs.create(path, "f8")
    argv = ["svn", "mkdir", "-q", "-m", "", f"{path.as_uri()}/trunk"]
    subprocess.run(argv, check=True)
    return path


@pytest.fixture
def svn(tmp_path, template):
    return shutil.copytree(template, tmp_path / "svn")


@pytest.fixture
def victim(tmp_path):
    path = tmp_path / "victim"
    path.write_text("secret")
    path.chmod(0o600)
    return path


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def load(path: Path, into: Path) -> None:
    """Take all steps of a run with a repository, up to an exact copy of one of Subversion's."""
    definition = sources.detect(str(path))
    source = sources.open_source("it", definition)
    source.check()
    source.identity()
    source.estimate()
    source.odd_paths()
    source.check_history()
    into.mkdir(exist_ok=True)
    formats = ["as-is", "f8"] if definition["source"] == "svn" else ["f8"]
    for fmt in formats:
        load_source(source, fmt, into)


def check_refused(repository: Path, victim: Path, into: Path) -> None:
    before = listing(repository.parent)
    with limits(20), pytest.raises(UserError) as caught:
        load(repository, into)
    assert "\n" not in str(caught.value)
    assert not into.exists() or not any(into.iterdir()), "nothing was copied"
    assert victim.read_text() == "secret"
    assert stat.S_IMODE(victim.stat().st_mode) == 0o600
    assert listing(repository.parent) == before


@pytest.mark.parametrize("name", SVN_ENTRIES)
@pytest.mark.parametrize("kind", ODD)
def test_svn_repository_with_an_odd_entry_is_refused(svn, victim, tmp_path, name, kind):
    path = svn / name
    path.parent.mkdir(exist_ok=True, parents=True)
    remove(path)
    ODD[kind](path, victim)
    check_refused(svn, victim, tmp_path.with_name("into"))


@pytest.mark.parametrize("name", SVN_FOLDERS)
@pytest.mark.parametrize("place", ["inside", "outside"])
def test_svn_repository_with_a_link_to_a_folder_is_refused(svn, victim, tmp_path, name, place):
    path, away = svn / name, (svn if place == "inside" else tmp_path) / "away"
    if path.exists():
        path.rename(away)
    else:
        away.mkdir()
    path.symlink_to(away)
    check_refused(svn, victim, tmp_path.with_name("into"))


@pytest.mark.parametrize("name", ["db/locks", "db/node-origins"])
def test_hotcopy_of_a_link_that_was_made_since_changes_no_mode(svn, victim, tmp_path, name):
    (svn / name).mkdir(exist_ok=True)
    (svn / name / "link").symlink_to(victim)
    into = tmp_path / "into"
    into.mkdir()
    with pytest.raises(UserError):
        hotcopy(svn, into)
    assert stat.S_IMODE(victim.stat().st_mode) == 0o600


@pytest.mark.parametrize("entry", [f"{folder}/link" for folder in ("hooks", "conf", "dav")])
def test_svn_repository_with_a_link_in_a_folder_of_the_site_is_read(svn, victim, tmp_path, entry):
    (svn / entry).parent.mkdir(exist_ok=True)
    (svn / entry).symlink_to(victim)
    before = listing(tmp_path)
    into = tmp_path.with_name("into")
    try:
        load(svn, into)
        assert not (into / "as-is.nopack" / entry).is_symlink()
    finally:
        shutil.rmtree(into)
    assert listing(tmp_path) == before
    assert stat.S_IMODE(victim.stat().st_mode) == 0o600


@pytest.mark.parametrize("below", ["", "/trunk"])
def test_svn_repository_at_a_local_url_with_a_pipe_is_refused(svn, below):
    (svn / "db/current").unlink()
    os.mkfifo(svn / "db/current")
    source = sources.open_source("it", {"source": "svn", "url": svn.as_uri() + below})
    with limits(10), pytest.raises(UserError, match="db/current"):
        source.write(io.BytesIO())


@pytest.fixture
def work(tmp_path):
    return make_work(tmp_path / "git")


@pytest.mark.parametrize("name", GIT_ENTRIES)
@pytest.mark.parametrize("kind", ODD)
def test_git_repository_with_an_odd_entry_is_refused(work, victim, tmp_path, name, kind):
    path = work / ".git" / name
    path.parent.mkdir(exist_ok=True, parents=True)
    remove(path)
    ODD[kind](path, victim)
    check_refused(work, victim, tmp_path.with_name("into"))


@pytest.mark.parametrize("name", GIT_FOLDERS)
@pytest.mark.parametrize("place", ["inside", "outside"])
def test_git_repository_with_a_link_to_a_folder_is_refused(work, victim, tmp_path, name, place):
    path, away = work / ".git" / name, (work / ".git" if place == "inside" else tmp_path) / "away"
    if path.exists():
        path.rename(away)
    else:
        away.mkdir()
    path.symlink_to(away)
    check_refused(work, victim, tmp_path.with_name("into"))


@pytest.mark.parametrize("content", ["/proc/kmsg", "/proc/self/pagemap", "/dev/zero", "pipe"])
@pytest.mark.parametrize("name", [".git", "linked/.git", ".git/worktrees/linked/HEAD"])
def test_git_work_tree_with_an_odd_file_is_refused(work, victim, tmp_path, name, content):
    git(work, "worktree", "add", "-q", "linked")
    place = work / "linked" if "linked" in name else work
    remove(work / name)
    os.mkfifo(work / name) if content == "pipe" else (work / name).symlink_to(content)
    with limits(10), pytest.raises(UserError):
        load(place, tmp_path / "into")


INNER = {
    "HEAD": ("refs/heads/main", "a symbolic ref of an old git"),
    "refs/remotes/origin/HEAD": ("refs/remotes/origin/gone", "a symbolic ref to nothing"),
    "refs/heads/alias": ("main", "a second name of a branch"),
}


@pytest.mark.parametrize("name", INNER)
def test_git_repository_with_a_link_to_its_own_ref_is_read(work, tmp_path, name):
    expected = git_source(work).identity()
    path = work / ".git" / name
    path.parent.mkdir(exist_ok=True, parents=True)
    remove(path)
    path.symlink_to(INNER[name][0])
    assert git_source(work).identity() == expected
    load(work, tmp_path / "into")


def test_git_repository_with_links_to_its_own_hooks_and_submodules_is_read(work, victim, tmp_path):
    for name in ("hooks/pre-commit", "info/exclude", "modules", "annex", "lfs"):
        path = work / ".git" / name
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(victim)
    load(work, tmp_path / "into")


def test_git_repository_at_a_link_is_read(work, tmp_path):
    expected = git_source(work).identity()
    (tmp_path / "link").symlink_to(work)
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/.git").symlink_to("../git/.git")
    for name in ("link", "tree"):
        assert git_source(tmp_path / name).identity() == expected


QUOTED = [
    (b'"/a"\n/b\n', [b"/a", b"/b"]),
    (b'#"/a"\n\n"\\"\\\\\\t\\303\\251"\n', [b'"\\\t\xc3\xa9']),
    (b'"/a\n/b', [b'"/a', b"/b"]),
    (b'"\\x"\n', [b'"\\x"']),
    (b'"/a"x/b\n', [b"/a", b"/b"]),
    (b'"a\nb"\n', [b"a\nb"]),
    (b"/a\0/b\n", [b"/a"]),
    (b'""\n', []),
]


@pytest.mark.parametrize(("content", "expected"), QUOTED)
def test_alternates_are_read_as_git_reads_them(work, tmp_path, content, expected):
    assert read_alternates(content) == expected
    # git names each folder that does not exist, so its own reading is seen.
    (work / ".git/objects/info/alternates").write_bytes(content)
    done = subprocess.run(["git", "-C", work, "count-objects", "-v"], capture_output=True)
    assert done.stderr.count(b"error: ") == len(expected)
    assert all(name in done.stderr for name in expected)


def test_git_quoted_lender_is_read_and_its_pipe_is_refused(work, tmp_path):
    git(tmp_path, "clone", "-q", "--shared", str(work), "borrower")
    lender = tmp_path / "a\nb"
    work.rename(lender)
    quoted = f'"{tmp_path}/a\\nb/.git/objects"\n'
    (tmp_path / "borrower/.git/objects/info/alternates").write_text(quoted)
    tree = read_everything(tmp_path / "borrower", tmp_path / "out")
    assert any(tree.iterdir())
    pack = lender / ".git/objects/pack/new.idx"
    pack.parent.mkdir(exist_ok=True)
    os.mkfifo(pack)
    with limits(10), pytest.raises(UserError, match=r"new\.idx"):
        git_source(tmp_path / "borrower").identity()


@pytest.mark.parametrize(
    "path", ["/proc/kmsg", "/proc/self/pagemap", "/proc/self/mem", "/dev/zero"]
)
def test_file_without_end_as_a_repository_is_refused(tmp_path, path):
    (tmp_path / "link").symlink_to(path)
    for place in (path, tmp_path / "link"):
        with limits(10), pytest.raises(UserError):
            sources.detect(str(place))
        with limits(10), pytest.raises(UserError):
            sources.open_source("it", {"source": "dump", "path": str(place)}).check()
