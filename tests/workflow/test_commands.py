"""Commands of the tool on tiny repositories: plan, doctor, show, measure, clean, check, baseline, bundle."""

import re
import subprocess

import pytest
import yaml

from project import HOT, ROOT, RUN_LIMIT_S, STUDY, needs, path_of_tool, run_merged

pytestmark = needs("svn", "svnadmin", "svnserve", "hyperfine")

CELL = "log/svn/ruby/f7/nopack/fast/hot-server"
PARTS = {**HOT, "access": ["svn", "file"]}, {**HOT, "access": "file", "packing": "pack"}


def seconds(report):
    """Return the forecast of a plan by stage."""
    text = report.partition("\nDuration")[2]
    found = re.findall(r"^  (\S.*?) +(\d+) (s|min)\b", text, re.MULTILINE)
    return {stage: int(number) * {"s": 1, "min": 60}[unit] for stage, number, unit in found}


@pytest.mark.slow
def test_plan_before_and_after_a_run_forecasts_missing_stages(project):
    project.configure(*PARTS)
    plan = project.tool("plan")
    for text in ("2 cells in", "2 cells of", "1 skipped", "23 revisions"):
        assert text in plan
    assert "127.0.0.1" in plan and "thresholds.min_rounds" in plan
    assert seconds(plan)["measuring"] > 0
    made = [*(project.path / "storage").iterdir(), *(project.path / "scratch").iterdir()]
    assert not made and not (project.path / "results").exists()

    project.succeed("measured")
    project.configure(*PARTS, rounds=60)
    stages = seconds(project.tool("plan"))
    assert stages["loading"] == stages["copying"] == 0
    # Two cells, 59 rounds, from half a second each.
    assert 20 < stages["measuring"] < 600


def test_show_measure_and_clean_use_prepared_copies_only(project):
    project.configure()
    assert "are not prepared" in project.tool("show", CELL, code=1)
    project.prepare()

    shown = project.tool("show", CELL)
    assert "svn --non-interactive" in shown and "--limit 50000" in shown
    assert "--threads" in shown and re.search(r"^warm-up +2 runs$", shown, re.M)
    # As in `vcsbench show ... | head`, which ends first.
    line = f"./vcsbench show {CELL} --configfile {project.config} | true"
    closed = run_merged(["bash", "-c", line], project.path, RUN_LIMIT_S, PATH=path_of_tool())
    assert closed.stdout == ""

    measured = project.tool("measure", f"{STUDY}/{CELL}")
    assert "run 1: 0." in measured and "server_pid" in measured
    assert project.exports() == {}

    unknown = project.tool("measure", CELL.replace("ruby", "rubby"), code=1)
    assert f"Similar cells: {CELL}" in unknown

    precious = project.path / "storage" / "precious"
    precious.write_text("mine")
    assert "removed" in project.tool("clean")
    assert [path.name for path in (project.path / "storage").iterdir()] == ["precious"]
    assert not list((project.path / "scratch").iterdir())
    assert {path.name for path in (project.path / "results").glob("*")} <= {"README.md"}


# The projects have no duplicates.
UNKNOWN = r" \[noise unknown: the grid has no duplicates\]"
PART = {**HOT, "access": "file"}


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    path = tmp_path_factory.mktemp("repository") / "project"
    subprocess.run(["svnadmin", "create", path], check=True)
    for number in range(5):
        url = f"{path.as_uri()}/trunk{number or ''}"
        subprocess.run(["svn", "mkdir", "-q", "-m", f"{number}", url], check=True)
    return path


def check(project, repository, code=0):
    """Run `make check REPO=...` without set-up. Return the lines of the output."""
    return project.tool("check", f"--repository={repository}", code=code).splitlines()


def expect(project, *more):
    """Write the expectations of docs/ci.md, and more of the same study."""
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/ci.md").read_text(), re.DOTALL)
    content = yaml.safe_load(next(block for block in blocks if block.startswith(f"{STUDY}:")))
    content[STUDY] += more
    path = project.path / "config" / "expectations.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))


