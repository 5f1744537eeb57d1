"""Generated sources: the same bytes each time, loaded by svnadmin, and kept to their model."""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from vcsbench import sources
from vcsbench.errors import UserError
from vcsbench.sources import Source
from vcsbench.sources.generated_profiles import PROFILES

WORKFLOW = Path(sources.__file__).parents[2]
needs_svn = pytest.mark.skipif(not shutil.which("svnadmin"), reason="not installed: svnadmin")

SCALE = 0.006
# A new digest means that everything measured on this profile before is of another repository.
DIGESTS = {
    "ruby": (0.002, "4793fc588456e519bcb0e7f255ba7f37a74386d1b6628de3c76c467973bba40e"),
    "bsd": (0.0001, "c3a7c3eed86bef3b1689dad546b5256f58f6e11225de9f73e672f834d4d4e719"),
    "tsvn": (0.002, "d0207cfd6f8a9020b581bce3a7fd98f558b041aad245d094c199228f7dd48b8a"),
    "apache": (0.0003, "0a8dd35d78187c3c0908d4f93f2a4943f9a865d350d6e40038ec0f24bb59890e"),
    "kde": (0.00001, "7aaba0365b5060f2613350b2530e6e4c6e6e4abcb56360f9e03bd6267a89a424"),
    "large-tree": (0.01, "25676199ce7a9c5cf485a9e5e5e9c55fa4b975f78accb222b3fea4f418a65292"),
    "linux-tree": (0.01, "88f5c2f67d41a651032236892e89776874a508543bc91e24619120ad882bcb44"),
}


def generated(**definition: object) -> Source:
    return sources.open_source("mine", {"source": "generated", **definition})


class Digest(io.RawIOBase):
    """Keeps of what is written its digest, its size and its beginning."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.size = 0
        self.start = b""

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self._hash.update(data)
        self.size += len(data)
        if len(self.start) < 1000:
            self.start += data[:1000]
        return len(data)

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


@pytest.mark.parametrize("profile", PROFILES)
def test_the_bytes_are_always_the_same(profile: str) -> None:
    scale, expected = DIGESTS[profile]
    out = Digest()
    generated(profile=profile, scale=scale).write(out)
    assert out.hexdigest() == expected


def pythons() -> list[str]:
    """The other Pythons on the PATH that run."""
    found = []
    for minor in range(11, 20):
        path = shutil.which(f"python3.{minor}")
        if path and minor != sys.version_info.minor:
            done = subprocess.run([path, "-c", ""], capture_output=True)
            found += [path] * (done.returncode == 0)
    return found


def in_python(python: str, hash_seed: str) -> str:
    """The digest of a stream that another process makes."""
    code = (
        "import hashlib, io, sys; from vcsbench.sources import open_source; out = io.BytesIO();"
        "open_source('x', {'source': 'generated', 'profile': 'ruby', 'scale': 0.002}).write(out);"
        "print(hashlib.sha256(out.getvalue()).hexdigest())"
    )
    environment = {"PYTHONPATH": str(WORKFLOW), "PYTHONHASHSEED": hash_seed}
    argv = [python, "-B", "-c", code]
    done = subprocess.run(argv, env=environment, capture_output=True, check=True)
    return done.stdout.decode().strip()


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_hash_seeds_change_nothing(hash_seed: str) -> None:
    assert in_python(sys.executable, hash_seed) == DIGESTS["ruby"][1]


@pytest.mark.skipif(not pythons(), reason="no other Python 3.11 or later is installed")
def test_other_pythons_give_the_same_bytes() -> None:
    assert {in_python(python, "0") for python in pythons()} == {DIGESTS["ruby"][1]}


def stream(**definition: object) -> bytes:
    out = io.BytesIO()
    generated(**definition).write(out)
    return out.getvalue()


def test_a_scaled_history_is_the_beginning_of_a_larger_one() -> None:
    small = stream(profile="ruby", scale=0.001).split(b"\n\n", 2)
    large = stream(profile="ruby", scale=0.002).split(b"\n\n", 2)
    assert small[1] != large[1]  # the UUID
    assert large[2].startswith(small[2])
    assert b"\nRevision-number: 46\n" in small[2]
    assert b"\nRevision-number: 92\n" in large[2]


def test_seeds_make_other_histories() -> None:
    one, two = (stream(profile="ruby", scale=0.0001, seed=seed) for seed in (1, 2))
    assert one.split(b"\n\n", 2)[2] != two.split(b"\n\n", 2)[2]


def test_identity_changes_with_each_key_and_only_with_them() -> None:
    definitions = [
        {"profile": "ruby", "scale": 0.1},
        {"profile": "ruby", "scale": 0.2},
        {"profile": "bsd", "scale": 0.1},
        {"profile": "ruby", "scale": 0.1, "seed": 2},
    ]
    identities = [generated(**definition).identity() for definition in definitions]
    assert len(set(identities)) == 4
    assert identities == [generated(**definition).identity() for definition in definitions]
    assert generated(profile="ruby", scale=0.1, seed=1).identity() == identities[0]


@pytest.mark.parametrize(
    ("definition", "said"),
    [
        ({}, "profile: is missing"),
        (
            {"profile": "perl"},
            "profile: must be one of ruby, bsd, tsvn, apache, kde, large-tree, linux-tree, not",
        ),
        ({"profile": "ruby", "scale": 0}, "scale: must be above 0 and at most 1, not 0"),
        ({"profile": "ruby", "scale": 1.01}, "scale: must be above 0 and at most 1, not 1.01"),
        ({"profile": "ruby", "scale": float("nan")}, "scale: must be above 0"),
        ({"profile": "ruby", "scale": "0.1"}, "scale: must be a number, not '0.1'"),
        ({"profile": "ruby", "scale": True}, "scale: must be a number, not True"),
        ({"profile": "ruby", "seed": 1.5}, "seed: must be a whole number, not 1.5"),
        ({"profile": "ruby", "size": 1}, "size: is no key of this source"),
    ],
)
def test_wrong_values_are_named(definition: dict[str, object], said: str) -> None:
    with pytest.raises(UserError) as caught:
        generated(**definition)
    assert str(caught.value).startswith(f"config/config.yaml: repositories.mine.{said}")


def test_a_reader_that_goes_away_ends_it() -> None:
    class Gone(io.RawIOBase):
        def write(self, data: object) -> int:
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        generated(profile="ruby", scale=0.001).write(Gone())


def load(folder: Path, **definition: object) -> Path:
    """A repository loaded from a generated stream, verified."""
    repository = folder / "repository"
    subprocess.run(["svnadmin", "create", "--compatible-version", "1.9", repository], check=True)
    argv = ["svnadmin", "load", "-q", "--no-flush-to-disk", str(repository)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        facts = generated(**definition).write(process.stdin)  # type: ignore[arg-type]
        process.stdin.close()
        assert process.wait() == 0
    subprocess.run(["svnadmin", "verify", "-q", repository], check=True)
    youngest = subprocess.check_output(["svnlook", "youngest", repository])
    assert int(youngest) == facts.revisions == generated(**definition).estimate().revisions
    return repository


@pytest.fixture(scope="module")
def ruby(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first 276 revisions of ruby, with a seed whose first tag comes early."""
    return load(tmp_path_factory.mktemp("generated"), profile="ruby", scale=SCALE, seed=2)


