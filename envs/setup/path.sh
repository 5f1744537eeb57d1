# shellcheck shell=bash disable=SC2154 # sourced with $root set
# Which environment the set-up made, and its programs on PATH.

# Prints .venv or .conda, whichever the set-up finished last; nothing where there is none.
finished_environment() {
    local environment
    for environment in .venv .conda; do
        if compgen -G "$root/$environment/vcsbench*.stamp" >/dev/null; then
            printf '%s\n' "$environment"
            return
        fi
    done
}

# Puts an environment ("" for none) and the checkout's private tools in front on PATH. At the end
# comes /usr/sbin: Debian's users do not have it there, and that is where apache2 is.
use_environment() {
    export PATH="${1:+$root/$1/bin:}$root/.tools/bin:$PATH:/usr/sbin:/sbin"
}
