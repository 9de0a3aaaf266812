#!/bin/sh
# Makes the host keys that the volume lacks, and runs sshd.
set -eu
for type in ed25519 ecdsa rsa; do
    key=/var/lib/ssh/ssh_host_${type}_key
    [ -s "$key" ] || ssh-keygen -q -N "" -C towpath -t "$type" -f "$key"
done
exec /usr/sbin/sshd -D -e -f /etc/ssh/towpath_sshd_config
