#!/bin/sh
# Install the programs that the tests run and that are not here, with the package manager that is there.
# Usage: install.sh PROGRAM..., each a package of the same name.
set -eu

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

missing=
for program in "$@"; do
    PATH="$PATH:/usr/sbin" command -v "$program" >/dev/null || missing="$missing $program"
done
[ -n "$missing" ] || exit 0

# shellcheck disable=SC2086 # a list of packages
if command -v brew >/dev/null; then
    brew install $missing
elif command -v apt-get >/dev/null; then
    as_root apt-get update -qq
    # A runlevel in which no service is started: the tests start what they need themselves.
    as_root env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $missing
elif command -v dnf >/dev/null; then
    as_root dnf install -y $missing
elif command -v apk >/dev/null; then
    as_root apk add $missing
elif command -v pacman >/dev/null; then
    as_root pacman -S --noconfirm $missing
elif command -v zypper >/dev/null; then
    as_root zypper --non-interactive install $missing
else
    echo "needed for the tests, and no known package manager is here to bring it:$missing" >&2
    exit 1
fi
