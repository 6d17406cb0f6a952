{{/* The beginning of all names: short enough that -router and the numbers of pods can follow. */}}
{{- define "maxsim.fullname" -}}
{{- $name := .Release.Name -}}
{{- if not (contains "maxsim" .Release.Name) -}}{{- $name = printf "%s-maxsim" .Release.Name -}}{{- end -}}
{{- .Values.fullnameOverride | default $name | trunc 45 | trimSuffix "-" -}}
{{- end }}

{{/* The label app.kubernetes.io/name. */}}
{{- define "maxsim.name" -}}
{{- .Values.nameOverride | default "maxsimd" | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{/* Labels that select: those of a component (router, group, clients) and, of a group's servers, of the group. Takes root,
component and perhaps group. */}}
{{- define "maxsim.selector" -}}
app.kubernetes.io/name: {{ include "maxsim.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- with .group }}
maxsim/group: {{ . }}
{{- end }}
{{- end }}

{{/* All labels of an object. Takes what maxsim.selector takes. */}}
{{- define "maxsim.labels" -}}
{{ include "maxsim.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "maxsim.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "maxsim.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end }}

{{/* The values of group `index`: those of its `overrides`, else those of `groups`. Takes root and index; gives YAML. */}}
{{- define "maxsim.group" -}}
{{- $groups := .root.Values.groups -}}
{{- $name := printf "g%d" .index -}}
{{- $group := deepCopy (omit $groups "overrides" "count") -}}
{{- $group = mergeOverwrite $group (deepCopy (get $groups.overrides $name | default dict)) -}}
{{- $_ := set $group "name" $name -}}
{{- if and (not $group.partition) (gt (int $groups.count) 1) -}}
{{- $_ := set $group "partition" (printf "%d/%d" .index (int $groups.count)) -}}
{{- end -}}
{{- $collections := list -}}
{{- $words := dict "{index}" (toString .index) "{groups}" (toString (int $groups.count)) "{group}" $name -}}
{{- range $group.collections -}}
{{- $collection := deepCopy . -}}
{{- range $word, $text := $words -}}
{{- $_ := set $collection "path" (replace $word $text $collection.path) -}}
{{- end -}}
{{- if $.root.Values.live.enabled -}}{{- $_ := set $collection "live" true -}}{{- end -}}
{{- $collections = append $collections $collection -}}
{{- end -}}
{{- $_ := set $group "collections" $collections -}}
{{- toYaml $group -}}
{{- end }}

{{/* The address of the group with that name. Takes root and name. */}}
{{- define "maxsim.groupTarget" -}}
dns:///{{ include "maxsim.fullname" .root }}-{{ .name }}.{{ .root.Release.Namespace }}.svc.{{ .root.Values.clusterDomain }}:7070
{{- end }}

{{/* Address of the NATS servers: live.nats.url, or the Service of nats.yaml. */}}
{{- define "maxsim.natsUrl" -}}
{{- .Values.live.nats.url | default (printf "nats://%s-nats-client:4222" (include "maxsim.fullname" .)) -}}
{{- end }}

{{/* Fails, naming the values, if values of the release contradict each other. */}}
{{- define "maxsim.check" -}}
{{- $groups := .Values.groups -}}
{{- if and (not .Values.router.enabled) (ne (int $groups.count) 1) -}}
{{- fail (printf "router.enabled is false, and groups.count %d: without routers there is one group" (int $groups.count)) -}}
{{- end -}}
{{- if and (not .Values.router.enabled) .Values.clusterAuth.existingSecret -}}
{{- fail "clusterAuth.existingSecret is set, and router.enabled false: without routers clients' tokens are those of auth" -}}
{{- end -}}
{{- if and (not .Values.router.enabled) .Values.clusterTls.existingSecret -}}
{{- fail "clusterTls.existingSecret is set, and router.enabled false: without routers the certificate is that of tls" -}}
{{- end -}}
{{- range $name, $_ := $groups.overrides -}}
{{- if ge (int (trimPrefix "g" $name)) (int $groups.count) -}}
{{- fail (printf "groups.overrides.%s: there are %d groups, from g0 on" $name (int $groups.count)) -}}
{{- end -}}
{{- end -}}
{{- range $index := until (int $groups.count) -}}
{{- $group := include "maxsim.group" (dict "root" $ "index" $index) | fromYaml -}}
{{- $kind := $group.storage.kind -}}
{{- if and $group.fetch.image (not (has $kind (list "claimTemplate" "emptyDir"))) -}}
{{- fail (printf "groups.fetch.image is set, and groups.storage.kind of %s %s: it fills claimTemplate and emptyDir" $group.name $kind) -}}
{{- end -}}
{{- if and (eq $kind "emptyDir") (not $group.fetch.image) -}}
{{- fail (printf "groups.storage.kind of %s is emptyDir, and groups.fetch.image empty: nothing would fill it" $group.name) -}}
{{- end -}}
{{- if and $.Values.live.enabled (has $kind (list "existingClaim" "emptyDir")) -}}
{{- fail (printf "live.enabled is true, and groups.storage.kind of %s %s: a live collection's folder is one server's, and stays: claimTemplate or hostPath" $group.name $kind) -}}
{{- end -}}
{{- if and $.Values.live.enabled (eq $kind "hostPath") (ne $group.antiAffinity "required") -}}
{{- fail (printf "live.enabled is true, and groups.storage.kind of %s hostPath: two servers on one node would share its folder: groups.antiAffinity must be required" $group.name) -}}
{{- end -}}
{{- if and $.Values.live.enabled (eq $.Values.live.log "local") (gt (int $group.replicas) 1) -}}
{{- fail (printf "live.log is local, and groups.replicas of %s %d: they would know nothing of one another's writes" $group.name (int $group.replicas)) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.live.enabled (eq .Values.live.log "nats") (not .Values.live.nats.url) (not .Values.nats.enabled) -}}
{{- fail "live.log is nats: set live.nats.url, or nats.enabled for servers of the release" -}}
{{- end -}}
{{- if and .Values.nats.enabled (not .Values.live.nats.url) (gt (int .Values.live.nats.replicas) (int .Values.nats.replicas)) -}}
{{- fail (printf "live.nats.replicas is %d, and nats.replicas %d: a stream has at most one copy per NATS server" (int .Values.live.nats.replicas) (int .Values.nats.replicas)) -}}
{{- end -}}
{{- end }}
