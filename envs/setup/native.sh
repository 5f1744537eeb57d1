# shellcheck shell=bash # sourced by envs/setup.sh
# Build the C programs in .tools/lib: the library that makes Subversion's client clone files, the program that builds a
# tree with the fewest system calls, and the relay that is a line between client and server.

native_built=.tools/lib
native_sources=(workflow/native/svn_reflink.c workflow/native/build_tree.c workflow/native/relay.c)

# Prints the output of a source.
native_target() {
    local name=${1##*/}
    case $name in
    svn_reflink.c) printf '%s\n' "$native_built/svn_reflink.so" ;;
    *) printf '%s\n' "$native_built/${name%.c}" ;;
    esac
}

# Succeeds if all are built, or if building this source failed before.
is_native_built() {
    is_command gcc || return 0
    local source
    for source in "${native_sources[@]}"; do
        is_one_built "$source" || return 1
    done
}

is_one_built() {
    local file target
    target=$(native_target "$1")
    for file in "$target" "$target.failed"; do
        [[ -e $file && ! $1 -nt $file ]] && return
    done
    return 1
}

# Without a compiler or its headers, cells that need these programs are skipped.
build_native() {
    is_native_built && return
    mkdir -p "$native_built"
    local source
    for source in "${native_sources[@]}"; do
        is_one_built "$source" || build_one "$source"
    done
}

build_one() {
    local source=$1 target options=()
    target=$(native_target "$source")
    [[ $target == *.so ]] && options=(-shared -fPIC)
    rm -f "$target" "$target.failed"
    say "building $target"
    # Under another name first, because a build can be interrupted.
    # The files get the time of their source, which may be in the future. A later one shows a changed source.
    if gcc "${options[@]}" -O2 -Wall "$source" -o "$target.new" -ldl; then
        touch -r "$source" "$target.new"
        mv "$target.new" "$target"
    else
        touch -r "$source" "$target.failed"
        say "$target could not be built: cells that need it are skipped"
    fi
}
