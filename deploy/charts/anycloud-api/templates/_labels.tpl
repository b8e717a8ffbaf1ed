{{- define "anycloud-api.labels" -}}
app.kubernetes.io/name: anycloud-api
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}
