// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/internal/agent"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/features"
	"everynode.dev/everynode/internal/manager"
)

// TestSchemaRefuses what cannot be meant, and names the value.
func TestSchemaRefuses(t *testing.T) {
	for values, want := range map[string]string{
		"dialect: [native]":                                      "'dialect'",
		"dialects: []":                                           "/dialects",
		"dialects: [natve]":                                      "/dialects/0",
		"dialects: [native, native]":                             "/dialects",
		"dialects: native":                                       "/dialects",
		"featureGates: {ConflictProbe: maybe}":                   "/featureGates/ConflictProbe",
		"featureGates: {conflictProbe: true}":                    "/featureGates",
		"featureGates: {NoSuchGate: true}":                       "'NoSuchGate'",
		"manager: {flags: {metrics-per-set: ture}}":              "/manager/flags/metrics-per-set",
		"manager: {flags: {concurrent-syncs: 0}}":                "/manager/flags/concurrent-syncs",
		"manager: {flags: {kube-api-burst: '0'}}":                "/manager/flags/kube-api-burst",
		"manager: {flags: {v: 99999999999}}":                     "/manager/flags/v",
		"manager: {flags: {logging-format: xml}}":                "/manager/flags/logging-format",
		"manager: {flags: {leader-elect-lease-duration: 0s}}":    "/manager/flags/leader-elect-lease-duration",
		"manager: {flags: {vmodule: 'a=b'}}":                     "/manager/flags/vmodule",
		"agent: {flags: {image-fs-limit: 900}}":                  "/agent/flags/image-fs-limit",
		"agent: {flags: {listen: nonsense}}":                     "/agent/flags/listen",
		"agent: {flags: {tls-cert-file: /c}}":                    "/agent/flags",
		"manager: {flags: {kube-api-qps: abc}}":                  "/manager/flags/kube-api-qps",
		"manager: {flags: {kube-api-qps: -1}}":                   "/manager/flags/kube-api-qps",
		"manager: {flags: {concurrent-syncs: 1.5}}":              "/manager/flags/concurrent-syncs",
		"manager: {flags: {leader-elect-retry-period: 2}}":       "/manager/flags/leader-elect-retry-period",
		"manager: {resources: {limits: {memory: 1Gib}}}":         "/manager/resources/limits/memory",
		"manager: {resources: {limit: {memory: 1Gi}}}":           "/manager/resources",
		"agent: {flags: {openyurt-api: yess}}":                   "/agent/flags/openyurt-api",
		"agent: {resources: {requests: {cpu: 10 m}}}":            "/agent/resources/requests/cpu",
		"image: {registry: https://registry.example}":            "/image/registry",
		"image: {tag: a/b}":                                      "/image/tag",
		"image: {pullPolicy: Sometimes}":                         "/image/pullPolicy",
		"manager: {replicas: 0}":                                 "/manager/replicas",
		"manager: {flags: {qps: 5}}":                             "/manager/flags",
		"manager: {flags: {dialects: kruise}}":                   "/manager/flags",
		"manager: {flags: {kube-api-qps: [5]}}":                  "/manager/flags/kube-api-qps",
		"manager: {image: {digest: abc}}":                        "/manager/image/digest",
		"manager: {pullSecretNamespaces: [A]}":                   "/manager/pullSecretNamespaces/0",
		"manager: {analysisProviders: A/B}":                      "/manager/analysisProviders",
		"manager: {notificationTargets: A/B}":                    "/manager/notificationTargets",
		"manager: {podDisruptionBudget: {maxUnavailable: 0}}":    "/manager/podDisruptionBudget/maxUnavailable",
		"agent: {criSocket: unix:///run/a.sock}":                 "/agent/criSocket",
		"agent: {maxUnavailable: 0%}":                            "/agent/maxUnavailable",
		"agent: {maxUnavailable: 101%}":                          "/agent/maxUnavailable",
		"manager: {podDisruptionBudget: {maxUnavailable: 200%}}": "/manager/podDisruptionBudget/maxUnavailable",
		"manager: {podDisruptionBudget: {maxUnavailable: 0%}}":   "/manager/podDisruptionBudget/maxUnavailable",
		"manager: {podLabels: {app.kubernetes.io/name: other}}":  "'app.kubernetes.io/name'",
		"agent: {podLabels: {app.kubernetes.io/name: other}}":    "'app.kubernetes.io/name'",
		"manager: {nodeSelector: {kubernetes.io/os: windows}}":   "'kubernetes.io/os'",
		"agent: {nodeSelector: {kubernetes.io/os: linux}}":       "'kubernetes.io/os'",
		"agent: {nodeSelector: {edge: true}}":                    "/agent/nodeSelector/edge",
		"roles: {aggregat: true}":                                "/roles",
		"monitoring: {alerts: {runbooks: pages}}":                "/monitoring/alerts/runbooks",
		"flowControl: 1":                                         "/flowControl",
	} {
		_, err := release{values: values}.texts(t)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want an error about %s, got %v", values, want, err)
		}
	}
}

