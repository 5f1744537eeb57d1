"""Old keys are errors that name the new ones."""

from __future__ import annotations

import pytest

from vcsbench.config import models, study_models
from vcsbench.config.models import Settings
from vcsbench.config.renamed import RENAMED
from vcsbench.config.study_models import StudyFile
from vcsbench.config.validation import validate
from vcsbench.errors import UserError

# Paths to the keys of each model.
PLACES = {
    "Settings": (Settings, []),
    "StudySets": (Settings, ["studies"]),
    "Thresholds": (Settings, ["thresholds"]),
    "StudyFile": (StudyFile, []),
    "Command": (StudyFile, ["commands", "c"]),
    "Question": (StudyFile, ["questions", "q"]),
    "Action": (StudyFile, ["questions", "q", "actions", "v"]),
    "Measure": (StudyFile, ["questions", "q", "how_to_measure"]),
    "Compare": (StudyFile, ["tables", "t", "compare"]),
}


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [(name, old, new) for name, keys in RENAMED.items() for old, new in keys.items()],
)
def test_validate_of_an_old_key_names_the_new_one(name: str, old: str, new: str) -> None:
    model, place = PLACES[name]
    content: object = {old: "x"}
    for key in reversed(place):
        content = {key: content}
    with pytest.raises(UserError) as caught:
        validate(content, model, lambda keys: "my.yaml")
    dotted = ".".join([*place, old])
    assert (
        str(caught.value) == f"my.yaml: `{dotted}` is not a key here. It is now `{new}`: rename it."
    )


@pytest.mark.parametrize("name", RENAMED)
def test_renamed_keys_are_new_names_of_their_model_only(name: str) -> None:
    model = getattr(models, name, None) or getattr(study_models, name)
    known = {field.alias or name for name, field in model.model_fields.items()}
    assert set(RENAMED[name].values()) <= known
    assert not set(RENAMED[name]) & known
