"""The preparation of each system."""

from vcsbench.prepare.preparation import Preparation
from vcsbench.prepare.subversion_loader import SubversionPreparation
from vcsbench.systems import SUBVERSION, system_of

_PREPARATIONS: dict[str, Preparation] = {SUBVERSION.name: SubversionPreparation()}


def preparation_of(fmt: str) -> Preparation:
    """Return the preparation of the system that has a format, such as Subversion's for f7."""
    return _PREPARATIONS[system_of(fmt).name]
