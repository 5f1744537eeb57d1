"""Lock files and conda environments have the versions of pyproject.toml."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = sorted(path.name for path in (ROOT / "envs").glob("*.yaml"))
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

CONDA_NAMES = {"snakemake": "snakemake-minimal"}
# The newest versions of conda that differ from pyproject.toml.
CONDA_HAS = {"snakemake": "9.27.0", "pandas": "3.0.3", "pytest": "9.1.1", "hypothesis": "6.165.10"}
CONDA_HAS |= {"breezy": "3.3.17", "pydantic": "2.13.0"}


def pins(requirements):
    return dict(requirement.split("==") for requirement in requirements)


RUNTIME = pins(PYPROJECT["project"]["dependencies"])
GROUPS = {name: pins(group) for name, group in PYPROJECT["dependency-groups"].items()}


def environment(name):
    return yaml.safe_load((ROOT / "envs" / name).read_text())


def conda_pins(name):
    return dict(dependency.split("=") for dependency in environment(name)["dependencies"])


@pytest.mark.parametrize(
    ("lock", "pinned"),
    [("python.lock", RUNTIME | GROUPS["dev"]), ("installer.lock", GROUPS["installer"])],
)
def test_lock_files_hold_what_is_pinned(lock, pinned):
    text = (ROOT / "envs" / lock).read_text()
    locked = dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", text, re.MULTILINE))
    hashed = re.findall(r"^[a-z0-9._-]+==.* \\\n    --hash=sha256:", text, re.MULTILINE)
    assert {name: locked.get(name) for name in pinned} == pinned
    assert len(hashed) == len(locked)
    assert "://" not in text


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_conda_environments_are_pinned_and_strict(name):
    file = environment(name)
    channels = file["channels"]
    assert set(file) == {"channels", "dependencies"}
    assert channels[0] == "conda-forge" and channels[-1] == "nodefaults"
    assert set(channels) <= {"conda-forge", "bioconda", "nodefaults"}
    # Only Snakemake is bioconda's.
    assert ("bioconda" in channels) == ("snakemake-minimal" in conda_pins(name))
    for dependency in file["dependencies"]:
        assert re.fullmatch(r"[a-z0-9.-]+=\d+(\.\d+)+", dependency), dependency


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_conda_environments_agree_with_pyproject(name):
    pinned = RUNTIME | GROUPS["dev"]
    conda = conda_pins(name)
    expected = {
        package: CONDA_HAS.get(package, version)
        for package, version in pinned.items()
        if CONDA_NAMES.get(package, package) in conda
    }
    assert {package: conda[CONDA_NAMES.get(package, package)] for package in expected} == expected


def test_rules_name_environments_that_exist():
    rules = "".join(path.read_text() for path in (ROOT / "workflow/rules").glob("*.smk"))
    named = set(re.findall(r"envs/([\w-]+\.yaml)", rules))
    assert named, "no rule names an environment"
    assert named <= set(ENVIRONMENTS)
