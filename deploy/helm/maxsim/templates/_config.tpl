{{/* The configuration files. A user's values override the defaults. Ports, paths of mounted files and groups override a
user's values, because other objects of the chart rely on them. */}}

{{/* The sections that servers and routers share. Takes root; gives YAML. */}}
{{- define "maxsim.sharedConfig" -}}
grpc: {address: "0.0.0.0:7070"}
http: {address: "0.0.0.0:7071"}
{{- with .root.Values.tracing.endpoint }}
tracing:
  endpoint: {{ . | quote }}
  {{- if ne (toString $.root.Values.tracing.sampleRatio) "" }}
  sample_ratio: {{ $.root.Values.tracing.sampleRatio }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Settings of tokens and certificates for servers that clients connect to. Takes root; gives YAML. */}}
{{- define "maxsim.clientSecurity" -}}
{{- $auth := .root.Values.auth -}}
{{- $tls := .root.Values.tls -}}
{{- if $auth.existingSecret }}
auth:
  {{- with $auth.searchKey }}
  tokens_file: /secrets/tokens/{{ . }}
  {{- end }}
  {{- with $auth.writeKey }}
  write_tokens_file: /secrets/tokens/{{ . }}
  {{- end }}
  {{- with $auth.adminKey }}
  admin_tokens_file: /secrets/tokens/{{ . }}
  {{- end }}
{{- end }}
{{- if $tls.existingSecret }}
tls:
  cert_file: /secrets/tls/tls.crt
  key_file: /secrets/tls/tls.key
  {{- if $tls.clientCa }}
  client_ca_file: /secrets/tls/ca.crt
  {{- end }}
http: {tls: {{ $tls.http }}}
{{- end }}
{{- end }}

{{/* Tokens and certificates of groups behind routers. The one token may search, write and administer. Takes root; gives
YAML. */}}
{{- define "maxsim.clusterSecurity" -}}
{{- with .root.Values.clusterAuth }}
{{- if .existingSecret }}
auth:
  tokens_file: /secrets/cluster/{{ .key }}
  write_tokens_file: /secrets/cluster/{{ .key }}
  admin_tokens_file: /secrets/cluster/{{ .key }}
{{- end }}
{{- end }}
{{- if .root.Values.clusterTls.existingSecret }}
tls:
  cert_file: /secrets/cluster-tls/tls.crt
  key_file: /secrets/cluster-tls/tls.key
  {{- if .root.Values.clusterTls.clientCa }}
  client_ca_file: /secrets/cluster-tls/ca.crt
  {{- end }}
{{- end }}
{{- end }}

{{/* maxsimd.yaml of a group's servers. Takes root and group. */}}
{{- define "maxsim.groupConfig" -}}
{{- $values := .root.Values -}}
{{- $group := .group -}}
{{- $defaults := dict -}}
{{- if gt (int $group.gpu.count) 0 -}}
{{- $_ := set $defaults "backend" (dict "kind" "cuda") -}}
{{- if gt (int $group.gpu.count) 1 -}}{{- $_ := set $defaults.backend "devices" "all" -}}{{- end -}}
{{- end -}}
{{- $fixed := include "maxsim.sharedConfig" . | fromYaml -}}
{{- $security := ternary "maxsim.clusterSecurity" "maxsim.clientSecurity" $values.router.enabled -}}
{{- $fixed = mergeOverwrite $fixed (include $security . | fromYaml) -}}
{{- $_ := set $fixed "store" (dict "allowed_roots" (list "/collections")) -}}
{{- $_ := set $fixed "collections" $group.collections -}}
{{- with $group.partition -}}{{- $_ := set $fixed "cluster" (dict "partition" .) -}}{{- end -}}
{{- if $values.live.enabled -}}
{{- $_ := set $fixed "live" (dict "log" $values.live.log) -}}
{{- if eq $values.live.log "nats" -}}
{{- $nats := dict "url" (include "maxsim.natsUrl" .root) "replicas" (int $values.live.nats.replicas) -}}
{{- with $values.live.nats -}}
{{- if .credentialsSecret -}}{{- $_ := set $nats "credentials_file" (printf "/secrets/nats/%s" .credentialsKey) -}}{{- end -}}
{{- if .streamPrefix -}}{{- $_ := set $nats "stream_prefix" .streamPrefix -}}{{- end -}}
{{- if .timeout -}}{{- $_ := set $nats "timeout" .timeout -}}{{- end -}}
{{- end -}}
{{- $_ := set $fixed "nats" $nats -}}
{{- end -}}
{{- end -}}
{{- mergeOverwrite $defaults (deepCopy $values.config) (deepCopy $group.config) $fixed | toYaml -}}
{{- end }}

