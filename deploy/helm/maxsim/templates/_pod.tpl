{{/* What the pods of servers and routers share. */}}

{{- define "maxsim.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "maxsim.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Annotations of a pod. A hash of its configuration file is one of them, so that a change of the file restarts the pod.
Takes root, config (the file's text) and annotations. */}}
{{- define "maxsim.podAnnotations" -}}
checksum/config: {{ .config | sha256sum }}
{{- if not .root.Values.metrics.serviceMonitor.enabled }}
prometheus.io/scrape: "true"
prometheus.io/port: "7071"
prometheus.io/path: /metrics
{{- if and .public (eq (include "maxsim.httpScheme" .) "HTTPS") }}
prometheus.io/scheme: https
{{- end }}
{{- end }}
{{- with .annotations }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The scheme of probes and scrapes of pods that clients connect to: HTTPS if they need TLS, else HTTP. Takes root. */}}
{{- define "maxsim.httpScheme" -}}
{{- $tls := .root.Values.tls -}}
{{- ternary "HTTPS" "HTTP" (and (ne $tls.existingSecret "") (eq $tls.http "all")) -}}
{{- end }}

{{/* Probes. Takes root, public (whether clients connect to the pod) and startupSeconds. */}}
{{- define "maxsim.probes" -}}
{{- $scheme := ternary (include "maxsim.httpScheme" .) "HTTP" .public -}}
{{- $secret := ternary .root.Values.tls.existingSecret .root.Values.clusterTls.existingSecret .public -}}
startupProbe:
  httpGet: {path: /readyz, port: http, scheme: {{ $scheme }}}
  periodSeconds: 10
  failureThreshold: {{ max 1 (div (int .startupSeconds) 10) }}
readinessProbe:
  httpGet: {path: /readyz, port: http, scheme: {{ $scheme }}}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 1
livenessProbe:
  {{- if $secret }}
  # Kubernetes' gRPC probes cannot use TLS, so the HTTP port is asked instead.
  httpGet: {path: /livez, port: http, scheme: {{ $scheme }}}
  {{- else }}
  grpc: {port: 7070}
  {{- end }}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
{{- end }}

{{- define "maxsim.ports" -}}
- {name: grpc, containerPort: 7070}
- {name: http, containerPort: 7071}
{{- end }}

{{/* The variable that tells maxsimd its zone, from a field of its pod; nothing if zoneField is empty. Takes the root. */}}
{{- define "maxsim.zoneVariable" -}}
{{- with .Values.zoneField }}
- {name: MAXSIM_CLUSTER_ZONE, valueFrom: {fieldRef: {fieldPath: {{ . | quote }}}}}
{{- end }}
{{- end }}

{{/* Ports of a Service. Takes encrypted: whether its gRPC port uses TLS. */}}
{{- define "maxsim.servicePorts" -}}
- {name: grpc, port: 7070, targetPort: grpc, appProtocol: {{ ternary "https" "kubernetes.io/h2c" .encrypted }}}
- {name: http, port: 7071, targetPort: http}
{{- end }}

{{/* Mounts and volumes of Secrets. Whole folders are mounted: a file that is mounted by subPath would never change. Takes
root and public (whether clients connect to the pod). */}}
{{- define "maxsim.secretMounts" -}}
{{- if and .public .root.Values.auth.existingSecret }}
- {name: tokens, mountPath: /secrets/tokens, readOnly: true}
{{- end }}
{{- if and .public .root.Values.tls.existingSecret }}
- {name: tls, mountPath: /secrets/tls, readOnly: true}
{{- end }}
{{- if .root.Values.clusterAuth.existingSecret }}
- {name: cluster, mountPath: /secrets/cluster, readOnly: true}
{{- end }}
{{- if .root.Values.clusterTls.existingSecret }}
- {name: cluster-tls, mountPath: /secrets/cluster-tls, readOnly: true}
{{- end }}
{{- end }}

{{- define "maxsim.secretVolumes" -}}
{{- if and .public .root.Values.auth.existingSecret }}
- {name: tokens, secret: {secretName: {{ .root.Values.auth.existingSecret }}}}
{{- end }}
{{- if and .public .root.Values.tls.existingSecret }}
- {name: tls, secret: {secretName: {{ .root.Values.tls.existingSecret }}}}
{{- end }}
{{- if .root.Values.clusterAuth.existingSecret }}
- {name: cluster, secret: {secretName: {{ .root.Values.clusterAuth.existingSecret }}}}
{{- end }}
{{- if .root.Values.clusterTls.existingSecret }}
- {name: cluster-tls, secret: {secretName: {{ .root.Values.clusterTls.existingSecret }}}}
{{- end }}
{{- end }}

{{/* Where a pod may run. Takes values (of groups or router), selector, the text of the labels that it is kept apart by, and
antiAffinity, which is required, preferred or none. */}}
{{- define "maxsim.placement" -}}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- if eq .antiAffinity "required" }}
affinity:
  podAntiAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- .selector | nindent 12 }}
{{- else if eq .antiAffinity "preferred" }}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels:
              {{- .selector | nindent 14 }}
{{- end }}
{{- if ne .values.zoneSpread "none" }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: {{ .values.zoneSpread }}
    labelSelector:
      matchLabels:
        {{- .selector | nindent 8 }}
{{- end }}
{{- end }}
