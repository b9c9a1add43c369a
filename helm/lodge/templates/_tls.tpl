{{/* The source of the gateway's certificate: secret, cert-manager or self-signed. Empty without TLS. */}}
{{- define "lodge.tlsSource" -}}
{{- with .Values.tls -}}
{{- if .enabled -}}
{{- if ne .source "auto" -}}
{{- .source -}}
{{- else if .secretName -}}
secret
{{- else if lookup "v1" "Secret" $.Release.Namespace (include "lodge.selfSignedName" $) -}}
self-signed
{{- else if $.Capabilities.APIVersions.Has "cert-manager.io/v1" -}}
cert-manager
{{- else -}}
self-signed
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "lodge.selfSignedName" -}}
{{ include "lodge.fullname" . }}-self-signed
{{- end -}}

{{/* The Secret with the gateway's certificate. */}}
{{- define "lodge.tlsSecret" -}}
{{- $source := include "lodge.tlsSource" . -}}
{{- if eq $source "secret" -}}
{{- .Values.tls.secretName -}}
{{- else if eq $source "self-signed" -}}
{{- include "lodge.selfSignedName" . -}}
{{- else -}}
{{- include "lodge.fullname" . }}-tls
{{- end -}}
{{- end -}}

{{/* The names in the gateway's certificate, as a JSON list. localhost is for `kubectl port-forward`. */}}
{{- define "lodge.dnsNames" -}}
{{- $service := include "lodge.fullname" . -}}
{{- $names := list $service (printf "%s.%s" $service .Release.Namespace) (printf "%s.%s.svc" $service .Release.Namespace) (printf "%s.%s.svc.cluster.local" $service .Release.Namespace) "localhost" -}}
{{- concat $names .Values.tls.dnsNames | uniq | toJson -}}
{{- end -}}