// TestSchemaAccepts what the programs take, as --set and --set-string make it.
func TestSchemaAccepts(t *testing.T) {
	for _, values := range []string{
		"{manager: {flags: {metrics-per-set: 'true', kube-api-qps: '12.5', kube-api-burst: '20', v: 4, log-json-info-buffer-size: 4Ki, leader-elect-retry-period: 1.5s}}, featureGates: {LoggingAlphaOptions: true}}",
		"manager: {resources: {requests: {cpu: 0.5, memory: 134217728}, limits: {cpu: '2', memory: 1.5Gi, ephemeral-storage: 100M}}}",
		"agent: {flags: {max-concurrent-pulls: 0, image-fs-limit: '80', listen: 0, log-flush-frequency: 500ms}}",
		"featureGates: {AllAlpha: true, LoggingAlphaOptions: false}",
		"manager: {flags: {kube-api-qps: 0}}",
		"manager: {flags: {concurrent-syncs: 8, metrics-per-set: true, in-place-wait-for-images: false}}", // the examples of values.yaml
		"agent: {flags: {image-fs-limit: 80, openyurt-api: true}}",
		"manager: {flags: {kube-api-qps: '0'}}",
		"{manager: {podDisruptionBudget: {maxUnavailable: 100%}}, agent: {maxUnavailable: 100%}}",
		"{manager: {podLabels: {app.kubernetes.io/part-of: a}}, agent: {nodeSelector: {kubernetes.io/arch: arm64}}}",
	} {
		if _, err := (release{values: values}).texts(t); err != nil {
			t.Errorf("%s: %v", values, err)
		}
	}
}

// schemaNode is what is read of the schema.
type schemaNode struct {
	Ref                  string                 `json:"$ref"`
	Properties           map[string]*schemaNode `json:"properties"`
	AdditionalProperties any                    `json:"additionalProperties"`
}

func schemaOf(t *testing.T) *schemaNode {
	t.Helper()
	root := &schemaNode{}
	if err := json.Unmarshal(file(t, "values.schema.json"), root); err != nil {
		t.Fatal(err)
	}
	return root
}

// TestSchemaKnowsTheValues: each value of values.yaml, and no other, and nothing may be there that it does not know.
func TestSchemaKnowsTheValues(t *testing.T) {
	values := map[string]any{}
	if err := yaml.UnmarshalStrict(file(t, "values.yaml"), &values); err != nil {
		t.Fatal(err)
	}
	root := schemaOf(t)
	delete(root.Properties, "global") // Helm's own, where the chart is part of another
	compare(t, "", root, values)
}

func compare(t *testing.T, at string, node *schemaNode, values map[string]any) {
	t.Helper()
	if got, want := slices.Sorted(maps.Keys(node.Properties)), slices.Sorted(maps.Keys(values)); !slices.Equal(got, want) {
		t.Errorf("%s: the schema has %q, values.yaml %q", at, got, want)
		return
	}
	if node.AdditionalProperties != false {
		t.Errorf("%s: what is mistyped is not refused", at)
	}
	for name, below := range node.Properties {
		if len(below.Properties) == 0 || name == "flags" || name == "featureGates" { // the values have none of these
			continue
		}
		inner, _ := values[name].(map[string]any)
		compare(t, at+"/"+name, below, inner)
	}
}

// TestValuesAreExplained: a comment stands above each, or above what it is part of.
func TestValuesAreExplained(t *testing.T) {
	lines := strings.Split(string(file(t, "values.yaml")), "\n")
	for i, line := range lines {
		if line == "" || line[0] == ' ' || line[0] == '#' || line[0] == '-' {
			continue
		}
		inside := i+1 < len(lines) && strings.HasSuffix(line, ":") && slices.ContainsFunc(lines[i+1:], func(l string) bool { return strings.HasPrefix(strings.TrimSpace(l), "#") })
		if !strings.HasPrefix(lines[i-1], "#") && !inside {
			t.Errorf("nothing explains %s", line)
		}
	}
}

