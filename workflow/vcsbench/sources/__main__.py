"""Write the youngest tree of a source to a folder, in a process outside of the measured code.

usage: python -m vcsbench.sources archive ARCHIVE FOLDER     prints the folder of the tree
       python -m vcsbench.sources git REPOSITORY COMMIT NEW  prints notes, one per line
"""

import sys
from pathlib import Path

from vcsbench.errors import UserError
from vcsbench.sources.git_objects import write_tree
from vcsbench.sources.git_repository import open_repository
from vcsbench.sources.tree_source import unpack

if __name__ == "__main__":
    try:
        kind, source, *rest = sys.argv[1:]
        if kind == "archive":
            print(unpack(Path(source), Path(rest[0])), end="")
        else:
            with open_repository(Path(source)) as repository:
                print("\n".join(write_tree(repository, rest[0], Path(rest[1]))))
    except (UserError, OSError) as error:
        sys.exit(str(error))
