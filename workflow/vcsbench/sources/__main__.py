"""Write the youngest tree of a source to a new folder, in a process outside of the measured code.

Prints notes on changes and omissions, one per line.

usage: python -m vcsbench.sources git REPOSITORY FOLDER COMMIT
usage: python -m vcsbench.sources directory|archive SOURCE FOLDER TEMPORARY
"""

import sys
from pathlib import Path

from vcsbench.errors import UserError
from vcsbench.sources.git_repository import open_repository
from vcsbench.sources.git_source import write_tree
from vcsbench.sources.tree_source import extract_tree

if __name__ == "__main__":
    kind, source, folder, last = sys.argv[1:]
    try:
        if kind == "git":
            with open_repository(Path(source)) as repository:
                notes = write_tree(repository, last, Path(folder))
        else:
            notes = extract_tree(kind, Path(source), Path(folder), Path(last))
        print("\n".join(notes))
    except (UserError, OSError) as error:
        sys.exit(str(error))
