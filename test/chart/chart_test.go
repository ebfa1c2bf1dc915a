// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"encoding/base64"
	"maps"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// everything is served.
const everything = "dialects: [native, kruise, openyurt, policy]"

const keep = "helm.sh/resource-policy"

// sayable takes away what config/ cannot say: the name of an image, and that Helm keeps the object.
func sayable(o *unstructured.Unstructured) map[string]any {
	o = o.DeepCopy()
	unstructured.RemoveNestedField(o.Object, "metadata", "annotations", keep)
	if len(o.GetAnnotations()) == 0 {
		unstructured.RemoveNestedField(o.Object, "metadata", "annotations")
	}
	containers, found, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
	if !found {
		return o.Object
	}
	for i := range containers {
		c := containers[i].(map[string]any)
		delete(c, "image")
		delete(c, "imagePullPolicy")
		// The chart says native and kruise as config/ does; here all are served.
		if args, _, _ := unstructured.NestedStringSlice(c, "args"); len(args) > 0 && strings.HasPrefix(args[0], "--dialects=") {
			delete(c, "args")
		}
	}
	_ = unstructured.SetNestedSlice(o.Object, containers, "spec", "template", "spec", "containers")
	return o.Object
}

// TestChartIsConfig: it installs what config/ says, field by field, but the namespace that Helm makes.
func TestChartIsConfig(t *testing.T) {
	got, want := release{values: everything}.objects(t), source(t)
	delete(want, "Namespace/"+home)
	for name, w := range want {
		g := got[name]
		if g == nil {
			t.Errorf("%s is in config/ and not in the chart", name)
			continue
		}
		if w, g := sayable(w), sayable(g); !reflect.DeepEqual(w, g) {
			t.Errorf("%s differs:\n%s", name, differences(t, w, g))
		}
		delete(got, name)
	}
	for name := range got {
		t.Errorf("%s is in the chart and not in config/", name)
	}
	name := "Deployment/" + home + "/everynode-manager"
	if got, want := arguments(t, release{}.objects(t)[name]), arguments(t, source(t)[name]); !slices.Equal(got, want) {
		t.Errorf("the manager has the arguments %q, and in config/ %q", got, want)
	}
}

// differences are the lines that only one of two objects has.
func differences(t *testing.T, config, chart map[string]any) string {
	t.Helper()
	text := func(o map[string]any) []string {
		data, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(string(data), "\n")
	}
	var b strings.Builder
	only := func(where string, in, not []string) {
		for _, line := range in {
			if !slices.Contains(not, line) {
				b.WriteString(where + line + "\n")
			}
		}
	}
	only("config: ", text(config), text(chart))
	only("chart:  ", text(chart), text(config))
	return b.String()
}

func arguments(t *testing.T, o *unstructured.Unstructured) []string {
	t.Helper()
	if o == nil {
		t.Fatal("it is not there")
	}
	containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
	args, found, err := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
	if err != nil || !found {
		t.Fatalf("%s has no arguments: %v", key(o), err)
	}
	return args
}

// TestInstallYaml: the single file is what the chart installs with its defaults, to the names of the images, and the namespace.
func TestInstallYaml(t *testing.T) {
	printed, err := exec.CommandContext(t.Context(), "../../hack/install-yaml", "registry.example/a", "v1.2.3").Output()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]*unstructured.Unstructured{}
	read(t, "install.yaml", string(printed), got)
	if got["Namespace/"+home] == nil {
		t.Error("it does not make the namespace")
	}
	delete(got, "Namespace/"+home)
	want := release{values: "image: {registry: registry.example/a, tag: v1.2.3}"}.objects(t)
	for name, w := range want {
		g := got[name]
		if g == nil {
			t.Errorf("%s is not in it", name)
			continue
		}
		if w, g := sayable(w), sayable(g); !reflect.DeepEqual(w, g) {
			t.Errorf("%s differs:\n%s", name, differences(t, w, g))
		}
		at := "spec.template.spec.containers.0.image"
		if w, g := field(t, w, at), field(t, g, at); w != g {
			t.Errorf("%s has the image %s, want %s", name, g, w)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("it has more than the chart: %q", slices.Sorted(maps.Keys(got)))
	}
}

