"""vcsbench: benchmarks of version-control servers."""

import os
import resource
import sys

__version__ = "0.2.0"

# Python keeps bytecode that a full disk or a limit on the size of files has cut. Then no process can start.
_disk, (_limit, _) = os.statvfs(__file__), resource.getrlimit(resource.RLIMIT_FSIZE)
_rooms = [_disk.f_bavail * _disk.f_frsize] + [_limit] * (_limit != resource.RLIM_INFINITY)
if min(_rooms) < 64 << 20:
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # of Snakemake and jobs
