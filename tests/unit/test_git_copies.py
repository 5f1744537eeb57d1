"""A user's git repository is loaded as it is, or refused with one sentence. It is neither changed nor run."""

import os
import re
import shutil

import pytest

from git_canaries import HOOKS, canary, set_program_everywhere
from git_histories import (
    FILE,
    MERGED,
    Commit,
    Graph,
    git,
    git_source,
    listing,
    make_git,
    resolve,
    run,
    write_blob,
)
from project import needs
from vcsbench.errors import UserError
from vcsbench.prepare import git_preparation
from vcsbench.prepare.git_preparation import digest_objects, make_state
from vcsbench.prepare.loader import load_source, repository_bytes
from vcsbench.sources import git_copy_source
from vcsbench.sources.git_copy_source import LOOSE_REFS_NOTE
from vcsbench.subjects.git_subjects import find_branch
from vcsbench.systems import GIT
from vcsbench.systems.git_program import git_version
from vcsbench.systems.git_shape import read_git_shape
from vcsbench.systems.git_store import GitState, why_no_state

pytestmark = needs("git")

REFTABLE = GitState("one-pack", "as-is", "reftable")
NO_REFTABLE = why_no_state(REFTABLE, git_version())


def as_is(path):
    return git_source(path, history="as-is")


def plan_and_load(path, into):
    source = as_is(path)
    source.check()
    source.estimate()
    return source, load_source(source, "git", into)


def load(path, into):
    """Load a repository, which must not change by that. Return its copy and the notes."""
    into.mkdir(exist_ok=True)
    before = listing(path)
    source, facts = plan_and_load(path, into)
    source.check_unchanged(source.identity())
    assert listing(path) == before
    copy = into / "git.as-is"
    assert GIT.store.mismatch(copy, "git", "as-is", facts["revisions"]) == ""
    git(copy, "fsck", "--full")
    return copy, facts["notes"]


def refused(path, into):
    """Return the error of a repository that is not loaded, one sentence or two, and not changed."""
    into.mkdir(exist_ok=True)
    before = listing(path)
    with pytest.raises(UserError, match=r"^[^\n]*$") as caught:
        plan_and_load(path, into)
    assert listing(path) == before
    return str(caught.value)


def refs(path):
    return git(path, "for-each-ref", "--format=%(objectname) %(refname) %(symref)")


@pytest.fixture
def into(tmp_path):
    return tmp_path / "into"


@pytest.fixture
def merged(tmp_path):
    """A bare repository with branches, tags and loose objects."""
    return make_git(tmp_path / "mine.git", MERGED, "--template=")


def test_repository_is_loaded_with_its_refs_packs_and_indices(merged, into):
    git(merged, "gc", "-q")
    git(merged, "commit-graph", "write", "--reachable", "--changed-paths")
    write_blob(merged, b"loose")
    git(merged, "update-ref", "refs/notes/loose", "refs/heads/main")
    copy, notes = load(merged, into)
    assert notes == [f"{LOOSE_REFS_NOTE}: 1."]
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


def test_estimated_size_is_that_of_the_objects(merged):
    estimate = as_is(merged).estimate()
    sizes = [path.stat().st_size for path in (merged / "objects").rglob("*") if path.is_file()]
    assert (estimate.revisions, repository_bytes(estimate)) == (7, sum(sizes))


def test_nothing_of_a_repository_runs_or_is_copied(work, tmp_path, into):
    program = canary(tmp_path)
    set_program_everywhere(work, program, (*HOOKS, "post-receive", "post-update"))
    (work / ".git/info").mkdir(exist_ok=True)
    (work / ".git/info/attributes").write_text("* filter=canary diff=canary\n")
    copy, notes = load(work, into)
    assert notes == [f"{LOOSE_REFS_NOTE}: 1."]
    make_state(copy, GitState("bitmap"))
    with pytest.raises(UserError, match="too few for many packs"):
        make_state(copy, GitState("many-packs"))
    assert not (tmp_path / "CANARY").exists()
    assert not (copy / "hooks").exists() and not (copy / "info").exists()
    assert str(program) not in (copy / "config").read_text()


# What works


