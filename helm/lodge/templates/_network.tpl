{{/* Who can read the metrics of a pod. */}}
{{- define "lodge.metricsIngress" -}}
- ports:
    - {port: metrics, protocol: TCP}
  {{- with .Values.networkPolicy.metrics }}
  from:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* The ports of the backends, as a JSON list in ascending order. */}}
{{- define "lodge.backendPorts" -}}
{{- $ports := list -}}
{{- range .Values.backend.addresses -}}
{{- $ports = append $ports (regexFind ":[0-9]+(/|$)" . | trimPrefix ":" | trimSuffix "/" | printf "%5s") -}}
{{- end -}}
{{- $sorted := list -}}
{{- range $ports | uniq | sortAlpha -}}
{{- $sorted = append $sorted (. | trimAll " " | int) -}}
{{- end -}}
{{- $sorted | toJson -}}
{{- end -}}