// TestFlagsAreThose of the programs: those that the schema knows, and all that the chart renders to.
func TestFlagsAreThose(t *testing.T) {
	root, all := schemaOf(t), release{values: manyValues}.objects(t)
	managers, agents := manager.NewCommand("").Flags(), agent.NewCommand("").Flags()
	checkFlags(t, root.Properties["manager"].Properties["flags"], func(name string) string {
		if flag := managers.Lookup(name); flag != nil {
			return flag.Value.Type()
		}
		return ""
	})
	checkFlags(t, root.Properties["agent"].Properties["flags"], func(name string) string {
		if flag := agents.Lookup(name); flag != nil {
			return flag.Value.Type()
		}
		return ""
	})
	if err := managers.Parse(arguments(t, all["Deployment/"+home+"/everynode-manager"])); err != nil {
		t.Error(err)
	}
	if err := agents.Parse(arguments(t, all["DaemonSet/everynode-agents/everynode-agent"])); err != nil {
		t.Error(err)
	}
	for flag, want := range map[string]string{
		"dialects": "[native,kruise,openyurt]", "kube-api-qps": "1e+06", "metrics-per-set": "true", "vmodule": "a=1,b=2",
		"leader-elect-lease-duration": "20s", "pull-secret-namespaces": "[one,two]", "analysis-providers": "/etc/everynode/analysis/providers.yaml",
		"notification-targets": "/etc/everynode/notifications/targets.yaml",
	} {
		if got := managers.Lookup(flag).Value.String(); got != want {
			t.Errorf("the manager's --%s is %s, want %s", flag, got, want)
		}
	}
	if got := managers.Lookup("feature-gates").Value.String(); !strings.Contains(got, "PreDownloadImageForDaemonSetUpdate=true") || !strings.Contains(got, "ConflictProbe=false") {
		t.Errorf("the feature gates are %s", got)
	}
	if got := agents.Lookup("image-fs-limit").Value.String() + agents.Lookup("cri-socket").Value.String(); got != "70unix:///run/k3s/containerd/containerd.sock" {
		t.Errorf("the agent is told %s", got)
	}
}

// checkFlags compares what the schema says of the flags of a program with those that it has, by their types.
func checkFlags(t *testing.T, node *schemaNode, typeOf func(string) string) {
	t.Helper()
	takes := map[string][]string{
		"bool": {"switch"}, "int": {"whole", "positive", "percentage"}, "Level": {"whole"}, "float32": {"decimal"}, "duration": {"duration"}, "quantity": {"size"},
		"string": {"path", "address", "logFormat"}, "pattern=N,...": {"modules"},
	}
	for name, below := range node.Properties {
		kind := typeOf(name)
		if kind == "" {
			t.Errorf("there is no flag --%s", name)
			continue
		}
		if got := strings.TrimPrefix(below.Ref, "#/$defs/"); !slices.Contains(takes[kind], got) {
			t.Errorf("--%s takes a %s, which is one of %q in the schema, and not %s", name, kind, takes[kind], got)
		}
	}
}

// TestFlagsOfThePrograms: each is in the schema, or the chart sets it itself, or it makes no sense in a pod of the chart.
func TestFlagsOfThePrograms(t *testing.T) {
	properties := schemaOf(t).Properties
	for program, c := range map[string]struct {
		usages string
		others []string
	}{
		"manager": {manager.NewCommand("").Flags().FlagUsages(), []string{
			"analysis-providers", "come-back-first-namespaces", "config", "deployment", "dialects", "ending-timeout", "feature-gates", "health-probe-bind-address", "kubeconfig", "leader-elect",
			"metrics-bind-address", "namespace", "notification-targets", "pull-secret-namespaces", "webhook-bind-address", "webhook-cert-dir", "webhook-url",
		}},
		"agent": {agent.NewCommand("").Flags().FlagUsages(), []string{
			"cri-socket", "kubeconfig", "metrics-bind-address", "node-name", "pull-secret-namespace", "state-dir",
			"log-json-info-buffer-size", "log-json-split-stream", "log-text-info-buffer-size", "log-text-split-stream", // they need a feature gate, which the agent does not have
		}},
	} {
		known := properties[program].Properties["flags"].Properties
		all := regexp.MustCompile(`(?m)^ +(?:-., )?--([a-z-]+)`).FindAllStringSubmatch(c.usages, -1)
		for _, flag := range all {
			if known[flag[1]] == nil && !slices.Contains(c.others, flag[1]) {
				t.Errorf("the schema does not know the flag --%s of the %s", flag[1], program)
			}
		}
		if len(all) <= len(c.others) {
			t.Errorf("the %s has only the flags %q", program, all)
		}
	}
}

