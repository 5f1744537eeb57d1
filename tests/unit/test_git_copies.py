"""A user's git repository is loaded as it is, or refused with one sentence. It is neither changed nor run."""

import re
from pathlib import Path

import pytest

from git_canaries import HOOKS, canary, set_program_everywhere
from git_histories import (
    FILE,
    MERGED,
    Commit,
    git,
    git_source,
    listing,
    make_git,
    make_work,
    run,
    write_blob,
)
from project import needs
from vcsbench.errors import UserError
from vcsbench.prepare.git_preparation import digest_objects, make_state
from vcsbench.prepare.loader import load_source
from vcsbench.systems import GIT
from vcsbench.systems.git_shape import read_git_shape
from vcsbench.systems.git_store import GitState

pytestmark = needs("git")


def as_is(path):
    return git_source(path, history="as-is")


def load(path, into):
    """Load a repository, which must not change by that, and return the notes."""
    into.mkdir(exist_ok=True)
    before = listing(path)
    source = as_is(path)
    source.check()
    source.estimate()
    facts = load_source(source, "git", into)
    source.check_unchanged(source.identity())
    assert listing(path) == before
    assert GIT.store.mismatch(into / "git.as-is", "git", "as-is", facts["revisions"]) == ""
    git(into / "git.as-is", "fsck", "--full")
    return facts["notes"]


def refused(path, into):
    """Return the error of a repository that is not loaded, one sentence or two, and not changed."""
    before = listing(path)
    into.mkdir(exist_ok=True)

    def plan_and_load():
        source = as_is(path)
        source.check()
        source.estimate()
        load_source(source, "git", into)

    with pytest.raises(UserError, match=r"^[^\n]*$") as caught:
        plan_and_load()
    assert listing(path) == before
    return str(caught.value)


def refs(path):
    return git(path, "for-each-ref", "--format=%(objectname) %(refname) %(symref)")


@pytest.fixture
def merged(tmp_path):
    """A bare repository with branches, tags and loose objects."""
    return make_git(tmp_path / "mine.git", MERGED, "--template=")


def test_repository_is_loaded_with_its_refs_packs_and_indices(merged, tmp_path):
    git(merged, "gc", "-q")
    git(merged, "commit-graph", "write", "--reachable", "--changed-paths")
    write_blob(merged, b"loose")
    git(merged, "update-ref", "refs/notes/loose", "refs/heads/main")
    assert load(merged, tmp_path / "into") == []
    copy = tmp_path / "into" / "git.as-is"
    assert refs(copy) == refs(merged) and digest_objects(copy) == digest_objects(merged)
    for name in ("pack", "info"):
        names = {file.name for file in (merged / "objects" / name).iterdir()} - {"packs"}
        assert {file.name for file in (copy / "objects" / name).iterdir()} == names
    shape = read_git_shape(copy)
    assert shape.has_bitmap and shape.has_changed_paths and shape.loose_objects == 1
    assert shape.loose_refs == 1 and shape.packed_refs == 5 and shape.commits == 7
    assert (copy / "HEAD").read_text() == "ref: refs/heads/main\n"
    state = make_state(copy, GitState("one-pack")).path
    assert digest_objects(state) == digest_objects(merged)
    assert not read_git_shape(state).has_bitmap


def test_upkeep_is_a_part_of_the_identity(merged):
    before = as_is(merged).identity()
    assert as_is(merged).identity() == before
    git(merged, "repack", "-a", "-d", "-q")
    repacked = as_is(merged).identity()
    git(merged, "update-ref", "refs/heads/new", "refs/heads/main")
    assert len({before, repacked, as_is(merged).identity()}) == 3


