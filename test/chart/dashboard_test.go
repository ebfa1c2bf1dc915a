// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/config"
	"everynode.dev/everynode/internal/cli/command"
	"everynode.dev/everynode/internal/cli/dashboard"
	"everynode.dev/everynode/internal/cli/options"
)

const dashboardValues = `
image: {registry: registry.example/a, tag: v1.2.3, pullSecrets: [pull]}
dashboard:
  enabled: true
  hosts: [everynode.example, "localhost:8443"]
  tlsSecret: "1"
  maxSessions: 200000
  resources: {limits: {memory: 1Gi}}
  nodeSelector: {a: b}
  tolerations: [{key: control-plane, operator: Exists}]
  podLabels: {team: nodes}
  podAnnotations: {note: "yes"}
  serviceAnnotations: {issuer: "on"}
  networkPolicy: {from: [{namespaceSelector: {matchLabels: {name: ingress}}}]}
`

// ofDashboard are the objects of the dashboard, in the order of their names.
func ofDashboard() []string {
	return []string{
		"Deployment/tools/everynode-dashboard", "NetworkPolicy/tools/everynode-dashboard", "Service/tools/everynode-dashboard", "ServiceAccount/tools/everynode-dashboard",
	}
}

// TestDashboardIsOff unless it is turned on. Then it adds its own objects, and changes no others.
func TestDashboardIsOff(t *testing.T) {
	without := release{values: "image: {registry: registry.example/a, tag: v1.2.3, pullSecrets: [pull]}", namespace: "tools"}.objects(t)
	with := release{values: dashboardValues, namespace: "tools"}.objects(t)
	decodes(t, knownObjects(t), "dashboard", with)
	var added []string
	for name, o := range with {
		switch before := without[name]; {
		case before == nil:
			added = append(added, name)
		case field(t, o, "spec") != field(t, before, "spec"):
			t.Errorf("it changes %s", name)
		}
	}
	slices.Sort(added)
	if want := ofDashboard(); !slices.Equal(added, want) {
		t.Errorf("it adds %q, want %q", added, want)
	}
	texts, err := release{values: dashboardValues}.texts(t)
	if said := texts["everynode/templates/"+notes]; err != nil || !strings.Contains(said, "https://everynode.example ") {
		t.Errorf("%v: the notes are\n%s", err, said)
	}
}

// TestDashboardIsConfig: with the same host and Secret, the chart installs what config/dashboard does, which is what kubectl apply -k finds there.
func TestDashboardIsConfig(t *testing.T) {
	got := release{values: "dashboard: {enabled: true, hosts: [everynode.example.com], tlsSecret: everynode-dashboard}"}.objects(t)
	want := map[string]*unstructured.Unstructured{}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "../../config/dashboard")
	if err != nil {
		t.Fatal(err)
	}
	text, err := built.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	read(t, "config/dashboard", string(text), want)
	names, err := fs.Glob(config.Dashboard, "dashboard/*.yaml")
	if err != nil || len(names) != len(want)+1 {
		t.Errorf("%q are embedded, %v; want a file for each of %d objects, and the kustomization", names, err, len(want))
	}
	if len(want) != len(ofDashboard()) {
		t.Errorf("config/dashboard has %q", slices.Sorted(maps.Keys(want)))
	}
	for name, w := range want {
		g := got[name]
		if g == nil {
			t.Errorf("%s is in config/ and not in the chart", name)
			continue
		}
		if w, g := sayable(w), sayable(g); !reflect.DeepEqual(w, g) {
			t.Errorf("%s differs:\n%s", name, differences(t, w, g))
		}
	}
}

