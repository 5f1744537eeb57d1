"""Whether what lies where a copy belongs is that copy, as it was made: by its label, by what the repository
says of itself, and by its state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vcsbench.errors import ChangedError
from vcsbench.subjects.repository import fsfs, labels, state
from vcsbench.subjects.repository.labels import Variant

# Shards of a copy that are looked at before it is measured: 2,000 files where they are not packed.
SHARDS = 2


def check_copy(
    place: Path, variant: Variant, number: int, shards: int | None = SHARDS
) -> dict[str, Any]:
    """Return the label of a copy that is measured. Raise UserError if it is not the copy that it should be.

    Little is read: caches that are to be cold are cleared after it, and hot ones are warm.
    """
    copy = labels.copy_of(place, variant.name, number)
    label = labels.said_of(copy)
    wrong = wrong_with(copy, label, variant, number, shards)
    if wrong:
        if label.get("identity") == variant.identity:
            labels.withdraw(copy)
        raise ChangedError(
            f"{copy}: the copy has vanished or was changed: {wrong}; the next run of the workflow makes it "
            f"anew"
        )
    return label


def wrong_with(
    copy: Path, label: dict[str, Any], variant: Variant, number: int, shards: int | None = None
) -> str:
    """Why a folder with its label (labels.said_of) is not copy `number` of a variant, in a clause; "" if it
    is. `shards` bounds what is looked at (state.changed)."""
    if not copy.exists():
        return "it is gone"
    if not label:
        there = labels.label_of(copy).exists()
        return f"{labels.label_of(copy).name} is {'not as it was written' if there else 'gone'}"
    belongs = (str(copy), variant.name, number)
    if (label["path"], label.get("variant"), label.get("copy")) != belongs:
        return (
            f"it and its label belong elsewhere: the label is that of copy {label.get('copy')} of "
            f"{label.get('variant')}, made as {label['path']}"
        )
    if label["identity"] != variant.identity:
        return "it was made from another source, or from the same as it was once"
    unlike = fsfs.unlike(copy, variant.format, variant.packing, label["youngest"])
    if unlike:
        return unlike
    where = state.changed(copy, label["state"], shards)
    return f"something changed in {'its folder' if where == '.' else where}" if where else ""


def empty_is_whole(place: Path) -> bool:
    """Whether the empty repository is there that cold clients are run against."""
    empty = place / labels.FOLDER / labels.EMPTY
    label = labels.said_of(empty)
    return label.get("path") == str(empty) and not state.changed(empty, label["state"])
