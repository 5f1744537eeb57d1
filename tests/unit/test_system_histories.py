"""A generated history is the same in all systems: the trees of sampled revisions, and its busiest file."""

from types import SimpleNamespace

import pytest

from git_histories import run
from project import needs
from vcsbench.measure.work import UrlNormaliser, inspect_built_tree
from vcsbench.prepare.preparations import preparation_of
from vcsbench.sources.generated import FileChanges, GeneratedSource
from vcsbench.sources.generated_events import FileChanged, PathDeleted
from vcsbench.subjects.checkouts import FossilCheckout, HgCheckout
from vcsbench.subjects.git_subjects import GitCheckout
from vcsbench.systems import FOSSIL, GIT, MERCURIAL, SUBVERSION, system_of
from vcsbench.systems.fossil import FOSSIL_FILE, newest_checkins, query_database, run_fossil
from vcsbench.systems.git_program import run_git
from vcsbench.systems.mercurial import run_hg

SAMPLES = 10
PATHS = {"f8": "f8.nopack", "git": "git.as-is", "hg": "hg.plain", "fossil": "fossil.plain"}


def test_busiest_file_is_that_with_the_most_changes_and_exists():
    def change(name):
        return FileChanged(b"trunk/" + name, False, b"")

    changes = FileChanges(b"trunk")
    events = [
        *(change(b"a"), change(b"b"), change(b"gone/c"), change(b"gone/c"), change(b"gone/c")),
        *(FileChanged(b"branches/x/a", False, b""), change(b"b"), PathDeleted(b"trunk/gone")),
    ]
    assert list(changes.count(events)) == events
    assert changes.busiest == "b"
    assert FileChanges(b"trunk").busiest == ""


def test_systems_have_their_formats():
    formats = {"f8": SUBVERSION, "as-is": SUBVERSION, "git": GIT, "hg": MERCURIAL, "fossil": FOSSIL}
    assert {fmt: system_of(fmt) for fmt in formats} == formats


class Histories:
    """The repositories, by format. Methods return trunk's revisions, the oldest first, and write one."""

    def __init__(self, folder):
        self.folder = folder
        self.loads = {}
        for fmt in PATHS:
            source = GeneratedSource("h", {"profile": "ruby", "scale": 0.004, "seed": 3}, "here")
            staging = folder / fmt
            staging.mkdir()
            self.loads[fmt] = preparation_of(fmt).load(source, fmt, staging)

    def path(self, fmt):
        return self.folder / fmt / PATHS[fmt]

    def revisions_f8(self):
        lines = run("svn", "log", "-q", f"file://{self.path('f8')}/trunk").decode().splitlines()
        numbers = [line.split()[0][1:] for line in lines if line.startswith("r")]
        # The first one makes the folder, which is no commit in the others.
        return numbers[::-1][1:]

    def write_f8(self, revision, target):
        url = f"file://{self.path('f8')}/trunk@{revision}"
        run("svn", "export", "-q", f"-r{revision}", url, target)

    def revisions_git(self):
        return run_git(self.path("git"), "rev-list", "--reverse", "trunk").decode().split()

    def write_git(self, revision, target):
        target.mkdir()
        git = self.path("git")
        run_git(git, f"--work-tree={target}", "checkout", "-q", "-f", revision, "--", ".")

    def revisions_hg(self):
        options = ("-r", "sort(ancestors(trunk), rev)", "-T", "{node}\n")
        return run_hg("log", "-R", self.path("hg"), *options).split()

    def write_hg(self, revision, target):
        options = ("-R", self.path("hg"), "-r", revision)
        run_hg("archive", *options, target, settings=["ui.archivemeta=no"])

    def revisions_fossil(self):
        file = self.path("fossil") / FOSSIL_FILE
        (newest,) = newest_checkins(file, 1)
        # From child to parent, without the parents of merges.
        query = (
            f"WITH RECURSIVE trunk(rid) AS (SELECT rid FROM blob WHERE uuid = '{newest}' "
            "UNION ALL SELECT pid FROM plink JOIN trunk ON cid = trunk.rid WHERE isprim) "
            "SELECT uuid FROM trunk JOIN blob USING (rid)"
        )
        return query_database(file, query)[::-1]

    def write_fossil(self, revision, target):
        file = self.path("fossil") / FOSSIL_FILE
        run_fossil(self.folder, "open", file, revision, "--workdir", target, "--nested")


