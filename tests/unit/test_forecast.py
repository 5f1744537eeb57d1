"""The reports of `plan` and `doctor`: forecasts, detectable differences, capabilities, side effects."""

import math
import os
import subprocess
from types import SimpleNamespace

import pytest

from project import DEFAULT, ROOT, STUDY, needs, open_folder
from unit.study_grid import merge
from vcsbench import isolation, words
from vcsbench.config.validation import read_yaml
from vcsbench.evidence.measurements import read_measurements, write_frame
from vcsbench.files import write_json
from vcsbench.forecast import doctor, durations, plan_report, side_effects
from vcsbench.forecast.doctor import CheckResult, examine_machine, run_checks
from vcsbench.forecast.durations import (
    CELL_ROUND_S,
    FIXED_COST_S,
    LOAD_BYTE_S,
    LOAD_S,
    estimate_load_s,
    forecast_run,
)
from vcsbench.forecast.plan_report import detectable_pct
from vcsbench.history_forms import HistoryForm
from vcsbench.plan.result_state import decision_of
from vcsbench.prepare.repositories import PreparedRepositories, estimate_spacer_bytes
from vcsbench.run.project import Project
from vcsbench.sources.base import SizeEstimate
from vcsbench.statistics.noise import run_scatter
from vcsbench.storages import disks, filesystems
from vcsbench.storages.workdir import LOADED_FOLDER
from vcsbench.subjects.repository import Variant, copy_path

SMALL = {"source": "generated", "profile": "ruby", "scale": 0.0005, "seed": 1}
# A cell without a server and without a step that clears caches.
WARM = {
    "command": "log", "access": "file", "repo": "ruby", "format": "f7", "packing": "nopack",
    "config": "slow", "cache": "hot-os",
}  # fmt: skip
# A cell of deployed-server, without its command.
SERVED = {
    **{"access": "svn", "network": "loopback", "authentication": "none", "access_rules": "0"},
    **{"repo": "ruby", "format": "f8", "packing": "nopack", "path_authz": "on"},
    **{"keep_alive": "on", "http_connections": "4", "bulk_updates": "off"},
    **{"config": "default", "hooks": "none", "cache": "hot-os"},
    **{"readers": "1", "committers": "0", "arrival": "closed"},
}


def open_project(root, **over):
    """Open the default configuration in an empty checkout, with a small repository and other keys."""
    for name in ("config", "envs"):
        (root / name).symlink_to(ROOT / name)
    for name in ("storage", "scratch"):
        (root / name).mkdir()
    keys = {"repositories": {"ruby": SMALL}, "rounds": 4, "scratch": str(root / "scratch")}
    keys |= {"storages": {"disk": str(root / "storage")}}
    return Project(merge(merge(read_yaml(DEFAULT), keys), over), root, [DEFAULT])


def test_other_loads_of_a_session_have_the_space_of_their_copies(tmp_path):
    project = open_project(tmp_path, studies=[STUDY], copies=2)
    (other,) = project.other_loads("ruby", "f6")
    assert (other["repo"], other["format"]) == ("ruby", "f7")
    # Each of 23 revisions has two files.
    assert other["bytes"] >= 23 * 2 * 4096
    # The loaded repository, and two copies. It has no full shard to pack.
    assert other["storages"] == {str(tmp_path / "storage"): 3 * other["bytes"]}
    # Of two loads, the same one is the earlier one for both.
    (first,) = project.other_loads("ruby", "f7")
    assert (first["format"], first["is_earlier"], other["is_earlier"]) == ("f6", True, False)


def plan_lines(project):
    return list(plan_report.describe_plan(project.plan, project.repositories))


def run_doctor(project):
    lines = []
    return examine_machine(project.plan, project.repositories, lines.append), "\n".join(lines)


def test_doctor_with_skipped_cells_names_the_reason(tmp_path):
    is_able, text = run_doctor(open_project(tmp_path, builds={}))
    # A small repository has nothing to pack.
    assert not is_able and "shard of 1000" in text
    assert not list((tmp_path / "storage").iterdir())


def test_doctor_with_all_cells_measurable_succeeds():
    axes = {"command": "log", "access": "file", "packing": "nopack", "config": "slow"}
    with open_folder("/var/tmp") as root:
        grid = {STUDY: {"include": [{**axes, "cache": "hot-os"}]}}
        is_able, text = run_doctor(open_project(root, grid=grid))
        assert not list((root / "storage").iterdir())
    assert is_able and "Clears no caches." in text and "Opens no port." in text


