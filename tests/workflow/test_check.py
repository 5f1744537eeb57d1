"""`check` on a tiny repository: the example of the README, failed expectations, baselines, bundles."""

import re
import subprocess

import pytest
import yaml

from project import HOT, ROOT, STUDY, needs

pytestmark = needs("svn", "svnadmin", "hyperfine")

# The projects have no duplicates.
UNKNOWN = r" \[noise unknown: the grid has no duplicates\]"
PART = {**HOT, "ra": "file"}


def readme_expectations():
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return yaml.safe_load(next(block for block in blocks if block.startswith(f"{STUDY}:")))


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    path = tmp_path_factory.mktemp("repository") / "project"
    subprocess.run(["svnadmin", "create", path], check=True)
    for number in range(5):
        url = f"{path.as_uri()}/trunk{number or ''}"
        subprocess.run(["svn", "mkdir", "-q", "-m", f"{number}", url], check=True)
    return path


def check(project, repository):
    """Run `make check REPO=...` without set-up."""
    return project.tool("check", f"--repository={repository}")


def expect(project, *more):
    """Write the expectations of the README, and more of the same study."""
    content = readme_expectations()
    content[STUDY] += more
    path = project.path / "config" / "expectations.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))


def level(name, at_most, **where):
    check = {"id": name, "statement": f"It takes {at_most} s at most.", "level": "elapsed_s"}
    check |= {"where": {"command": "log", **where}, "expect": {"over": "max", "at_most": at_most}}
    return check


def test_check_example_of_readme_holds_and_a_failed_expectation_has_code_3(
    shared_project, repository
):
    project = shared_project
    project.configure(PART, rounds=5)

    expect(project)
    done = check(project, repository)
    assert done.returncode == 0, done.stdout
    *_, line, files, summary = done.stdout.splitlines()
    # On a busy machine the interval is wide, and may contain 0.
    holds = rf"holds: {STUDY} hot-log: 0\.\d+ \(.+ to .+\) s, expected at most 2\.0{UNKNOWN}"
    assert re.fullmatch(holds, line)
    assert summary.startswith("1 of 1 ")
    assert re.findall(r"results/\S+", files) == ["results/check.junit.xml", "results/check.md"]
    measured = project.exports()
    assert len(measured) == 5

    expect(project, level("in-no-time", 0.00001), level("on-cold-disks", 9, cache="cold"))
    done = check(project, repository)
    assert done.returncode == 3, done.stdout
    holds, differs, missing, _, summary = done.stdout.splitlines()[-5:]
    assert holds.startswith("holds: ")
    assert differs.startswith(f"differs: {STUDY} in-no-time: 0.")
    assert re.search(f"expected at most 1e-05{UNKNOWN}$", differs)
    assert missing.startswith(f"not measured: {STUDY} on-cold-disks: ")
    assert summary.startswith("1 of 3 ")
    assert project.exports() == measured
    assert 'id="expectation-in-no-time"' in project.page(STUDY)


def assert_bundle_gives_the_same_page(project, page):
    """Bundle and import all results, and check their provenance."""
    provenance = project.json(f"provenance/{STUDY}.json")
    assert provenance["command"].startswith("snakemake ")
    assert " --forcerun cell " in provenance["command"]
    assert provenance["config"]["rounds"] == 5 and provenance["config_digest"] in page
    assert provenance["commit"] == ""
    for arguments in (("bundle", "--name=all-of-it"), ("import", "bundles/all-of-it.tar.gz")):
        done = project.tool(*arguments)
        assert done.returncode == 0, done.stdout
    opened = project.path / "opened" / "all-of-it"
    assert (opened / "again" / f"{STUDY}.html").read_text() == page
    assert (opened / "baselines" / "1.14-old" / f"{STUDY}.csv").exists()
    assert list(opened.glob(f"results/cells/{STUDY}/**/round5.context.json"))


@pytest.mark.slow
def test_baseline_saved_is_compared_with_later_runs(shared_project, repository):
    project = shared_project
    keys = {"rounds": 5, "repository": str(repository)}
    against = level("no-slower-than-old", 1)
    del against["level"]
    against |= {"compare": {"to": "1.14-old"}, "expect": {"over": "min", "at_least": 0.05}}
    expect(project, against)
    project.configure(PART, **keys)
    done = project.snakemake("check")
    assert done.returncode == 1
    assert "no saved baseline '1.14-old'" in done.stdout
    expect(project, {**against, "allow_not_measured": True})
    done = project.snakemake("check")
    assert done.returncode == 0, done.stdout
    assert "[no baseline: 1.14-old" in done.stdout

    done = project.tool("baseline", "--name=1.14-old")
    assert done.returncode == 0, done.stdout
    assert "in 5 rounds" in done.stdout
    done = project.tool("baseline", "--name=1.14-old")
    assert done.returncode == 1
    assert "never overwritten" in done.stdout

    # The results still equal the baseline.
    expect(project, against)
    project.configure(PART, baselines=["1.14-old"], **keys)
    done = project.snakemake("check")
    assert done.returncode == 1
    assert "[same-runs: " in done.stdout

    done = project.snakemake("all", "check", "--forcerun", "cell")
    assert done.returncode == 0, done.stdout
    assert f"holds: {STUDY} no-slower-than-old: " in done.stdout
    (row,) = project.rows(f"tables/{STUDY}/1.14-old-vs-now.csv")
    assert (row["baseline"], row["candidate"], row["n"]) == ("1.14-old", "now", "5")
    assert float(row["low"]) < float(row["ratio"]) < float(row["high"])
    page = project.page(STUDY)
    assert "1.14-old-vs-now" in page and "Saved baselines" in page
    history = project.json(f"history/{STUDY}.json")
    assert [time["name"] for time in history["times"]] == ["1.14-old", "now"]
    assert_bundle_gives_the_same_page(project, page)

    project.configure(PART, baselines=["gone"], **keys)
    done = project.snakemake("-n")
    assert done.returncode != 0
    assert "test.yaml: `baselines`: " in done.stdout
    assert "1.14-old" in done.stdout
