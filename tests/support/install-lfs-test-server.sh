#!/bin/sh
# Put lfs-test-server, which git-lfs is tested with, into the folder that is named. It is built with Go, which the package
# manager brings where it is not here.
set -eu
umask 022
folder=$(cd "$1" && pwd)
[ ! -x "$folder/lfs-test-server" ] || exit 0
here=$(cd "$(dirname "$0")" && pwd)
PATH="$PATH:/usr/local/go/bin:/usr/lib/go/bin"
export GOFLAGS= GO111MODULE=on

command -v go >/dev/null || sh "$here/install.sh" "$folder" go || {
    echo "lfs-test-server: to install it needs Go" >&2
    exit 1
}
work=$(mktemp -d)
trap 'chmod -R u+w "$work" && rm -rf "$work"' EXIT
# Where there is no home folder to write into, what Go keeps goes with the work.
[ -w "${HOME:-/nonexistent}" ] || export GOPATH="$work/path" GOCACHE="$work/cache"
# It is older than Go's modules and names none that it needs. With the zipexe that go.rice names, it ends as it starts.
cat >"$work/go.mod" <<'MODULES'
module tests

go 1.16

require (
	github.com/GeertJohan/go.rice v1.0.0
	github.com/boltdb/bolt v1.3.1
	github.com/daaku/go.zipexe v1.0.2
	github.com/git-lfs/lfs-test-server v0.4.0
	github.com/gorilla/context v1.1.1
	github.com/gorilla/mux v1.8.0
)
MODULES
echo "Building lfs-test-server with Go (a minute, once) ..." >&2
cd "$work" && GOBIN=$folder go install -mod=mod github.com/git-lfs/lfs-test-server >&2