def test_doctor_with_too_little_space_names_the_storage_and_fails(monkeypatch):
    for module in (filesystems, side_effects):
        monkeypatch.setattr(module, "free_bytes", lambda folder: 1000)
    with open_folder("/var/tmp") as root:
        is_able, text = run_doctor(open_project(root, grid={STUDY: {"include": [WARM]}}))
        assert f", and {root}/storage has 1000 bytes free [lower `copies`" in text
    assert not is_able and "(too little)" in text and "All can be measured." not in text


def test_checks_of_warm_cells_need_no_way_to_clear_caches(tmp_path, monkeypatch):
    monkeypatch.setattr("vcsbench.machine.can_drop_caches", lambda: False)
    project = open_project(tmp_path, grid={STUDY: {"include": [WARM]}})
    monkeypatch.setattr(project.environment.machine, "has", lambda program: program != "vmtouch")
    assert not any("caches cannot be cleared" in check.text for check in run_checks(project.plan))


@pytest.mark.parametrize(
    ("virtualized", "kind", "guest"),
    [
        ("", "spinning disk", ""),
        ("yes", "virtual disk", ", a virtual machine"),
        ("KVM", "virtual disk", ", a virtual machine (KVM)"),
    ],
)
def test_checks_name_storage_and_machine_as_a_page(tmp_path, monkeypatch, virtualized, kind, guest):
    facts = {**doctor.host(), "virtualized": virtualized}
    monkeypatch.setattr(doctor, "host", lambda: facts)
    disk = {**disks.describe_storage("disk", tmp_path), "filesystem": "ext4"}
    monkeypatch.setattr(disks, "describe_storage", lambda *_: {**disk, "rotational": True})
    texts = [check.text for check in run_checks(open_project(tmp_path).plan)]
    assert any(f", {kind}, " in text for text in texts if text.startswith("storage disk: "))
    assert any(text.endswith(f"{facts['kernel']}{guest}") for text in texts)


def test_doctor_with_missing_storage_fails(tmp_path):
    project = open_project(tmp_path)
    (tmp_path / "storage").rmdir()
    missing = [check for check in run_checks(project.plan) if check.result is CheckResult.MISSING]
    assert any("`storages.disk`: " in check.text and check.remedy for check in missing)
    is_able, text = run_doctor(project)
    assert not is_able and str(tmp_path / "storage") in text


@pytest.mark.parametrize(
    ("has_vmtouch", "result", "word"),
    [(False, CheckResult.MISSING, "root"), (True, CheckResult.LIMITED, "inodes")],
)
def test_checks_without_drop_caches_depend_on_vmtouch(
    tmp_path, monkeypatch, has_vmtouch, result, word
):
    monkeypatch.setattr("vcsbench.machine.can_drop_caches", lambda: False)
    project = open_project(tmp_path)
    has = lambda program: has_vmtouch or program != "vmtouch"  # noqa: E731
    monkeypatch.setattr(project.environment.machine, "has", has)
    assert any(c.result is result and word in c.text for c in run_checks(project.plan))


@pytest.mark.parametrize(
    ("uid", "configured", "has_vmtouch", "is_named", "is_not_named"),
    [
        (1000, "auto", True, ["run as root"], ["--privileged"]),
        (1000, "auto", False, ["run as root", "install vmtouch"], ["--privileged"]),
        # A container of Docker: its root may not write to /proc/sys.
        (0, "auto", True, ["--privileged"], ["run as root"]),
        (0, "auto", False, ["--privileged", "install vmtouch"], ["run as root"]),
        (0, "drop-caches", True, ["--privileged", "clear_caches: evict"], ["run as root"]),
        (0, "evict", True, [], ["--privileged", "root"]),
        (0, "evict", False, ["install vmtouch"], ["--privileged", "root"]),
    ],
)
def test_checks_without_drop_caches_have_a_remedy_for_the_user(
    tmp_path, monkeypatch, uid, configured, has_vmtouch, is_named, is_not_named
):
    monkeypatch.setattr("vcsbench.machine.can_drop_caches", lambda: False)
    project = open_project(tmp_path, clear_caches=configured)
    has = lambda program: has_vmtouch or program != "vmtouch"  # noqa: E731
    monkeypatch.setattr(project.environment.machine, "has", has)
    monkeypatch.setattr(doctor.os, "geteuid", lambda: uid)
    (check,) = doctor._check_cache_clearing(project.plan)
    assert all(words in check.remedy for words in is_named)
    assert not any(words in check.remedy for words in is_not_named)


