{{/* What all pods need to read and write the workspaces, as items of a list: each template begins with a new line. */}}

{{/* The volume of the workspaces. */}}
{{- define "lodge.workspaceVolume" -}}
  {{- with include "lodge.claim" . }}
  - name: workspace
    persistentVolumeClaim:
      claimName: {{ . | quote }}
  {{- end }}
{{- end -}}

{{/* The mount of that volume. */}}
{{- define "lodge.workspaceMount" -}}
  {{- if include "lodge.claim" . }}
  - name: workspace
    mountPath: {{ .Values.volume.mountPath | quote }}
    {{- with .Values.volume.subPath }}
    subPath: {{ . | quote }}
    {{- end }}
  {{- end }}
{{- end -}}

{{/* The environment variables with the credentials of a bucket. */}}
{{- define "lodge.bucketCredentials" -}}
  {{- with .Values.s3.credentials }}
  {{- if .secretName }}
  - name: AWS_ACCESS_KEY_ID
    valueFrom: {secretKeyRef: {name: {{ .secretName | quote }}, key: {{ .accessKeyIdKey | quote }}}}
  - name: AWS_SECRET_ACCESS_KEY
    valueFrom: {secretKeyRef: {name: {{ .secretName | quote }}, key: {{ .secretAccessKeyKey | quote }}}}
  {{- with .sessionTokenKey }}
  - name: AWS_SESSION_TOKEN
    valueFrom: {secretKeyRef: {name: {{ $.Values.s3.credentials.secretName | quote }}, key: {{ . | quote }}}}
  {{- end }}
  {{- end }}
  {{- end }}
{{- end -}}
