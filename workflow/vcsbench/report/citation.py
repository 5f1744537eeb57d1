"""The citation of a page: its study, the version, commit and command of its results, and a BibTeX entry."""

import re

from vcsbench import words
from vcsbench.config.study import Study
from vcsbench.report.results import Provenance, Results
from vcsbench.report.setup_section import DIGEST_LENGTH, Setup

# With more changed files, only their number is printed.
MAX_FILES = 4


def describe_origin(study: Study) -> str:
    """Return a sentence on the study and its source, with the unknown facts of a published study.

    Example: `FSFS on a SAN (fsfs-san-2014; author not known, 2014). <source> No stable address known.`
    """
    authors = list(study.authors)
    if not authors and study.published:
        authors.append("author not known")
    if study.date:
        authors.append(study.date)
    origin = study.name
    if authors:
        origin = f"{study.name}; {', '.join(authors)}"
    url = study.url
    if not url and study.published:
        url = "No stable address known."
    return f"{study.title} ({origin}). {study.source} {url}".strip()


def cite_results(results: Results, setup: Setup) -> dict[str, str]:
    """Return the facts that identify the results of a page, by their names on it.

    Names are Study, Measured, Made by, Command and Configuration; the last two are missing if unknown. The
    facts depend on the results only, not on the code that renders them.
    """
    provenance = results.provenance
    facts = {"Study": describe_origin(results.study), "Measured": "Nothing."}
    if setup.first and setup.last:
        hosts = words.enumeration(setup.host_names)
        facts["Measured"] = f"{words.period(setup.first, setup.last)}, on {hosts}"
    facts["Made by"] = f"vcsbench {provenance.vcsbench}, {_describe_commit(provenance)}"
    if provenance.command:
        facts["Command"] = results.command.text()
    if provenance.config_digest:
        facts["Configuration"] = provenance.config_digest
    return facts


def _describe_commit(provenance: Provenance) -> str:
    """Return `commit 0123abcd, unchanged`, or `commit 0123abcd, with changes in 7 files`."""
    if not provenance.commit:
        return "commit unknown"
    state = "unchanged"
    if len(provenance.changed) > MAX_FILES:
        state = f"with changes in {words.count_of(len(provenance.changed), 'file')}"
    elif provenance.changed:
        state = f"with changes in {words.enumeration(provenance.changed)}"
    return f"commit {provenance.commit}, {state}"


def make_bibtex(results: Results, setup: Setup) -> str:
    """Return the BibTeX entry of a page, which begins `@misc{vcsbench-fsfs-san-2014,`.

    Its note has the version, the commit, the configuration and the machines, as far as they are known. The
    year is the year of the last measurement, and is left out if nothing was measured.
    """
    study, provenance = results.study, results.provenance
    notes = [f"vcsbench {provenance.vcsbench}".strip()]
    if provenance.commit:
        notes.append(f"commit {provenance.commit}")
    if provenance.config_digest:
        notes.append(f"configuration {provenance.config_digest[:DIGEST_LENGTH]}")
    if setup.host_names:
        notes.append(f"measured on {words.enumeration(setup.host_names)}")

    lines = [f"@misc{{vcsbench-{study.name},"]
    title = _without_braces(f"vcsbench report of {study.name}: {study.title}")
    lines.append(f"  title = {{{title}}},")
    # The inner braces keep BibTeX from taking this for a first name and a surname.
    lines.append("  author = {{The maintainers of vcsbench}},")
    if setup.last:
        lines.append(f"  year = {{{setup.last.year}}},")
    lines.append(f"  note = {{{_without_braces(', '.join(notes))}}},")
    lines.append("}")
    return "\n".join(lines)


def _without_braces(text: str) -> str:
    """Return a text without braces, because a brace in it would end the field."""
    return re.sub("[{}]", "", text)
