"""`python -m vcsbench.sources.git REPOSITORY COMMIT FOLDER` writes a tree and prints notes, one a line."""

import sys
from pathlib import Path

from vcsbench.errors import UserError
from vcsbench.sources.git.command import open_repository
from vcsbench.sources.git.tree import write_tree

if __name__ == "__main__":
    try:
        with open_repository(Path(sys.argv[1])) as opened:
            print("\n".join(write_tree(opened, sys.argv[2], Path(sys.argv[3]))))
    except (UserError, OSError) as error:
        sys.exit(str(error))
