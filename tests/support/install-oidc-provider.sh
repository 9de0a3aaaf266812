#!/bin/sh
# Put oidc-provider, a certified provider of OpenID Connect, into the folder that is named. It needs npm.
set -eu
umask 022
folder=$1

command -v npm >/dev/null || exit 1
mkdir -p "$folder"
# Where there is no home folder to write into, what npm keeps goes there too.
[ -w "${HOME:-/nonexistent}" ] || export npm_config_cache="$(cd "$folder" && pwd)/cache" npm_config_update_notifier=false
echo "Bringing oidc-provider from npm ..." >&2
npm install --loglevel=error --no-audit --no-fund --omit=dev --prefix "$folder" 'oidc-provider@^9.13.3' >&2
