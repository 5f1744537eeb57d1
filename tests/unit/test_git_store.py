"""git repositories in all states of upkeep and refs, by real git: made, labelled, copied, verified."""

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from git_histories import FILE, Commit, Graph, git, make_git, run
from project import needs
from vcsbench import sources
from vcsbench.errors import ChangedError, UserError
from vcsbench.files import write_json
from vcsbench.prepare import git_preparation, verify
from vcsbench.prepare.copies import CopySettings, make_copies
from vcsbench.prepare.git_preparation import digest_objects, make_state
from vcsbench.prepare.loader import load_source
from vcsbench.prepare.preparations import preparation_of
from vcsbench.prepare.repositories import PreparedRepositories
from vcsbench.run import cell_job
from vcsbench.storages.filesystems import mounted_at
from vcsbench.storages.workdir import WorkDir
from vcsbench.subjects.git_subjects import GitRepository
from vcsbench.subjects.repository import REPOSITORIES, Variant, check_copy, copy_path, variant_of
from vcsbench.systems import GIT, SUBVERSION, git_store, system_of
from vcsbench.systems.git_program import git_version
from vcsbench.systems.git_shape import PACKS, read_git_shape
from vcsbench.systems.git_store import (
    UPKEEPS,
    GitState,
    list_packs,
    parse_state,
    set_pack_times,
    why_no_state,
)

pytestmark = needs("git")

SMALL = {"source": "generated", "profile": "ruby", "scale": 0.002, "seed": 1}
COMMITS = 89
# git on the PATH may be too old for the last upkeeps.
MADE = [
    *(
        upkeep
        for upkeep in UPKEEPS
        if upkeep != "as-is" and not why_no_state(GitState(upkeep), git_version())
    ),
    *("one-pack_10-packed", "bitmap_300-loose", "as-is_1-packed", "one-pack_as-is-loose"),
]
# The parts that a repository of each upkeep has: bitmap, multi-pack index, its bitmap, commit-graph, filters.
PARTS = {
    "many-packs": "", "one-pack": "", "bitmap": "b", "commit-graph": "g", "changed-paths": "gp",
    "all-indices": "bgp", "midx-bitmap": "mx", "midx-reuse": "mxr", "geometric": "",
}  # fmt: skip


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """A folder with the loaded repository, and one in each state."""
    into = tmp_path_factory.mktemp("loaded")
    facts = load_source(sources.open_source("ruby", SMALL), "git", into)
    assert facts["revisions"] == COMMITS and facts["packing"] == "as-is"
    preparation_of("git").make_states(into / "git.as-is", sorted(MADE))
    return into


@pytest.mark.parametrize("name", MADE)
def test_made_state_has_the_shape_of_its_label(loaded, name):
    state, shape = parse_state(name), read_git_shape(loaded / f"git.{name}")
    # Commits of a branch that is left out do not count.
    assert shape.commits == COMMITS or (name == "as-is_1-packed" and shape.commits < COMMITS)
    assert shape.loose_objects == 0
    parts = [
        *("b" * shape.has_bitmap, "m" * shape.has_midx, "x" * shape.has_midx_bitmap),
        *("r" * shape.reuses_packs, "g" * shape.has_graph, "p" * shape.has_changed_paths),
    ]
    assert "".join(parts) == PARTS.get(state.upkeep, "")
    expected = {
        **dict.fromkeys(["many-packs", "midx-bitmap", "midx-reuse"], (30, 51)),
        "geometric": (1, 8),
    }
    least, most = expected.get(state.upkeep, (1, 1))
    assert least <= shape.packs <= most
    number = {"as-is": read_git_shape(loaded / "git.as-is").refs}.get(state.refs) or int(state.refs)
    loose = state.ref_storage == "loose"
    assert (shape.loose_refs, shape.packed_refs) == ((number, 0) if loose else (0, number))
    refs = git(loaded / f"git.{name}", "for-each-ref", "--format=%(refname)").decode().split()
    assert len(refs) == number and "refs/heads/trunk" in refs
    assert git(loaded / f"git.{name}", "rev-parse", "HEAD") == git(
        loaded / "git.as-is", "rev-parse", "refs/heads/trunk"
    )