@pytest.fixture(scope="module")
def histories(tmp_path_factory):
    return Histories(tmp_path_factory.mktemp("histories"))


pytestmark = [pytest.mark.slow, needs("hg", "fossil", "git", "svn")]


def test_trees_at_sampled_revisions_are_equal_in_all_systems(histories, tmp_path):
    revisions = {fmt: getattr(histories, f"revisions_{fmt}")() for fmt in PATHS}
    (number,) = {len(found) for found in revisions.values()}
    assert number > 5 * SAMPLES
    for sample in range(SAMPLES):
        at = (number - 1) * sample // (SAMPLES - 1)
        works = {}
        for fmt, found in revisions.items():
            target = tmp_path / f"{fmt}-{sample}"
            getattr(histories, f"write_{fmt}")(found[at], target)
            works[fmt] = inspect_built_tree(target, UrlNormaliser())
        assert works["f8"]["files"] > 10
        assert all(work == works["f8"] for work in works.values()), (at, works)


def test_busiest_file_is_the_same_in_all_systems_and_in_their_trees(histories, tmp_path):
    (name,) = {load["busy_file"] for load in histories.loads.values()}
    assert name
    histories.write_git("trunk", tmp_path / "tree")
    assert (tmp_path / "tree" / name).is_file()


CHECKOUTS = {"git": GitCheckout, "hg": HgCheckout, "fossil": FossilCheckout}


def commits_of_trunk(fmt, checkout):
    """Return the number of trunk's commits in the clone of a checkout."""
    if fmt == "git":
        return int(run_git(checkout / ".git", "rev-list", "--count", "trunk"))
    if fmt == "hg":
        return len(run_hg("log", "-R", checkout, "-r", "ancestors(.)", "-T", "{node}\n").split())
    return len(newest_checkins(checkout / FOSSIL_FILE, 1_000_000))


@pytest.mark.parametrize("behind", [50, 80])
def test_checkouts_behind_lack_the_same_commits_of_trunk(histories, tmp_path, behind):
    lacking, works = {}, {}
    for fmt, kind in CHECKOUTS.items():
        numbers = []
        for commits in (0, behind):
            checkout, making = tmp_path / f"{fmt}{commits}", tmp_path / f"{fmt}{commits}.making"
            making.mkdir()
            repository = SimpleNamespace(path=histories.path(fmt))
            kind._make(SimpleNamespace(repository=repository, commits=commits), checkout, making)
            numbers.append(commits_of_trunk(fmt, checkout))
        lacking[fmt] = numbers[0] - numbers[1]
        works[fmt] = inspect_built_tree(checkout, UrlNormaliser())
    # Some of the newest commits are on branches.
    assert behind / 2 < lacking["git"] < behind
    assert set(lacking.values()) == {lacking["git"]}
    assert works["git"] and all(work == works["git"] for work in works.values())


@pytest.mark.parametrize("fmt", PATHS)
def test_loaded_repository_matches_its_label_and_others_do_not(histories, fmt):
    system = system_of(fmt)
    path = histories.path(fmt)
    state = PATHS[fmt].partition(".")[2]
    last = system.store.facts(path)["youngest"]
    assert system.store.mismatch(path, fmt, state, last) == ""
    assert system.store.mismatch(path, fmt, state, last + 1)
    assert system.store.mismatch(histories.folder, fmt, state)
    files = system.store.list_files(path)
    steps = system.store.steps(path)
    assert files and all(steps.file(step).is_file() for step in (0, steps.last))


@pytest.mark.parametrize("system", [MERCURIAL, FOSSIL])
def test_empty_repository_has_no_commits(system, tmp_path):
    path = tmp_path / system.empty_name
    system.store.create_empty(path)
    assert system.store.facts(path) == {"youngest": 0}
    (fmt, state) = system.stored_as({})
    assert system.store.mismatch(path, fmt, state, 0) == ""
