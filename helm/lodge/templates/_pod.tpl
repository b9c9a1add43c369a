{{/* Parts that the pods of gateway and reaper share. Each takes a dict: root, component. */}}

{{/* Metadata of a pod. Without the chart's version, so that a new chart version alone does not replace pods. */}}
{{- define "lodge.podMetadata" -}}
{{- $own := get .root.Values .component -}}
{{- $checksum := dict "checksum/config" (include "lodge.config" .root | sha256sum) -}}
labels:
  {{- toYaml (merge (include "lodge.selector" . | fromYaml) $own.podLabels .root.Values.labels) | nindent 2 }}
annotations:
  {{- toYaml (merge $checksum $own.podAnnotations .root.Values.annotations) | nindent 2 }}
{{- end -}}

{{/* How long a pod may take to stop: the delay and the drain of a gateway, and a reserve for leaving the storage. */}}
{{- define "lodge.gracePeriodSeconds" -}}
{{- if .drainSeconds -}}
{{- add .preStopSeconds .drainSeconds 10 -}}
{{- else -}}
{{- .terminationGracePeriodSeconds -}}
{{- end -}}
{{- end -}}

{{/* Where a pod runs, and how its images are pulled: begins with a new line. Takes a dict: root, component, and own, the values
     of the component. */}}
{{- define "lodge.scheduling" -}}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .own.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .own.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .own.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .own.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if .own.topologySpreadConstraints }}
{{- $ours := dict "matchLabels" (include "lodge.selector" . | fromYaml) }}
topologySpreadConstraints:
  {{- range .own.topologySpreadConstraints }}
  {{- $selector := ternary .labelSelector $ours (kindIs "map" .labelSelector) }}
  - {{- toYaml (merge (dict "labelSelector" $selector) (omit . "labelSelector")) | nindent 4 }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* The hooks of a container, as JSON. Without a preStop hook of its own, a gateway waits until no client finds it any more. */}}
{{- define "lodge.lifecycle" -}}
{{- $wait := dict -}}
{{- with .preStopSeconds }}{{ $wait = dict "preStop" (dict "sleep" (dict "seconds" .)) }}{{ end -}}
{{- merge (dict) .lifecycle (ternary (dict) $wait (hasKey .lifecycle "preStop")) | toJson -}}
{{- end -}}

{{/* The specification of a pod, except for its containers. */}}
{{- define "lodge.podSpec" -}}
{{- $own := get .root.Values .component -}}
serviceAccountName: {{ include "lodge.serviceAccountName" . | quote }}
automountServiceAccountToken: true
enableServiceLinks: false
terminationGracePeriodSeconds: {{ include "lodge.gracePeriodSeconds" $own }}
securityContext:
  {{- toYaml .root.Values.podSecurityContext | nindent 2 }}
{{- include "lodge.scheduling" (dict "root" .root "component" .component "own" $own) }}
volumes:
  - name: config
    configMap:
      name: {{ include "lodge.fullname" .root }}-config
  - name: tmp
    emptyDir: {}
  {{- include "lodge.workspaceVolume" .root }}
  {{- with include "lodge.secretSources" . | fromJsonArray }}
  - name: secrets
    projected:
      # Without fsGroup, the files belong to root, and only this mode lets Lodge read them.
      defaultMode: {{ ternary 288 292 (hasKey $.root.Values.podSecurityContext "fsGroup") }}
      sources:
        {{- toYaml . | nindent 8 }}
  {{- end }}
  {{- with concat .root.Values.extraVolumes $own.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with $own.initContainers }}
initContainers:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The container of a pod, except for its command, ports and probes. */}}
{{- define "lodge.container" -}}
{{- $own := get .root.Values .component -}}
image: {{ include "lodge.image" (dict "root" .root "image" .root.Values.image) | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  {{- toYaml .root.Values.securityContext | nindent 2 }}
env:
  - name: LODGE_POD_NAME
    valueFrom: {fieldRef: {fieldPath: metadata.name}}
  - name: LODGE_POD_UID
    valueFrom: {fieldRef: {fieldPath: metadata.uid}}
  - name: LODGE_NODE_NAME
    valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
  {{- if eq .component "gateway" }}
  - name: LODGE_METRICS_LISTEN
    value: {{ printf "%s:%d" .root.Values.listenHost (int $own.metricsPort) | quote }}
  {{- end }}
  {{- include "lodge.bucketCredentials" .root }}
  {{- with $own.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with $own.extraEnvFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with include "lodge.lifecycle" $own | fromJson }}
lifecycle:
  {{- toYaml . | nindent 2 }}
{{- end }}
resources:
  {{- toYaml $own.resources | nindent 2 }}
volumeMounts:
  - name: config
    mountPath: /etc/lodge
    readOnly: true
  - name: tmp
    mountPath: /tmp
  {{- include "lodge.workspaceMount" .root }}
  {{- if include "lodge.secretSources" . | fromJsonArray }}
  - name: secrets
    mountPath: {{ include "lodge.secretsPath" .root }}
    readOnly: true
  {{- end }}
  {{- with concat .root.Values.extraVolumeMounts $own.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}
