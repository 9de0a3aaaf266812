#!/bin/sh
# Make a random file in the folder given for each secret of compose.yaml that has none yet.
set -eu
umask 077
mkdir -p "$1"
chmod 700 "$1"

random() {
    od -An -N "$1" -tx1 /dev/urandom | tr -d ' \n'
}

# The folder keeps others of this host out; in a container the service's user reads the file.
put() {
    cat > "$1.new"
    chmod 444 "$1.new"
    mv "$1.new" "$1"
}

# Those that end in _accepted are the ones to change to: docs/operations.md, "Changing a secret while people work".
for name in database_password service_secret service_secret_accepted storage_admin_secret storage_admin_secret_accepted ssh_secret \
    ssh_secret_accepted signing_key signing_key_accepted admin_token metrics_token grafana_password; do
    file=$1/towpath_$name
    [ -e "$file" ] && continue
    random 32 | put "$file"
done

# The keys to the store of the profile `s3`, as its client reads them and as it reads them itself.
credentials=$1/towpath_s3_credentials
if [ ! -e "$credentials" ]; then
    key=$(random 10) secret=$(random 32)
    printf '{"identities": [{"name": "towpath", "credentials": [{"accessKey": "%s", "secretKey": "%s"}],
 "actions": ["Read:objects", "Write:objects", "List:objects"]}]}\n' "$key" "$secret" | put "$1/towpath_s3_identities"
    printf '[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n' "$key" "$secret" | put "$credentials"
fi
