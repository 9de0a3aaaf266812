#!/bin/sh
# Check the chart of deploy/helm and the units of deploy/systemd: lint.sh FOLDER, where the folder has Python's programs,
# and helm and kubeconform by tests/support/install-helm.sh. A tool that is not here is named, and its part is left out;
# in continuous integration that fails.
set -u
cd "$(dirname "$0")/.." || exit 1
folder=$1
PATH="$PATH:$(cd "$folder" && pwd)"
chart=deploy/helm/towpath
schemas=$folder/../kubernetes-schemas
failed=0

absent() {
    echo "deploy/lint.sh: $1 is not here: $2 is not checked" >&2
    [ "${CI:-}" != true ] || failed=1
}

if ! command -v helm >/dev/null; then
    absent helm "$chart"
else
    for values in "$chart"/ci/*.yaml; do
        # The files that are links are named on each reading.
        lines=$(helm lint --strict --quiet "$chart" --values "$values" 2>&1) || { echo "$values: $lines" >&2; failed=1; }
        if ! command -v kubeconform >/dev/null || [ ! -d "$schemas" ]; then
            continue
        fi
        rendered=$(mktemp)
        helm template lint "$chart" --namespace lint --values "$values" >"$rendered" 2>/dev/null || failed=1
        for version in 1.27.0 1.37.0; do
            kubeconform -strict -kubernetes-version $version \
                -schema-location "$schemas/{{ .NormalizedKubernetesVersion }}/{{ .ResourceKind }}{{ .KindSuffix }}.json" \
                -schema-location "$schemas/crds/{{ .Group }}/{{ .ResourceKind }}_{{ .ResourceAPIVersion }}.json" \
                "$rendered" || { echo "$values: not as Kubernetes $version has it" >&2; failed=1; }
        done
        rm "$rendered"
    done
    if ! command -v kubeconform >/dev/null; then absent kubeconform "what $chart renders"; fi
    if [ ! -d "$schemas" ]; then absent "$schemas" "what $chart renders"; fi
fi

if command -v systemd-analyze >/dev/null; then
    units=$(mktemp -d)
    for unit in deploy/systemd/*.service; do
        # The programs are not installed here.
        sed -E 's,^(ExecStart=)/opt/towpath/bin/\S+,\1/bin/true,' "$unit" >"$units/$(basename "$unit")"
    done
    lines=$(systemd-analyze verify --man=no "$units"/*.service 2>&1) || failed=1
    # It tells of every unit of this host.
    lines=$(echo "$lines" | grep -F towpath) && { echo "$lines" >&2; failed=1; }
    rm -r "$units"
else
    echo "deploy/lint.sh: systemd-analyze is not here: deploy/systemd is not checked" >&2
fi
exit $failed
