"""Git repositories that cannot be read, and odd ones that can."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pytest

from git_histories import FILE, Commit, convert, exported, git, git_source, make_git
from vcsbench import sources
from vcsbench.errors import UserError
from vcsbench.sources.dump_format import subversion_path
from vcsbench.sources.git_history import Commit as Listed
from vcsbench.sources.git_history import ConversionPlan
from vcsbench.sources.git_repository import Ref, quote

pytestmark = pytest.mark.skipif(
    not (shutil.which("svnadmin") and shutil.which("git")), reason="not installed: svnadmin or git"
)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A work tree with one commit."""
    path = tmp_path / "work"
    path.mkdir()
    git(path, "init", "-q", "-b", "main")
    (path / "x").write_text("x")
    git(path, "add", "x")
    git(path, "commit", "-q", "-m", "one")
    return path


def estimate(path: Path) -> None:
    source = sources.open_source("mine", sources.detect(str(path)))
    source.check()
    source.estimate()


def refusal(path: Path) -> str:
    """Return the one sentence that a plan ends with."""
    with pytest.raises(UserError) as caught:
        estimate(path)
    assert len(str(caught.value).splitlines()) == 1
    assert "neither a Subversion repository" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("[core]\n\trepositoryformatversion = 9\n", "found 9"),
        ("[core]\n\trepositoryformatversion = 1\n[extensions]\n\trefStorage = new\n", "refstorage"),
        ("[core]\n\trepositoryformatversion = 1\n[extensions]\n\tmadeUp = true\n", "madeup"),
        ("[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = md5\n", "md5"),
        ("[core", "bad config line"),
        ('[remote "origin"]\n\tpromisor = true\n', "is a partial clone"),
        (
            "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tpartialClone = origin\n",
            "partial clone",
        ),
    ],
)
def test_detect_git_format_unknown_gives_gits_reason(work: Path, setting: str, reason: str) -> None:
    (work / ".git/config").open("a").write(setting)
    assert reason in refusal(work)


@pytest.mark.parametrize("name", ["HEAD", "HEAD:x"])
def test_estimate_git_object_missing_names_it(work: Path, name: str) -> None:
    identity = git(work, "rev-parse", name).decode().strip()
    (work / ".git/objects" / identity[:2] / identity[2:]).unlink()
    assert identity in refusal(work)


