"""A generated history as a source."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any, BinaryIO

from vcsbench.contents import files_digest
from vcsbench.sources import dumpstream
from vcsbench.sources.base import Estimate, Facts, Options, Source
from vcsbench.sources.generated.history import History
from vcsbench.sources.generated.profiles import PROFILES
from vcsbench.sources.generated.project import growth

# So much goes into one write.
CHUNK = 1 << 18


@cache
def generator_digest() -> str:
    """A digest of the code that decides on the bytes."""
    here = Path(__file__).parent
    names = sorted(f"{here.name}/{file.name}" for file in here.glob("*.py"))
    return files_digest(here.parent, ["dumpstream.py", *names])


class GeneratedSource(Source):
    """A profile at a scale."""

    kind = "generated"

    def __init__(self, name: str, definition: Mapping[str, Any], where: str) -> None:
        options = Options(name, definition, where)
        options.allow("profile", "scale", "seed")
        self._profile = PROFILES[options.choice("profile", tuple(PROFILES))]
        self._scale = options.number("scale", 1.0)
        self._seed = options.whole("seed", 1)
        if not 0 < self._scale <= 1:
            raise options.error("scale", f"must be above 0 and at most 1, not {self._scale}")
        self._youngest = max(2, round(self._profile.revisions * self._scale))
        if self._profile.imported:
            self._profile = self._profile.at(self._scale)
            self._youngest = self._profile.revisions

    def identity(self) -> str:
        """Changes with the definition and with the generator's code."""
        parts = [self._profile.name, self._scale, self._seed, generator_digest()]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def scale(self) -> float:
        """The part of the published number of revisions."""
        return self._scale

    def describe(self) -> str:
        """One line for reports."""
        return (
            f"generated history like {self._profile.name}, {self._youngest:,} revisions "
            f"(scale {self._scale:g}, seed {self._seed})"
        )

    @cached_property
    def _estimate(self) -> Estimate:
        """From the model's laws of growth."""
        profile = self._profile
        grown = growth(profile, self._youngest)
        return Estimate(
            revisions=self._youngest,
            repository_bytes=profile.repository.at(self._scale),
            files=int(grown * profile.tree_files),
            tree_bytes=int(grown * profile.tree_bytes),
        )

    def write(self, out: BinaryIO) -> Facts:
        """Generate the stream."""
        identity = uuid.uuid5(uuid.NAMESPACE_OID, self.describe())
        pending = bytearray(dumpstream.header(str(identity)))
        for record in History(self._profile, self._seed, self._youngest).records():
            pending += record
            if len(pending) > CHUNK:
                out.write(pending)
                pending.clear()
        out.write(pending)
        out.flush()
        return Facts(revisions=self._youngest)

    def tree(self, loaded: Path | None = None) -> str:
        """Trunk by the name that the profile's layout has for it."""
        return self._profile.layout.trunk.decode("ascii")