@pytest.mark.parametrize(
    ("access", "rights", "where"),
    [
        ("svn", {"unshare_network"}, "only in a network of the session"),
        ("file", set(), "no server"),
        (None, set(), None),
    ],
)
def test_plan_report_names_who_can_read_a_private_repository(
    tmp_path, monkeypatch, access, rights, where
):
    monkeypatch.setattr(isolation, "is_allowed", lambda act: act.__name__ in rights)
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    subprocess.run(["svnadmin", "create", private / "one"], check=True)
    url = f"file://{private}/one/trunk"
    subprocess.run(["svn", "mkdir", "-q", "-m", "", url], check=True)
    over = {} if access is None else {"repository": str(private / "one")}
    cell = {"command": "log", "access": access or "svn", "cache": "hot-os", "packing": "nopack"}
    project = open_project(tmp_path, grid={STUDY: {"include": [cell]}}, studies=[STUDY], **over)
    found = [line for line in plan_lines(project) if " is private: " in line]
    assert bool(found) is bool(where)
    assert all(where in line for line in found)


def test_plan_report_names_repositories_with_sizes_and_studies(tmp_path):
    part = {"command": "log", "access": "svn", "cache": "hot-os", "format": "f7", "config": "slow"}
    small = {**SMALL, "scale": 0.02}
    repositories = {"small": small, "linux": {**small, "studies": ["builds"]}}
    over = {"grid": {STUDY: {"include": [part]}}, "repositories": repositories}
    project = open_project(tmp_path, studies=[STUDY], **over)
    title, *lines = plan_lines(project)
    assert title == "Repositories"
    by_name = dict(line.strip().split(": ", 1) for line in lines[: lines.index("")])
    revisions = project.environment.revisions("small")
    assert by_name["small"].startswith(f"{revisions:,} revisions, ")
    assert by_name["small"].endswith(STUDY)
    assert "linux" in by_name["not measured in these studies"].split(", ")
    assert "linux" not in by_name


def test_plan_report_counts_cells_of_fixed_cost_apart(tmp_path):
    part = {"command": "log", "access": ["svn", "file"], "cache": "hot-os", "packing": "nopack"}
    part |= {"format": "f7", "config": "slow", "repo": "ruby"}
    project = open_project(
        tmp_path, grid={STUDY: {"include": [part]}}, studies=[STUDY], rounds=3, duplicates=0
    )
    lines = plan_lines(project)
    assert f"  {STUDY}: 2 cells in 3 rounds, 0 skipped" in lines
    assert "    2 cells of fixed cost, each measured once" in lines
    assert "  8 cell-rounds to measure" in lines


FOLLOW = "More rounds follow until all comparisons are decided, or 15 min are over"


@pytest.mark.parametrize(
    ("decision", "spent_s", "expected"),
    [
        ({}, 0, f"{FOLLOW}."),
        ({"gives": True, "why": "", "minutes": 15}, 600, f"{FOLLOW}, of which 10 min are spent."),
        ({}, 850, "This is more than `minutes: 15`, of which 14 min are spent. "),
        (
            {"gives": False, "why": "time is up", "minutes": 15},
            850,
            "No more rounds follow: the 15 ",
        ),
        ({"gives": False, "why": "answered", "minutes": 15}, 300, "No more rounds follow: they "),
        # Another limit: the next run decides again.
        ({"gives": False, "why": "time is up", "minutes": 10}, 600, FOLLOW),
    ],
)
def test_plan_report_compares_the_forecast_with_the_time_that_is_left(
    tmp_path, decision, spent_s, expected
):
    file = tmp_path / decision_of("s", 2)
    file.parent.mkdir(parents=True)
    if decision:
        write_json(file, decision)
    plan = SimpleNamespace(
        cells=[],
        batches={"s": SimpleNamespace(next=2)},
        root=tmp_path,
        config=SimpleNamespace(minutes_of=lambda study: 15.0),
    )
    # The report is left to make.
    assert plan_report._describe_limit(plan, 15, spent_s, 60).startswith(expected)


