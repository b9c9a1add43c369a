{{/* The directory of the files from Secrets. */}}
{{- define "lodge.secretsPath" -}}
/etc/lodge-secrets
{{- end -}}

{{/* The setting `authentication`, as a JSON list. */}}
{{- define "lodge.authentication" -}}
{{- $methods := list -}}
{{- with .Values.authentication -}}
{{- if .tokens.secretName -}}
{{- $methods = append $methods (dict "kind" "tokens" "file" (printf "%s/tokens.yaml" (include "lodge.secretsPath" $))) -}}
{{- end -}}
{{- range .jwt -}}
{{- $methods = append $methods (merge (dict "kind" "jwt") .) -}}
{{- end -}}
{{- if .kubernetes.enabled -}}
{{- $methods = append $methods (dict "kind" "kubernetes" "audiences" .kubernetes.audiences) -}}
{{- end -}}
{{- if .certificate.enabled -}}
{{- $methods = append $methods (dict "kind" "certificate") -}}
{{- end -}}
{{- end -}}
{{- $methods | toJson -}}
{{- end -}}

{{/* Whether clients with certificates have a port of their own: "true" or an empty string. gRPC cannot ask for a
     certificate without requiring one. */}}
{{- define "lodge.hasCertificatePort" -}}
{{- if and .Values.authentication.certificate.enabled (gt (len (include "lodge.authentication" . | fromJsonArray)) 1) -}}
true
{{- end -}}
{{- end -}}

{{/* The sources of the volume with the files from Secrets. Takes a dict: root, component. */}}
{{- define "lodge.secretSources" -}}
{{- $sources := list -}}
{{- with .root.Values.backend -}}
{{- if .token.secretName -}}
{{- $sources = append $sources (dict "name" .token.secretName "items" (list (dict "key" .token.key "path" "backend/token"))) -}}
{{- else if include "lodge.hasSpark" $.root -}}
{{- $sources = append $sources (dict "name" (include "lodge.sparkTokenSecret" $.root) "items" (list (dict "key" "backends" "path" "backend/token"))) -}}
{{- end -}}
{{- if .tls.caSecretName -}}
{{- $sources = append $sources (dict "name" .tls.caSecretName "items" (list (dict "key" .tls.caKey "path" "backend/ca.crt"))) -}}
{{- end -}}
{{- if .tls.certificateSecretName -}}
{{- $sources = append $sources (dict "name" .tls.certificateSecretName "items" (list (dict "key" "tls.crt" "path" "backend/tls.crt") (dict "key" "tls.key" "path" "backend/tls.key"))) -}}
{{- end -}}
{{- end -}}
{{- if eq .component "gateway" -}}
{{- if .root.Values.tls.enabled -}}
{{- $sources = append $sources (dict "name" (include "lodge.tlsSecret" .root) "items" (list (dict "key" "tls.crt" "path" "tls.crt") (dict "key" "tls.key" "path" "tls.key"))) -}}
{{- with .root.Values.tls.clientCa -}}
{{- if .secretName -}}
{{- $sources = append $sources (dict "name" .secretName "items" (list (dict "key" .key "path" "client-ca.crt"))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with .root.Values.authentication.tokens -}}
{{- if .secretName -}}
{{- $sources = append $sources (dict "name" .secretName "items" (list (dict "key" .key "path" "tokens.yaml"))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $secrets := list -}}
{{- range $sources -}}
{{- $secrets = append $secrets (dict "secret" .) -}}
{{- end -}}
{{- $secrets | toJson -}}
{{- end -}}

{{/* Whether `helm test` has what it needs to be a client: "true" or an empty string. */}}
{{- define "lodge.hasCheck" -}}
{{- $tokens := or .Values.helmTest.token.secretName .Values.authentication.kubernetes.enabled -}}
{{- /* PySpark sends a token only through TLS, except to localhost. */ -}}
{{- if ternary (include "lodge.tlsSource" .) .Values.authentication.allowUnauthenticated (not (empty $tokens)) -}}
true
{{- end -}}
{{- end -}}
