# shellcheck shell=bash disable=SC2154 # sourced by envs/setup.sh and envs/list-missing.sh, which set root
# The Python tools, in .venv, by uv from the lock files.

# Prints a uv that runs: the machine's, or the checkout's.
find_uv() {
    local uv
    for uv in uv "$root/.tools/uv/bin/uv"; do
        # A shim of pyenv is on PATH even where no Python has it.
        if "$uv" --version &>/dev/null; then
            printf '%s\n' "$uv"
            return
        fi
    done
    return 1
}

# Runs a command that fetches WHAT. If it fails, prints its last lines and ends with a sentence.
fetch() {
    local what=$1 output
    shift
    if ! output=$("$@" 2>&1); then
        printf '%s\n' "$output" | tail -n 4 | sed 's/^/    /' >&2
        die "could not fetch $what. See the lines above. Behind a proxy, set HTTPS_PROXY; with a" \
            "package index of your own, set PIP_INDEX_URL and UV_DEFAULT_INDEX; then run this again."
    fi
}

install_uv() {
    say "installing uv in .tools"
    rm -rf .tools/uv
    fetch "uv" python3 -m venv .tools/uv
    # A user's setting to install into the home (PIP_USER, or `user = true` in pip.conf) fails in an environment.
    # With the other variables, pip succeeds and installs elsewhere, or nothing.
    fetch "uv" env -u PIP_TARGET -u PIP_PREFIX -u PIP_ROOT -u PIP_DRY_RUN PIP_USER=0 \
        .tools/uv/bin/python -m pip install --quiet --disable-pip-version-check --retries 2 \
        --require-hashes --no-deps --only-binary :all: --requirement envs/installer.lock
}

# uv uses the machine's certificates, because companies add their own.
use_system_certificates() {
    local bundle
    for bundle in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem; do
        # The second name is for uv before 0.10.
        [[ -e $bundle ]] && export UV_SYSTEM_CERTS=true UV_NATIVE_TLS=true
    done
    return 0
}

# Succeeds if .venv was made for this folder, by a Python that exists and is new enough. After an upgrade of the
# machine's Python, .venv has no folder for the modules of the new one.
is_usable_venv() {
    # The path may be the end of another one, in which the checkout was before.
    grep -qsF -e "='$root/.venv'" -e "=\"$root/.venv\"" -e "=$root/.venv" .venv/bin/activate &&
        .venv/bin/python -I -c 'import os, sys, sysconfig
sys.exit(not (3, 11) <= sys.version_info < (3, 14) or not os.path.isdir(sysconfig.get_path("purelib")))' &>/dev/null
}

# Sets uv to a uv that runs, and installs one if there is none.
provide_uv() {
    use_system_certificates
    # Each call of uv below names the Python of an environment, and this variable excludes environments.
    unset UV_SYSTEM_PYTHON
    find_uv >/dev/null || install_uv
    uv=$(find_uv) || die "uv does not run; delete .tools and run this again. If \`python3 -m pip config list\`" \
        "has a target, prefix or root, remove that setting first."
}

make_python_environment() {
    local uv program
    provide_uv
    if ! is_usable_venv; then
        # From pyproject.toml. uv fetches a Python if the machine's does not fit.
        local wanted
        wanted=$(sed -n 's/^requires-python = "\(.*\)"$/\1/p' pyproject.toml)
        say "creating .venv with Python $wanted"
        rm -rf .venv
        fetch "Python $wanted (one on PATH does as well)" "$uv" venv --quiet --no-project --python "$wanted" .venv
    fi
    say "installing the Python tools of ${python_locks[*]} in .venv"
    # Compile now: Snakemake then starts in half the time, and later the folder may be read-only.
    fetch "the Python tools" "$uv" pip sync --quiet --python .venv/bin/python --require-hashes \
        --build-constraints envs/installer.lock --compile-bytecode "${python_locks[@]}"
    ((${#python_locks[@]} == 1)) || : >.venv/vcsbench-cluster
    # After `. .venv/bin/activate`, PATH has the programs of this folder only.
    for program in .tools/bin/*; do
        [[ ! -x $program ]] || ln -sf "../../$program" .venv/bin
    done
}

# Adds the plugins for a cluster to an environment of conda, if --cluster was given now or before.
add_cluster_plugins() {
    ((${#python_locks[@]} > 1)) || return 0
    local environment=$1 uv plugins
    provide_uv
    # From pyproject.toml, because the lock file has other versions of pandas and numpy than conda.
    mapfile -t plugins < <(sed -n 's/^ *"\(snakemake-executor-plugin-[^"]*\)".*/\1/p' pyproject.toml)
    say "installing the plugins for a cluster in $environment"
    fetch "the plugins for a cluster" "$uv" pip install --quiet --python "$environment/bin/python" "${plugins[@]}"
    : >"$environment/vcsbench-cluster"
}
