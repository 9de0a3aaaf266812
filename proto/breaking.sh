#!/bin/sh
# Hold the .proto files to those of the newest release, which released/ keeps: what was built with them must go on working.
# Usage: breaking.sh BUF, with the path of the buf program.
set -eu

buf=$1
proto=$(cd "$(dirname "$0")" && pwd)

newest=$(find "$proto/released" -name '*.binpb' 2>/dev/null | sort -V | tail -n 1)
if [ -z "$newest" ]; then
	echo "buf breaking: proto/released has no release to compare with" >&2
	exit 1
fi
"$buf" breaking "$proto" --against "$newest"
echo "buf breaking: nothing that worked with $(basename "$newest" .binpb) breaks"
