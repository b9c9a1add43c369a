{{/* The template of the executors' pods. Spark adds the image, the command, the resources and its own labels. Executors have no
     access to the Kubernetes API, and do not get the token of the server. */}}
{{- define "lodge.sparkExecutorPod" -}}
{{- $executor := .Values.spark.executor -}}
{{- $part := dict "root" . "component" "spark-executor" "own" $executor -}}
apiVersion: v1
kind: Pod
metadata:
  labels:
    {{- include "lodge.sparkPodLabels" $part | nindent 4 }}
  {{- with merge (dict) $executor.podAnnotations .Values.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  automountServiceAccountToken: false
  enableServiceLinks: false
  securityContext:
    {{- toYaml .Values.podSecurityContext | nindent 4 }}
  {{- include "lodge.scheduling" $part | indent 2 }}
  volumes:
    {{- include "lodge.sparkVolumes" . | indent 2 }}
  {{- with $executor.initContainers }}
  initContainers:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: executor
      securityContext:
        {{- toYaml .Values.securityContext | nindent 8 }}
      {{- $environment := include "lodge.bucketCredentials" . }}
      {{- if or $environment $executor.extraEnv }}
      env:
        {{- $environment | indent 6 }}
        {{- with $executor.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
      {{- with $executor.extraEnvFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $executor.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      volumeMounts:
        {{- include "lodge.sparkVolumeMounts" . | indent 6 }}
{{- end -}}