def test_plan_report_with_a_time_limit_and_no_results_has_all_of_it(tmp_path):
    project = open_project(tmp_path, grid={STUDY: {"include": [WARM]}}, rounds=None, minutes=15)
    lines = plan_lines(project)
    assert f"  {FOLLOW}." in lines
    assert "Duration, at least (in part from typical rates)" in lines
    spent = list(plan_report.describe_plan(project.plan, project.repositories, spent_s=300))
    assert f"  {FOLLOW}, of which 5 min are spent." in spent


def test_forecast_of_cells_grows_with_the_repository_from_the_default_one_on(tmp_path):
    measuring_s = []
    for scale in (0.0005, 0.12, 1.0):
        root = tmp_path / str(scale)
        root.mkdir()
        over = {"repositories": {"ruby": {**SMALL, "scale": scale}}, "duplicates": 0}
        project = open_project(root, grid={STUDY: {"include": [WARM]}}, **over)
        forecast = forecast_run(project.plan, project.repositories)
        assert forecast.is_rough
        measuring_s.append(forecast.seconds_by_stage["measuring"])
    small_s, default_s, whole_s = measuring_s
    # Four rounds of a cell, and one of its fixed cost.
    assert small_s == pytest.approx(4 * CELL_ROUND_S + FIXED_COST_S)
    assert default_s == pytest.approx(small_s, rel=0.05)
    assert 3 * default_s < whole_s < 50 * default_s


def test_forecast_of_a_conversion_from_git_has_its_measured_rate():
    # Two conversions at once, of 56,734 revisions and 635 MiB, took 115 revisions per second each.
    size = SizeEstimate(56_734, (635 << 20) - 2 * 56_734 * 4096)
    git = {"kind": "git", "estimate": lambda: size}
    converted_s = estimate_load_s(SimpleNamespace(**git, forms={HistoryForm.DUMP}))
    assert converted_s == pytest.approx(56_734 / 115 / 2, rel=0.1)
    copied_s = estimate_load_s(SimpleNamespace(**git, forms={HistoryForm.GIT_FILES}))
    assert copied_s < converted_s


@pytest.mark.parametrize(("megabytes", "expected_s"), [(22, 6), (140, 17)])
def test_forecast_of_a_cell_of_git_follows_the_bytes_of_its_objects(megabytes, expected_s):
    estimate = SizeEstimate(1000, megabytes * 10**6, has_revision_files=False)
    source = SimpleNamespace(estimate=lambda: estimate)
    draft = {"repository": {"name": "project", "system": "git"}}
    plan = SimpleNamespace(draft=lambda _: draft, env=SimpleNamespace(sources={"project": source}))
    assert durations._guess_cell_round_s(plan, None) == pytest.approx(expected_s, rel=0.1)


def test_forecast_of_a_load_follows_revisions_or_bytes():
    many, large = SizeEstimate(10_000, 1000), SizeEstimate(10, 10**9)
    for size, expected_s in ((many, 10_000 * LOAD_S), (large, 10**9 * LOAD_BYTE_S)):
        source = SimpleNamespace(
            kind="svn", forms={HistoryForm.DUMP}, estimate=lambda size=size: size
        )
        assert estimate_load_s(source) == pytest.approx(expected_s, rel=0.01)


@pytest.mark.parametrize("fragmentation_kib", [0, 64])
def test_space_has_loads_packed_repositories_copies_and_spacers(tmp_path, fragmentation_kib):
    # More revisions than a shard.
    over = {"repositories": {"ruby": {**SMALL, "scale": 0.05}}, "copies": 3, "duplicates": 0}
    part = {**WARM, "packing": ["nopack", "pack"]}
    project = open_project(
        tmp_path, grid={STUDY: {"include": [part]}}, fragmentation_kib=fragmentation_kib, **over
    )
    plan, repositories = project.plan, project.repositories
    needed = side_effects.storage_bytes(plan, repositories, "disk")
    ruby, empty = (side_effects.loaded_bytes(plan, name) for name in ("ruby", "empty"))
    # A load, a packed one, and three copies of both. Fixed cost has three copies of its own.
    revisions = plan.env.revisions("ruby")
    spacers = 3 * sum(
        estimate_spacer_bytes("f7", state, revisions, fragmentation_kib)
        for state in ("nopack", "pack")
    )
    spacers_of_empty = 3 * estimate_spacer_bytes("f7", "nopack", 1, fragmentation_kib)
    assert needed == 8 * ruby + 3 * empty + spacers + spacers_of_empty
    assert any(words.size(needed) in line for line in plan_lines(project))