def log(repository: Path) -> str:
    argv = ["svn", "log", "-v", "--xml", f"file://{repository}"]
    return subprocess.run(argv, check=True, capture_output=True).stdout.decode()


@needs_svn
def test_revisions_do_all_kinds_of_things(ruby: Path) -> None:
    said = log(ruby)
    for action in ('action="A"', 'action="M"', 'action="D"', 'kind="dir"', 'kind="file"'):
        assert action in said
    assert 'copyfrom-path="/trunk"' in said and ">/branches/" in said
    assert 'copyfrom-path="/branches/' in said and ">/tags/" in said
    assert 'copyfrom-path="/trunk/' in said
    authors = {line for line in said.splitlines() if line.startswith("<author>")}
    assert len(authors) > 20
    dates = [line for line in said.splitlines() if line.startswith("<date>")]
    assert dates == sorted(dates, reverse=True) and len(set(dates)) == 276


@needs_svn
def test_trunk_has_modes_binary_files_and_depth(ruby: Path, tmp_path: Path) -> None:
    tree = generated(profile="ruby", scale=SCALE).tree()
    export = tmp_path / "export"
    subprocess.run(["svn", "export", "-q", f"file://{ruby}/{tree}", export], check=True)
    files = [path for path in export.rglob("*") if path.is_file()]
    assert any(path.stat().st_mode & 0o100 for path in files)
    assert any(b"\0" in path.read_bytes() for path in files)
    assert max(len(path.relative_to(export).parts) for path in files) >= 3
    estimate = generated(profile="ruby", scale=SCALE).estimate()
    assert len(files) == pytest.approx(estimate.files, rel=0.1)
    size = sum(path.stat().st_size for path in files)
    assert size == pytest.approx(estimate.tree_bytes, rel=0.25)


@needs_svn
def test_estimate_of_the_repository(ruby: Path) -> None:
    size = sum(path.stat().st_size for path in (ruby / "db" / "revs").rglob("*") if path.is_file())
    estimate = generated(profile="ruby", scale=SCALE).estimate()
    assert size == pytest.approx(estimate.repository_bytes, rel=0.35)