def test_label_fits_repositories_of_its_own_state_only(loaded):
    for name in MADE:
        fitting = [n for n in MADE if not GIT.store.mismatch(loaded / f"git.{n}", "git", name)]
        label = parse_state(name)
        for other in fitting:
            state = parse_state(other)
            # The loaded repository has one pack, and a geometric one may have several packs, too.
            same_upkeep = {label.upkeep, state.upkeep} <= {"geometric", "many-packs"}
            if label.upkeep == "geometric":
                same_upkeep |= state.upkeep in ("one-pack", "as-is")
            is_as_is = label.upkeep == "as-is"
            assert same_upkeep or is_as_is or label.upkeep in (state.upkeep, "one-pack"), other
            assert label.ref_storage == state.ref_storage
            assert label.refs in ("as-is", state.refs)
        assert name in fitting


CHANGES = {
    "one-pack": (["repack", "-a", "-d", "-b", "-q"], "it has a bitmap"),
    "bitmap": (["repack", "-a", "-d", "-q", "--no-write-bitmap-index"], "it has no bitmap"),
    "commit-graph": (
        ["commit-graph", "write", "--changed-paths", "--reachable"],
        "it has a filter",
    ),
    "changed-paths": (["repack", "-a", "-d", "-b", "-q"], "it has a bitmap"),
    "all-indices": (["repack", "-a", "-d", "-q", "--no-write-bitmap-index"], "it has no bitmap"),
    "many-packs": (["gc", "-q"], "it has 1 pack, and not many"),
    "geometric": (["multi-pack-index", "write"], "it has a multi-pack index"),
    "midx-bitmap": (["config", "pack.allowPackReuse", "multi"], "it has a setting to reuse"),
    "one-pack_10-packed": (["update-ref", "refs/tags/new", "HEAD"], "1 of its refs are files"),
    "bitmap_300-loose": (["pack-refs", "--all"], "300 of its refs are packed"),
    "one-pack_as-is-loose": (["hash-object", "-w", "--stdin"], "it has 1 loose objects"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_mismatch_names_what_git_has_changed(loaded, tmp_path, name):
    command, expected = CHANGES[name]
    copy = shutil.copytree(loaded / f"git.{name}", tmp_path / "copy")
    assert GIT.store.mismatch(copy, "git", name, COMMITS) == ""
    assert "commits, not 1" in GIT.store.mismatch(copy, "git", name, 1)
    git(copy, *command, stdin=b"new")
    assert GIT.store.mismatch(copy, "git", name).startswith(expected)


def test_mismatch_of_no_repository_is_a_clause(tmp_path):
    assert "cannot be read as a git" in GIT.store.mismatch(tmp_path, "git", "one-pack")


def test_states_have_equal_objects_and_are_made_equal_again(loaded, tmp_path):
    digests = {digest_objects(loaded / f"git.{n}") for n in MADE if parse_state(n).refs == "as-is"}
    assert len(digests) == 1
    shutil.copytree(loaded / "git.as-is", tmp_path / "git.as-is")
    for name in ("bitmap", "many-packs"):
        again = make_state(tmp_path / "git.as-is", parse_state(name)).path
        made_again, made_before = (
            {file.name: file.read_bytes() for file in (path / PACKS).iterdir()}
            for path in (again, loaded / f"git.{name}")
        )
        assert made_again == made_before


def test_made_repositories_have_no_hook_and_a_quiet_configuration(loaded):
    path = loaded / "git.bitmap"
    expected = {"HEAD", "config", "objects", "packed-refs", "refs", "vcsbench-commits"}
    assert {file.name for file in path.iterdir()} <= expected
    settings = git(path, "config", "--file", "config", "--list").decode().split()
    assert {"gc.auto=0", "maintenance.auto=false", "uploadpack.allowfilter=true"} <= {*settings}
    assert not [line for line in settings if line.startswith("pack.")]


@pytest.fixture
def into(loaded, tmp_path):
    for name in ("as-is", "one-pack", "many-packs"):
        shutil.copytree(loaded / f"git.{name}", tmp_path / "ruby" / "git" / f"git.{name}")
    return tmp_path / "ruby" / "git"


def test_verify_finds_a_flipped_bit_and_other_refs(into):
    # A killed job leaves such a folder.
    (into / "git.bitmap.new").mkdir()
    verify.verify_all(into)
    git(into / "git.one-pack", "update-ref", "refs/heads/trunk", "HEAD~1")
    with pytest.raises(verify.DamagedError, match="other objects or refs") as raised:
        verify.verify_all(into)
    assert raised.value.staging == into
    (pack,) = (into / "git.as-is" / "objects" / "pack").glob("*.pack")
    pack.chmod(0o644)
    content = bytearray(pack.read_bytes())
    content[len(content) // 2] ^= 1
    pack.write_bytes(content)
    with pytest.raises(verify.DamagedError, match="git fsck failed"):
        verify.verify_all(into)


def names_by_time(path):
    return [pack.name for pack in list_packs(path)]


def test_finish_copy_of_packs_with_one_time_has_the_order_of_the_source(loaded, tmp_path):
    source = shutil.copytree(loaded / "git.many-packs", tmp_path / "source")
    # The name of a ref may end like that of a pack.
    git(source, "update-ref", "refs/heads/x.pack", "HEAD")
    copy = shutil.copytree(source, tmp_path / "copy")
    for file in (copy / PACKS).iterdir():
        os.utime(file, (1_700_000_000, 1_700_000_000))
    GIT.store.finish_copy(copy, GIT.store.list_files(source))
    assert names_by_time(copy) == names_by_time(source)
    assert len({int(pack.stat().st_mtime) for pack in list_packs(copy)}) == len(list_packs(copy))


def test_copies_of_git_are_equal_checked_and_served_readable(into):
    workdir = WorkDir(into.parents[1], into)
    variants = [Variant("ruby", "git", name, "i1") for name in ("one-pack", "many-packs")]
    record = {"identity": "i1", "path": str(into), "tree": "", "folder": "", "notes": []}
    settings = CopySettings(2, 0, seed=1, mounted=mounted_at(workdir.path))
    facts = make_copies(workdir, variants, {("ruby", "git"): record}, settings)
    assert facts["ruby.git.many-packs"]["upkeep"] == "many-packs"
    assert facts["ruby.git.one-pack"].items() >= {
        "system": "git", "youngest": COMMITS, "packs": 1, "head_ref": "refs/heads/trunk", "repo": "ruby",
        "refs": "as-is", "ref_storage": "packed", "identity": "i1",
    }.items()  # fmt: skip
    for variant in variants:
        copy = copy_path(workdir.path, variant.name, 2)
        check_copy(workdir.path, variant, 2)
        git(copy, "fsck", "--full")
        assert not [p for p in copy.rglob("*") if not p.stat().st_mode & 0o004]
        # The youngest pack is still the youngest one.
        assert names_by_time(copy) == names_by_time(into / f"git.{variant.state}")
        # git compares whole seconds.
        packs = list_packs(copy)
        assert len({int(pack.stat().st_mtime) for pack in packs}) == len(packs)
    empty = workdir.path / REPOSITORIES / GIT.empty_name
    assert git(empty, "rev-list", "--count", "--all") == b"1\n"
    # Without a variant of Subversion, its empty repository is not needed.
    assert not (workdir.path / REPOSITORIES / SUBVERSION.empty_name).exists()
    git(copy_path(workdir.path, variants[0].name, 1), "update-ref", "refs/heads/new", "HEAD")
    with pytest.raises(UserError, match="1 of its refs are files"):
        check_copy(workdir.path, variants[0], 1)
    git(copy_path(workdir.path, variants[1].name, 1), "config", "pack.threads", "1")
    with pytest.raises(UserError, match="something changed in its folder"):
        check_copy(workdir.path, variants[1], 1)


@pytest.mark.parametrize(
    ("upkeep", "difference"),
    [("many-packs", "it has 1 pack, and not many"), ("one-pack", "it has a bitmap")],
)
def test_round_fails_if_git_repacks_a_copy_in_the_background(
    into, tmp_path, monkeypatch, upkeep, difference
):
    workdir = WorkDir(into.parents[1], into)
    source = {"identity": "i1", "path": str(into), "tree": "", "folder": "", "notes": []}
    settings = CopySettings(1, 0, seed=1, mounted=[])
    make_copies(
        workdir, [Variant("ruby", "git", upkeep, "i1")], {("ruby", "git"): source}, settings
    )
    record = {"storage": "disk", "place": str(workdir.path), "copies": 1, "layout": {}}
    (tmp_path / "results/repositories").mkdir(parents=True)
    write_json(tmp_path / "results/repositories/disk.json", record)
    repository = {"name": "ruby", "system": "git", "upkeep": upkeep, "identity": "i1"}
    recipe = {"repository": repository, "storage": {"shelf": "disk"}}
    recipe |= {"input": "git_repository", "output": ""}
    subject = GitRepository(recipe, 1, tmp_path, tmp_path)
    subject.check()
    measured_round = SimpleNamespace(cell=SimpleNamespace(subjects=[subject]))
    monkeypatch.setattr(cell_job, "RoundMeasurement", lambda *arguments: measured_round)
    monkeypatch.setattr(cell_job, "_measure_and_judge", lambda measured, lock: "a round")
    assert cell_job._measure_here(tmp_path, recipe, 1, tmp_path, 0) == "a round"

    def measure(measured, lock):
        git(subject.path, "gc", "-q")
        return "a round"

    monkeypatch.setattr(cell_job, "_measure_and_judge", measure)
    with pytest.raises(ChangedError, match=difference):
        cell_job._measure_here(tmp_path, recipe, 1, tmp_path, 0)


@pytest.mark.parametrize("commits", [1, 2, 3])
def test_short_history_is_made_in_each_state(tmp_path, commits):
    source, loaded = tmp_path / "source", tmp_path / "git.as-is"
    history = [Commit({b"a": (FILE, b"%d" % number)}) for number in range(commits)]
    make_git(source, Graph(history, {"trunk": commits - 1}))
    git_store.create_bare(loaded)
    git(loaded, "fetch", "-q", str(source), "+refs/*:refs/*")
    git_store.write_commit_count(loaded)
    for upkeep in [*(name for name in MADE if name in UPKEEPS), "as-is_2-loose"]:
        # A cell with many packs of one commit is skipped (axes.git_axes).
        if commits > 1 or upkeep not in git_store.MANY_PACKS_UPKEEPS:
            path = make_state(loaded, parse_state(upkeep)).path
            assert read_git_shape(path).commits == commits
            assert git(path, "log", "--format=%T", "HEAD") == git(
                source, "log", "--format=%T", "trunk"
            )


def test_reuse_of_several_packs_is_a_setting_of_the_copy(into, monkeypatch):
    """Any git that writes a multi-pack index makes the state. Only a newer one uses the setting."""
    monkeypatch.setattr(git_store, "git_version", lambda programs=None: "2.44.0")
    path = make_state(into / "git.as-is", GitState("midx-reuse")).path
    shape = read_git_shape(path)
    assert shape.reuses_packs and shape.has_midx_bitmap and shape.packs > 1
    assert git(path, "config", "--file", "config", "pack.allowPackReuse") == b"multi\n"
    assert GIT.store.mismatch(path, "git", "midx-reuse") == ""
    git(path, "config", "pack.allowPackReuse", "single")
    assert "no setting to reuse" in GIT.store.mismatch(path, "git", "midx-reuse")
    assert GIT.store.mismatch(path, "git", "midx-bitmap") == ""


def test_failed_state_leaves_nothing(into, monkeypatch):
    monkeypatch.setattr(git_preparation, "REPACK", ("repack", "--no-such-option"))
    with pytest.raises(UserError, match="git repack failed"):
        make_state(into / "git.as-is", GitState("commit-graph"))
    assert not list(into.glob("*graph*"))


def test_state_that_git_does_not_make_is_refused(into, monkeypatch):
    monkeypatch.setattr(git_preparation, "REPACK", ("repack", "-a", "-d", "-q", "-b"))
    with pytest.raises(UserError, match="another state: it has a bitmap"):
        make_state(into / "git.as-is", GitState("commit-graph"))


@pytest.mark.parametrize(
    ("upkeep", "commands"),
    [
        ("one-pack", ["repack"]),
        ("bitmap", ["repack"]),
        ("commit-graph", ["repack", "commit-graph"]),
        ("all-indices", ["repack", "commit-graph"]),
    ],
)
def test_time_of_upkeep_has_one_repack_and_no_prune(into, monkeypatch, upkeep, commands):
    events = []
    run_git = git_preparation.run_git

    def record(path, *arguments, **options):
        events.append(arguments[0])
        return run_git(path, *arguments, **options)

    def read_clock():
        events.append("clock")
        return 0.0

    monkeypatch.setattr(git_preparation, "run_git", record)
    monkeypatch.setattr(git_preparation, "time", SimpleNamespace(monotonic=read_clock))
    make_state(into / "git.as-is", GitState(upkeep))
    begun, ended = (number for number, event in enumerate(events) if event == "clock")
    assert events[begun + 1 : ended] == commands
    assert "prune" in events[:begun]


def test_state_with_one_pack_has_no_unreachable_object(into):
    loaded = into / "git.as-is"
    git(loaded, "hash-object", "-w", "--stdin", stdin=b"unreachable")
    assert read_git_shape(loaded).loose_objects == 1
    for upkeep in ("one-pack", "bitmap"):
        shape = read_git_shape(make_state(loaded, GitState(upkeep)).path)
        assert (shape.loose_objects, shape.packs) == (0, 1)


def test_reftable_needs_git_2_45(into):
    state = GitState("one-pack", "20000", "reftable")
    assert why_no_state(state, "2.45.1") == "" == why_no_state(state, "3.0")
    assert why_no_state(GitState("one-pack"), "2.20.1") == ""
    assert "2.45 or later, and git is 2.39.5" in why_no_state(state, "2.39.5")
    if why_no_state(state, run("git", "--version").decode().split()[2]):
        with pytest.raises(UserError, match="reftable needs git"):
            make_state(into / "git.as-is", state)
    else:
        made = make_state(into / "git.as-is", state).path
        assert read_git_shape(made).has_reftable
        facts = GIT.store.facts(made)
        assert (facts["refs_count"], facts["head_ref"]) == (20_000, "refs/heads/trunk")


@pytest.mark.parametrize(
    ("upkeep", "last_without", "first"),
    [
        ("changed-paths", "2.26.3", "2.27.0"),
        ("all-indices", "2.26.3", "2.27.0"),
        ("geometric", "2.31.8", "2.32.0"),
        ("midx-bitmap", "2.33.8", "2.34.1"),
        ("midx-reuse", "2.43.7", "2.44.0"),
    ],
)
def test_upkeep_needs_the_first_git_that_makes_it(upkeep, last_without, first):
    for state in (GitState(upkeep), GitState(upkeep, "20000", "loose")):
        assert why_no_state(state, first) == ""
        why = why_no_state(state, last_without)
        assert why.startswith(f"{upkeep} needs git ") and why.endswith(f"git is {last_without}")
    needed = first.rpartition(".")[0]
    assert why_no_state(GitState(upkeep), "") == (
        f"{upkeep} needs git {needed} or later, and git is not installed"
    )


@pytest.mark.parametrize("upkeep", ["as-is", "many-packs", "one-pack", "bitmap", "commit-graph"])
def test_upkeep_of_older_options_has_no_first_git(upkeep):
    assert why_no_state(GitState(upkeep), "2.25.1") == ""


def test_facts_of_a_reftable_are_those_of_git(into):
    path = into / "git.one-pack"
    expected = read_git_shape(path).refs
    # The configuration names no reftable, so any git reads the refs as before.
    (path / "reftable").mkdir()
    facts = GIT.store.facts(path)
    assert (facts["refs_count"], facts["head_ref"]) == (expected, "refs/heads/trunk")
    assert expected > 0


@pytest.mark.parametrize("name", [*UPKEEPS, *MADE, "bitmap_20000-reftable"])
def test_state_has_a_name_that_gives_it_back(name):
    assert parse_state(name).name == name


@pytest.mark.parametrize("name", ["", "two-packs", "one-pack_x-packed", "one-pack_10-heap"])
def test_wrong_state_is_refused(name):
    with pytest.raises(ValueError, match="is no state"):
        parse_state(name)


def test_recipe_decides_on_system_and_variant():
    recipe = {"name": "ruby", "system": "git", "upkeep": "bitmap", "identity": "i1"}
    assert variant_of(recipe) == Variant("ruby", "git", "bitmap", "i1")
    more = {**recipe, "refs": "10", "ref_storage": "loose"}
    assert variant_of(more).name == "ruby.git.bitmap_10-loose"
    assert variant_of(more).system is GIT is system_of("git") and variant_of(more).is_made
    subversion = {"name": "ruby", "format": "f7", "packing": "pack", "identity": "i1"}
    assert variant_of(subversion).system is SUBVERSION is system_of("as-is-to-f8")
    with pytest.raises(UserError, match="has no upkeep"):
        variant_of({"name": "ruby", "system": "git", "identity": "i1"})


def test_prepared_repositories_load_git_once_and_make_its_states(tmp_path):
    states = ("as-is", "bitmap", "one-pack_10-loose")
    variants = [Variant("ruby", "git", state, "i1") for state in states]
    variants.append(Variant("ruby", "f7", "pack", "i1"))
    needed = PreparedRepositories({"disk": variants}, {"disk": str(tmp_path)}, 2, tmp_path, {}, 0)
    assert needed.loads() == [("ruby", "f7"), ("ruby", "git")]
    assert needed.packs() == [("ruby", "f7"), ("ruby", "git")]
    assert needed.made_states("ruby", "git") == ["bitmap", "one-pack_10-loose"]
    assert needed.made_states("ruby", "f7") == ["pack"]
    records = ["results/loaded/ruby/git.json", "results/packed/ruby/git.json"]
    assert needed.sources("disk")[-2:] == records
    # Six copies, two made states, and the loaded repository.
    request = needed.load_request("ruby", "git")
    assert request == {"home": str(tmp_path), "repositories": {str(tmp_path): 9}}


def test_load_request_has_space_for_states_with_many_packs(tmp_path):
    variants = [Variant("ruby", "git", state, "i1") for state in ("as-is", "many-packs")]
    needed = PreparedRepositories({"disk": variants}, {"disk": str(tmp_path)}, 2, tmp_path, {}, 0)
    # The loaded repository, its two copies, and three others of 2.5 times the size: 10.5.
    request = needed.load_request("ruby", "git")
    assert request == {"home": str(tmp_path), "repositories": {str(tmp_path): 11}}


def test_load_of_a_source_without_git_is_refused(tmp_path):
    svn = tmp_path / "svn.dump"
    svn.write_bytes(b"SVN-fs-dump-format-version: 2\n\n")
    source = sources.open_source("it", {"source": "dump", "path": str(svn)})
    with pytest.raises(UserError, match="loaded into git"):
        load_source(source, "git", Path(tmp_path))


@pytest.mark.parametrize("name", ["many-packs", "midx-bitmap", "geometric"])
def test_packs_have_the_order_of_their_pushes_in_whole_seconds(loaded, name):
    times = [int(pack.stat().st_mtime) for pack in list_packs(loaded / f"git.{name}")]
    assert len({*times}) == len(times) > 1


def test_multi_pack_index_does_not_depend_on_the_speed_of_pushes(loaded, tmp_path):
    indices = set()
    for seconds in (0, 1, 3600):
        copy = shutil.copytree(loaded / "git.many-packs", tmp_path / f"{seconds}.git")
        for number, pack in enumerate(list_packs(copy)):
            pushed_ns = (1_700_000_000 + number * seconds) * 10**9 + 1000 * number
            os.utime(pack, ns=(pushed_ns, pushed_ns))
        set_pack_times(list_packs(copy))
        git(copy, "multi-pack-index", "write", "--bitmap")
        indices.add((copy / PACKS / "multi-pack-index").read_bytes())
    assert len(indices) == 1