def test_space_is_less_by_the_copies_and_the_load_that_a_run_replaces(tmp_path):
    project = open_project(tmp_path, grid={STUDY: {"include": [WARM]}}, copies=3)
    plan, repositories = project.plan, project.repositories
    before = side_effects.storage_bytes(plan, repositories, "disk")
    # A copy that is not as it was written, and a load without a record.
    (variant,) = {v for v, _ in repositories.missing("disk") if v.repo == "ruby"}
    workdir = repositories.workdir("disk").path
    loaded = workdir / LOADED_FOLDER / "ruby" / "f7" / "f7.nopack"
    for folder in (copy_path(workdir, variant.name, 2), loaded):
        folder.mkdir(parents=True)
        (folder / "file").write_bytes(os.urandom(1 << 14))
    os.sync()
    less = before - side_effects.storage_bytes(plan, repositories, "disk")
    assert less == pytest.approx(2 << 14, rel=0.3)


@pytest.mark.parametrize(
    ("systems", "unit"),
    [
        (["git"], "commits"),
        (["subversion"], "revisions"),
        (["git", "subversion"], "revisions"),
        (["mercurial", "git"], "commits"),
    ],
)
def test_plan_counts_a_history_in_the_unit_of_its_system(monkeypatch, systems, unit):
    monkeypatch.setattr(plan_report, "loaded_bytes", lambda plan, name: 1000)
    # A cell of each system, which reads the repository `mine`.
    plan = SimpleNamespace(
        env=SimpleNamespace(revisions=lambda name: 30, named_repositories=["mine"]),
        cells=[SimpleNamespace(study=f"of {system}", system=system) for system in systems],
        draft=lambda cell: {"repository": {"name": "mine", "system": cell.system}},
    )
    (line,) = plan_report._describe_repositories(plan)
    assert line.startswith(f"  mine: 30 {unit}, about ")


def test_space_of_git_counts_many_packs_as_two_and_a_half_repositories(tmp_path):
    states = ("as-is", "bitmap", "many-packs", "midx-bitmap_10-loose")
    variants = [Variant("mine", "git", state, "i1") for state in states]
    needed, folders = {"disk": variants}, {"disk": str(tmp_path)}
    repositories = PreparedRepositories(needed, folders, 3, tmp_path, {}, fragmentation_kib=0)
    source = SimpleNamespace(estimate=lambda: SizeEstimate(10, 1000, has_revision_files=False))
    plan = SimpleNamespace(
        env=SimpleNamespace(sources={"mine": source}, revisions=lambda repo: 10),
        config=SimpleNamespace(settings=SimpleNamespace(fragmentation_kib=0)),
        cells=[],
        cell_by_key={},
        batches={},
    )
    # The loaded one and its copies; a made one with a bitmap and its copies; the same of both larger states.
    expected = 1000 * (4 + 4 + 2 * 4 * 2.5)
    assert side_effects.storage_bytes(plan, repositories, "disk") == expected


def test_space_for_a_load_is_on_its_home_only(tmp_path):
    study = "fsfs-ssd-2014"
    # One storage has the copies of f6, and the other one those of f7.
    parts, storages = [], {}
    for name, fmt in (("ram", "f6"), ("ssd", "f7")):
        parts.append({**WARM, "format": fmt, "storage": name, "cache": "hot"})
        storages[name] = str(tmp_path / name)
        (tmp_path / name).mkdir()
    keys = {"studies": [study], "storages": storages, "copies": 2, "duplicates": 0}
    project = open_project(tmp_path, grid={study: {"include": parts}}, **keys)
    plan, repositories = project.plan, project.repositories
    assert repositories.storages == ["ram", "ssd"]
    ruby, empty = (side_effects.loaded_bytes(plan, name) for name in ("ruby", "empty"))
    for name in repositories.storages:
        copies = [variant.repo for variant, _ in repositories.missing(name)]
        needed = side_effects.storage_bytes(plan, repositories, name)
        assert needed == ruby * (1 + copies.count("ruby")) + empty * copies.count("empty")


