#!/bin/sh
# Make a random file in the folder given for each secret of compose.yaml that has none yet.
set -eu
umask 077
mkdir -p "$1"
for name in database_password service_secret signing_key admin_token metrics_token grafana_password; do
    file=$1/towpath_$name
    [ -e "$file" ] && continue
    od -An -N 32 -tx1 /dev/urandom | tr -d ' \n' > "$file.new"
    # The folder keeps others of this host out; in a container the service's user reads it.
    chmod 444 "$file.new"
    mv "$file.new" "$file"
done
