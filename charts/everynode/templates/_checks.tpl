{{/* Checks of flags that depend on each other, which the schema cannot express: with the refused values, the programs would not start. */}}

{{/* A duration in nanoseconds. */}}
{{- define "everynode.nanoseconds" -}}
{{- $start := toDate "2006-01-02" "2000-01-01" -}}
{{- printf "%d" ((mustDateModify . $start).Sub $start) -}}
{{- end -}}

{{/* The logging flags of both programs. */}}
{{- define "everynode.checkLogs" -}}
{{- $at := .at -}}
{{- with .flags -}}
{{- if and .vmodule (eq (get . "logging-format") "json") -}}
{{- fail (printf "%s: vmodule works only with logging-format text: remove one of the two" $at) -}}
{{- end -}}
{{- with get . "log-flush-frequency" }}{{ $_ := include "everynode.nanoseconds" . }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "everynode.checkManager" -}}
{{- $flags := .Values.manager.flags | default dict -}}
{{- $gates := .Values.featureGates | default dict -}}
{{- include "everynode.checkLogs" (dict "at" "manager.flags" "flags" $flags) -}}
{{- if and .Values.manager.comeBackFirstNamespaces (not (has "kruise" .Values.dialects)) -}}
{{- fail "manager.comeBackFirstNamespaces needs the dialect kruise: add it to dialects, or remove the namespaces" -}}
{{- end -}}
{{- if and .Values.manager.undoNamespaces (not (has "policy" .Values.dialects)) -}}
{{- fail "manager.undoNamespaces needs the dialect policy: add it to dialects, or remove the namespaces" -}}
{{- end -}}
{{- if not (get $gates "LoggingAlphaOptions" | default (and (get $gates "AllAlpha") (not (hasKey $gates "LoggingAlphaOptions")))) -}}
{{- range list "log-json-info-buffer-size" "log-json-split-stream" "log-text-info-buffer-size" "log-text-split-stream" -}}
{{- if not (has (get $flags . | toString) (list "" "0" "false")) -}}
{{- fail (printf "manager.flags: %s needs featureGates: {LoggingAlphaOptions: true}" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if eq (get $flags "logging-format") "json" -}}
{{- if not (get $gates "LoggingBetaOptions" | default (not (or (hasKey $gates "LoggingBetaOptions") (eq (get $gates "AllBeta" | toString) "false")))) -}}
{{- fail "manager.flags: logging-format json needs the feature gate LoggingBetaOptions, which featureGates switches off" -}}
{{- end -}}
{{- end -}}
{{- $lease := get $flags "leader-elect-lease-duration" | default "10s" -}}
{{- $renew := get $flags "leader-elect-renew-deadline" | default "7s" -}}
{{- $retry := get $flags "leader-elect-retry-period" | default "1500ms" -}}
{{- $leaseFor := include "everynode.nanoseconds" $lease | int64 -}}
{{- $renewFor := include "everynode.nanoseconds" $renew | int64 -}}
{{- $retryFor := include "everynode.nanoseconds" $retry | int64 -}}
{{- if or (lt $leaseFor 1000000000) (le $leaseFor $renewFor) (le (divf $renewFor 1.2) (float64 $retryFor)) (le $retryFor 0) -}}
{{- fail (printf "manager.flags: leader-elect-lease-duration (%s) must be at least 1s and longer than leader-elect-renew-deadline (%s), which must be longer than 1.2 times leader-elect-retry-period (%s)" $lease $renew $retry) -}}
{{- end -}}
{{- end -}}

{{- define "everynode.checkAgent" -}}
{{- $flags := .Values.agent.flags | default dict -}}
{{- include "everynode.checkLogs" (dict "at" "agent.flags" "flags" $flags) -}}
{{- $listen := get $flags "listen" | toString | default "127.0.0.1:10267" -}}
{{- $openYurt := eq (get $flags "openyurt-api" | toString) "true" -}}
{{- if eq $listen "0" -}}
{{- if $openYurt -}}
{{- fail "agent.flags: openyurt-api adds routes to the API of the node, but listen: 0 switches this API off: remove one of the two" -}}
{{- end -}}
{{- else -}}
{{- if hasSuffix ":10268" $listen -}}
{{- fail (printf "agent.flags: the agent serves its metrics on the port of listen (%s): use another port" $listen) -}}
{{- end -}}
{{- if not (regexMatch "^((?i:localhost)|127([.](25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])){3}|\\[::1\\]):" $listen) -}}
{{- if not (get $flags "tls-cert-file") -}}
{{- fail (printf "agent.flags: listen (%s) can be reached from other machines, and tokens would be sent unencrypted: set tls-cert-file and tls-private-key-file, or listen on 127.0.0.1" $listen) -}}
{{- end -}}
{{- if $openYurt -}}
{{- fail (printf "agent.flags: listen (%s) can be reached from other machines, and the routes of openyurt-api have no authentication: listen on 127.0.0.1, or remove openyurt-api" $listen) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
