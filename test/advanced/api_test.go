// SPDX-License-Identifier: Apache-2.0

package advanced

import (
	"encoding/json"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"

	"everynode.dev/everynode/test/harness"
)

// apiScenarios are about what kubectl shows, and how objects are written and read.
func apiScenarios() []scenario {
	return []scenario{
		{"columns-and-short-names", 2, true, columns},
		{"explain", 1, false, explain},
		{"surging-in-both-versions", 2, false, surgingInBothVersions},
		{"progressive-in-both-versions", 2, false, progressiveInBothVersions},
		{"hash-in-both-versions", 2, false, hashInBothVersions},
		{"defaults", 1, false, defaults},
		{"only-max-surge", 2, false, func(s *stage) { s.run(rolling("maxSurge: 1")); s.roll(two) }},
		{"no-scale-subresource", 1, false, noScale},
		{"server-side-apply", 2, false, serverSideApply},
		{"strict-field-validation", 1, false, strictValidation},
		{"same-template-as-native", 2, false, sameTemplateAsNative},
		{"host-port-with-surge-is-warned-of", 1, false, hostPortWarning},
	}
}

func columns(s *stage) {
	s.run()
	for _, resource := range []string{"ads", "daemon", "daemonsets.apps.kruise.io"} {
		lines := strings.Split(s.Kubectl("get", resource), "\n")
		if got, want := strings.Fields(lines[0]), "[NAME DESIRED CURRENT READY UP-TO-DATE AVAILABLE AGE]"; fmt.Sprint(got) != want {
			s.t.Errorf("kubectl get %s: columns %v, want %s", resource, got, want)
		}
		if got := strings.Fields(lines[1]); fmt.Sprint(got[:6]) != "[agent 2 2 2 2 2]" {
			s.t.Errorf("kubectl get %s: %v", resource, got)
		}
	}
	s.wantOutput(s.Kubectl("get", "ads", "-o", "wide"), "CONTAINERS", "IMAGES", one)
	s.wantOutput(s.Kubectl("describe", "ads", "agent"), "SuccessfulCreate", "Update Revision")
}

func explain(s *stage) {
	out := s.Kubectl("explain", "ads.spec.updateStrategy.rollingUpdate")
	s.wantOutput(out, "rollingUpdateType", "partition", "paused", "selector", "maxSurge", "maxUnavailable", "Raising it does", "apps.kruise.io")
	s.wantOutput(s.Kubectl("explain", "ads.spec.lifecycle.preDelete", "--api-version=apps.kruise.io/v1alpha1"), "labelsHandler", "markPodNotReady")
	s.run()
}

// get reads a field of the set in a version, as JSON path.
func (s *stage) get(version, path string) string {
	s.t.Helper()
	return s.Kubectl("get", "daemonsets."+version+".apps.kruise.io", s.name, "-o", "jsonpath="+path)
}

func (s *stage) wantField(version, path, want string) {
	s.t.Helper()
	if got := s.get(version, path); got != want {
		s.t.Errorf("%s in %s is %q, want %q", path, version, got, want)
	}
}

const alpha = "apiVersion: apps.kruise.io/v1alpha1"

func surgingInBothVersions(s *stage) {
	const in = "{.spec.updateStrategy.rollingUpdate"
	s.run(alpha, rolling("rollingUpdateType: Surging"))
	s.wantField("v1alpha1", in+".rollingUpdateType}", "Surging")
	s.wantField("v1beta1", in+".rollingUpdateType}", "Standard")
	s.wantField("v1beta1", in+"['maxSurge','maxUnavailable']}", "1 0")
	// The same again changes nothing.
	generation := s.generation()
	s.apply()
	if now := s.generation(); now != generation {
		s.t.Errorf("generation %d became %d", generation, now)
	}
	s.roll(two)
	// An edit in the other version wins.
	s.Kubectl("patch", "daemonsets.v1beta1.apps.kruise.io", s.name, "--type=merge", "-p", `{"spec":{"updateStrategy":{"rollingUpdate":{"maxSurge":2}}}}`)
	s.wantField("v1alpha1", in+"['rollingUpdateType','maxSurge']}", "Standard 2")
}

func progressiveInBothVersions(s *stage) {
	s.run("spec: {scaleStrategy: {partitionedScaling: true}}")
	s.wantField("v1alpha1", `{.metadata.annotations.daemonset\.kruise\.io/progressive-create-pod}`, "true")
	s.wantField("v1alpha1", "{.spec.scaleStrategy}", "")
	s.Kubectl("annotate", "daemonsets.v1alpha1.apps.kruise.io", s.name, "daemonset.kruise.io/progressive-create-pod-")
	if got := s.get("v1beta1", "{.spec.scaleStrategy.partitionedScaling}"); got == "true" {
		s.t.Error("turned off in v1alpha1, and still on in v1beta1")
	}
}

func hashInBothVersions(s *stage) {
	s.run(alpha)
	hash := s.pod(s.Nodes[0]).Labels[appsv1.DefaultDaemonSetUniqueLabelKey]
	s.wantField("v1beta1", "{.status.updateRevision}", hash)
	s.wantField("v1alpha1", "{.status.daemonSetHash}", hash)
	s.roll(two)
	next := s.pod(s.Nodes[0]).Labels[appsv1.DefaultDaemonSetUniqueLabelKey]
	if next == hash {
		s.t.Errorf("the revision is still %s", hash)
	}
	s.wantField("v1alpha1", "{.status.daemonSetHash}", next)
}

