"""Name the forms in which a source gives its history, and a version control system loads one."""

from enum import StrEnum


class HistoryForm(StrEnum):
    """A form in which a source gives its history to a version control system."""

    # A dump stream of Subversion (Source.write).
    DUMP = "dump"
    # A stream for `git fast-import` (Source.write_fast_import).
    FAST_IMPORT = "fast-import"
    # The files of a git repository as it is (GitCopySource.copy_to).
    GIT_FILES = "git-files"