// TestDashboardHasNoRights: no role is bound to its account, and neither the account nor the pod brings a token.
func TestDashboardHasNoRights(t *testing.T) {
	all := release{values: dashboardValues, namespace: "tools"}.objects(t)
	for name, o := range all {
		if strings.HasSuffix(o.GetKind(), "RoleBinding") && strings.Contains(field(t, o, "subjects"), `"everynode-dashboard"`) {
			t.Errorf("%s gives it rights", name)
		}
	}
	deployment, pod := all["Deployment/tools/everynode-dashboard"], "spec.template.spec."
	if got := field(t, all["ServiceAccount/tools/everynode-dashboard"], "automountServiceAccountToken") + field(t, deployment, pod+"automountServiceAccountToken"); got != "falsefalse" {
		t.Errorf("tokens are mounted: %s", got)
	}
	for _, at := range []string{pod + "volumes.0.projected", pod + "volumes.1.projected", pod + "volumes.2"} {
		if got := field(t, deployment, at); got != "null" {
			t.Errorf("%s is %s", at, got)
		}
	}
	template := struct {
		Spec struct {
			Template corev1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	}{}
	data, err := yaml.Marshal(deployment.Object)
	if err == nil {
		err = yaml.Unmarshal(data, &template)
	}
	if err != nil {
		t.Fatal(err)
	}
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	at := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	of := &template.Spec.Template
	if result := policy.AggregateCheckResults(evaluator.EvaluatePod(at, &of.ObjectMeta, &of.Spec)); !result.Allowed {
		t.Errorf("its pod is refused: %q", result.ForbiddenReasons)
	}
}

// TestDashboardStarts: the program takes its arguments, up to the certificate, which is not on this machine.
func TestDashboardStarts(t *testing.T) {
	deployment := release{values: dashboardValues, namespace: "tools"}.objects(t)["Deployment/tools/everynode-dashboard"]
	args := arguments(t, deployment)
	if args[0] != dashboard.InCluster {
		t.Fatalf("the arguments are %q", args)
	}
	o := options.New(genericiooptions.NewTestIOStreamsDiscard())
	o.Getenv = func(name string) string {
		return map[string]string{"KUBERNETES_SERVICE_HOST": "192.0.2.1", "KUBERNETES_SERVICE_PORT": "443"}[name]
	}
	cmd := dashboard.NewInCluster(o, command.Root)
	cmd.SetArgs(args[1:])
	if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "open /etc/everynode/tls/tls.crt") && !strings.Contains(err.Error(), "stat /etc/everynode/tls/tls.crt") {
		t.Errorf("%q: %v", args, err)
	}
	for name, want := range map[string]string{"hosts": "[everynode.example,localhost:8443]", "max-sessions": "200000", "listen": ":8443"} {
		if got := cmd.Flags().Lookup(name).Value.String(); got != want {
			t.Errorf("--%s is %s, want %s", name, got, want)
		}
	}
	mounted := field(t, deployment, "spec.template.spec.containers.0.volumeMounts.1.mountPath")
	if authority := cmd.Flags().Lookup("api-server-ca-file").DefValue; `"`+filepath.Dir(authority)+`"` != mounted {
		t.Errorf("the authority is mounted at %s, and read from %s", mounted, authority)
	}
}

// TestDashboardValuesArrive: each ends where it belongs.
func TestDashboardValuesArrive(t *testing.T) {
	all := release{values: dashboardValues, namespace: "tools"}.objects(t)
	pod, container := "spec.template.spec.", "spec.template.spec.containers.0."
	for _, c := range []struct{ kind, field, want string }{
		{"Deployment", container + "image", `"registry.example/a/everynode-manager:v1.2.3"`},
		{"Deployment", container + "resources.limits", `{"memory":"1Gi"}`},
		{"Deployment", container + "ports.0.containerPort", `8443`},
		{"Deployment", pod + "imagePullSecrets", `[{"name":"pull"}]`},
		{"Deployment", pod + "nodeSelector", `{"a":"b","kubernetes.io/os":"linux"}`},
		{"Deployment", pod + "tolerations.0.key", `"control-plane"`},
		{"Deployment", pod + "volumes.0.secret.secretName", `"1"`},
		{"Deployment", pod + "volumes.1.configMap.name", `"kube-root-ca.crt"`},
		{"Deployment", "spec.template.metadata.labels.team", `"nodes"`},
		{"Deployment", "spec.template.metadata.annotations", `{"note":"yes"}`},
		{"Service", "metadata.annotations", `{"issuer":"on"}`},
		{"Service", "spec.ports.0.targetPort", `"https"`},
		{"NetworkPolicy", "spec.ingress.0.from.0.namespaceSelector.matchLabels", `{"name":"ingress"}`},
		{"NetworkPolicy", "spec.ingress.0.ports", `[{"port":"https"}]`},
	} {
		if got := field(t, all[c.kind+"/tools/everynode-dashboard"], c.field); got != c.want {
			t.Errorf("%s: %s is %s, want %s", c.kind, c.field, got, c.want)
		}
	}
	const least = "dashboard: {enabled: true, hosts: [a], tlsSecret: b, networkPolicy: {enabled: false}}"
	if all := (release{values: least}).objects(t); all["NetworkPolicy/"+home+"/everynode-dashboard"] != nil || all["Deployment/"+home+"/everynode-dashboard"] == nil {
		t.Error("its NetworkPolicy cannot be turned off")
	}
}

// TestDashboardValuesThatAreRefused: what the program would refuse is refused before anything is installed.
func TestDashboardValuesThatAreRefused(t *testing.T) {
	for values, want := range map[string]string{
		"{enabled: true, tlsSecret: a}":                       "dashboard.hosts: name the hosts",
		"{enabled: true, hosts: [a]}":                         "dashboard.tlsSecret: the dashboard accepts tokens only over TLS",
		"{enabled: true, hosts: ['https://a'], tlsSecret: a}": "/dashboard/hosts/0",
		"{enabled: true, hosts: ['a,b'], tlsSecret: a}":       "/dashboard/hosts/0",
		"{enabled: true, hosts: ['a:65536'], tlsSecret: a}":   "/dashboard/hosts/0",
		"{enabled: true, hosts: [a], tlsSecret: A/b}":         "/dashboard/tlsSecret",
		"{maxSessions: 0}":                                    "/dashboard/maxSessions",
		"{podLabels: {app.kubernetes.io/name: other}}":        "'app.kubernetes.io/name'",
		"{host: [a]}": "'host'",
	} {
		if _, err := (release{values: "dashboard: " + values}).texts(t); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want an error about %s, got %v", values, want, err)
		}
	}
}
