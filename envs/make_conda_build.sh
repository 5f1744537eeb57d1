#!/usr/bin/env bash
# Makes a build of Subversion from conda's packages: the environment of FILE in FOLDER. RECORD gets the
# digests of its programs. usage: envs/make_conda_build.sh FILE FOLDER RECORD
set -euo pipefail

say() { printf 'build: %s\n' "$*"; }
die() {
    printf 'build: %s\n' "$*" >&2
    exit 1
}

(($# == 3)) || die "usage: envs/make_conda_build.sh FILE FOLDER RECORD"
file=$1 folder=$(realpath --canonicalize-missing -- "$2") record=$3
# shellcheck source-path=SCRIPTDIR source=setup/conda.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/setup/conda.sh"
tool=$(find_conda) || die "neither micromamba, mamba, conda nor pixi is on PATH, one of which makes the environment of $file"
mkdir -p -- "$(dirname -- "$folder")"
make_conda_environment "$tool" "$file" "$folder" "$folder.pixi"
compgen -G "$folder/bin/svn*" >/dev/null ||
    die "the environment of $file has no Subversion; put subversion among its dependencies"
(cd -- "$folder" && sha256sum bin/svn*) >"$record"
