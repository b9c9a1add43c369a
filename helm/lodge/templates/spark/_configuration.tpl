{{/* A value of a property. Helm reads all numbers as floats and would write large ones with an exponent, which Spark refuses. */}}
{{- define "lodge.sparkText" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) }}{{ int64 . }}{{ else }}{{ toString . }}{{ end -}}
{{- end -}}

{{/* The content of the ConfigMap. */}}
{{- define "lodge.sparkConfiguration" -}}
{{- $properties := merge (include "lodge.sparkDecided" . | fromYaml) .Values.spark.config (include "lodge.sparkDefaults" . | fromYaml) -}}
spark.properties: |
  {{- range $name, $value := $properties }}
  {{ $name }}={{ include "lodge.sparkText" $value | replace "\\" "\\\\" }}
  {{- end }}
executor.yaml: |
  {{- include "lodge.sparkExecutorPod" . | nindent 2 }}
drain.sh: |
  # Waits until the server at the address $2 runs no statement, for at most $1 seconds. Ends if the server does not answer
  # three times in a row.
  # The statement fails if the server runs others: Spark lists them all, each with a tag. The list contains the text of this
  # statement too, so the text must not contain the tag.
  statement="SELECT assert_true(size(split(reflect('org.apache.spark.sql.connect.service.SparkConnectService',
    'listActiveExecutions'), concat('SparkConnect_', 'OperationTag_'))) <= 2) FROM VALUES (0)"
  end=$(($(date +%s) + $1))
  silent=0
  while [ "$(date +%s)" -lt "$end" ] && [ "$silent" -lt 3 ]; do
    lodge-spark-probe --address "$2" --statement "$statement" 2>/dev/null && exit
    silent=$((silent + 1))
    lodge-spark-probe --address "$2" 2>/dev/null && silent=0
    sleep 1
  done
{{- end -}}
