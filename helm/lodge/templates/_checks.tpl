{{/* Checks that a schema cannot express. Each failure names the value and a fix. */}}
{{- define "lodge.checks" -}}
{{- if not (include "lodge.backends" . | fromJsonArray) -}}
{{- fail "\n\nbackend.addresses is empty and spark.enabled is false: Lodge needs a Spark Connect server. Set spark.enabled to true, or set the address of your own server, for example\n  --set 'backend.addresses={sc://spark-connect.spark.svc:15002}'\n" -}}
{{- end -}}
{{- if and .Values.backend.podSelector (not .Values.backend.addresses) -}}
{{- fail "\n\nbackend.podSelector is set, but backend.addresses is empty: the selector is for the pods of your own servers. Set backend.addresses, or remove backend.podSelector. The bundled Spark has a NetworkPolicy of its own.\n" -}}
{{- end -}}
{{- if include "lodge.hasSpark" . -}}
{{- include "lodge.sparkChecks" . -}}
{{- end -}}
{{- with .Values.volume -}}
{{- if and .existingClaim (eq (toString .create) "true") -}}
{{- fail (printf "\n\nvolume.create is true and volume.existingClaim is [%s]: set only one of them.\n" .existingClaim) -}}
{{- end -}}
{{- end -}}
{{- $mounts := list -}}
{{- if include "lodge.claim" . }}{{ $mounts = append $mounts .Values.volume.mountPath }}{{ end -}}
{{- range .Values.extraVolumeMounts }}{{ $mounts = append $mounts .mountPath }}{{ end -}}
{{- $temporary := default "dfs.tmp" .Values.config.default_temporary_workspace -}}
{{- if not (hasKey .Values.workspaces $temporary) -}}
{{- fail (printf "\n\nworkspaces has no [%s], which is the default temporary workspace. Add its URI to workspaces, or set config.default_temporary_workspace to another workspace.\n" $temporary) -}}
{{- end -}}
{{- range $name, $uri := .Values.workspaces -}}
{{- if not (hasPrefix "file://" $uri) -}}
{{- if and (eq $name $temporary) (not (hasPrefix "s3://" $uri)) -}}
{{- fail (printf "\n\nworkspaces has [%s] at [%s], but the default temporary workspace must be at a file:/// or s3:// URI.\n" $name $uri) -}}
{{- end -}}
{{- else -}}
{{- if not (include "lodge.isBelow" (dict "uri" $uri "mounts" $mounts)) -}}
{{- fail (printf "\n\nworkspaces has [%s] at [%s], but no volume is mounted there. Set volume.existingClaim to the name of a claim, set volume.create to true (either is mounted at volume.mountPath, which is [%s]), use extraVolumes and extraVolumeMounts, or use an s3:// URI. If you do not need the workspace, remove it with\n  workspaces: {%s: null}\n" $name $uri $.Values.volume.mountPath $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $methods := include "lodge.authentication" . | fromJsonArray -}}
{{- with .Values.authentication -}}
{{- if and (not $methods) (not .allowUnauthenticated) -}}
{{- fail "\n\nauthentication has no method: everybody who reaches a gateway could act as any principal. Set authentication.kubernetes.enabled to true, or configure another method. To accept this risk, set authentication.allowUnauthenticated to true.\n" -}}
{{- end -}}
{{- if and $methods .allowUnauthenticated -}}
{{- fail "\n\nauthentication.allowUnauthenticated is true, but authentication has a method. Set allowUnauthenticated to false, or remove the methods; for Kubernetes tokens, set authentication.kubernetes.enabled to false.\n" -}}
{{- end -}}
{{- if and .kubernetes.enabled (not .kubernetes.audiences) -}}
{{- fail "\n\nauthentication.kubernetes.audiences is empty: set an audience, for example [lodge].\n" -}}
{{- end -}}
{{- end -}}
{{- with .Values.tls -}}
{{- if and .enabled (eq .source "secret") (not .secretName) -}}
{{- fail "\n\ntls.source is [secret], but tls.secretName is empty: set the name of a Secret with tls.crt and tls.key, or set tls.source to auto.\n" -}}
{{- end -}}
{{- if and .secretName (or (not .enabled) (not (has .source (list "auto" "secret")))) -}}
{{- fail (printf "\n\ntls.secretName is [%s], but tls.enabled is [%t] and tls.source is [%s]: remove tls.secretName, or set tls.enabled to true and tls.source to secret.\n" .secretName .enabled .source) -}}
{{- end -}}
{{- if and $.Values.authentication.certificate.enabled (not (and .enabled .clientCa.secretName)) -}}
{{- fail "\n\nauthentication.certificate.enabled is true: it needs tls.enabled and tls.clientCa.secretName, the Secret with the certificate authorities of the clients.\n" -}}
{{- end -}}
{{- if and .clientCa.secretName (not $.Values.authentication.certificate.enabled) -}}
{{- fail (printf "\n\ntls.clientCa.secretName is [%s], but authentication.certificate.enabled is false: set it to true, or remove tls.clientCa.secretName.\n" .clientCa.secretName) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.admins (not $methods) -}}
{{- fail "\n\nadmins is set, but authentication has no method: anybody could be an administrator. Configure a method, or remove admins.\n" -}}
{{- end -}}
{{- with .Values.config.stall_limit -}}
{{- if lt (include "lodge.seconds" . | float64) 2.0 -}}
{{- fail (printf "\n\nconfig.stall_limit is [%v]: set it to 2s or more.\n" .) -}}
{{- end -}}
{{- end -}}
{{- with .Values.gateway -}}
{{- $ports := list (int .port) (int .metricsPort) -}}
{{- if include "lodge.hasCertificatePort" $ }}{{ $ports = append $ports (int .clientCertificatePort) }}{{ end -}}
{{- if ne (len ($ports | uniq)) (len $ports) -}}
{{- fail (printf "\n\ngateway.port, gateway.metricsPort and gateway.clientCertificatePort are %v: they must differ.\n" $ports) -}}
{{- end -}}
{{- end -}}
{{- with .Values.gateway.autoscaling -}}
{{- if .enabled -}}
{{- if gt (int .minReplicas) (int .maxReplicas) -}}
{{- fail (printf "\n\ngateway.autoscaling.minReplicas is %d, but maxReplicas is %d: set minReplicas to at most maxReplicas.\n" (int .minReplicas) (int .maxReplicas)) -}}
{{- end -}}
{{- if not (or .cpu .metrics) -}}
{{- fail "\n\ngateway.autoscaling.enabled is true, but there is no metric: set gateway.autoscaling.cpu, for example to 600m, or gateway.autoscaling.metrics.\n" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with .Values.gateway.ingress -}}
{{- if and .enabled (not .hosts) -}}
{{- fail "\n\ngateway.ingress.enabled is true, but gateway.ingress.hosts is empty: set the names that clients use, for example [lodge.example.com].\n" -}}
{{- end -}}
{{- end -}}
{{- with .Values.gateway.route -}}
{{- if and .enabled (not .parentRefs) -}}
{{- fail "\n\ngateway.route.enabled is true, but gateway.route.parentRefs is empty: set the Gateway, for example [{name: public, namespace: gateways}].\n" -}}
{{- end -}}
{{- end -}}
{{- range $component := list "gateway" "reaper" -}}
{{- with (get $.Values $component).serviceAccount -}}
{{- if and (not .create) (not .name) -}}
{{- fail (printf "\n\n%s.serviceAccount.create is false and %s.serviceAccount.name is empty: set the name of an existing service account.\n" $component $component) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