func defaults(s *stage) {
	s.run()
	for path, want := range map[string]string{
		"{.spec.burstReplicas}":                                      "250",
		"{.spec.revisionHistoryLimit}":                               "10",
		"{.spec.updateStrategy.type}":                                "RollingUpdate",
		"{.spec.updateStrategy.rollingUpdate.rollingUpdateType}":     "Standard",
		"{.spec.updateStrategy.rollingUpdate.maxUnavailable}":        "1",
		"{.spec.updateStrategy.rollingUpdate.maxSurge}":              "0",
		"{.spec.template.spec.restartPolicy}":                        "Always",
		"{.spec.template.spec.containers[0].imagePullPolicy}":        "IfNotPresent",
		"{.spec.template.spec.containers[0].terminationMessagePath}": "/dev/termination-log",
	} {
		s.wantField("v1beta1", path, want)
	}
}

func noScale(s *stage) {
	s.run()
	out, err := s.KubectlWith("", "scale", "ads/agent", "--replicas=3")
	if err == nil {
		s.t.Errorf("kubectl scale worked: %s", out)
	}
	s.wantOutput(s.Kubectl("get", "ads", "agent", "--subresource=status", "-o", "name"), "agent")
}

func serverSideApply(s *stage) {
	s.run()
	apply := func(manager, manifest string, more ...string) (string, error) {
		return s.KubectlWith(manifest, append([]string{"apply", "--server-side", "--field-manager=" + manager, "-f", "-"}, more...)...)
	}
	limits := func(paused bool) string {
		return fmt.Sprintf("apiVersion: apps.kruise.io/v1beta1\nkind: DaemonSet\nmetadata: {name: agent}\n"+
			"spec: {updateStrategy: {rollingUpdate: {paused: %t}}}\n", paused)
	}
	if out, err := apply("operator", limits(true)); err != nil {
		s.t.Fatalf("server-side apply: %v\n%s", err, out)
	}
	out, err := apply("another", limits(false))
	if err == nil {
		s.t.Errorf("a field of another manager was taken without a word: %s", out)
	}
	s.wantOutput(out, "conflict", "operator", ".spec.updateStrategy.rollingUpdate.paused")
	if out, err := apply("another", limits(false), "--force-conflicts"); err != nil {
		s.t.Fatalf("server-side apply: %v\n%s", err, out)
	}
	s.wantField("v1beta1", "{.spec.updateStrategy.rollingUpdate.paused}", "false")
	s.rolled()
}

func strictValidation(s *stage) {
	s.run()
	before := s.generation()
	s.merge("spec: {replicas: 3}")
	out, err := s.KubectlWith(string(s.manifest), "apply", "--validate=strict", "-f", "-")
	if err == nil || !strings.Contains(out, `unknown field "spec.replicas"`) {
		s.t.Errorf("an unknown field: %v\n%s", err, out)
	}
	s.merge("spec: {replicas: null, template: {spec: {hostNetwrok: true}}}")
	out, err = s.KubectlWith(string(s.manifest), "apply", "--validate=ignore", "-f", "-")
	if err == nil || !strings.Contains(out, "spec.template.spec.hostNetwrok") {
		s.t.Errorf("an unknown field of the template, which no schema covers: %v\n%s", err, out)
	}
	if after := s.generation(); after != before {
		s.t.Errorf("generation %d became %d", before, after)
	}
}

// sameTemplateAsNative: the API server fills in the same defaults, so the same template has the same revision.
func sameTemplateAsNative(s *stage) {
	s.run()
	var native map[string]any
	if err := json.Unmarshal(s.manifest, &native); err != nil {
		s.t.Fatal(err)
	}
	native["apiVersion"], native["metadata"] = "apps/v1", map[string]any{"name": "native"}
	raw, err := json.Marshal(native)
	if err != nil {
		s.t.Fatal(err)
	}
	advanced := s.pod(s.Nodes[0]).Labels[appsv1.DefaultDaemonSetUniqueLabelKey]
	s.Kubectl("delete", "ads", "agent")
	s.finish()
	if out, err := s.KubectlWith(string(raw), "apply", "-f", "-"); err != nil {
		s.t.Fatalf("kubectl apply: %v\n%s", err, out)
	}
	s.Wait("the native set runs", harness.RolledOut("native", 1, len(s.Nodes)))
	if hash := s.View().PodOn("native", s.Nodes[0]).Labels[appsv1.DefaultDaemonSetUniqueLabelKey]; hash != advanced {
		s.t.Errorf("revision %s of the native set, %s of the Advanced one", hash, advanced)
	}
}

func hostPortWarning(s *stage) {
	s.merge("spec: {template: {spec: {containers: [{name: agent, image: %q, ports: [{containerPort: 80, hostPort: 8080}]}]}}}", one)
	s.wantOutput(s.apply(rolling("maxSurge: 1")), "Warning", "hostPort", "8080")
	s.rolled()
}
