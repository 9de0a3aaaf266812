#!/bin/sh
# Put Keycloak into the folder that is named. It needs Maven, Java and 600 MB.
set -eu
umask 022
folder=$1
version=26.7.3

command -v mvn >/dev/null && command -v java >/dev/null && command -v unzip >/dev/null || exit 1
echo "Bringing Keycloak with Maven (180 MB) ..." >&2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mvn -q -B dependency:copy -Dartifact=org.keycloak:keycloak-quarkus-dist:$version:zip -DoutputDirectory="$work" >&2
unzip -q "$work/keycloak-quarkus-dist-$version.zip" -d "$work"
mv "$work/keycloak-$version" "$folder"