def test_linked_work_tree_is_loaded_with_its_head_and_all_refs(work, tmp_path, into):
    git(work, "worktree", "add", "-q", "-b", "linked", tmp_path / "linked")
    copy, _ = load(tmp_path / "linked", into)
    assert (copy / "HEAD").read_text() == "ref: refs/heads/linked\n"
    assert refs(copy) == refs(work)


def test_borrowed_objects_are_copied_with_a_note(merged, tmp_path, into):
    git(merged, "repack", "-a", "-d", "-q")
    git(merged, "multi-pack-index", "write")
    clone = tmp_path / "clone.git"
    run("git", "clone", "-q", "--bare", "--shared", "--template=", merged, clone)
    copy, notes = load(clone, into)
    assert re.fullmatch(r".*\(alternates\).*: 1\.", notes[0])
    assert not (copy / "objects" / "info" / "alternates").exists()
    shape = read_git_shape(copy)
    assert shape.packs == 1 and not shape.has_midx
    assert digest_objects(copy) == digest_objects(clone)


def test_submodules_replacements_and_grafts_are_loaded_with_notes(tmp_path, into):
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
    copy, notes = load(path, into)
    assert notes == ["Replaced objects (refs/replace) left out: 2.", "Grafts left out: 1."]
    assert refs(copy).split() == [names[0].encode(), b"refs/heads/main"]
    assert git(copy, "rev-list", "--all").decode().split() == names


def test_sha256_is_loaded_and_brought_into_states(tmp_path, into):
    path = make_git(tmp_path / "mine.git", MERGED, "--object-format=sha256")
    copy, _ = load(path, into)
    for words in (("bitmap", "20", "loose"), ("many-packs",), ("changed-paths",)):
        made = make_state(copy, GitState(*words)).path
        assert git(made, "rev-parse", "--show-object-format") == b"sha256\n"


def test_detached_head_and_symbolic_refs_are_loaded(merged, into):
    commit = git(merged, "rev-parse", "refs/heads/stable").decode().strip()
    (merged / "HEAD").write_text(f"{commit}\n")
    (merged / "refs" / "remotes" / "origin").mkdir(parents=True)
    (merged / "refs" / "remotes" / "origin" / "HEAD").write_text("ref: refs/remotes/origin/gone\n")
    git(merged, "symbolic-ref", "refs/heads/alias", "refs/heads/main")
    copy, notes = load(merged, into)
    dangling = "Symbolic refs without their branch left out: 1."
    assert notes == [dangling, f"{LOOSE_REFS_NOTE}: 5."]
    assert refs(copy) == refs(merged) and (copy / "HEAD").read_text() == f"{commit}\n"
    made = make_state(copy, GitState("one-pack")).path
    assert refs(made) == refs(merged)


def test_made_state_of_a_branch_in_latin_1_has_its_head_and_symbolic_refs(merged, into):
    branch = os.fsdecode(b"refs/heads/\xe9")
    git(merged, "update-ref", branch, "refs/heads/main")
    git(merged, "symbolic-ref", "HEAD", branch)
    git(merged, "symbolic-ref", "refs/heads/alias", branch)
    copy, _ = load(merged, into)
    made = make_state(copy, GitState("one-pack")).path
    assert refs(made) == refs(merged)
    assert (made / "HEAD").read_bytes() == b"ref: refs/heads/\xe9\n"


def test_added_tags_have_other_names_than_the_tags_of_the_user(merged, into):
    tags = ["refs/tags/build-00001", "refs/tags/build-x-/00003"]
    for tag in tags:
        git(merged, "update-ref", tag, "refs/heads/stable")
    copy, _ = load(merged, into)
    made = make_state(copy, GitState("one-pack", "20")).path
    names = git(made, "for-each-ref", "--format=%(refname)").decode().split()
    assert len(names) == 20 and {*tags} < {*names}
    assert {resolve(made, tag) for tag in tags} == {resolve(merged, "refs/heads/stable")}