@needs("svn", "svnserve")
@pytest.mark.parametrize(("command", "private_copies"), [("log", 0), ("commit", 1)])
def test_space_has_the_private_copy_to_which_a_cell_commits(tmp_path, command, private_copies):
    study = "deployed-server"
    cell = {**SERVED, "command": command}
    grid = {study: {"include": [cell]}}
    project = open_project(tmp_path, studies=[study], grid=grid, duplicates=0)
    plan, repositories = project.plan, project.repositories
    ruby, empty = (side_effects.loaded_bytes(plan, name) for name in ("ruby", "empty"))
    copies = [variant.repo for variant, _ in repositories.missing("disk")]
    needed = side_effects.storage_bytes(plan, repositories, "disk")
    of_ruby = 1 + copies.count("ruby") + private_copies
    assert copies.count("ruby") > 0
    assert needed == ruby * of_ruby + empty * copies.count("empty")
    (line,) = [line for line in plan_lines(project) if "repositories and their copies" in line]
    assert words.size(needed) in line
    assert ("The copy to which a cell commits is removed" in line) is bool(private_copies)


def test_rounds_detect_more_with_less_scatter_and_more_rounds():
    assert detectable_pct(0.11, 44) <= 10 < detectable_pct(0.11, 36)
    assert detectable_pct(0.03, 5) < detectable_pct(0.03, 3) < detectable_pct(0.1, 3)


def test_scatter_is_that_of_earlier_results_of_this_machine(tmp_path, whole_study, monkeypatch):
    project = open_project(tmp_path, studies=[STUDY], rounds=3)
    assert plan_report.scatter_pct_by_study(project.plan) == {}
    assert not any("scattered by" in line for line in plan_lines(project))
    target = tmp_path / "results" / "measurements" / f"{STUDY}.csv"
    target.parent.mkdir(parents=True)
    write_frame(whole_study.frame(), target)
    assert plan_report.scatter_pct_by_study(project.plan) == {}  # of another host
    frame = read_measurements(target)
    monkeypatch.setattr(plan_report, "host_label", lambda host: frame["host"].iloc[0])
    expected = 100 * math.expm1(run_scatter(frame, project.config.studies[STUDY].block))
    assert plan_report.scatter_pct_by_study(project.plan) == {STUDY: pytest.approx(expected)}


def test_scatter_of_results_without_an_axis_of_the_block_is_unknown(
    tmp_path, whole_study, monkeypatch
):
    project = open_project(tmp_path, studies=[STUDY], rounds=3)
    target = tmp_path / "results" / "measurements" / f"{STUDY}.csv"
    target.parent.mkdir(parents=True)
    frame = whole_study.frame()
    write_frame(frame.drop(columns=project.config.studies[STUDY].block[0]), target)
    monkeypatch.setattr(plan_report, "host_label", lambda host: frame["host"].iloc[0])
    assert plan_report.scatter_pct_by_study(project.plan) == {}


@pytest.mark.parametrize(
    ("kinds", "images", "in_ram"),
    [(["", "btrfs"], 1, 0), (["tmpfs"], 0, 1), (["tmpfs", "ext4", "xfs"], 1, 1), ([""], 0, 0)],
)
def test_made_file_systems_are_in_images_but_a_tmpfs_in_ram(kinds, images, in_ram):
    plan = SimpleNamespace(
        cells=kinds, draft=lambda kind: {"filesystem": {"make": kind, "root": "/srv"}}
    )
    sentences = list(side_effects._made_filesystems(plan))
    assert len(sentences) == images + in_ram
    assert sum("images" in text and "tmpfs" not in text for text in sentences) == images
    assert sum("RAM" in text and "image" not in text for text in sentences) == in_ram


def test_wrapped_line_keeps_its_indent_and_its_words():
    line = "  " + "word " * 60 + "/a" * 80
    parts = words.wrapped(line).splitlines()
    assert [part[:2] for part in parts] == ["  "] * len(parts)
    assert " ".join(" ".join(parts).split()) == line.strip()
    assert all(len(part) <= 110 for part in parts[:-1])
    assert words.wrapped("  short") == "  short"