def level(name, at_most, **where):
    check = {"id": name, "statement": f"It takes {at_most} s at most.", "level": "elapsed_s"}
    check |= {"where": {"command": "log", **where}, "expect": {"over": "max", "at_most": at_most}}
    return check


@pytest.mark.slow
def test_check_example_of_readme_holds_and_a_failed_expectation_has_code_3(
    shared_project, repository
):
    project = shared_project
    project.configure(PART, rounds=5)

    expect(project)
    *_, line, files, summary = check(project, repository)
    # On a busy machine the interval is wide, and may contain 0.
    holds = rf"holds: {STUDY} hot-log: 0\.\d+ \(.+ to .+\) s, expected at most 2{UNKNOWN}"
    assert re.fullmatch(holds, line)
    assert summary.startswith("1 of 1 ")
    assert re.findall(r"results/\S+", files) == ["results/check.junit.xml", "results/check.md"]
    measured = project.exports()
    assert len(measured) == 5

    expect(project, level("in-no-time", 0.00001), level("on-cold-disks", 9, cache="cold"))
    *_, holds, differs, missing, _, summary = check(project, repository, code=3)
    assert holds.startswith("holds: ")
    assert differs.startswith(f"does not hold: {STUDY} in-no-time: 0.")
    assert re.search(f"expected at most 1e-05{UNKNOWN}$", differs)
    assert missing.startswith(f"not measured: {STUDY} on-cold-disks: ")
    assert summary.startswith("1 of 3 ")
    assert project.exports() == measured
    assert 'id="expectation-in-no-time"' in project.page(STUDY)


@pytest.mark.slow
def test_baseline_saved_is_compared_with_later_runs_and_bundled(shared_project, repository):
    project = shared_project
    keys = {"rounds": 5, "repository": str(repository)}
    against = {"id": "no-slower-than-old", "statement": "As fast.", "where": {"command": "log"}}
    against |= {"compare": {"to": "1.14-old"}, "expect": {"over": "min", "at_least": 0.05}}
    expect(project, against)
    project.configure(PART, **keys)
    assert "no saved baseline '1.14-old'" in project.fail("check")
    expect(project, {**against, "allow_not_measured": True})
    assert "[no baseline: 1.14-old" in project.succeed("check")

    assert "in 5 rounds" in project.tool("baseline", "--name=1.14-old")
    assert "never overwritten" in project.tool("baseline", "--name=1.14-old", code=1)

    # The results still equal the baseline.
    expect(project, against)
    project.configure(PART, baselines=["1.14-old"], **keys)
    assert "[Nothing has been measured since the baseline was saved" in project.fail("check")

    output = project.succeed("all", "check", "--forcerun", "cell")
    assert f"holds: {STUDY} no-slower-than-old: " in output
    (row,) = project.rows(f"tables/{STUDY}/1.14-old-vs-now.csv")
    assert (row["baseline"], row["candidate"], row["n"]) == ("1.14-old", "now", "5")
    assert float(row["low"]) < float(row["ratio"]) < float(row["high"])
    page = project.page(STUDY)
    assert "1.14-old-vs-now" in page and "Saved baselines" in page
    history = project.json(f"history/{STUDY}.json")
    assert [time["name"] for time in history["times"]] == ["1.14-old", "now"]
    provenance = project.json(f"provenance/{STUDY}.json")
    assert provenance["command"].startswith("snakemake ")
    assert " --forcerun cell " in provenance["command"]
    assert provenance["config"]["rounds"] == 5 and provenance["config_digest"] in page
    assert provenance["commit"] == ""

    project.tool("bundle", "--name=all-of-it")
    project.tool("import", "bundles/all-of-it.tar.gz")
    opened = project.path / "opened" / "all-of-it"
    assert (opened / "again" / f"{STUDY}.html").read_text() == page
    assert (opened / "baselines" / "1.14-old" / f"{STUDY}.csv").exists()
    assert list(opened.glob(f"results/cells/{STUDY}/**/round5.context.json"))

    project.configure(PART, baselines=["gone"], **keys)
    refused = project.fail("-n")
    assert "test.yaml: `baselines`: " in refused and "1.14-old" in refused
