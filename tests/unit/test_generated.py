"""Generated sources: the same bytes each time, loaded by svnadmin, with the published totals."""

import hashlib
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from vcsbench import modules, sources
from vcsbench.errors import UserError
from vcsbench.sources import generated as generated_source
from vcsbench.sources import generated_text
from vcsbench.sources.generated import History
from vcsbench.sources.generated_profiles import PROFILES
from vcsbench.sources.generated_tree import grown_share

WORKFLOW = Path(sources.__file__).parents[2]

# After a new digest, no earlier result of the profile can be compared.
DIGESTS = {
    "ruby": (0.002, "fff4836f2604b24f2f4739f2d4f526f605f5dff5aa70c666e64b3333c7839741"),
    "tsvn": (0.002, "1afe8912e398144e1313e8e7d8f6dc8ef10bab36d17f361a7a167412be5877be"),
    "apache": (0.0003, "9155f7f80030bc13db6a625020253ac1d5fc834d80e345c8d358ea625701814e"),
    "kde": (0.00001, "a331a51038ee3104929f414750d052ba6050dcc2b47436c83ce0b999fcbd17ac"),
    "large-tree": (0.01, "a75c14d2884b648aca5d735db9c97bc9216e8184adb0183943459bdeaff4992e"),
    "linux-tree": (0.01, "632b392d4d5e92203320309758c911f5b6b02df7b9617bb5e1b847d71c908840"),
    "git": (0.003, "a935d6b2328e4af617fdb273ac773f74f84e95aa3b94ac97cd6765f245482706"),
}


def generated(**definition):
    return sources.open_source("mine", {"source": "generated", **definition})


def stream(**definition):
    out = io.BytesIO()
    generated(**definition).write(out)
    return out.getvalue()


@pytest.mark.parametrize("profile", PROFILES)
def test_generated_stream_has_the_known_digest(profile):
    scale, expected = DIGESTS[profile]
    assert hashlib.sha256(stream(profile=profile, scale=scale)).hexdigest() == expected


def digest_in(python, hash_seed):
    code = (
        "import hashlib, io; from vcsbench.sources import open_source; out = io.BytesIO();"
        "open_source('x', {'source': 'generated', 'profile': 'ruby', 'scale': 0.002}).write(out);"
        "print(hashlib.sha256(out.getvalue()).hexdigest())"
    )
    environment = {"PYTHONPATH": str(WORKFLOW), "PYTHONHASHSEED": hash_seed}
    argv = [python, "-B", "-c", code]
    return subprocess.run(argv, env=environment, capture_output=True, check=True).stdout.decode()


def test_generated_stream_is_the_same_for_each_hash_seed_and_python():
    minors = (minor for minor in range(11, 20) if minor != sys.version_info.minor)
    paths = filter(None, (shutil.which(f"python3.{minor}") for minor in minors))
    others = [p for p in paths if not subprocess.run([p, "-c", ""], capture_output=True).returncode]
    digests = {digest_in(python, seed) for python in (sys.executable, *others) for seed in "12"}
    assert {digest.strip() for digest in digests} == {DIGESTS["ruby"][1]}


def test_generator_digest_changes_with_the_code_and_not_with_its_words(tmp_path, monkeypatch):
    shutil.copytree(Path(sources.__file__).parent, tmp_path, dirs_exist_ok=True)
    monkeypatch.setattr(generated_source, "__file__", str(tmp_path / "generated.py"))

    def digest_with(old: str, new: str) -> str:
        file = tmp_path / "dump_format.py"
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new, 1))
        # Each file is read once in a process.
        modules._bytes.cache_clear()
        return generated_source.generator_digest.__wrapped__()

    before = digest_with("", "")
    assert digest_with("\nimport ", "\n# A reason.\nimport ") == before
    assert digest_with("SVN-fs-dump-format-version", "Other") != before