{{/* maxsimd.yaml of the routers. Takes root. */}}
{{- define "maxsim.routerConfig" -}}
{{- $values := .root.Values -}}
{{- $fixed := include "maxsim.sharedConfig" . | fromYaml -}}
{{- $fixed = mergeOverwrite $fixed (include "maxsim.clientSecurity" . | fromYaml) -}}
{{- $cluster := dict "groups_file" "/etc/maxsim-groups/groups.txt" -}}
{{- with $values.router -}}
{{- if ne (toString .hedgeAt) "" -}}{{- $_ := set $cluster "hedge_at" (float64 .hedgeAt) -}}{{- end -}}
{{- if not (kindIs "string" .maxCallsInFlight) -}}{{- $_ := set $cluster "max_calls_in_flight" .maxCallsInFlight -}}{{- end -}}
{{- end -}}
{{- with $values.clusterAuth -}}
{{- if .existingSecret -}}{{- $_ := set $cluster "token_file" (printf "/secrets/cluster/%s" .key) -}}{{- end -}}
{{- end -}}
{{- with $values.clusterTls -}}
{{- if .existingSecret -}}
{{- $name := printf "%s-groups.%s.svc.%s" (include "maxsim.fullname" $.root) $.root.Release.Namespace $values.clusterDomain -}}
{{- $tls := dict "tls" true "ca_file" "/secrets/cluster-tls/ca.crt" "server_name" (.serverName | default $name) -}}
{{- if .clientCa -}}
{{- $_ := set $tls "cert_file" "/secrets/cluster-tls/tls.crt" -}}
{{- $_ := set $tls "key_file" "/secrets/cluster-tls/tls.key" -}}
{{- end -}}
{{- $cluster = merge $cluster $tls -}}
{{- end -}}
{{- end -}}
{{- $_ := set $fixed "cluster" $cluster -}}
{{- mergeOverwrite (deepCopy $values.config) (deepCopy $values.router.config) $fixed | toYaml -}}
{{- end }}

{{/* groups.txt, which the routers watch: a line for each group that is routed, with the DNS name of its servers. Takes
root. */}}
{{- define "maxsim.groupsFile" -}}
{{- range $index := until (int .root.Values.groups.count) }}
{{- $name := printf "g%d" $index }}
{{- if dig $name "routed" true $.root.Values.groups.overrides }}
{{ $name }}={{ include "maxsim.groupTarget" (dict "root" $.root "name" $name) }}
{{- end }}
{{- end }}
{{- end }}

{{/* nats.conf of the NATS servers. Takes the root. */}}
{{- define "maxsim.natsConfig" -}}
{{- $name := printf "%s-nats" (include "maxsim.fullname" .) -}}
server_name: $POD_NAME
port: 4222
http_port: 8222
# A batch of writes is one message.
max_payload: 8MB
jetstream {
  store_dir: /data
}
{{- if gt (int .Values.nats.replicas) 1 }}
cluster {
  name: {{ $name }}
  port: 6222
  routes: [
    {{- range $index := until (int .Values.nats.replicas) }}
    nats://{{ $name }}-{{ $index }}.{{ $name }}:6222
    {{- end }}
  ]
}
{{- end }}
{{- end }}
