#!/usr/bin/env bash
# Fetches OpenSSH's server for cells over svn+ssh from this machine's Debian archive. It is unpacked and not installed,
# because installing it starts a service on port 22.
# usage: envs/unpack_sshd.sh        into .tools/sshd; needs no root
set -euo pipefail
unset CDPATH
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

# The library lets sshd read its users from a file.
packages=(openssh-server libnss-wrapper)
folder=.tools/sshd

. envs/setup/unpack.sh
check_unpacking apt-get apt-cache dpkg-deb
# Libraries that only sshd needs. Each release has one or both of them.
for package in libwrap0 libwtmpdb0; do
    ! apt-cache show "$package" &>/dev/null || packages+=("$package")
done
unpack_packages "${packages[@]}"
libraries=$(printf '%s:' "$parts"/root/usr/lib/*-linux-* "$parts"/root/lib/*-linux-*)
# An old sshd exits with 1 for this option. A program without one of its libraries exits with 127.
LD_LIBRARY_PATH=$libraries "$parts/root/usr/sbin/sshd" -V &>"$parts/output" || (($? != 127)) ||
    die "sshd does not run here: $(tail -n 1 "$parts/output")"
mv -- "$parts/root" "$folder"
say "made $folder"