def test_generated_identity_and_history_change_with_each_key():
    definitions = [
        {"profile": "ruby", "scale": 0.0001},
        {"profile": "ruby", "scale": 0.0002},
        {"profile": "tsvn", "scale": 0.0001},
        {"profile": "ruby", "scale": 0.0001, "seed": 2},
    ]
    assert len({generated(**definition).identity() for definition in definitions}) == 4
    first, seeded = (stream(**definitions[n]).split(b"\n\n", 2)[2] for n in (0, 3))
    assert first != seeded


# Totals

MIB = 1 << 20
# Published items (files and directories) and bytes of the tree, and bytes of the repository, or None.
# The sources are in docs/sources.md.
PUBLISHED = {
    "ruby": (None, 46 * MIB, None),
    "tsvn": (3_840, 81 * MIB, 4.8 * 1024 * MIB),  # packed
    "apache": (1_941, 38 * MIB, 30.4 * 1024 * MIB),
    "kde": (399_419, 8.4 * 1024 * MIB, 58.4 * 1024 * MIB),
    "large-tree": (27_000, 263 * MIB, None),
    "linux-tree": (22_898, 237_003_064, None),
    "git": (None, 15_979_431, None),
}


@pytest.mark.parametrize("profile", PROFILES)
def test_profile_and_estimate_have_the_published_sizes(profile):
    (items, tree_bytes, repository_bytes), figures = PUBLISHED[profile], PROFILES[profile]
    assert figures.tree_bytes == pytest.approx(tree_bytes, rel=0.02)
    if items:
        assert figures.tree_files == pytest.approx(items, rel=0.12)  # without directories
    estimate = generated(profile=profile).estimate()
    assert estimate.revisions == figures.revisions
    if repository_bytes:  # published with half-filled blocks
        assert 0.8 < estimate.repository_bytes / repository_bytes < 1.1


# Scales (default 1) at which a history without texts takes ten seconds. VCSBENCH_FULL_SCALE: six minutes.
SCALES = {"apache": 0.1, "kde": 0.03}


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES)
def test_generated_trees_grow_to_the_published_totals(profile, monkeypatch):
    # Sizes are known without the texts.
    monkeypatch.setattr(generated_text.Text, "content", lambda self: b"")
    scale = 1 if os.environ.get("VCSBENCH_FULL_SCALE") else SCALES.get(profile, 1)
    within = 0.04 if scale == 1 else 0.1
    (items, tree_bytes, _), figures = PUBLISHED[profile], PROFILES[profile]
    revisions = round(figures.revisions * scale)
    history = History(figures, 1, revisions)
    for _ in history.events():
        pass
    project, grown = history.projects[0], grown_share(figures, revisions)
    assert project.size == pytest.approx(tree_bytes * grown, rel=within)
    assert len(project.files) == pytest.approx(figures.tree_files * grown, rel=within)
    if items:
        total = len(project.files) + len(project.directories)
        assert total == pytest.approx(items * grown, rel=within)


def test_generated_history_scaled_is_the_beginning_of_a_larger_one():
    small, large = (stream(profile="ruby", scale=s).split(b"\n\n", 2) for s in (0.001, 0.002))
    assert small[1] != large[1]  # the UUID
    assert large[2].startswith(small[2])
    assert b"\nRevision-number: 46\n" in small[2] and b"\nRevision-number: 92\n" in large[2]


@pytest.mark.parametrize("profile", ["large-tree", "linux-tree"])
def test_generated_scale_of_a_tree_without_files_is_refused(profile):
    with pytest.raises(UserError, match=r"`repositories\.mine\.scale`: "):
        generated(profile=profile, scale=0.00001)
    # The scale that the error proposes.
    least = float(f"{2 / PROFILES[profile].tree_files:.5f}")
    assert b"\nNode-kind: file\n" in stream(profile=profile, scale=least)


def test_generated_tree_may_be_a_folder_and_is_part_of_the_identity():
    whole = generated(profile="ruby", scale=0.002)
    folder = generated(profile="ruby", scale=0.002, tree="/trunk/item/")
    assert (whole.tree(), folder.tree()) == ("trunk", "trunk/item")
    assert whole.identity() != folder.identity()
