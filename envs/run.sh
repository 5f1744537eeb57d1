#!/usr/bin/env bash
# Runs a command with the tools that envs/setup.sh made on PATH. usage: envs/run.sh COMMAND...
set -euo pipefail
unset CDPATH
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source-path=SCRIPTDIR source=setup/path.sh
. "$root/envs/setup/path.sh"
use_environment "$(finished_environment)"
use_own_caches
exec "$@"
