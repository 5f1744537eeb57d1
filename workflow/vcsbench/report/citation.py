"""What a report is cited by: the study and its authors, what measured it, from what and by which command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vcsbench import words
from vcsbench.config.study import Study
from vcsbench.report.results import Results
from vcsbench.report.setting import Setting

# So much of a commit tells it from all others, and is short enough to be read.
SHORT = 12
# So many names of changed files are told; of more, how many there are.
NAMED = 4


@dataclass(frozen=True)
class Citation:
    """The report's last section, in sentences; "" for what is not known. `reference` is all in one, to be
    pasted; `facts` the same for machines, by the names under which the page's head has them."""

    study: str
    measured: str
    made_by: str
    config: str
    command: str
    reference: str
    facts: Mapping[str, str] = field(default_factory=dict)


def citation(results: Results, setting: Setting) -> Citation:
    """What a page is cited by, from the results alone: not from what renders it."""
    study, said = results.study, results.provenance
    measured = ""
    if setting.first and setting.last:
        hosts = words.enumeration(setting.host_names)
        measured = f"{words.period(setting.first, setting.last)}, on {hosts}"
    digest = said.get("config_digest", "")
    return Citation(
        study=_study(study),
        measured=measured,
        made_by=_made_by(said),
        config=digest,
        command=said.get("command", ""),
        reference=_reference(study, said, measured),
        facts={
            "study-authors": "; ".join(study.authors),
            "study-date": study.date,
            "study-url": study.url,
            "version": said.get("vcsbench", ""),
            "commit": said.get("commit", ""),
            "changed": " ".join(said.get("changed", [])),
            "config-sha256": digest,
            "command": said.get("command", ""),
        },
    )


def _study(study: Study) -> str:
    """The study with its authors and date, or that they are not known."""
    cited = ", ".join([*study.authors, *filter(None, [study.date])])
    name = "; ".join(filter(None, [study.name, cited]))
    text = f"{study.title} ({name}). {study.source}"
    if study.published and not study.authors:
        text += f" Who published it is not recorded: `authors` in config/studies/{study.name}.yaml says it."
    return text


def _made_by(said: Mapping[str, Any]) -> str:
    if not said:
        return "It is not recorded which vcsbench put the measurements together."
    commit, changed = said["commit"], said["changed"]
    if not commit:
        return f"vcsbench {said['vcsbench']}, of no commit that is known"
    text = f"vcsbench {said['vcsbench']}, commit {commit}"
    if not changed:
        return f"{text}, unchanged"
    files = words.enumeration(changed[:NAMED]) if len(changed) <= NAMED else ""
    return f"{text}, with changes in {files or words.count_of(len(changed), 'file')}"


def _reference(study: Study, said: Mapping[str, Any], measured: str) -> str:
    version = " ".join(filter(None, ["vcsbench", said.get("vcsbench", "")]))
    commit = said.get("commit", "")[:SHORT]
    about = [f"commit {commit}{', changed' if said['changed'] else ''}"] if commit else []
    about += [f"configuration {said['config_digest'][:SHORT]}"] if said else []
    parts = [
        f"{version} ({'; '.join(about)})" if about else version,
        f"Study {study.name}: {study.title}",
        f"Measured {measured}" if measured else "Nothing measured",
    ]
    return f"{'. '.join(parts)}."