// TestFeatureGatesAreThose of the manager.
func TestFeatureGatesAreThose(t *testing.T) {
	gate, err := features.New()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for name := range gate.GetAll() {
		want = append(want, string(name))
	}
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(schemaOf(t).Properties["featureGates"].Properties)); !slices.Equal(got, want) {
		t.Errorf("the schema has the feature gates %q, the manager %q", got, want)
	}
}

// TestValuesArrive: each ends where it belongs.
func TestValuesArrive(t *testing.T) {
	all := release{values: manyValues}.objects(t)
	pod, container := "spec.template.spec.", "spec.template.spec.containers.0."
	for _, c := range []struct{ object, field, want string }{
		{"Deployment", "spec.replicas", `3`},
		{"Deployment", container + "image", `"registry.example:5000/a/everynode-manager@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"`},
		{"Deployment", container + "imagePullPolicy", `"Always"`},
		{"Deployment", container + "resources.limits", `{"memory":"1Gi"}`},
		{"Deployment", pod + "imagePullSecrets", `[{"name":"pull"}]`},
		{"Deployment", pod + "nodeSelector", `{"a":"b","kubernetes.io/os":"linux"}`},
		{"Deployment", pod + "tolerations.0.key", `"control-plane"`},
		{"Deployment", pod + "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms.0.matchExpressions.0.key", `"a"`},
		{"Deployment", pod + "topologySpreadConstraints.0.topologyKey", `"topology.kubernetes.io/zone"`},
		{"Deployment", "spec.template.metadata.labels.team", `"nodes"`},
		{"Deployment", "spec.template.metadata.annotations", `{"note":"yes"}`},
		{"Deployment", pod + "topologySpreadConstraints.0.matchLabelKeys", `["pod-template-hash"]`},
		{"Deployment", pod + "volumes.0.secret.secretName", `"providers"`},
		{"Deployment", container + "volumeMounts.0.mountPath", `"/etc/everynode/analysis"`},
		{"PodDisruptionBudget", "spec.maxUnavailable", `"50%"`},
		{"PodDisruptionBudget", "spec.unhealthyPodEvictionPolicy", `"AlwaysAllow"`},
		{"NetworkPolicy", "spec.ingress.1.from.0.namespaceSelector.matchLabels", `{"name":"monitoring"}`},
		{"NetworkPolicy", "spec.ingress.0.ports", `[{"port":"webhook"},{"port":"health"}]`},
		{"DaemonSet", container + "image", `"registry.example:5000/a/everynode-agent:v1.2.3"`},
		{"DaemonSet", pod + "nodeSelector", `{"kubernetes.io/os":"linux","openyurt.io/is-edge-worker":"true"}`},
		{"DaemonSet", pod + "tolerations", `[{"key":"edge","operator":"Exists"}]`},
		{"DaemonSet", pod + "imagePullSecrets", `[{"name":"pull"}]`},
		{"DaemonSet", pod + "volumes.0.hostPath.path", `"/run/k3s/containerd"`},
		{"DaemonSet", pod + "volumes.1.hostPath.path", `"/var/lib/rancher/k3s/agent/containerd"`},
		{"DaemonSet", pod + "volumes.3.name", `"credentials"`},
		{"DaemonSet", container + "volumeMounts.0.mountPath", `"/run/k3s/containerd"`},
		{"DaemonSet", container + "volumeMounts.1.mountPath", `"/var/lib/rancher/k3s/agent/containerd"`},
		{"DaemonSet", container + "volumeMounts.3.name", `"credentials"`},
		{"DaemonSet", "spec.template.metadata.labels.team", `"edge"`},
		{"DaemonSet", "spec.template.metadata.annotations", `{"note":"yes"}`},
		{"DaemonSet", "spec.updateStrategy.rollingUpdate.maxUnavailable", `2`},
		{"RoleBinding/one/everynode-manager-read-pull-secrets", "subjects.0.namespace", `"everynode-system"`},
		{"RoleBinding/two/everynode-manager-read-pull-secrets", "roleRef.name", `"everynode-manager-read-pull-secrets"`},
		{"ServiceMonitor", "metadata.labels", `{"release":"prometheus"}`},
		{"PrometheusRule", "metadata.labels", `{"release":"prometheus"}`},
		{"ClusterRole/everynode-image-pulls", "metadata.labels", `{"rbac.authorization.k8s.io/aggregate-to-admin":"true"}`},
	} {
		if got := field(t, one(t, all, c.object), c.field); got != c.want {
			t.Errorf("%s: %s is %s, want %s", c.object, c.field, got, c.want)
		}
	}
}

