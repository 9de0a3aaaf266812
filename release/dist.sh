#!/bin/sh
# Build the sdist and the wheel of the last commit into a folder: the same bytes wherever that is done.
# Usage: dist.sh PYTHON OUT, with a Python that has the packages of requirements/build.txt. A tree without a repository, as
# an sdist unpacks to, is built as it is.
set -eu

python=$("$1" -c "import sys; print(sys.executable)")
mkdir -p "$2"
out=$(cd "$2" && pwd)
root=$(cd "$(dirname "$0")/.." && pwd -P)
source=$root

if [ "$(git -C "$root" rev-parse --show-toplevel 2>/dev/null)" = "$root" ]; then
	SOURCE_DATE_EPOCH=$(git -C "$root" log -1 --format=%ct)
	export SOURCE_DATE_EPOCH
	test -z "$(git -C "$root" status --porcelain)" || echo "dist: what is not committed is left out" >&2
	source=$(mktemp -d)
	trap 'rm -rf "$source"' EXIT
	git -C "$root" archive HEAD | tar -x -f - -C "$source"
fi
cd "$source"
# Modes are part of the archives.
umask 022
"$python" -m hatchling build --directory "$out"