def test_nothing_of_a_repository_runs_or_is_copied(tmp_path):
    work = make_work(tmp_path / "work")
    program = canary(tmp_path)
    set_program_everywhere(work, program, (*HOOKS, "post-receive", "post-update"))
    (work / ".git/info").mkdir(exist_ok=True)
    (work / ".git/info/attributes").write_text("* filter=canary diff=canary\n")
    assert load(work, tmp_path / "into") == []
    make_state(tmp_path / "into" / "git.as-is", GitState("bitmap"))
    with pytest.raises(UserError, match="too few for many packs"):
        make_state(tmp_path / "into" / "git.as-is", GitState("many-packs"))
    assert not (tmp_path / "CANARY").exists()
    copy = tmp_path / "into" / "git.as-is"
    assert not (copy / "hooks").exists() and not (copy / "info").exists()
    assert str(program) not in (copy / "config").read_text()


# What works


def test_linked_work_tree_is_loaded_with_its_head_and_all_refs(tmp_path):
    work = make_work(tmp_path / "work")
    git(work, "worktree", "add", "-q", "-b", "linked", tmp_path / "linked")
    load(tmp_path / "linked", tmp_path / "into")
    copy = tmp_path / "into" / "git.as-is"
    assert (copy / "HEAD").read_text() == "ref: refs/heads/linked\n"
    assert refs(copy) == refs(work)


def test_borrowed_objects_are_copied_with_a_note(merged, tmp_path):
    git(merged, "repack", "-a", "-d", "-q")
    git(merged, "multi-pack-index", "write")
    clone = tmp_path / "clone.git"
    run("git", "clone", "-q", "--bare", "--shared", "--template=", merged, clone)
    notes = load(clone, tmp_path / "into")
    assert re.fullmatch(r".*\(alternates\) and were copied: 1\.", notes[0])
    copy = tmp_path / "into" / "git.as-is"
    assert not (copy / "objects" / "info" / "alternates").exists()
    shape = read_git_shape(copy)
    assert shape.packs == 1 and not shape.has_midx
    assert digest_objects(copy) == digest_objects(clone)


def test_submodules_replacements_and_grafts_are_loaded_with_notes(tmp_path):
    commits = [
        Commit({b"a": (FILE, b"a"), b"sub": ("160000", b"1" * 40)}),
        Commit({b"a": (FILE, b"b")}),
        Commit({b"a": (FILE, b"c")}),
    ]
    path = make_git(tmp_path / "mine.git", commits)
    names = git(path, "rev-list", "refs/heads/main").decode().split()
    git(path, "replace", names[0], names[2])
    git(path, "pack-refs", "--all")
    git(path, "replace", names[1], names[2])
    (path / "info").mkdir(exist_ok=True)
    (path / "info" / "grafts").write_text(f"{names[0]}\n")
    notes = load(path, tmp_path / "into")
    assert notes == ["Replaced objects (refs/replace) left out: 2.", "Grafts left out: 1."]
    copy = tmp_path / "into" / "git.as-is"
    assert refs(copy).split() == [names[0].encode(), b"refs/heads/main"]
    assert git(copy, "rev-list", "--all").decode().split() == names


def test_sha256_is_loaded_and_brought_into_states(tmp_path):
    path = make_git(tmp_path / "mine.git", MERGED, "--object-format=sha256")
    load(path, tmp_path / "into")
    for state in (
        GitState("bitmap", "20", "loose"),
        GitState("many-packs"),
        GitState("changed-paths"),
    ):
        made = make_state(tmp_path / "into" / "git.as-is", state).path
        assert git(made, "rev-parse", "--show-object-format") == b"sha256\n"


def test_detached_head_and_symbolic_refs_are_loaded(merged, tmp_path):
    commit = git(merged, "rev-parse", "refs/heads/stable").decode().strip()
    (merged / "HEAD").write_text(f"{commit}\n")
    (merged / "refs" / "remotes" / "origin").mkdir(parents=True)
    (merged / "refs" / "remotes" / "origin" / "HEAD").write_text("ref: refs/remotes/origin/gone\n")
    git(merged, "symbolic-ref", "refs/heads/alias", "refs/heads/main")
    notes = load(merged, tmp_path / "into")
    assert notes == ["Symbolic refs without their branch left out: 1."]
    copy = tmp_path / "into" / "git.as-is"
    assert refs(copy) == refs(merged) and (copy / "HEAD").read_text() == f"{commit}\n"
    made = make_state(copy, GitState("one-pack")).path
    assert refs(made) == refs(merged)


