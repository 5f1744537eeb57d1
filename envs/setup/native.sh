# shellcheck shell=bash # sourced by envs/setup.sh
# What is built from C, in .tools/lib: the library that has Subversion's client clone working files.

reflink_source=workflow/native/svn_reflink.c
reflink_library=.tools/lib/svn_reflink.so

is_native_built() {
    [[ -e $reflink_library && ! $reflink_source -nt $reflink_library ]] || ! is_command gcc
}

# Without a compiler, or the headers that it needs, cells with reflinks are skipped.
build_native() {
    is_native_built && return
    mkdir -p "${reflink_library%/*}"
    say "building $reflink_library"
    # Under another name first: who was interrupted has none.
    if gcc -shared -fPIC -O2 -Wall "$reflink_source" -o "$reflink_library.new" -ldl; then
        mv "$reflink_library.new" "$reflink_library"
    else
        say "$reflink_library could not be built: cells with reflinks are skipped"
    fi
}
