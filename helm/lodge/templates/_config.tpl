{{/* The configuration file of `lodge serve` and `lodge reap`. */}}
{{- define "lodge.config" -}}
{{- $decided := dict
  "allow_unauthenticated" (empty .Values.config.authentication)
  "backend" .Values.backend.addresses
  "instance" (include "lodge.fullname" .)
  "listen" (printf "%s:%d" .Values.listenHost (int .Values.gateway.port))
  "metrics_listen" (printf "%s:%d" .Values.listenHost (int .Values.reaper.metricsPort))
  "namespace" .Release.Namespace
  "reaper" false
  "records" "kubernetes"
  "workspace" .Values.workspaces
-}}
{{- toYaml (merge $decided .Values.config) -}}
{{- end -}}
