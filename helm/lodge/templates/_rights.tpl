{{/* Binds the service account of a component to the role of the same name. Takes a dict: root, component. */}}
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

{{/* Access to the ConfigMap with the identities of the roots. The first component that needs it creates it. */}}
{{- define "lodge.rootsRules" -}}
# The identities of the roots. Kubernetes cannot restrict `create` to one name.
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [{{ include "lodge.fullname" . }}-roots]
  verbs: [get, update]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [create]
{{- end -}}
