"""Links, pipes and endless files in a user's repository are refused, and nothing changes through a link."""

import io
import os
import shutil
import stat
import subprocess

import pytest

from fuzz import limits
from git_histories import git, git_source, listing, make_work, needs_git, refusal
from project import make_socket
from vcsbench import sources
from vcsbench.errors import UserError
from vcsbench.prepare.loader import load_source
from vcsbench.prepare.subversion_loader import hotcopy
from vcsbench.sources.git_layout import parse_alternates
from vcsbench.systems import fsfs

pytestmark = needs_git

# Files that are read, and new ones, in the folder of each repository.
FILES = {
    "svn": (
        "format", "db/current", "db/fs-type", "db/fsfs.conf", "db/revs/0/1", "db/revs/0/new", "db/new",
        "db/transactions/1-1.txn/new", "locks/db.lock",
    ),
    "git": (
        "HEAD", "config", "packed-refs", "shallow", "commondir", "refs/heads/main", "refs/heads/new",
        "objects/info/alternates", "objects/pack/new.idx", "objects/17/new",
    ),
}  # fmt: skip
FOLDERS = {
    "svn": ("db", "db/revs/0", "db/new", "locks"),
    "git": ("refs", "refs/heads", "objects", "objects/pack", "objects/new"),
}
# Makers of entries. `victim` is a file of the user's outside of the repository.
ODD = {
    "pipe": lambda path, victim: os.mkfifo(path),
    "link to a file": lambda path, victim: path.symlink_to(victim),
    "link to nothing": lambda path, victim: path.symlink_to("/nonexistent/file"),
    "link to a file without end": lambda path, victim: path.symlink_to("/proc/self/pagemap"),
    "link to a file that blocks": lambda path, victim: path.symlink_to("/proc/kmsg"),
    "link to a device": lambda path, victim: path.symlink_to("/dev/zero"),
    "link to itself": lambda path, victim: path.symlink_to(path.name),
    "socket": lambda path, victim: make_socket(path),
}
# Each file as two kinds, and one file of each repository as all kinds.
ODD_FILES = [(repo, name, kind) for repo in FILES for name in FILES[repo] for kind in [*ODD][:2]]
ODD_FILES += [("svn", "db/current", kind) for kind in [*ODD][2:]]
ODD_FILES += [("git", "config", kind) for kind in [*ODD][2:]]


@pytest.fixture(scope="module")
def templates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("templates")
    fsfs.create(folder / "svn", "f8")
    argv = ["svn", "mkdir", "-q", "-m", "", f"{(folder / 'svn').as_uri()}/trunk"]
    subprocess.run(argv, check=True)
    make_work(folder / "git")
    return folder


@pytest.fixture
def svn(tmp_path, templates):
    return shutil.copytree(templates / "svn", tmp_path / "svn")


@pytest.fixture
def work(tmp_path, templates):
    return shutil.copytree(templates / "git", tmp_path / "git")


@pytest.fixture
def victim(tmp_path):
    path = tmp_path / "victim"
    path.write_text("secret")
    path.chmod(0o600)
    return path


def load(path, into):
    """Take all steps of a run with a repository, up to an exact copy of one of Subversion's."""
    definition = sources.detect(str(path))
    source = sources.open_source("it", definition)
    source.check()
    source.identity()
    source.estimate()
    source.odd_paths()
    into.mkdir(exist_ok=True)
    for fmt in ["as-is", "f8"] if definition["source"] == "svn" else ["f8"]:
        load_source(source, fmt, into)


def check_refused(repository, into):
    """Loading the repository fails in one line, and changes nothing next to it."""
    before = listing(repository.parent)
    with limits(20), pytest.raises(UserError) as caught:
        load(repository, into)
    assert "\n" not in str(caught.value)
    assert not into.exists() or not any(into.iterdir()), "nothing was copied"
    assert listing(repository.parent) == before


@pytest.mark.parametrize(("repo", "name", "kind"), ODD_FILES)
def test_repository_with_an_odd_file_is_refused(tmp_path, templates, victim, repo, name, kind):
    repository = shutil.copytree(templates / repo, tmp_path / repo)
    path = (repository / ".git" if repo == "git" else repository) / name
    path.parent.mkdir(exist_ok=True, parents=True)
    path.unlink(missing_ok=True)
    ODD[kind](path, victim)
    check_refused(repository, tmp_path.with_name("into"))


@pytest.mark.parametrize(("repo", "name"), [(r, name) for r in FOLDERS for name in FOLDERS[r]])
@pytest.mark.parametrize("place", ["inside", "outside"])
def test_repository_with_a_link_to_a_folder_is_refused(tmp_path, templates, repo, name, place):
    repository = shutil.copytree(templates / repo, tmp_path / repo)
    folder = repository / ".git" if repo == "git" else repository
    path, away = folder / name, (folder if place == "inside" else tmp_path) / "away"
    if path.exists():
        path.rename(away)
    else:
        away.mkdir()
    path.symlink_to(away)
    check_refused(repository, tmp_path.with_name("into"))


@pytest.mark.parametrize("name", ["db/locks", "db/node-origins"])
def test_hotcopy_of_a_link_that_was_made_since_changes_no_mode(svn, victim, tmp_path, name):
    (svn / name).mkdir(exist_ok=True)
    (svn / name / "link").symlink_to(victim)
    into = tmp_path / "into"
    into.mkdir()
    with pytest.raises(UserError):
        hotcopy(svn, into)
    assert stat.S_IMODE(victim.stat().st_mode) == 0o600


