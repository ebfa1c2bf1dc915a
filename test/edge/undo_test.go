// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/test/harness"
	"everynode.dev/everynode/test/observe"
)

const (
	undoNodes, undoCanaries = 100, 3
	crashes                 = "registry.example/daemon:crash"
	undoes                  = `
apiVersion: everynode.dev/v1alpha1
kind: RolloutPolicy
metadata: {name: agents}
spec:
  targets: [{apiVersion: apps/v1, kind: DaemonSet, name: ds}]
  pace: {maxUnavailable: 100%}
  waves: [{name: canary, nodes: {count: 3}, soak: 3s}]
  failure: {nodeDeadline: 30s, maxRestarts: 1, maxFailedNodes: 1, waitingReasons: [ImagePullBackOff], action: Undo}
  undo: {maxUnavailable: 1}
`
	mayUndo = `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: everynode-manager-undo}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: everynode-manager-undo}
subjects: [{kind: ServiceAccount, name: everynode-manager, namespace: everynode-system}]
`
)

// undoer is a DaemonSet with OnDelete under a policy that undoes, next to the controller of Kubernetes.
type undoer struct {
	*harness.Space
	t *testing.T
}

func (u *undoer) kubectl(input string, args ...string) string {
	u.t.Helper()
	out, err := u.KubectlWith(input, args...)
	if err != nil {
		u.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(out)
}

// await waits for a phase of a revision, and something that blocking says.
func (u *undoer) await(phase v1alpha1.Phase, says string) v1alpha1.SetStatus {
	u.t.Helper()
	var sets []v1alpha1.SetStatus
	u.Poll(fmt.Sprintf("the phase is %s, and blocking says %q", phase, says), func() error {
		text := u.kubectl("", "get", "rolloutpolicy/agents", "-o", "jsonpath={.status.sets}")
		err := json.Unmarshal([]byte(text), &sets)
		if err == nil && (len(sets) != 1 || sets[0].Phase != phase || !strings.Contains(text, says)) {
			err = fmt.Errorf("the status is %s", text)
		}
		return err
	})
	return sets[0]
}

// manifest is the DaemonSet with an image.
func (u *undoer) manifest(image string) string {
	u.t.Helper()
	ds := u.NewSet(set, harness.WithOnDelete, harness.WithImage(image))
	ds.TypeMeta = metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"}
	text, err := json.Marshal(ds)
	if err != nil {
		u.t.Fatal(err)
	}
	return string(text)
}

func (u *undoer) template() string {
	return u.kubectl("", "get", "daemonset", set, "-o", "jsonpath={.spec.template}")
}

// had are the nodes that had a pod of an image, as the watch of pods shows.
func had(r *observe.Recorder, image string) int {
	nodes := map[string]bool{}
	for _, event := range r.Log() {
		if p, ok := event.Object.(*corev1.Pod); ok && p.Spec.Containers[0].Image == image {
			nodes[observe.NodeOf(p)] = true
		}
	}
	return len(nodes)
}

// TestSmokeUndo: next to the controller of Kubernetes, a crashing image stops in the canary. Without the right to it the manager changes no template; with it, the
// template is exactly the one of before again, also if the manager is killed in between, and the canary returns. A user who applies it again is not opposed, and the
// template of a field manager that applies it is left alone.
func TestSmokeUndo(t *testing.T) {
	c := harness.Own(t, harness.Options{Nodes: undoNodes, Controller: harness.Native, Alongside: true, Sim: quick()})
	u := &undoer{Space: c.Space(t, undoNodes), t: t}
	u.kubectl(u.manifest(harness.Image), "create", "-f", "-") // not kubectl apply, whose field manager owns the template
	u.Wait("the set runs", runs(harness.Image, u.Nodes), ready(undoNodes))
	u.kubectl(undoes, "apply", "-f", "-")
	committed := u.await(v1alpha1.PhaseComplete, "").CommittedRevision
	u.Poll("the manager has seen that all pods are available", func() error { // else the nodes count as broken before
		n, err := c.Gauge(t.Context(), harness.ManagerComponent, "everynode_set_nodes", map[string]string{"number": "available"})
		if err == nil && n != undoNodes {
			err = fmt.Errorf("it has seen %v", n)
		}
		return err
	})
	before := u.template()
	recorder := u.Observe(set)

	container := u.View().Set(set).Spec.Template.Spec.Containers[0].Name
	u.kubectl("", "set", "image", "daemonset/"+set, container+"="+crashes)
	rejected := u.await(v1alpha1.PhaseFailed, "UndoRefused").TargetRevision
	c.Kill(t, harness.ManagerComponent) // the next one does not wait for a minute before it asks again
	u.kubectl(mayUndo, "apply", "-f", "-")
	c.StartComponent(t, harness.ManagerComponent)
	began := time.Now()
	u.Poll("the template is changed back", func() error {
		if now := u.template(); now != before {
			return fmt.Errorf("it is %s", now)
		}
		return nil
	})
	c.Kill(t, harness.ManagerComponent)
	u.kubectl("", "delete", "rolebinding", "everynode-manager-undo") // nothing else needs it
	c.StartComponent(t, harness.ManagerComponent)
	st := u.await(v1alpha1.PhaseComplete, "Undone")
	u.Wait("all nodes run the version of before", runs(harness.Image, u.Nodes), ready(undoNodes))
	if st.TargetRevision != committed || st.RejectedRevision != rejected || u.template() != before {
		t.Errorf("the status is %+v, the template %s, want %s", st, u.template(), before)
	}
	t.Logf("%d of %d nodes had it, and all are back %s after the manager with the right to undo was started", had(recorder, crashes), undoNodes, time.Since(began).Round(100*time.Millisecond))
	if n := had(recorder, crashes); n == 0 || n > undoCanaries {
		t.Errorf("%d nodes had the crashing image, the canary has %d", n, undoCanaries)
	}

	u.kubectl("", "set", "image", "daemonset/"+set, container+"="+crashes)
	u.await(v1alpha1.PhaseFailed, "another user has changed the template to it again")
	u.kubectl("", "set", "image", "daemonset/"+set, container+"="+harness.Image2)
	u.await(v1alpha1.PhaseComplete, "")
	u.Wait("another version is rolled out", runs(harness.Image2, u.Nodes), ready(undoNodes))

	u.kubectl(u.manifest(harness.BrokenImage), "apply", "--server-side", "--force-conflicts", "--field-manager=argocd-controller", "-f", "-")
	u.await(v1alpha1.PhaseFailed, "argocd-controller may write the template again")
	if got := u.View().Set(set).Spec.Template.Spec.Containers[0].Image; got != harness.BrokenImage {
		t.Errorf("the template has image %s", got)
	}
}