def test_detect_git_lender_gone_names_it(work: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--shared", str(work), "borrower")
    work.rename(tmp_path / "moved")
    assert f"the object folder {work}/.git/objects does not exist" in refusal(tmp_path / "borrower")


def test_detect_git_worktree_whose_main_repository_moved_says_so(
    work: Path, tmp_path: Path
) -> None:
    git(work, "worktree", "add", "-q", "../linked")
    work.rename(tmp_path / "moved")
    assert "git worktree repair" in refusal(tmp_path / "linked")


def test_detect_folder_of_a_git_work_tree_names_its_top(work: Path) -> None:
    (work / "below").mkdir()
    assert refusal(work / "below").endswith(f"lies in the git work tree {work}; give that")


def test_detect_git_empty_or_damaged_head_says_so(work: Path) -> None:
    (work / ".git/HEAD").write_text("")
    assert "HEAD: names neither a branch nor a commit" in refusal(work)
    (work / ".git/HEAD").unlink()
    assert "HEAD: does not exist" in refusal(work)


def test_check_git_branch_of_head_unborn_names_another(work: Path) -> None:
    git(work, "symbolic-ref", "HEAD", "refs/heads/other")
    assert "`git symbolic-ref HEAD refs/heads/main`" in refusal(work)


def test_git_repositories_of_odd_layout_are_read(work: Path, tmp_path: Path) -> None:
    odd = tmp_path / 'a "b"\n#c\\d é'
    shutil.copytree(work, odd)
    git(tmp_path, "clone", "-q", "--shared", str(work), "borrower")
    (tmp_path / "borrower/.git/objects/info/alternates").write_bytes(quote(odd / ".git/objects"))
    git(odd, "tag", "-a", "-m", "inner", "inner")
    git(odd, "tag", "-a", "-m", "outer", "outer", "inner")
    git(odd, "pack-refs", "--all")
    expected = git_source(work).identity()
    assert git_source(odd).identity() == git_source(odd, branch="outer").identity() == expected
    assert git_source(tmp_path / "borrower").identity() == expected
    plain = tmp_path / "-x"
    shutil.copytree(work, plain)
    git(plain, "checkout", "-q", "--detach")
    assert git_source(plain).identity() == expected
    (plain / ".git/HEAD").unlink()
    (plain / ".git/HEAD").symlink_to("refs/heads/main")
    assert git_source(plain).identity() == expected


def test_git_sha256_worktree_and_lender_are_read(tmp_path: Path) -> None:
    commits = [Commit({b"a/.svn/b": (FILE, b"1")}), Commit({b"a/.svn/b": (FILE, b"2")})]
    path = make_git(tmp_path / "git", commits, "--object-format=sha256")
    git(path, "worktree", "add", "-q", "../linked", "main")
    assert git_source(tmp_path / "linked").identity() == git_source(path).identity()
    convert(path, tmp_path / "svn")
    assert exported(tmp_path / "svn", 3).keys() == {b"a", b"a/?\\046svn", b"a/?\\046svn/b"}


def test_git_messages_with_odd_bytes_and_dates_are_loaded(work: Path, tmp_path: Path) -> None:
    tree = git(work, "rev-parse", "HEAD^{tree}").decode().strip()
    parent = git(work, "rev-parse", "HEAD").decode().strip()
    for date in (b"99999999999999999999999", b"-5", b"x", b"18446744073709551615"):
        data = b"tree %s\nparent %s\nauthor A <a> %s +9999\ncommitter C <c> %s +0000\n\na\0b\xef\xbf\xbe" % (
            tree.encode(), parent.encode(), date, date,
        )  # fmt: skip
        words = ("hash-object", "-t", "commit", "--literally", "-w", "--stdin")
        parent = git(work, *words, stdin=data).decode().strip()
    git(work, "update-ref", "refs/heads/main", parent)
    assert convert(work, tmp_path / "svn").revisions == 6
    convert_whole = git_source(work, history="whole")
    assert convert_whole.write(io.BytesIO()).revisions == 6


def test_plan_branches_that_lie_in_another_get_other_names() -> None:
    commits = [Listed(b"c" * 40, b"t" * 40, 1, ())]
    names = (b"main", b"a", b"a/b", b"a~b", b"x/y/z", b"x/y", b"trunk", b"tags")
    plan = ConversionPlan(commits, [Ref(name, b"c" * 40, b"c" * 40) for name in names], [])
    assert [copy.path for copy in plan.copies[0]] == [
        b"branches/a", b"branches/a~b", b"branches/a~b~2", b"branches/x/y/z", b"branches/x~y",
        b"branches/trunk", b"branches/tags",
    ]  # fmt: skip
    assert list(plan.renamed) == [b"a/b", b"a~b", b"x/y"]


def test_git_branches_that_collide_are_loaded_and_noted(work: Path, tmp_path: Path) -> None:
    git(work, "update-ref", "refs/heads/a", "HEAD")
    git(work, "update-ref", "refs/remotes/origin/a/b", "HEAD")
    facts = git_source(work, history="whole").write(io.BytesIO())
    assert [note for note in facts.notes if "(a/b as branches/a~b): 1." in note] == facts.notes


def test_subversion_path_reserved_long_and_odd_names_stay_apart() -> None:
    names = [
        b".svn", b"?\\046svn", b".SVN", b"CVS", b"cvs", b".git", b".GIT", b"..", b".", b"",
        b"x" * 256, b"x" * 257, subversion_path(b"x" * 256), b"\xef\xbf\xbe", b"\xef\xbf\xbf",
        b"\xff" * 52, b"\xfe" * 52,
        b"\n", b"?\\010", b"_darcs", b".hg", b"x" * 255, "é".encode() * 130,
    ]  # fmt: skip
    new = [subversion_path(name) for name in names]
    assert len(set(new)) == len(names)
    assert max(map(len, new)) <= 255
    assert subversion_path(b"a/.svn/b") == b"a/?\\046svn/b"
    assert [subversion_path(name) for name in (b".SVN", b"cvs", b"x" * 255)] == [
        b".SVN",
        b"cvs",
        b"x" * 255,
    ]