def test_many_packs_are_pushed_with_each_head_named_once(tmp_path, into, monkeypatch):
    """The names of all heads of a large repository are too long for a command line."""
    monkeypatch.setattr(git_preparation, "PUSHES", 5)
    commits = [Commit({b"a": (FILE, b"%d" % number)}, parents=()) for number in range(20)]
    branches = {f"b{number}": number for number in range(1, 20)}
    path = make_git(tmp_path / "mine.git", Graph(commits, {"main": 0, **branches}))
    copy, _ = load(path, into)
    pushes = []
    push = git_preparation._push

    def record(loaded, target, refspecs):
        pushes.append(refspecs)
        push(loaded, target, refspecs)

    monkeypatch.setattr(git_preparation, "_push", record)
    made = make_state(copy, GitState("many-packs")).path
    assert [len(refspecs) for refspecs in pushes[:-1]] == [4] * 5
    assert len({refspec for refspecs in pushes[:-1] for refspec in refspecs}) == 20
    assert read_git_shape(made).packs == 5
    assert digest_objects(made) == digest_objects(path)


@pytest.mark.skipif(bool(NO_REFTABLE), reason=NO_REFTABLE)
def test_detached_head_is_brought_into_a_reftable(merged, into):
    commit = resolve(merged, "refs/heads/stable")
    (merged / "HEAD").write_text(f"{commit}\n")
    copy, _ = load(merged, into)
    made = make_state(copy, REFTABLE).path
    assert refs(made) == refs(merged) and resolve(made, "HEAD") == commit
    facts = GIT.store.facts(made)
    assert (facts["refs_count"], facts["head_ref"]) == (5, commit)


def test_packs_of_any_name_are_loaded_without_unfinished_ones(merged, into):
    git(merged, "repack", "-a", "-d", "-q")
    names = set()
    for file in [*(merged / "objects" / "pack").iterdir()]:
        # As `git maintenance run --task=loose-objects` names them.
        pack = file.rename(file.with_name(file.name.replace("pack-", "loose-")))
        names.add(pack.name)
        for unfinished in ("tmp_pack_1", ".tmp-7-pack-1"):
            shutil.copy(pack, pack.with_name(f"{unfinished}{pack.suffix}"))
    copy, _ = load(merged, into)
    assert {file.name for file in (copy / "objects" / "pack").iterdir()} == names
    assert digest_objects(copy) == digest_objects(merged)


def test_symbolic_head_as_long_as_the_name_of_an_object_is_no_loose_ref(merged, into):
    branch = "refs/remotes/origin/fifteen-letters"
    git(merged, "update-ref", branch, "refs/heads/main")
    git(merged, "symbolic-ref", "refs/remotes/origin/HEAD", branch)
    git(merged, "pack-refs", "--all")
    assert (merged / "refs/remotes/origin/HEAD").stat().st_size == 41
    copy, notes = load(merged, into)
    shape = read_git_shape(copy)
    assert (notes, shape.loose_refs, shape.packed_refs) == ([], 0, 6)
    assert refs(make_state(copy, GitState("one-pack")).path) == refs(merged)


def test_read_refs_while_git_packs_them_loses_none(merged, monkeypatch):
    read_ref = git_copy_source.read_ref

    def pack_and_read(path):
        git(merged, "pack-refs", "--all")
        return read_ref(path)

    monkeypatch.setattr(git_copy_source, "read_ref", pack_and_read)
    stored = git_copy_source._read_refs(merged)
    names = {line.split()[1] for line in stored.packed.splitlines() if line[:1] not in b"#^"}
    assert names == {*git(merged, "for-each-ref", "--format=%(refname)").split()}
    assert stored.loose == {}


# What is refused


def test_shallow_clone_is_refused_with_remedy(merged, tmp_path, into):
    clone = tmp_path / "clone.git"
    run("git", "clone", "-q", "--bare", "--depth=1", f"file://{merged}", clone)
    assert "fetch --unshallow" in refused(clone, into)


def test_partial_clone_is_refused_also_without_its_configuration(merged, tmp_path, into):
    git(merged, "config", "uploadpack.allowFilter", "true")
    clone = tmp_path / "clone.git"
    run("git", "clone", "-q", "--bare", "--filter=blob:none", f"file://{merged}", clone)
    assert "--filter" in refused(clone, into)
    (clone / "config").write_text("[core]\n\tbare = true\n")
    assert "partial clone" in refused(clone, into)


