#!/bin/sh
# Hold the .proto files to those of the last tag: what was built with them must go on working.
# Usage: breaking.sh BUF, with the path of the buf program.
set -eu

buf=$1
proto=$(cd "$(dirname "$0")" && pwd)

if ! repository=$(git -C "$proto" rev-parse --path-format=absolute --git-common-dir 2>/dev/null); then
	echo "buf breaking: skipped, as this is no git repository"
	exit 0
fi
if ! tag=$(git -C "$proto" describe --tags --abbrev=0 2>/dev/null); then
	echo "buf breaking: skipped, as there is no tag yet (a shallow clone may lack it)"
	exit 0
fi
"$buf" breaking "$proto" --against "$repository#format=git,tag=$tag,subdir=proto"
echo "buf breaking: nothing that worked with $tag breaks"
