#!/bin/sh
# Bring prometheus and promtool with the package manager that is there. On Debian and Ubuntu they are put into the folder
# that is named, and not installed: the package would start a server of its own.
set -eu
folder=$1

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

if command -v brew >/dev/null; then
    brew install prometheus
elif command -v apt-get >/dev/null; then
    as_root apt-get update -qq
    unpacked=$(mktemp -d)
    trap 'rm -rf "$unpacked"' EXIT
    chmod 755 "$unpacked"
    (cd "$unpacked" && apt-get download -qq prometheus && dpkg-deb -x prometheus_*.deb .)
    cp "$unpacked/usr/bin/prometheus" "$unpacked/usr/bin/promtool" "$folder"
elif command -v dnf >/dev/null; then
    as_root dnf install -y golang-github-prometheus
elif command -v apk >/dev/null; then
    as_root apk add prometheus
elif command -v pacman >/dev/null; then
    as_root pacman -S --noconfirm prometheus
else
    echo "no known package manager is here to bring prometheus; the tests that need it are skipped" >&2
fi
