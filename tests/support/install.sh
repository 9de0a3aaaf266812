#!/bin/sh
# Bring the programs that are not here: by the package manager, where this user may use it without being asked for a
# password; otherwise, on Debian and Ubuntu, out of the packages and into a folder, as far as they run from there.
# Usage: install.sh FOLDER PROGRAM..., each a package of the same name, but for a few. It fails where one is still missing.
set -u
umask 022
folder=$(cd "$1" && pwd) || exit 1
shift
PATH="$PATH:$folder:/usr/sbin:/usr/local/sbin"

missing_of() {
    for program in "$@"; do
        command -v "$program" >/dev/null || printf ' %s' "$program"
    done
}

may_install() {
    [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

# Lists of our own, as those of the system may be old or missing, and only root may bring new ones.
apt_get() {
    if [ -d "$work/lists" ]; then
        apt-get -qq -o Dir::State::lists="$work/lists" -o Dir::Cache="$work/cache" "$@"
    else
        apt-get -qq -o APT::Sandbox::User=root "$@"
    fi
}

unpack() (
    cd "$work" && apt_get download "$1" && dpkg-deb -x "$1"_*.deb "$1" || exit 1
    for file in "$1"/usr/bin/* "$1"/usr/sbin/*; do
        [ -f "$file" ] || continue
        lacking=$(ldd "$file" 2>/dev/null | sed -n 's/ => not found//p')
        if [ -n "$lacking" ]; then
            echo "$1: it does not run without" $lacking >&2
            exit 1
        fi
        cp "$file" "$folder"
    done
)

# The program alone, where another package would start it as a server.
package_of() {
    case $1 in apache2) echo apache2-bin ;; go) echo golang ;; gcc) echo gcc libc6-dev ;; hg) echo mercurial ;; sshd) echo openssh-server ;; chromedriver) echo chromium-driver ;; *) echo "$1" ;; esac
}

bring_with_apt() {
    if ! may_install; then
        # The others run from their own places only.
        case $1 in git | go | npm | apache2 | gcc | hg | sshd | chromium | chromedriver) echo "$1: to install it needs root" >&2 ;; *) unpack "$1" ;; esac
    elif [ "$1" = prometheus ]; then
        # The package would start a server of its own.
        unpack "$1"
    else
        # A runlevel in which no service is started: the tests start what they need themselves.
        as_root env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive \
            apt-get -o DPkg::Lock::Timeout=300 install -y -qq $(package_of "$1")
    fi
}

missing=$(missing_of "$@")
[ -n "$missing" ] || exit 0
echo "Bringing what the tests run:$missing ..." >&2

if command -v brew >/dev/null; then
    bring() { brew install "$1"; }
elif command -v apt-get >/dev/null; then
    work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT && chmod 755 "$work" || exit 1
    if may_install; then
        as_root apt-get update -qq
    else
        mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
        apt_get update
    fi
    bring() { bring_with_apt "$1"; }
elif ! may_install; then
    bring() { echo "$1: to install it needs root" >&2; }
elif command -v dnf >/dev/null; then
    bring() {
        if [ "$1" = prometheus ]; then set -- golang-github-prometheus; fi
        if [ "$1" = sshd ]; then set -- openssh-server; fi
        if [ "$1" = go ]; then set -- golang; fi
        as_root dnf install -y "$1"
    }
elif command -v apk >/dev/null; then
    bring() { as_root apk add "$1"; }
elif command -v pacman >/dev/null; then
    bring() { as_root pacman -S --noconfirm "$1"; }
elif command -v zypper >/dev/null; then
    bring() { as_root zypper --non-interactive install "$1"; }
else
    bring() { echo "$1: no known package manager is here to bring it" >&2; }
fi

# One by one, as a package that cannot be had keeps none of the others away.
for program in $missing; do
    bring "$program" >&2
done
[ -z "$(missing_of "$@")" ]
