{{- define "mirror.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
{{- define "mirror.secret" -}}
{{ .Values.existingSecret | default .Release.Name }}
{{- end -}}
