"""Lines by the kernel's netem, in a guest: many kernels of hosts and containers have none."""

import re
import sys
import sysconfig

import pytest

from project import ROOT, needs, needs_root
from vcsbench.storages import guest

pytestmark = [
    pytest.mark.slow,
    needs_root,
    needs("ip", "tc"),
    pytest.mark.skipif(bool(guest.why_unavailable(ROOT)), reason=guest.why_unavailable(ROOT)),
    pytest.mark.skipif(bool(guest.why_no_delay(ROOT)), reason=guest.why_no_delay(ROOT)),
]
TESTS = ROOT / "tests/unit/test_link.py"


def test_lines_by_netem_have_what_was_set_and_leave_nothing(tmp_path):
    folder = tmp_path / "guest"
    folder.mkdir()
    image = folder / "image"
    with image.open("wb") as file:
        file.truncate(64 << 20)
    options = ["-p", "no:cacheprovider", "-q", "-n0", "-k", "netem and not relay", str(TESTS)]
    argv = [sys.executable, "-m", "pytest", *options]
    # The root of the guest is read-only.
    script = f'mount -t tmpfs -o mode=1777 t /var/tmp && cd {ROOT} && exec "$@"'
    command = ["sh", "-c", script, "sh", *argv]
    reads = [ROOT, sysconfig.get_path("stdlib")]
    code = guest.run_in_guest(ROOT, folder, command, image, limit_s=600, reads=reads)
    printed = (folder / "out/log").read_text()
    assert code == 0, printed
    # Of the lines office, line and far; of losses; of svnserve and httpd, each ended in two ways.
    assert re.search(r"^8 passed, ", printed, re.MULTILINE), printed
