{{/* An unchanged file of config/, for the namespace of the release. The namespace is in quotes, because its name can look like a number. */}}
{{- define "everynode.file" -}}
{{- required (printf "the chart has no file %s" .path) (.root.Files.Get .path) | replace "everynode-system" (quote .root.Release.Namespace) | trim -}}
{{- end -}}

{{/* CRDs in the cluster that do not belong to Everynode; empty if there is no cluster to ask (helm template). */}}
{{- define "everynode.foreign" -}}
{{- range list "daemonsets" "imagepulljobs" "nodeimages" -}}
{{- $name := printf "%s.apps.kruise.io" . -}}
{{- $definition := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" $name -}}
{{- if and $definition (ne (dig "metadata" "labels" "everynode.dev/part-of" "" $definition) "everynode") }} {{ $name }}{{ end -}}
{{- end -}}
{{- end -}}

{{/* true if the dialect kruise is served. */}}
{{- define "everynode.kruise" -}}
{{- if and (has "kruise" .Values.dialects) (not (include "everynode.foreign" .)) }}true{{ end -}}
{{- end -}}

{{/* true if there are agents: where OpenKruise runs, its own daemon pulls the images. */}}
{{- define "everynode.agent" -}}
{{- if and .Values.agent.enabled (not (include "everynode.foreign" .)) }}true{{ end -}}
{{- end -}}

{{/* The dialects that are served. */}}
{{- define "everynode.dialects" -}}
{{- $served := .Values.dialects -}}
{{- $foreign := include "everynode.foreign" . -}}
{{- if $foreign }}{{ $served = without $served "kruise" }}{{ end -}}
{{- if not $served -}}
{{- fail (printf "dialects: nothing is left to serve: kruise is not served because these CRDs do not belong to Everynode:%s; add native or openyurt to dialects, or let Everynode take them over first (docs/migration.md)" $foreign) -}}
{{- end -}}
{{- join "," $served -}}
{{- end -}}

{{/* The name of an image. */}}
{{- define "everynode.image" -}}
{{- $of := .root.Values.image -}}
{{- with $of.registry }}{{ trimSuffix "/" . }}/{{ end -}}
{{ .image.name }}
{{- if .image.digest }}@{{ .image.digest }}{{ else }}:{{ $of.tag | default .root.Chart.AppVersion }}{{ end -}}
{{- end -}}

{{/* Flags as arguments. */}}
{{- define "everynode.flags" -}}
{{- range $flag, $value := . }}
- {{ printf "--%s=%s" $flag (kindIs "string" $value | ternary $value (toJson $value)) | quote }}
{{- end -}}
{{- end -}}

{{- define "everynode.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
- name: {{ quote . }}
{{- end }}
{{- end -}}
{{- end -}}

{{/* The tolerations of the manager. Only a manager removes the taint, so it must not wait for that itself. */}}
{{- define "everynode.managerTolerations" -}}
tolerations:
  {{- with .Values.manager.tolerations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  - key: everynode.dev/waits-for-daemon-pods
    operator: Exists
{{- end -}}

{{/* The specification of a pod that checks the installation: with the program, the image and the account of the manager. */}}
{{- define "everynode.checkPod" -}}
restartPolicy: Never
serviceAccountName: everynode-manager
{{- include "everynode.pullSecrets" .root }}
nodeSelector:
  kubernetes.io/os: linux
  {{- with .root.Values.manager.nodeSelector }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{ include "everynode.managerTolerations" .root }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
containers:
- name: check
  image: {{ include "everynode.image" (dict "root" .root "image" .root.Values.manager.image) | quote }}
  imagePullPolicy: {{ quote .root.Values.image.pullPolicy }}
  args:
  {{- range .args }}
  - {{ quote . }}
  {{- end }}
  resources:
    requests: {cpu: 10m, memory: 64Mi}
  securityContext:
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities:
      drop: [ALL]
{{- end -}}