// manyValues turn on everything that can be turned on.
const manyValues = `
dialects: [native, kruise, openyurt]
featureGates: {PreDownloadImageForDaemonSetUpdate: true, ConflictProbe: false}
image: {registry: registry.example:5000/a/, tag: v1.2.3, pullPolicy: Always, pullSecrets: [pull]}
manager:
  image: {digest: "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}
  replicas: 3
  flags: {kube-api-qps: 1000000, metrics-per-set: true, vmodule: "a=1,b=2", leader-elect-lease-duration: 20s}
  pullSecretNamespaces: [one, two]
  analysisProviders: providers
  notificationTargets: targets
  resources: {limits: {memory: 1Gi}}
  nodeSelector: {a: b}
  tolerations: [{key: control-plane, operator: Exists}]
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}
  topologyKey: topology.kubernetes.io/zone
  podLabels: {team: nodes}
  podAnnotations: {note: "yes"}
  podDisruptionBudget: {maxUnavailable: 50%}
  networkPolicy: {metricsFrom: [{namespaceSelector: {matchLabels: {name: monitoring}}, podSelector: {}}]}
agent:
  flags: {image-fs-limit: 70, openyurt-api: true, credential-provider-config: /etc/credentials.yaml, credential-provider-bin-dir: /opt/credentials}
  nodeSelector: {openyurt.io/is-edge-worker: "true"}
  tolerations: [{key: edge, operator: Exists}]
  criSocket: /run/k3s/containerd/containerd.sock
  imageDirectory: /var/lib/rancher/k3s/agent/containerd
  maxUnavailable: 2
  podLabels: {team: edge}
  podAnnotations: {note: "yes"}
  extraVolumes: [{name: credentials, hostPath: {path: /etc/credentials.yaml, type: File}}]
  extraVolumeMounts: [{name: credentials, mountPath: /etc/credentials.yaml, readOnly: true}]
roles: {aggregateImagePullJobs: true}
monitoring:
  serviceMonitor: {enabled: true, labels: {release: prometheus}}
  alerts: {enabled: true, labels: {release: prometheus}, runbooks: https://runbooks.example/everynode/}
  dashboard: {enabled: true}
`

// fewValues turn off everything that can be turned off.
const fewValues = `
dialects: [native]
agent: {enabled: false}
manager: {podDisruptionBudget: {enabled: false}, networkPolicy: {enabled: false}}
roles: {aggregate: false, viewer: false}
flowControl: false
deleteProtection: false
`

// TestObjectsAreKnown: an API server decodes each without a field that it does not know, whatever the values.
func TestObjectsAreKnown(t *testing.T) {
	decoder := knownObjects(t)
	for name, r := range map[string]release{
		"defaults": {}, "many": {values: manyValues}, "few": {values: fewValues}, "elsewhere": {values: manyValues, namespace: "tools"},
		"agents alone": {values: "dialects: [native, openyurt]"},
	} {
		decodes(t, decoder, name, r.objects(t))
	}
}

// knownObjects decodes what an API server knows, and nothing else.
func knownObjects(t *testing.T) runtime.Decoder {
	t.Helper()
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(known); err != nil {
			t.Fatal(err)
		}
	}
	return serializer.NewCodecFactory(known, serializer.EnableStrict).UniversalDeserializer()
}

func decodes(t *testing.T, decoder runtime.Decoder, name string, all map[string]*unstructured.Unstructured) {
	t.Helper()
	for what, o := range all {
		if o.GroupVersionKind().Group == monitoringGroup {
			continue // the API server has their definitions from the operator of Prometheus
		}
		data, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := decoder.Decode(data, nil, nil); err != nil {
			t.Errorf("%s: %s: %v", name, what, err)
		}
	}
}

// TestLint: helm lint has nothing to say, and the icon is that of the project.
func TestLint(t *testing.T) {
	for _, m := range lint.RunAll(directory, map[string]any{}, home).Messages {
		t.Error(m)
	}
	icon, err := os.ReadFile("../../web/src/icon.svg")
	if err != nil {
		t.Fatal(err)
	}
	if c, err := loader.Load(directory); err != nil || c.Metadata.Icon != "data:image/svg+xml;base64,"+base64.StdEncoding.EncodeToString(icon) {
		t.Errorf("the icon is not web/src/icon.svg: %v", err)
	}
}

// TestFewIsTheLeast: what the native dialect and rollout policies need, and nothing else.
func TestFewIsTheLeast(t *testing.T) {
	want := []string{
		"ClusterRole/everynode-approver", "ClusterRole/everynode-manager", "ClusterRole/everynode-manager-come-back-first", "ClusterRole/everynode-manager-image-pulls", "ClusterRoleBinding/everynode-manager",
		"CustomResourceDefinition/rolloutapprovals.everynode.dev", "CustomResourceDefinition/rolloutpolicies.everynode.dev",
		"Deployment/" + home + "/everynode-manager", "Role/" + home + "/everynode-manager", "RoleBinding/" + home + "/everynode-manager",
		"ServiceAccount/" + home + "/everynode-manager",
		"ValidatingAdmissionPolicy/everynode-rollout-approvals", "ValidatingAdmissionPolicyBinding/everynode-rollout-approvals",
	}
	if got := slices.Sorted(maps.Keys(release{values: fewValues}.objects(t))); !slices.Equal(got, want) {
		t.Errorf("it installs\n%q, want\n%q", got, want)
	}
}

// TestElsewhere: in another namespace nothing is left that names the usual one.
func TestElsewhere(t *testing.T) {
	r := release{values: manyValues, namespace: "tools"}
	texts, err := r.texts(t)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range texts {
		for line := range strings.Lines(text) {
			if strings.Contains(line, home) {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
	manager := r.objects(t)["Deployment/tools/everynode-manager"]
	if args := arguments(t, manager); !slices.Contains(args, "--namespace=tools") {
		t.Errorf("the manager has the arguments %q", args)
	}
}
