{{/* The configuration file of `lodge serve` and `lodge reap`. */}}
{{- define "lodge.config" -}}
{{- $secrets := include "lodge.secretsPath" . -}}
{{- $decided := dict
  "admins" .Values.admins
  "allow_unauthenticated" .Values.authentication.allowUnauthenticated
  "authentication" (include "lodge.authentication" . | fromJsonArray)
  "backend" (include "lodge.backends" . | fromJsonArray)
  "drain_timeout" (printf "%ds" (int .Values.gateway.drainSeconds))
  "instance" (include "lodge.fullname" .)
  "listen" (printf "%s:%d" .Values.listenHost (int .Values.gateway.port))
  "metrics_listen" (printf "%s:%d" .Values.listenHost (int .Values.reaper.metricsPort))
  "namespace" .Release.Namespace
  "reaper" false
  "records" "kubernetes"
  "workspace" .Values.workspaces
-}}
{{- with .Values.backend -}}
{{- if or .token.secretName (include "lodge.hasSpark" $) }}{{ $_ := set $decided "backend_token_file" (printf "%s/backend/token" $secrets) }}{{ end -}}
{{- if .tls.caSecretName }}{{ $_ := set $decided "backend_ca" (printf "%s/backend/ca.crt" $secrets) }}{{ end -}}
{{- if .tls.certificateSecretName -}}
{{- $_ := set $decided "backend_certificate" (printf "%s/backend/tls.crt" $secrets) -}}
{{- $_ := set $decided "backend_key" (printf "%s/backend/tls.key" $secrets) -}}
{{- end -}}
{{- end -}}
{{- if .Values.tls.enabled -}}
{{- $tls := dict "certificate" (printf "%s/tls.crt" $secrets) "key" (printf "%s/tls.key" $secrets) -}}
{{- if .Values.tls.clientCa.secretName }}{{ $_ := set $tls "client_ca" (printf "%s/client-ca.crt" $secrets) }}{{ end -}}
{{- if include "lodge.hasCertificatePort" . -}}
{{- $_ := set $tls "client_certificate_listen" (printf "%s:%d" .Values.listenHost (int .Values.gateway.clientCertificatePort)) -}}
{{- end -}}
{{- $_ := set $decided "tls" $tls -}}
{{- end -}}
{{- toYaml (merge $decided .Values.config (dict "audit_log" "-")) -}}
{{- end -}}
