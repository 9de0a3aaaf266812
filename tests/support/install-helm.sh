#!/bin/sh
# Put helm, kubeconform and the schemas that it compares with into the folder of Python's programs that is named: the
# tools by Go, in minutes, and the schemas by pip and Go. It fails where one of them cannot be had.
set -eu
umask 022
folder=$(cd "$1" && pwd)
PATH="$PATH:$folder:/usr/local/go/bin"
export GOFLAGS=

bring() {
    command -v "$1" >/dev/null && return
    command -v go >/dev/null || { echo "$1: to install it needs Go" >&2; return 1; }
    echo "Building $1 with Go (some minutes, once) ..." >&2
    GOBIN=$folder go install "$2" >&2
}

missing=0
bring helm helm.sh/helm/v4/cmd/helm@v4.3.1 || missing=1
bring kubeconform github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0 || missing=1
"$folder/python" -m tests.support.kubernetes_schemas "$folder/../kubernetes-schemas" || missing=1
exit $missing