def test_svn_repository_with_links_in_folders_of_the_site_is_read(
    svn, victim, tmp_path, tmp_path_factory
):
    for name in ("hooks", "conf", "dav"):
        (svn / name).mkdir(exist_ok=True)
        (svn / name / "link").symlink_to(victim)
    before = listing(tmp_path)
    into = tmp_path_factory.mktemp("into")
    load(svn, into)
    assert not [path for path in into.rglob("*") if path.is_symlink()]
    assert listing(tmp_path) == before


@pytest.mark.parametrize("history", ["first-parent", "as-is"])
def test_git_repository_with_a_huge_list_of_refs_is_refused(work, history):
    packed_refs = work / ".git/packed-refs"
    packed_refs.touch()
    os.truncate(packed_refs, 1 << 40)
    definition = {**sources.detect(str(work)), "history": history}
    with limits(10), pytest.raises(UserError, match="packed-refs"):
        sources.open_source("it", definition).check()


# git does not read the first ones, and gives up at once on all others.
@pytest.mark.parametrize(
    "name",
    ["index", "info/grafts", "info/exclude", "logs/HEAD", "config.worktree"]
    + [f"objects/{name}" for name in ("info/commit-graph", "pack/multi-pack-index", "pack/x.idx")],
)
def test_git_repository_with_another_huge_file_is_read(work, name):
    expected = git_source(work).identity()
    path = work / ".git" / name
    path.parent.mkdir(exist_ok=True)
    path.touch()
    os.truncate(path, 1 << 40)
    with limits(20):
        source = git_source(work)
        assert source.identity() == expected
        assert source.estimate().revisions == 2


@pytest.mark.parametrize("below", ["", "/trunk"])
def test_svn_repository_at_a_local_url_with_a_pipe_is_refused(svn, below):
    (svn / "db/current").unlink()
    os.mkfifo(svn / "db/current")
    source = sources.open_source("it", {"source": "svn", "url": svn.as_uri() + below})
    with limits(10), pytest.raises(UserError, match="db/current"):
        source.write(io.BytesIO())


@pytest.mark.parametrize("content", ["/proc/kmsg", "/dev/zero", "pipe"])
@pytest.mark.parametrize("name", [".git", "linked/.git", ".git/worktrees/linked/HEAD"])
def test_git_work_tree_with_an_odd_file_is_refused(work, tmp_path, name, content):
    git(work, "worktree", "add", "-q", "linked")
    place = work / "linked" if "linked" in name else work
    shutil.rmtree(work / name) if name == ".git" else (work / name).unlink()
    os.mkfifo(work / name) if content == "pipe" else (work / name).symlink_to(content)
    with limits(10), pytest.raises(UserError):
        load(place, tmp_path / "into")


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("HEAD", "refs/heads/main"),  # a symbolic ref of an old git
        ("refs/remotes/origin/HEAD", "refs/remotes/origin/gone"),
        ("refs/heads/alias", "main"),  # a second name of a branch
    ],
)
def test_git_repository_with_a_link_to_its_own_ref_is_read(work, tmp_path, name, target):
    expected = git_source(work).identity()
    path = work / ".git" / name
    path.parent.mkdir(exist_ok=True, parents=True)
    path.unlink(missing_ok=True)
    path.symlink_to(target)
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


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'"/a"\n/b\n', [b"/a", b"/b"]),
        (b'#"/a"\n\n"\\"\\\\\\t\\303\\251"\n', [b'"\\\t\xc3\xa9']),
        (b'"/a\n/b', [b'"/a', b"/b"]),
        (b'"\\x"\n', [b'"\\x"']),
        (b'"/a"x/b\n', [b"/a", b"/b"]),
        (b'"a\nb"\n', [b"a\nb"]),
        (b"/a\0/b\n", [b"/a"]),
        (b'""\n', []),
    ],
)
def test_alternates_are_read_as_git_reads_them(work, content, expected):
    assert parse_alternates(content) == expected
    # git names each folder that does not exist, so its own reading is seen.
    (work / ".git/objects/info/alternates").write_bytes(content)
    done = subprocess.run(["git", "-C", work, "count-objects", "-v"], capture_output=True)
    assert done.stderr.count(b"error: ") == len(expected)
    assert all(name in done.stderr for name in expected)


def test_git_quoted_lender_is_read_and_its_pipe_is_refused(work, tmp_path):
    git(tmp_path, "clone", "-q", "--shared", str(work), "borrower")
    identity = git_source(work).identity()
    lender = tmp_path / "a\nb"
    work.rename(lender)
    quoted = f'"{tmp_path}/a\\nb/.git/objects"\n'
    (tmp_path / "borrower/.git/objects/info/alternates").write_text(quoted)
    assert git_source(tmp_path / "borrower").identity() == identity
    os.mkfifo(lender / ".git/objects/new.idx")
    with limits(10):
        assert "new.idx" in refusal(tmp_path / "borrower")


@pytest.mark.parametrize("path", ["/proc/kmsg", "/proc/self/pagemap", "/dev/zero"])
def test_file_without_end_as_a_repository_is_refused(tmp_path, path):
    (tmp_path / "link").symlink_to(path)
    for place in (path, tmp_path / "link"):
        with limits(10), pytest.raises(UserError):
            sources.detect(str(place))
        with limits(10), pytest.raises(UserError):
            sources.open_source("it", {"source": "dump", "path": str(place)}).check()
