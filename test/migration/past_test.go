// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "k8s.io/apimachinery/pkg/util/json"
	daemonutil "k8s.io/kubernetes/pkg/controller/daemon/util"

	"everynode.dev/everynode/test/harness"
)

// agent is the name of the sets, for that is what the recorded templates select.
const agent = "agent"

// Who wrote a revision that package revision has recorded.
const (
	kubernetes132 = "kubernetes-1.32"
	openkruise13  = "openkruise-1.3"
)

// API versions of sets.
const (
	native = "apps/v1"
	beta   = "apps.kruise.io/v1beta1"
	alpha  = "apps.kruise.io/v1alpha1"
)

const recordings = "../../internal/revision/testdata"

// past is what another controller has left behind.
type past struct {
	// template is that of the set, as an API server serves it; data is the revision that the writer made of it, byte for
	// byte, and hash what the writer computed of it with the types of its version.
	template json.RawMessage
	data     []byte
	hash     string
}

// recorded reads what package revision has of a writer.
func recorded(t testing.TB, template, writer string) past {
	t.Helper()
	read := func(path ...string) []byte {
		raw, err := os.ReadFile(filepath.Join(append([]string{recordings}, path...)...))
		if err != nil {
			t.Fatal(err)
		}
		return bytes.TrimSpace(raw)
	}
	p := past{template: read(template + ".template.json"), data: read("recorded", template+"."+writer+".json")}
	for _, user := range []string{"9007199254740993", "9007199254740992"} { // which shows how numbers are rounded, and is nobody's
		p = p.with(user, "1000", "")
	}
	for _, line := range strings.Split(string(read("recorded", "hashes.txt")), "\n") {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == template && fields[1] == writer {
			p.hash = fields[2]
		}
	}
	if p.hash == "" {
		t.Fatalf("no hash of template %s by %s is recorded", template, writer)
	}
	return p
}

// with is the same past with one text instead of another, and a hash that the writer may have given it: what is read of a
// hash is only that it is the same on a pod and on a revision.
func (p past) with(from, to, hash string) past {
	swap := func(raw []byte) []byte { return bytes.ReplaceAll(raw, []byte(from), []byte(to)) }
	return past{template: swap(p.template), data: swap(p.data), hash: hash}
}

// typed is the template with the types of this version.
func (p past) typed(t testing.TB) corev1.PodTemplateSpec {
	t.Helper()
	var template corev1.PodTemplateSpec
	if err := kjson.Unmarshal(p.template, &template); err != nil {
		t.Fatal(err)
	}
	return template
}

// manifest is a set with that template. From one API version to another, only the word in its first line changes.
func (p past) manifest(apiVersion, strategy string) string {
	return fmt.Sprintf(`{"apiVersion": %q, "kind": "DaemonSet", "metadata": {"name": %q},
"spec": {"selector": {"matchLabels": {"app": "agent"}}, "updateStrategy": %s, "template": %s}}`, apiVersion, agent, strategy, p.template)
}

// Strategies.
const (
	standard = `{"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "20%"}}`
	inPlace  = `{"type": "RollingUpdate", "rollingUpdate": {"rollingUpdateType": "InPlaceIfPossible", "maxUnavailable": "20%"}}`
)

// budget is what 20% of the nodes are.
const budget = allNodes / 5

// apply applies a manifest.
func apply(t testing.TB, s *harness.Space, manifest string) {
	t.Helper()
	if out, err := s.KubectlWith(manifest, "apply", "-f", "-"); err != nil {
		t.Fatalf("kubectl apply: %v\n%s\n%s", err, out, manifest)
	}
}

// owner is the reference to a set of that UID as controller.
func owner(apiVersion string, set metav1.Object) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: apiVersion, Kind: "DaemonSet", Name: set.GetName(), UID: set.GetUID(), Controller: new(true), BlockOwnerDeletion: new(true),
	}
}

// makeRevision writes a revision as the writer has left it.
func (p past) makeRevision(t testing.TB, s *harness.Space, number int64, by metav1.OwnerReference) {
	t.Helper()
	labels := p.typed(t).Labels
	labels[appsv1.ControllerRevisionHashLabelKey] = p.hash
	made := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name: agent + "-" + p.hash, Labels: labels, OwnerReferences: []metav1.OwnerReference{by},
			Annotations: map[string]string{appsv1.DeprecatedTemplateGeneration: fmt.Sprint(number)},
		},
		Data: runtime.RawExtension{Raw: p.data}, Revision: number,
	}
	if _, err := s.Cluster.Client.AppsV1().ControllerRevisions(s.Name).Create(s.Context(), made, metav1.CreateOptions{}); err != nil {
		t.Fatalf("writing revision %s: %v", made.Name, err)
	}
}

// makePod writes a pod as the writer has left it: what upstream's controller adds to a template has been the same for years,
// and OpenKruise has taken it over.
func (p past) makePod(t testing.TB, s *harness.Space, node string, by metav1.OwnerReference, edits ...func(pod *corev1.Pod)) *corev1.Pod {
	t.Helper()
	template := daemonutil.CreatePodTemplate(p.typed(t), new(int64(1)), p.hash)
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.GenerateName, pod.Namespace = agent+"-", s.Name
	pod.OwnerReferences = []metav1.OwnerReference{by}
	pod.Spec.Affinity = daemonutil.ReplaceDaemonSetPodNodeNameNodeAffinity(pod.Spec.Affinity, node)
	for _, edit := range edits {
		edit(pod)
	}
	made, err := s.Cluster.Client.CoreV1().Pods(s.Name).Create(s.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("writing a pod for node %s: %v", node, err)
	}
	return made
}

// allReady is met when that many pods are ready.
func allReady(pods int) harness.Condition {
	return func(v harness.View) error {
		ready := 0
		for _, pod := range v.AllPods() {
			if harness.Ready(pod) {
				ready++
			}
		}
		if ready != pods {
			return fmt.Errorf("%d pods are ready, want %d", ready, pods)
		}
		return nil
	}
}