def test_refs_that_form_a_loop_are_refused(merged, into):
    (merged / "refs" / "heads" / "a").write_text("ref: refs/heads/b\n")
    (merged / "refs" / "heads" / "b").write_text("ref: refs/heads/a\n")
    assert re.search("damaged: .*refs/heads/[ab]", refused(merged, into))
    (merged / "HEAD").write_text("ref: refs/heads/a\n")
    assert "no commit on its current branch, refs/heads/a" in refused(merged, into)


@pytest.mark.parametrize("steps", [4, 5])
def test_symbolic_refs_in_a_row_are_refused_where_git_gives_up(merged, into, steps):
    for number in range(steps):
        target = f"row{number + 1}" if number + 1 < steps else "main"
        (merged / f"refs/heads/row{number}").write_text(f"ref: refs/heads/{target}\n")
    names = git(merged, "for-each-ref", "--format=%(refname)").decode().split()
    assert ("refs/heads/row0" in names) is (steps == 4)
    if steps == 4:
        load(merged, into)
    else:
        assert re.search("damaged: .*refs/heads/row0", refused(merged, into))


@pytest.mark.parametrize("part", ["pack", "idx", "loose"])
def test_corrupt_repository_is_refused(merged, into, part):
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
    assert str(merged) in refused(merged, into)


def test_repository_without_head_or_commit_is_refused(merged, tmp_path, into):
    (merged / "HEAD").unlink()
    assert "HEAD" in refused(merged, into)
    assert "no commit" in refused(make_git(tmp_path / "empty.git", []), into)


def test_repository_without_a_local_branch_is_refused_with_remedy(merged, tmp_path, into):
    clone = tmp_path / "clone"
    run("git", "clone", "-q", "--branch=v1", "--template=", merged, clone)
    error = refused(clone, into)
    assert f"{clone} has no local branch" in error and "`git branch NAME`" in error
    git(clone, "branch", "mine")
    copy, _ = load(clone, into)
    assert find_branch(copy) == "mine"


def test_missing_lender_is_refused(merged, tmp_path, into):
    clone = tmp_path / "clone.git"
    run("git", "clone", "-q", "--bare", "--shared", merged, clone)
    merged.rename(tmp_path / "elsewhere.git")
    assert "--shared" in refused(clone, into)


def test_repository_that_changes_during_the_load_is_refused(merged, tmp_path):
    source = as_is(merged)
    source.identity()
    git(merged, "update-ref", "refs/heads/new", "refs/heads/main")
    with pytest.raises(UserError, match="changed since"):
        load_source(source, "git", tmp_path)


def test_repository_that_changed_while_it_was_copied_is_refused(merged, tmp_path):
    source = as_is(merged)
    identity = source.identity()
    load_source(source, "git", tmp_path)
    source.check_unchanged(identity)
    git(merged, "update-ref", "refs/heads/new", "refs/heads/main")
    with pytest.raises(UserError, match="changed since"):
        source.check_unchanged(identity)


@pytest.mark.parametrize("step", ["_read_refs", "_copy_object"])
def test_gc_during_the_copy_is_named_as_a_change(merged, tmp_path, monkeypatch, step):
    source = as_is(merged)
    source.identity()
    function = getattr(git_copy_source, step)

    def call_and_pack(*arguments):
        result = function(*arguments)
        git(merged, "gc", "-q")
        return result

    monkeypatch.setattr(git_copy_source, step, call_and_pack)
    with pytest.raises(UserError, match=r"changed since this run began\. Run again\."):
        load_source(source, "git", tmp_path)


def test_list_objects_leaves_out_a_file_that_git_has_removed(tmp_path):
    folder = tmp_path / "17"
    folder.mkdir()
    for digit in "01":
        (folder / (digit * 38)).touch()
    listed = git_copy_source._list_objects([tmp_path])
    first = next(listed)
    (folder / ("1" * 38)).unlink()
    assert (first.name, list(listed)) == (f"17/{'0' * 38}", [])


def test_histories_are_for_one_system_each(merged, tmp_path):
    with pytest.raises(UserError, match=r"history`: .* Use `first-parent`"):
        load_source(as_is(merged), "f7", tmp_path)
    with pytest.raises(UserError, match="`history: as-is`"):
        load_source(git_source(merged), "git", tmp_path)
