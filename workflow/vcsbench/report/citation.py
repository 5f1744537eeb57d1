"""How to cite a page: the study, the code and the configuration of its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vcsbench import words
from vcsbench.report.results import Results
from vcsbench.report.setup_section import Setup

SHORT_COMMIT = 12
# More changed files than this are a number.
MAX_FILES = 4


@dataclass(frozen=True)
class Citation:
    """How to cite a report: `entries` has texts by name, `meta` the values for the head of the page."""

    entries: Mapping[str, str]
    meta: Mapping[str, str]


def citation_of(results: Results, setup: Setup) -> Citation:
    """Return how to cite a page. It depends on the results only, not on the code that renders them."""
    study, made = results.study, results.provenance
    measured = ""
    if setup.first and setup.last:
        hosts = words.enumeration(setup.host_names)
        measured = f"{words.period(setup.first, setup.last)}, on {hosts}"
    authors = ", ".join([*study.authors, *filter(None, [study.date])])
    text = f"{study.title} ({'; '.join(filter(None, [study.name, authors]))}). {study.source}"
    if study.published and not study.authors:
        text += f" The authors are not recorded: see authors in config/studies/{study.name}.yaml."
    version = f"vcsbench {made.get('vcsbench', '')}".strip()
    commit, changed = made.get("commit", ""), made.get("changed", [])
    digest = made.get("config_digest", "")
    about = [f"commit {commit[:SHORT_COMMIT]}{', changed' if changed else ''}"] if commit else []
    about += [f"configuration {digest[:SHORT_COMMIT]}"] if digest else []
    code = f"{version}, commit {commit or 'unknown'}"
    if commit:
        files = words.enumeration(changed) if len(changed) <= MAX_FILES else ""
        files = files or words.count_of(len(changed), "file")
        code += f", with changes in {files}" if changed else ", unchanged"
    reference = [f"{version} ({'; '.join(about)})" if about else version]
    reference += [f"Study {study.name}: {study.title}"]
    reference += [f"Measured {measured}" if measured else "Nothing measured"]
    entries = {
        "Study": f"{text} {study.url}".strip(),
        "Measured": measured,
        "Made by": code if made else "The version of vcsbench is not recorded.",
        "Configuration": digest,
        "Command": made.get("command", ""),
        "Cite as": f"{'. '.join(reference)}.",
    }
    meta = {
        "study-authors": "; ".join(study.authors),
        "study-date": study.date,
        "study-url": study.url,
        "version": made.get("vcsbench", ""),
        "commit": commit,
        "changed": " ".join(changed),
        "config-sha256": digest,
        "command": made.get("command", ""),
    }
    return Citation({name: text for name, text in entries.items() if text}, meta)