// one is the object of that name, or the only one of that kind.
func one(t *testing.T, all map[string]*unstructured.Unstructured, name string) *unstructured.Unstructured {
	t.Helper()
	var found []*unstructured.Unstructured
	for at, o := range all {
		if at == name || strings.HasPrefix(at, name+"/") {
			found = append(found, o)
		}
	}
	if len(found) != 1 {
		t.Fatalf("there are %d objects %s", len(found), name)
	}
	return found[0]
}

// field is a field as JSON; null where there is none.
func field(t *testing.T, o *unstructured.Unstructured, at string) string {
	t.Helper()
	var value any = o.Object
	for step := range strings.SplitSeq(at, ".") {
		step = strings.ReplaceAll(step, "@", ".") // everynode@json is one key
		switch v := value.(type) {
		case map[string]any:
			value = v[step]
		case []any:
			i := int(step[0] - '0')
			if i >= len(v) {
				return "null"
			}
			value = v[i]
		default:
			return "null"
		}
	}
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestAggregation: people see sets with view, change them with edit, and nobody may have images pulled unless told so.
func TestAggregation(t *testing.T) {
	all := release{}.objects(t)
	for name, want := range map[string]string{
		"ClusterRole/everynode-view": `{"rbac.authorization.k8s.io/aggregate-to-view":"true"} ["get","list","watch"]`,
		"ClusterRole/everynode-edit": `{"rbac.authorization.k8s.io/aggregate-to-edit":"true"} ["create","delete","deletecollection","patch","update"]`,
	} {
		if got := field(t, one(t, all, name), "metadata.labels") + " " + field(t, one(t, all, name), "rules.0.verbs"); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	viewer := one(t, all, "ClusterRole/"+options.Viewer)
	if got := field(t, viewer, "metadata.labels") + field(t, viewer, "rules.0.resources"); got != `null["nodes"]` {
		t.Errorf("who may see nodes is %s, and nobody is to have that without being given it", got)
	}
	for name, o := range all {
		if strings.HasSuffix(o.GetKind(), "RoleBinding") && strings.Contains(field(t, o, "roleRef.name"), options.Viewer) {
			t.Errorf("%s gives people the right to see nodes", name)
		}
	}
	if all["ClusterRole/everynode-image-pulls"] != nil {
		t.Error("people may change ImagePullJobs although nobody said so")
	}
	if got := field(t, one(t, all, "ClusterRole/everynode-edit"), "rules.0.resources"); got != `["daemonsets"]` {
		t.Errorf("edit is about %s", got)
	}
}

// TestTimeToEnd: a manager that is scaled to zero stops some seconds before the kubelet kills it.
func TestTimeToEnd(t *testing.T) {
	for values, want := range map[string]string{"": "60", "manager: {terminationGracePeriodSeconds: 120}": "120"} {
		deployment := release{values: values}.objects(t)["Deployment/"+home+"/everynode-manager"]
		flags := manager.NewCommand("").Flags()
		if err := flags.Parse(arguments(t, deployment)); err != nil {
			t.Fatal(err)
		}
		grace := field(t, deployment, "spec.template.spec.terminationGracePeriodSeconds")
		limit, err := flags.GetDuration("ending-timeout")
		if err != nil || grace != want || fmt.Sprint(limit.Seconds()+15) != want || flags.Lookup("deployment").Value.String() != deployment.GetName() {
			t.Errorf("%q: %s seconds of grace, --ending-timeout %s, --deployment %s: %v", values, grace, limit, flags.Lookup("deployment").Value, err)
		}
	}
}
