#!/bin/bash
# A health check of containers: probe.sh PORT /PATH ends with 0 where this host answers 200 there over HTTP.
#
# It is started every few seconds in each container, and matters most while the machine is busy, so it starts no Python:
# bash opens the connection itself, and all of it takes some milliseconds.
[ $# = 2 ] || { echo "usage: probe.sh PORT /PATH" >&2; exit 2; }
# HTTP/1.0, so that the connection ends with the answer.
exec 3<>"/dev/tcp/127.0.0.1/$1" || exit 1
printf 'GET %s HTTP/1.0\r\nHost: localhost\r\n\r\n' "$2" >&3
read -r -t 3 _ status _ <&3 || { echo "no answer"; exit 1; }
echo "$status"
[ "$status" = 200 ]
