{{- define "tidemark.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "tidemark.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains (include "tidemark.name" .) .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "tidemark.name" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "tidemark.selectorLabels" -}}
app.kubernetes.io/name: {{ include "tidemark.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tidemark.labels" -}}
{{ include "tidemark.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "tidemark.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "tidemark.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "tidemark.image" -}}
{{- $tag := default .Chart.AppVersion .Values.image.tag -}}
{{- if .Values.image.digest -}}
{{- printf "%s:%s@%s" .Values.image.repository $tag .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository $tag -}}
{{- end -}}
{{- end -}}

{{- define "tidemark.tokensSecret" -}}
{{- default (printf "%s-tokens" (include "tidemark.fullname" .)) .Values.tokens.existingSecret -}}
{{- end -}}

{{/* A token of the given role, new or made from the seed; controller/base/token_format.py defines the format. */}}
{{- define "tidemark.mint" -}}
{{- $secret := randAlphaNum 43 -}}
{{- with .root.Values.tokens.seed -}}
{{- $secret = printf "%s %s %s %s" . $.root.Release.Namespace (include "tidemark.fullname" $.root) $.role . | sha256sum | trunc 43 -}}
{{- end -}}
{{- $body := printf "tdm_%s_%s" .role $secret -}}
{{- printf "%s%s" $body (sha256sum $body | trunc 8) -}}
{{- end -}}

{{/* Labels of pods that call the controller and are none: the Service and the NetworkPolicy must not select them. */}}
{{- define "tidemark.callerLabels" -}}
app.kubernetes.io/name: {{ include "tidemark.name" . }}-caller
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tidemark.address" -}}
{{- $service := printf "http://%s.%s:%v" (include "tidemark.fullname" .) .Release.Namespace .Values.service.port -}}
{{- $own := .Values.ingress.enabled | ternary (printf "https://%s" .Values.ingress.host) $service -}}
{{- default $own .Values.prometheusRule.address | trimSuffix "/" -}}
{{- end -}}

{{/* Empty, or the rendering fails with the reason. */}}
{{- define "tidemark.check" -}}
{{- if and (gt (int .Values.replicaCount) 1) (not .Values.database.existingSecret) -}}
{{- fail (printf "replicaCount is %d, and replicas share the store: set database.existingSecret to a Secret with the URL of a PostgreSQL, or replicaCount to 1" (int .Values.replicaCount)) -}}
{{- end -}}
{{- if le (int .Values.terminationGracePeriodSeconds) (int (add (ceil (.Values.settings.drain_seconds | default 0)) 10)) -}}
{{- fail (printf "terminationGracePeriodSeconds is %d: it must be above settings.drain_seconds + 10, or a pod is killed while it ends" (int .Values.terminationGracePeriodSeconds)) -}}
{{- end -}}
{{- end -}}

{{/* The value of a label of streams on their alerts, as Prometheus works it out; as in deploy/prometheus/stream-labels.sed. */}}
{{- define "tidemark.streamLabel" -}}
{{ "{{" }} with printf "tidemark_stream_info{cluster=%q,namespace=%q,spark_job=%q,stream=%q}" .Labels.cluster .Labels.namespace .Labels.spark_job .Labels.stream | query {{ "}}" }}{{ "{{" }} with . | first | label {{ . | quote }} {{ "}}" }}{{ "{{" }} . {{ "}}" }}{{ "{{" }} else {{ "}}" }}none{{ "{{" }} end {{ "}}" }}{{ "{{" }} else {{ "}}" }}none{{ "{{" }} end {{ "}}" }}
{{- end }}