# What is refused


def test_shallow_clone_is_refused_with_remedy(merged, tmp_path):
    clone = tmp_path / "clone.git"
    run("git", "clone", "-q", "--bare", "--depth=1", f"file://{merged}", clone)
    assert "shallow clone" in (text := refused(clone, tmp_path / "into"))
    assert "git fetch --unshallow" in text


def test_partial_clone_is_refused_also_without_its_configuration(merged, tmp_path):
    git(merged, "config", "uploadpack.allowFilter", "true")
    clone = tmp_path / "clone.git"
    run("git", "clone", "-q", "--bare", "--filter=blob:none", f"file://{merged}", clone)
    assert "without --filter" in refused(clone, tmp_path / "into")
    (clone / "config").write_text("[core]\n\tbare = true\n")
    assert "partial clone" in refused(clone, tmp_path / "into")


def test_refs_that_form_a_loop_are_refused(merged, tmp_path):
    (merged / "refs" / "heads" / "a").write_text("ref: refs/heads/b\n")
    (merged / "refs" / "heads" / "b").write_text("ref: refs/heads/a\n")
    assert re.search(
        "refs that lead to each other .* such as refs/heads/a", refused(merged, tmp_path / "into")
    )
    (merged / "HEAD").write_text("ref: refs/heads/a\n")
    assert re.search("lead to each other .* such as HEAD", refused(merged, tmp_path / "into"))


@pytest.mark.parametrize("steps", [4, 5])
def test_symbolic_refs_in_a_row_are_refused_where_git_gives_up(merged, tmp_path, steps):
    for number in range(steps):
        target = f"row{number + 1}" if number + 1 < steps else "main"
        (merged / f"refs/heads/row{number}").write_text(f"ref: refs/heads/{target}\n")
    names = git(merged, "for-each-ref", "--format=%(refname)").decode().split()
    assert ("refs/heads/row0" in names) is (steps == 4)
    if steps == 4:
        load(merged, tmp_path / "into")
    else:
        assert "in a row of more than 5, such as refs/heads/row0" in refused(
            merged, tmp_path / "into"
        )


@pytest.mark.parametrize("part", ["pack", "idx", "loose"])
def test_corrupt_repository_is_refused(merged, tmp_path, part):
    if part == "loose":
        blob = write_blob(merged, b"A blob that no commit has.")
        file = merged / "objects" / blob[:2] / blob[2:]
    else:
        git(merged, "repack", "-a", "-d", "-q")
        (file,) = (merged / "objects" / "pack").glob(f"*.{part}")
    file.chmod(0o644)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(content)
    assert str(merged) in refused(merged, tmp_path / "into")


def test_repository_without_head_or_commit_is_refused(merged, tmp_path):
    (merged / "HEAD").unlink()
    assert "HEAD" in refused(merged, tmp_path / "into")
    empty = make_git(tmp_path / "empty.git", [])
    assert "no commit" in refused(empty, tmp_path / "into")


def test_missing_lender_is_refused(merged, tmp_path):
    clone = tmp_path / "clone.git"
    run("git", "clone", "-q", "--bare", "--shared", merged, clone)
    merged.rename(tmp_path / "elsewhere.git")
    assert "without --shared" in refused(clone, tmp_path / "into")


def test_repository_that_changes_during_the_load_is_refused(merged, tmp_path):
    source = as_is(merged)
    source.identity()
    git(merged, "update-ref", "refs/heads/new", "refs/heads/main")
    with pytest.raises(UserError, match=r"changed since this run began\. Run again"):
        load_source(source, "git", tmp_path)


def test_histories_are_for_one_system_each(merged, tmp_path):
    with pytest.raises(UserError, match=r"history`: a repository as it is .* Use `whole`"):
        load_source(as_is(merged), "f7", tmp_path)
    with pytest.raises(UserError, match=r"`history: as-is`\) can be loaded into git"):
        load_source(git_source(merged, history="whole"), "git", Path(tmp_path))
