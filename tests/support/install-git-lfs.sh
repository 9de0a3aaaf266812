#!/bin/sh
# Install git and git-lfs with the package manager that is there.
set -eu

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

if command -v brew >/dev/null; then
    brew install git-lfs
elif command -v apt-get >/dev/null; then
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq git git-lfs
elif command -v dnf >/dev/null; then
    as_root dnf install -y git git-lfs
elif command -v apk >/dev/null; then
    as_root apk add git git-lfs
elif command -v pacman >/dev/null; then
    as_root pacman -S --noconfirm git git-lfs
elif command -v zypper >/dev/null; then
    as_root zypper --non-interactive install git git-lfs
else
    echo "git-lfs is needed for the tests, and no known package manager is here to bring it" >&2
    exit 1
fi
