"""The preparation of each system."""

from vcsbench.prepare.converted_preparation import FossilPreparation, MercurialPreparation
from vcsbench.prepare.git_preparation import GitPreparation
from vcsbench.prepare.preparation import Preparation
from vcsbench.prepare.subversion_loader import SubversionPreparation
from vcsbench.systems import FOSSIL, GIT, MERCURIAL, SUBVERSION, system_of

_PREPARATIONS: dict[str, Preparation] = {
    SUBVERSION.name: SubversionPreparation(),
    GIT.name: GitPreparation(),
    MERCURIAL.name: MercurialPreparation(),
    FOSSIL.name: FossilPreparation(),
}


def preparation_of(fmt: str) -> Preparation:
    """Return the preparation of the system that has a format, such as Subversion's for f7."""
    return _PREPARATIONS[system_of(fmt).name]
