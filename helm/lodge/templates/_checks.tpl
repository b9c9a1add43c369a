{{/* What a schema cannot say: each refusal names the value, and the way out. */}}
{{- define "lodge.checks" -}}
{{- if not .Values.backend.addresses -}}
{{- fail "\n\nbackend.addresses is empty: Lodge needs a Spark Connect server. Give its address, for instance\n  --set 'backend.addresses={sc://spark-connect.spark.svc:15002}'\n" -}}
{{- end -}}
{{- with .Values.volume -}}
{{- if and .existingClaim .create -}}
{{- fail (printf "\n\nvolume.create is true and volume.existingClaim is [%s]: give one of them.\n" .existingClaim) -}}
{{- end -}}
{{- end -}}
{{- $mounts := list -}}
{{- if include "lodge.claim" . }}{{ $mounts = append $mounts .Values.volume.mountPath }}{{ end -}}
{{- range .Values.extraVolumeMounts }}{{ $mounts = append $mounts .mountPath }}{{ end -}}
{{- $temporary := default "dfs.tmp" .Values.config.default_temporary_workspace -}}
{{- if not (hasKey .Values.workspaces $temporary) -}}
{{- fail (printf "\n\nworkspaces has no [%s], which is the default temporary workspace. Give it a URI there, or name another in config.default_temporary_workspace.\n" $temporary) -}}
{{- end -}}
{{- range $name, $uri := .Values.workspaces -}}
{{- if hasPrefix "s3://" $uri -}}
{{- if ne $name $temporary -}}
{{- fail (printf "\n\nworkspaces has [%s] at [%s]: only the default temporary workspace [%s] may be in a bucket. Give it a file:/// URI, or take it out with\n  workspaces: {%s: null}\n" $name $uri $temporary $name) -}}
{{- end -}}
{{- else -}}
{{- $path := trimPrefix "file://" $uri -}}
{{- $found := false -}}
{{- range $mounts -}}
{{- if hasPrefix (printf "%s/" (trimSuffix "/" .)) (printf "%s/" $path) }}{{ $found = true }}{{ end -}}
{{- end -}}
{{- if not $found -}}
{{- fail (printf "\n\nworkspaces has [%s] at [%s], but no volume is mounted there. Give volume.existingClaim the name of a claim, or set volume.create to true (both are mounted at volume.mountPath, which is [%s]), or use extraVolumes and extraVolumeMounts, or give the workspace an s3:// URI. If there shall be no such workspace, take it out with\n  workspaces: {%s: null}\n" $name $uri $.Values.volume.mountPath $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with .Values.gateway -}}
{{- if le (int .terminationGracePeriodSeconds) (int .preStopSeconds) -}}
{{- fail (printf "\n\ngateway.terminationGracePeriodSeconds is [%d], and gateway.preStopSeconds of it is [%d]: leave time for the rest.\n" (int .terminationGracePeriodSeconds) (int .preStopSeconds)) -}}
{{- end -}}
{{- end -}}
{{- range $component := list "gateway" "reaper" -}}
{{- with (get $.Values $component).serviceAccount -}}
{{- if and (not .create) (not .name) -}}
{{- fail (printf "\n\n%s.serviceAccount.create is false and %s.serviceAccount.name is empty: name the service account to use.\n" $component $component) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
