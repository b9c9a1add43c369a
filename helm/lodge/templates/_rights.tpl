{{/* Binds a component's service account to its role of the same name. Takes a dict: root, component. */}}
{{- define "lodge.roleBinding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ include "lodge.fullname" .root }}-{{ .component }}
  {{- include "lodge.metadata" . | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ include "lodge.fullname" .root }}-{{ .component }}
subjects:
  - kind: ServiceAccount
    name: {{ include "lodge.serviceAccountName" . | quote }}
    namespace: {{ .root.Release.Namespace | quote }}
{{- end -}}

{{/* The ConfigMap that tells which storage is the true one, made by whoever needs it first. */}}
{{- define "lodge.rootsRules" -}}
# Which storage is the true one. A right to create cannot be for one name.
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [{{ include "lodge.fullname" . }}-roots]
  verbs: [get, update]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [create]
{{- end -}}
