{{/* The name of all objects, and Lodge's setting `instance`, which allows 40 characters. */}}
{{- define "lodge.fullname" -}}
{{- $name := .Release.Name -}}
{{- if not (contains .Chart.Name $name) }}{{ $name = printf "%s-%s" $name .Chart.Name }}{{ end -}}
{{- default $name .Values.fullnameOverride | replace "." "-" | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Selector labels of a component, or of the whole release. They never change. Lodge labels its session records and
     leases with the same instance, so one selector finds everything. Takes a dict: root, and optionally component. */}}
{{- define "lodge.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ include "lodge.fullname" .root | quote }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{/* Labels and annotations of an object. The chart's own take precedence. Takes a dict: root, and optionally component,
     labels, annotations. */}}
{{- define "lodge.metadata" -}}
{{- $own := include "lodge.selector" . | fromYaml -}}
{{- $release := dict
  "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-")
  "app.kubernetes.io/version" .root.Chart.AppVersion
  "app.kubernetes.io/managed-by" .root.Release.Service
-}}
labels:
  {{- toYaml (merge $own $release (.labels | default dict) .root.Values.labels) | nindent 2 }}
{{- with merge (dict) (.annotations | default dict) .root.Values.annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The service account of a component. Takes a dict: root, component. */}}
{{- define "lodge.serviceAccountName" -}}
{{- $given := (get .root.Values .component).serviceAccount -}}
{{- $own := printf "%s-%s" (include "lodge.fullname" .root) .component -}}
{{- default (ternary $own "default" $given.create) $given.name -}}
{{- end -}}

{{/* The name of an image, with its registry and its tag or digest. Takes a dict: root, and image, the values of the image. */}}
{{- define "lodge.image" -}}
{{- with .root.Values.global.imageRegistry }}{{ trimSuffix "/" . }}/{{ end -}}
{{- with .image -}}
{{- if .digest }}{{ printf "%s@%s" .repository .digest }}{{ else }}{{ printf "%s:%s" .repository (default $.root.Chart.AppVersion .tag) }}{{ end -}}
{{- end -}}
{{- end -}}

{{/* The name of the volume's claim, or an empty string. */}}
{{- define "lodge.claim" -}}
{{- with .Values.volume -}}
{{- if .existingClaim }}{{ .existingClaim }}{{ else if include "lodge.createsClaim" $ }}{{ include "lodge.fullname" $ }}-workspace{{ end -}}
{{- end -}}
{{- end -}}

{{/* Whether the chart creates the claim: "true" or an empty string. By default, it does if a workspace needs the volume. */}}
{{- define "lodge.createsClaim" -}}
{{- with .Values.volume -}}
{{- if eq (toString .create) "true" -}}
true
{{- else if and (eq (toString .create) "auto") (not .existingClaim) -}}
{{- $mounts := list -}}
{{- range $.Values.extraVolumeMounts }}{{ $mounts = append $mounts .mountPath }}{{ end -}}
{{- $needed := false -}}
{{- range $.Values.workspaces -}}
{{- $below := dict "uri" . "mounts" (list $.Values.volume.mountPath) -}}
{{- $elsewhere := dict "uri" . "mounts" $mounts -}}
{{- if and (include "lodge.isBelow" $below) (not (include "lodge.isBelow" $elsewhere)) }}{{ $needed = true }}{{ end -}}
{{- end -}}
{{- if $needed -}}
true
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Whether the directory of a file:// URI is at or below one of the mounts: "true" or an empty string. Takes a dict: uri, mounts. */}}
{{- define "lodge.isBelow" -}}
{{- $path := trimPrefix "file://" .uri -}}
{{- $found := false -}}
{{- range .mounts -}}
{{- if hasPrefix (printf "%s/" (trimSuffix "/" .)) (printf "%s/" $path) }}{{ $found = true }}{{ end -}}
{{- end -}}
{{- if $found -}}
true
{{- end -}}
{{- end -}}
