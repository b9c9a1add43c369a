{{/* Whether the chart runs Spark itself: "true" or an empty string. */}}
{{- define "lodge.hasSpark" -}}
{{- $enabled := .Values.spark.enabled -}}
{{- if ternary (not .Values.backend.addresses) (eq (toString $enabled) "true") (eq (toString $enabled) "auto") -}}
true
{{- end -}}
{{- end -}}

{{- define "lodge.sparkName" -}}
{{ include "lodge.fullname" . }}-spark
{{- end -}}

{{/* The addresses of the bundled Spark Connect servers, as a JSON list. Each server has a Service of its own, so that its address
     leads to the same IP address after the server was replaced. */}}
{{- define "lodge.sparkAddresses" -}}
{{- $addresses := list -}}
{{- if include "lodge.hasSpark" . -}}
{{- range $index := until (int .Values.spark.replicas) -}}
{{- $addresses = append $addresses (printf "sc://%s-%d.%s.svc:%d" (include "lodge.sparkName" $) $index $.Release.Namespace (int $.Values.spark.port)) -}}
{{- end -}}
{{- end -}}
{{- $addresses | toJson -}}
{{- end -}}

{{/* The addresses of all backends, as a JSON list. */}}
{{- define "lodge.backends" -}}
{{- concat (include "lodge.sparkAddresses" . | fromJsonArray) .Values.backend.addresses | uniq | toJson -}}
{{- end -}}

{{/* The Secret that the chart creates for the bundled Spark. */}}
{{- define "lodge.sparkTokenSecret" -}}
{{ include "lodge.sparkName" . }}-token
{{- end -}}

{{/* The service account of the executors. */}}
{{- define "lodge.sparkExecutorAccountName" -}}
{{- $given := .Values.spark.executor.serviceAccount -}}
{{- $own := printf "%s-executor" (include "lodge.sparkName" .) -}}
{{- default (ternary $own "default" $given.create) $given.name -}}
{{- end -}}

{{/* The properties that the chart sets from other values, as YAML. */}}
{{- define "lodge.sparkDecided" -}}
{{- $spark := .Values.spark -}}
{{- $executor := $spark.executor -}}
spark.authenticate: true
spark.blockManager.port: {{ $spark.blockManagerPort }}
spark.connect.grpc.binding.port: {{ $spark.port }}
spark.driver.blockManager.port: {{ $spark.blockManagerPort }}
spark.driver.memory: {{ $spark.memory | quote }}
spark.driver.port: {{ $spark.driverPort }}
{{- with $executor.dynamicAllocation }}
spark.dynamicAllocation.enabled: {{ .enabled }}
{{- if .enabled }}
spark.dynamicAllocation.executorIdleTimeout: {{ .idleTimeout | quote }}
spark.dynamicAllocation.maxExecutors: {{ .maxExecutors }}
spark.dynamicAllocation.minExecutors: {{ .minExecutors }}
spark.dynamicAllocation.shuffleTracking.enabled: true
{{- else }}
spark.executor.instances: {{ $executor.instances }}
{{- end }}
{{- end }}
spark.executor.cores: {{ $executor.cores }}
spark.executor.memory: {{ $executor.memory | quote }}
spark.executor.memoryOverhead: {{ $executor.memoryOverhead | quote }}
spark.kubernetes.authenticate.executor.serviceAccountName: {{ include "lodge.sparkExecutorAccountName" . | quote }}
spark.kubernetes.container.image: {{ include "lodge.image" (dict "root" . "image" $spark.image) | quote }}
spark.kubernetes.container.image.pullPolicy: {{ $spark.image.pullPolicy }}
spark.kubernetes.driver.ownPersistentVolumeClaim: false
spark.kubernetes.driver.reusePersistentVolumeClaim: false
spark.kubernetes.driver.service.deleteOnTermination: false
spark.kubernetes.executor.disableConfigMap: true
{{- with $executor.limitCores }}
spark.kubernetes.executor.limit.cores: {{ . | quote }}
{{- end }}
spark.kubernetes.executor.podTemplateContainerName: executor
spark.kubernetes.executor.podTemplateFile: {{ include "lodge.sparkFiles" . }}/executor.yaml
{{- with $executor.requestCores }}
spark.kubernetes.executor.request.cores: {{ . | quote }}
{{- end }}
spark.kubernetes.namespace: {{ .Release.Namespace | quote }}
spark.master: k8s://https://kubernetes.default.svc
spark.port.maxRetries: 0
{{- end -}}

