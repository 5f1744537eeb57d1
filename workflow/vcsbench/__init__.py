"""vcsbench: benchmarks of version-control servers."""

import os
import resource
import sys

__version__ = "0.2.0"

# If a full disk, or a limit on the size of files, cuts a file of bytecode, no process can start. So Python
# writes none if less than 64 MiB are free, or if the limit is below 64 MiB.
_disk = os.statvfs(__file__)
_limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
_can_be_cut = _limit != resource.RLIM_INFINITY and _limit < 64 << 20
if _can_be_cut or _disk.f_bavail * _disk.f_frsize < 64 << 20:
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # of Snakemake and jobs
