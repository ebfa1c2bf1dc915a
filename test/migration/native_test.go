// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/test/harness"
)

// Names of the two kinds of sets for kubectl.
const (
	nativeSets   = "daemonsets.apps"
	advancedSets = "daemonsets.apps.kruise.io"
)

// prepare gives the nodes what the template `agent` asks for, and the namespace the service account.
func prepare(t testing.TB, s *harness.Space) {
	t.Helper()
	for _, node := range s.Nodes {
		s.EditNode(node, func(node *corev1.Node) { node.Labels["cores"], node.Labels["pool"] = "4", "workers" })
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: agent}}
	if _, err := s.Cluster.Client.CoreV1().ServiceAccounts(s.Name).Create(s.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatalf("creating the service account: %v", err)
	}
}

// nativePast makes a set of apps/v1 with its revision and its pods, as Kubernetes 1.32 has left them. No manager runs.
func nativePast(t testing.TB, s *harness.Space, p past) {
	t.Helper()
	apply(t, s, p.manifest(native, standard))
	set, err := s.Cluster.Client.AppsV1().DaemonSets(s.Name).Get(s.Context(), agent, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p.makeRevision(t, s, 1, owner(native, set))
	for _, node := range s.Nodes {
		p.makePod(t, s, node, owner(native, set))
	}
	s.Wait("the pods of the past are ready", allReady(len(s.Nodes)))
}

// orphan deletes a set and leaves its pods and revisions, which then belong to nobody.
func orphan(t testing.TB, s *harness.Space, kind string) {
	t.Helper()
	s.Kubectl("delete", kind, agent, "--cascade=orphan")
	s.Wait("nobody owns the pods and revisions", func(v harness.View) error {
		if v.Set(agent) != nil {
			return fmt.Errorf("set %s is still there", agent)
		}
		for _, pod := range v.AllPods() {
			if len(pod.OwnerReferences) != 0 {
				return fmt.Errorf("pod %s belongs to %v", pod.Name, pod.OwnerReferences)
			}
		}
		for _, revision := range v.Revisions() {
			if len(revision.OwnerReferences) != 0 {
				return fmt.Errorf("revision %s belongs to %v", revision.Name, revision.OwnerReferences)
			}
		}
		return nil
	})
}

// handOver takes a set from one API version to another, by the documented way, without a pod noticing.
func handOver(t testing.TB, s *harness.Space, w *witness, manifest, from, to string) {
	t.Helper()
	before := history(s.View())
	orphan(t, s, from)
	w.sawNothing(t, "orphaned "+from)
	apply(t, s, manifest)
	s.Wait("the new set has taken over", harness.RolledOut(agent, 1, len(s.Nodes)), ownsHistory)
	w.sawNothing(t, "taken over by "+to)
	if after := history(s.View()); after != before {
		t.Errorf("the history was\n%s, and is\n%s", before, after)
	}
}

// history is what must not change of the revisions when a set changes hands.
func history(v harness.View) string {
	var text string
	for _, revision := range v.Originals() {
		text += fmt.Sprintf("%s %s number %d\n", revision.Name, revision.UID, revision.Revision)
	}
	return text
}

// ownsHistory is met when the set controls all revisions there are.
func ownsHistory(v harness.View) error {
	set := v.Set(agent)
	for _, revision := range v.Revisions() {
		if set == nil || !metav1.IsControlledBy(revision, set) {
			return fmt.Errorf("revision %s is not the set's", revision.Name)
		}
	}
	return nil
}

// image is met when every pod has the image.
func image(image string) harness.Condition {
	return harness.EachPod(agent, "on image "+image, func(pod *corev1.Pod) bool { return pod.Spec.Containers[0].Image == image })
}

// rollTo changes the image of the set and waits until all nodes have it; the recorder judges the roll.
func rollTo(t testing.TB, s *harness.Space, kind, to string) {
	t.Helper()
	recorder := s.Observe(agent)
	if kind == advancedSets {
		recorder = s.ObserveAdvanced(agent)
	}
	s.Kubectl("patch", kind, agent, "--type=json", "-p",
		fmt.Sprintf(`[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": %q}]`, to))
	s.Wait("the roll to "+to+" ends", image(to), harness.RolledOut(agent, 2, len(s.Nodes)))
	report := s.Judge(recorder)
	if report.Limit != budget || report.MostUnavailable > budget || report.MostPodsOnNode != 1 {
		t.Errorf("%s, want at most %d nodes unavailable", report.Summary(), budget)
	}
}

const (
	minimalImage  = "registry.k8s.io/pause:3.10"
	agentImage    = "registry.example.com/agent:v1"
	minimalImage2 = "registry.k8s.io/pause:3.11"
	minimalImage3 = "registry.k8s.io/pause:3.12"
	agentImage2   = "registry.example.com/agent:v2"
)

// TestNativeToAdvanced: a set that Kubernetes 1.32 has made and that Everynode looks after becomes an Advanced one, rolls,
// and becomes a native one again.
func TestNativeToAdvanced(t *testing.T) {
	c := cluster(t)
	s := c.Space(t, allNodes)
	c.Kill(t, harness.ManagerComponent)
	p := recorded(t, "minimal", kubernetes132)
	nativePast(t, s, p)
	w := newWitness(t, s)
	c.StartComponent(t, harness.ManagerComponent)
	s.Wait("Everynode has taken over", harness.RolledOut(agent, 1, allNodes))
	w.sawNothing(t, "taken over from Kubernetes 1.32")

	handOver(t, s, w, p.manifest(beta, standard), nativeSets, beta)
	rollTo(t, s, advancedSets, minimalImage2)
	w.testify(t).oneEach(t, "the roll")

	now := p.with(minimalImage, minimalImage2, "")
	handOver(t, s, w, now.manifest(native, standard), advancedSets, native)
	wantNumbers(t, s.View(), 1, 2)
}

// orphansOfKubernetes: a set that Kubernetes 1.32 has made is orphaned before Everynode ever sees it.
func orphansOfKubernetes(t *testing.T) {
	c := cluster(t)
	s := c.Space(t, allNodes)
	prepare(t, s)
	c.Kill(t, harness.ManagerComponent)
	p := recorded(t, "agent", kubernetes132)
	nativePast(t, s, p)
	w := newWitness(t, s)
	orphan(t, s, nativeSets)
	c.StartComponent(t, harness.ManagerComponent)
	apply(t, s, p.manifest(alpha, standard))
	s.Wait("the Advanced set has taken over", harness.RolledOut(agent, 1, allNodes), ownsHistory)
	w.sawNothing(t, "taken over as "+alpha)
	wantNumbers(t, s.View(), 1)

	handOver(t, s, w, p.manifest(native, standard), advancedSets, native)
	rollTo(t, s, nativeSets, agentImage2)
	w.testify(t).oneEach(t, "the roll")
	handOver(t, s, w, p.with(agentImage, agentImage2, "").manifest(beta, inPlace), nativeSets, beta)
}

// wantNumbers fails unless the revisions have these numbers.
func wantNumbers(t testing.TB, v harness.View, want ...int64) {
	t.Helper()
	var got []int64
	for _, revision := range v.Originals() {
		got = append(got, revision.Revision)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("revisions %v, want %v", got, want)
	}
}

// bothAtOnce: whoever creates the Advanced set while the native one exists gets the pods of both, as with any two sets of
// the same selector. Neither touches what belongs to the other, and deleting one leaves the other's as they were.
func bothAtOnce(t *testing.T) {
	s := cluster(t).Space(t, allNodes)
	p := recorded(t, "minimal", kubernetes132)
	apply(t, s, p.manifest(native, standard))
	s.Wait("the native set runs", harness.RolledOut(agent, 1, allNodes))
	set, err := s.Cluster.Client.AppsV1().DaemonSets(s.Name).Get(s.Context(), agent, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	mine := func(pod *corev1.Pod) bool { return metav1.IsControlledBy(pod, set) }
	before := owned(s.View(), mine)
	apply(t, s, p.manifest(beta, standard))
	s.Wait("the Advanced set runs beside it", func(v harness.View) error {
		if advanced := v.Advanced(agent); advanced == nil || advanced.Status.NumberAvailable != allNodes {
			return fmt.Errorf("it does not yet")
		}
		return nil
	}, allReady(2*allNodes))
	if after := owned(s.View(), mine); after != before {
		t.Errorf("the pods of the native set were\n%s, and are\n%s", before, after)
	}
	s.Kubectl("delete", advancedSets, agent)
	s.Wait("only the native set is left", allReady(allNodes), func(v harness.View) error {
		if n := len(v.AllPods()); n != allNodes {
			return fmt.Errorf("%d pods", n)
		}
		return nil
	})
	if after := owned(s.View(), mine); after != before {
		t.Errorf("the pods of the native set were\n%s, and are\n%s", before, after)
	}
}

// owned lists pods with their restarts.
func owned(v harness.View, mine func(pod *corev1.Pod) bool) string {
	var text string
	for _, pod := range v.AllPods() {
		if mine(pod) {
			text += fmt.Sprintf("%s %s %s %s %d\n", pod.Spec.NodeName, pod.Name, pod.UID, pod.Labels[appsv1.ControllerRevisionHashLabelKey], restarts(pod))
		}
	}
	return text
}
