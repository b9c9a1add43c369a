{{/* A duration of Lodge, such as 1h30m or 1.5, in seconds. */}}
{{- define "lodge.seconds" -}}
{{- $seconds := 0.0 -}}
{{- range regexFindAll "[0-9.]+(ms|s|m|h|d)?" (toString .) -1 -}}
{{- $unit := regexFind "[a-z]+$" . -}}
{{- $factor := get (dict "ms" 0.001 "s" 1.0 "" 1.0 "m" 60.0 "h" 3600.0 "d" 86400.0) $unit -}}
{{- $seconds = addf $seconds (mulf (trimSuffix $unit . | float64) $factor) -}}
{{- end -}}
{{- $seconds -}}
{{- end -}}
