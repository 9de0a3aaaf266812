#!/bin/sh
# Put Azurite, which is Azure's blob storage for one host, into the folder that is named. It needs npm.
set -eu
folder=$1

if ! command -v npm >/dev/null; then
    echo "npm is not here to bring azurite; the tests that need it are skipped" >&2
    exit 0
fi
mkdir -p "$folder"
npm install --loglevel=error --no-audit --no-fund --omit=dev --prefix "$folder" 'azurite@>=3.37.0'