{{/* Properties that the server gets as arguments, because they differ between pods, and a property that must not be set: every
     client could read the token with `spark.conf.get`. */}}
{{- define "lodge.sparkReserved" -}}
{{- list "spark.app.name" "spark.connect.authenticate.token" "spark.driver.host" "spark.kubernetes.driver.pod.name" | toJson -}}
{{- end -}}

{{/* The properties that spark.config can change, as YAML. The gateway limits messages and ends idle sessions, so Spark must not do
     it earlier. Without a warehouse that all pods share, tables in the warehouse fail instead of losing the data of executors. */}}
{{- define "lodge.sparkDefaults" -}}
{{- $idle := include "lodge.seconds" (default "60m" .Values.config.session_idle_timeout) | float64 | ceil | int64 -}}
spark.connect.grpc.maxInboundMessageSize: 2147483647
spark.connect.session.manager.defaultSessionTimeout: {{ add (mul $idle 2) 600 }}s
spark.driver.defaultJavaOptions: -XX:+ExitOnOutOfMemoryError
spark.python.unix.domain.socket.enabled: true
spark.sql.python.filterPushdown.enabled: true
spark.sql.warehouse.dir: file:///var/lib/spark/warehouse
spark.ui.enabled: false
{{- end -}}

{{/* The directory of the files from the ConfigMap. */}}
{{- define "lodge.sparkFiles" -}}
/etc/lodge-spark
{{- end -}}

{{/* Labels and annotations of the pods. Takes a dict: root, component, own. */}}
{{- define "lodge.sparkPodLabels" -}}
{{- toYaml (merge (include "lodge.selector" . | fromYaml) .own.podLabels .root.Values.labels) -}}
{{- end -}}

{{/* The volumes that servers and executors have in common, as a list. */}}
{{- define "lodge.sparkVolumes" -}}
{{- include "lodge.workspaceVolume" . }}
  - name: tmp
    emptyDir: {}
  # The name tells Spark to use the volume for its local directory.
  - name: spark-local-dir-1
    emptyDir: {}
  {{- with .Values.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{- define "lodge.sparkVolumeMounts" -}}
{{- include "lodge.workspaceMount" . }}
  - name: tmp
    mountPath: /tmp
  - name: spark-local-dir-1
    mountPath: /var/data/spark
  {{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* Checks of the values of the bundled Spark. Each failure names the value and a fix. */}}
{{- define "lodge.sparkChecks" -}}
{{- $spark := .Values.spark -}}
{{- $ports := list (int $spark.port) (int $spark.driverPort) (int $spark.blockManagerPort) -}}
{{- if ne (len ($ports | uniq)) 3 -}}
{{- fail (printf "\n\nspark.port, spark.driverPort and spark.blockManagerPort are %v: they must differ.\n" $ports) -}}
{{- end -}}
{{- $reserved := concat (include "lodge.sparkDecided" . | fromYaml | keys) (include "lodge.sparkReserved" . | fromJsonArray) -}}
{{- range $name, $_ := $spark.config -}}
{{- if has $name $reserved -}}
{{- fail (printf "\n\nspark.config has [%s], which the chart sets itself. Remove it from spark.config, and use the other values of spark, such as spark.memory or spark.executor.\n" $name) -}}
{{- end -}}
{{- end -}}
{{- with $spark.executor.dynamicAllocation -}}
{{- if and .enabled (gt (int .minExecutors) (int .maxExecutors)) -}}
{{- fail (printf "\n\nspark.executor.dynamicAllocation.minExecutors is %d, but maxExecutors is %d: set minExecutors to at most maxExecutors.\n" (int .minExecutors) (int .maxExecutors)) -}}
{{- end -}}
{{- end -}}
{{- with $spark.executor.serviceAccount -}}
{{- if and (not .create) (not .name) -}}
{{- fail "\n\nspark.executor.serviceAccount.create is false and spark.executor.serviceAccount.name is empty: set the name of an existing service account.\n" -}}
{{- end -}}
{{- end -}}
{{- with $spark.serviceAccount -}}
{{- if and (not .create) (not .name) -}}
{{- fail "\n\nspark.serviceAccount.create is false and spark.serviceAccount.name is empty: set the name of an existing service account.\n" -}}
{{- end -}}
{{- end -}}
{{- end -}}
