{{/* Names. */}}
{{- define "towpath.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "towpath.secretName" -}}
{{- .Values.secrets.existingSecret | default (printf "%s-secrets" (include "towpath.fullname" .)) -}}
{{- end -}}

{{- define "towpath.claimName" -}}
{{- .Values.objects.persistence.existingClaim | default (printf "%s-objects" (include "towpath.fullname" .)) -}}
{{- end -}}

{{/* All replicas of a service by one name: (list $ "locks" 9002). A full name, as certificates have it. */}}
{{- define "towpath.address" -}}
{{- $root := index . 0 -}}
{{- printf "dns:///%s-%s.%s.svc.%s:%v" (include "towpath.fullname" $root) (index . 1) $root.Release.Namespace $root.Values.clusterDomain (index . 2) -}}
{{- end -}}

{{/* Labels of a component: (list $ "facade"). */}}
{{- define "towpath.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ default $root.Chart.Name $root.Values.nameOverride }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "towpath.labels" -}}
{{- $root := index . 0 -}}
{{ include "towpath.selector" . }}
app.kubernetes.io/part-of: towpath
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version }}
{{- end -}}

{{/* An image: (list $ .Values.image). */}}
{{- define "towpath.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default $root.Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "towpath.publicUrl" -}}
{{- if .Values.publicUrl -}}
{{ .Values.publicUrl }}
{{- else if .Values.ingress.enabled -}}
{{ ternary "https" "http" (ne .Values.ingress.tlsSecret "") }}://{{ .Values.ingress.host }}
{{- else if .Values.httpRoute.enabled -}}
{{ .Values.httpRoute.scheme }}://{{ .Values.httpRoute.host }}
{{- end -}}
{{- end -}}

{{- define "towpath.databaseUrl" -}}
postgresql://{{ .Values.database.user | urlquery }}@{{ .Values.database.host }}:{{ .Values.database.port }}/{{ .Values.database.name }}
{{- with .Values.database.ssl }}?ssl={{ . }}{{ end -}}
{{- end -}}

{{/* What all pods have: the rules of the Pod Security Standard "restricted", and no token of the cluster. */}}
{{- define "towpath.podSecurity" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "towpath.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  runAsNonRoot: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{/* Where pods may run: (list $ "facade" .Values.facade). Replicas go to several hosts, where there are several. */}}
{{- define "towpath.placement" -}}
{{- $root := index . 0 -}}
{{- $values := index . 2 -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "towpath.selector" (list $root (index . 1)) | nindent 8 }}
{{- with $values.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with $values.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- with $values.affinity }}
affinity: {{ toJson . }}
{{- end }}
{{- end -}}

{{/* Variables of all services, and those of `settings` and `extraEnv`: (list $ .Values.facade). */}}
{{- define "towpath.environment" -}}
{{- $root := index . 0 -}}
{{- $values := index . 1 -}}
- {name: TOWPATH_SECRETS_DIR, value: /etc/towpath/secrets}
- {name: TOWPATH_DRAIN_SECONDS, value: {{ $root.Values.drainSeconds | quote }}}
{{- if $root.Values.tls.existingSecret }}
- {name: TOWPATH_TLS_CERTIFICATE, value: /etc/towpath/tls/tls.crt}
- {name: TOWPATH_TLS_KEY, value: /etc/towpath/tls/tls.key}
- {name: TOWPATH_TLS_CA, value: /etc/towpath/tls/ca.crt}
{{- end }}
{{- range $name, $value := $values.settings }}
- {name: TOWPATH_{{ upper $name }}, value: {{ (kindIs "float64" $value | ternary (printf "%v" (int64 $value)) (toString $value)) | quote }}}
{{- end }}
{{- with $values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The authority of Postgres' certificate, for services that use the database. */}}
{{- define "towpath.databaseEnvironment" -}}
{{- if .Values.database.caSecret }}
- {name: PGSSLROOTCERT, value: /etc/towpath/database/ca.crt}
{{- end }}
{{- end -}}

{{/* The mounts that go with "towpath.volumes". */}}
{{- define "towpath.mounts" -}}
{{- $root := index . 0 -}}
- {name: secrets, mountPath: /etc/towpath/secrets, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- if $root.Values.tls.existingSecret }}
- {name: tls, mountPath: /etc/towpath/tls, readOnly: true}
{{- end }}
{{- if and (has "database" (index . 1)) $root.Values.database.caSecret }}
- {name: database, mountPath: /etc/towpath/database, readOnly: true}
{{- end }}
{{- end -}}

{{/* Volumes: (list $ (list "service_secret" ...)). Each secret is a file, and a pod has only what it reads. */}}
{{- define "towpath.volumes" -}}
{{- $root := index . 0 -}}
{{- $names := index . 1 -}}
- name: secrets
  projected:
    # The service's group reads them.
    defaultMode: 0440
    sources:
      - secret:
          name: {{ include "towpath.secretName" $root }}
          items:
            {{- range without $names "database" "objects" }}
            {{- if not (hasSuffix "_accepted" .) }}
            - {key: towpath_{{ . }}, path: towpath_{{ . }}}
            {{- end }}
            {{- end }}
      {{- range $names }}
      {{- if hasSuffix "_accepted" . }}
      - secret:
          name: {{ include "towpath.secretName" $root }}
          optional: true
          items:
            - {key: towpath_{{ . }}, path: towpath_{{ . }}}
      {{- end }}
      {{- end }}
      {{- if has "database" $names }}
      - secret:
          name: {{ $root.Values.database.existingSecret }}
          items:
            - {key: {{ $root.Values.database.passwordKey | quote }}, path: towpath_database_password}
      {{- end }}
      {{- if and (has "objects" $names) $root.Values.objects.credentials.existingSecret }}
      - secret:
          name: {{ $root.Values.objects.credentials.existingSecret }}
          items:
            - {key: {{ $root.Values.objects.credentials.key | quote }}, path: towpath_objects_credentials}
      {{- end }}
- name: tmp
  emptyDir: {medium: Memory, sizeLimit: 64Mi}
{{- if $root.Values.tls.existingSecret }}
- name: tls
  secret: {secretName: {{ $root.Values.tls.existingSecret }}, defaultMode: 0440}
{{- end }}
{{- if and (has "database" $names) $root.Values.database.caSecret }}
- name: database
  secret:
    secretName: {{ $root.Values.database.caSecret }}
    items:
      - {key: {{ $root.Values.database.caKey | quote }}, path: ca.crt}
{{- end }}
{{- end -}}

{{/* Probes of a service with gRPC. A start that succeeds late has succeeded, and an outage of Postgres restarts nothing. */}}
{{- define "towpath.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 2
  timeoutSeconds: 10
  failureThreshold: 90
livenessProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 10
  timeoutSeconds: 10
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: metrics}
  periodSeconds: 5
  timeoutSeconds: 10
  failureThreshold: 2
{{- end -}}

{{/* Combinations of values that cannot work. */}}
{{- define "towpath.validate" -}}
{{- $values := .Values -}}
{{- if not $values.database.host }}
{{- fail "database.host: expected the host of Postgres, which the chart does not bring" }}
{{- end }}
{{- if not $values.database.existingSecret }}
{{- fail "database.existingSecret: expected the name of a Secret with the password of Postgres' user" }}
{{- end }}
{{- if and (has $values.database.ssl (list "verify-ca" "verify-full")) (not $values.database.caSecret) }}
{{- fail (printf "database.caSecret: expected the name of a Secret, as database.ssl is %s" $values.database.ssl) }}
{{- end }}
{{- if not $values.objects.url }}
{{- if $values.storage.autoscaling.enabled }}
{{- fail "storage.autoscaling.enabled: expected false without objects.url, as a volume serves one replica; several need a bucket" }}
{{- end }}
{{- if gt (int $values.storage.replicas) 1 }}
{{- fail (printf "storage.replicas: expected 1 without objects.url, got %d: a volume serves one replica; several need a bucket" (int $values.storage.replicas)) }}
{{- end }}
{{- if $values.objects.credentials.existingSecret }}
{{- fail "objects.credentials.existingSecret: expected nothing without objects.url, as a volume needs no keys" }}
{{- end }}
{{- else if hasPrefix "file:" $values.objects.url }}
{{- fail "objects.url: expected a bucket; leave it empty for a volume" }}
{{- else if $values.objects.persistence.existingClaim }}
{{- fail "objects.persistence.existingClaim: expected nothing with objects.url, as objects go either to a bucket or to a volume" }}
{{- end }}
{{- if and $values.ingress.enabled $values.httpRoute.enabled }}
{{- fail "httpRoute.enabled: expected false with ingress.enabled, as one of the two leads to the facade" }}
{{- end }}
{{- if and $values.ingress.enabled (not $values.ingress.host) }}
{{- fail "ingress.host: expected the host that clients use" }}
{{- end }}
{{- if and $values.httpRoute.enabled (or (not $values.httpRoute.host) (not $values.httpRoute.parentRefs)) }}
{{- fail "httpRoute: expected host and parentRefs" }}
{{- end }}
{{- if and (or $values.ingress.enabled $values.httpRoute.enabled) (not $values.facade.trustedProxies) }}
{{- fail "facade.trustedProxies: expected the addresses of the ingress controller's pods: without them all clients count as one, and are answered 429 together" }}
{{- end }}
{{- if and $values.ssh.enabled (not $values.ssh.hostKeysSecret) }}
{{- fail "ssh.hostKeysSecret: expected the name of a Secret with the host keys" }}
{{- end }}
{{- if and $values.monitoring.serviceMonitor.enabled $values.networkPolicy.enabled (not $values.networkPolicy.prometheus) }}
{{- fail "networkPolicy.prometheus: expected the pods of Prometheus, as monitoring.serviceMonitor.enabled needs them to reach the metrics" }}
{{- end }}
{{- end -}}
