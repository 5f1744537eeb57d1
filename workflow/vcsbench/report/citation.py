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
    authors = ", ".join(study.authors)
    url = study.url
    # Readers expect authors and an address of a published study, so the sentence says if one is unknown.
    if study.published:
        authors = authors or "author not known"
        url = url or "No stable address known."
    authors_and_date = ", ".join(fact for fact in (authors, study.date) if fact)
    origin = "; ".join(fact for fact in (study.name, authors_and_date) if fact)
    return f"{study.title} ({origin}). {study.source} {url}".strip()


def cite_results(results: Results, setup: Setup) -> dict[str, str]:
    """Return the facts that identify the results of a page: `{"Study": "...", "Measured": "...", ...}`.

    `Made by` is the version that measured, not the one that renders the page: `vcsbench 1.2, commit 0123abcd,
    unchanged`. Command and Configuration are missing if unknown.
    """
    provenance = results.provenance
    measured = "Nothing."
    if setup.first and setup.last:
        hosts = words.enumeration(setup.host_names)
        measured = f"{words.period(setup.first, setup.last)}, on {hosts}"
    facts = {
        "Study": describe_origin(results.study),
        "Measured": measured,
        "Made by": f"vcsbench {provenance.vcsbench}, {_describe_commit(provenance)}",
    }
    # results.command is made of the stored command line.
    if provenance.command:
        facts["Command"] = results.command.text()
    if provenance.config_digest:
        facts["Configuration"] = provenance.config_digest
    return facts


def _describe_commit(provenance: Provenance) -> str:
    """Return `commit 0123abcd, unchanged`, or `commit 0123abcd, with changes in 7 files`."""
    if not provenance.commit:
        return "commit unknown"
    if not provenance.changed:
        return f"commit {provenance.commit}, unchanged"
    files = words.enumeration(provenance.changed)
    if len(provenance.changed) > MAX_FILES:
        files = words.count_of(len(provenance.changed), "file")
    return f"commit {provenance.commit}, with changes in {files}"


def make_bibtex(results: Results, setup: Setup) -> str:
    """Return the BibTeX entry of a page, which begins `@misc{vcsbench-fsfs-san-2014,`.

    Its note has the version, the commit, the configuration (the first digits of its digest) and the machines,
    as far as they are known.
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
