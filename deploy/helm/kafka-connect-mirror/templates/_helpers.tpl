{{- define "mirror.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
{{- define "mirror.secret" -}}
{{ .Values.existingSecret | default .Release.Name }}
{{- end -}}

{{- /* Not empty if the chart makes the secret with mm2.properties. */ -}}
{{- define "mirror.ownSecret" -}}
{{- if and (eq .Values.mode "mirror") (not .Values.existingSecret) }}true{{ end -}}
{{- end -}}

{{- /* Variables of the container. Of workers also those that follow from the chart, unless
`environment` has them. */ -}}
{{- define "mirror.environment" -}}
{{- $variables := deepCopy .Values.environment }}
{{- if eq .Values.mode "distributed" }}
{{- $class := "org.apache.kafka.common.config.provider.DirectoryConfigProvider" }}
{{- $own := dict "CONNECT_LISTENERS" (printf "http://:%d" (int .Values.port)) }}
{{- if .Values.secrets }}
{{- $own = merge $own (dict "CONNECT_CONFIG_PROVIDERS" "dir" "CONNECT_CONFIG_PROVIDERS_DIR_CLASS" $class) }}
{{- end }}
{{- $variables = merge $variables $own }}
- name: CONNECT_REST_ADVERTISED_HOST_NAME
  valueFrom:
    fieldRef:
      fieldPath: status.podIP
{{- end }}
{{- range $name, $value := $variables }}
- name: {{ $name }}
  {{- /* A large whole number of a values file would become 1e+06. */}}
  {{- if and (kindIs "float64" $value) (eq (floor $value) $value) }}
  value: {{ int64 $value | quote }}
  {{- else }}
  value: {{ $value | quote }}
  {{- end }}
{{- end }}
{{- end -}}
