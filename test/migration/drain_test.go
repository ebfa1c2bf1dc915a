// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/test/harness"
)

// drainNodes is how many nodes run the sets of the test.
const drainNodes = 4

// pooled is a manifest whose pods run on the nodes of the space alone.
func pooled(s *harness.Space, manifest string) string {
	return strings.Replace(manifest, `"containers":`, `"nodeSelector": {"`+harness.PoolLabel+`": "`+s.Name+`"}, "containers":`, 1)
}

// drain runs the kubectl that is built into localplane, never the machine's own: before 1.34, drain took every pod whose owner is
// of the kind DaemonSet for one of apps/v1, and gave up with `daemonsets.apps "agent" not found`.
func drain(s *harness.Space, node string, args ...string) (string, error) {
	args = append([]string{"kubectl", "--dir", s.Cluster.Plane.Dir(), "drain", node, "--timeout=90s"}, args...)
	command := exec.CommandContext(s.Context(), filepath.Join(harness.BinDir(), "localplane"), args...)
	command.Env = append(os.Environ(), "PATH=") // without a kubectl there, localplane is one
	out, err := command.CombinedOutput()
	return string(out), err
}

// drained shows what kubectl drain does to pods of an Advanced DaemonSet, for it knows those of apps/v1 only: it takes them for
// pods that run elsewhere once they are evicted. They come back, since the set tolerates nodes that are cordoned. With a pod
// selector drain leaves them alone.
func drained(t *testing.T) {
	s := cluster(t).Space(t, drainNodes)
	p := recorded(t, "minimal", kubernetes132)
	apply(t, s, pooled(s, p.manifest(beta, standard)))
	s.Run("native")
	s.Wait("the Advanced set runs", harness.RolledOut(agent, 1, drainNodes))
	w := newWitness(t, s)
	first, second := s.Nodes[0], s.Nodes[1]
	advanced, plain := s.View().PodOn(agent, first), s.View().PodOn("native", first)

	out, err := drain(s, first)
	if err == nil || !strings.Contains(out, "DaemonSet-managed Pods") || strings.Contains(out, advanced.Name) {
		t.Errorf("without a flag drain says (%v), and should complain of the native set's pod alone:\n%s", err, out)
	}
	w.sawNothing(t, "drain that was refused")

	for range 2 { // it is no better the second time, and no worse
		before := s.View().PodOn(agent, first)
		out, err = drain(s, first, "--ignore-daemonsets")
		if err != nil || !strings.Contains(out, "evicting pod "+s.Name+"/"+before.Name) || strings.Contains(out, "evicting pod "+s.Name+"/"+plain.Name) {
			t.Errorf("drain says (%v), and should evict the Advanced set's pod alone:\n%s", err, out)
		}
		s.Wait("the evicted pod has a successor on the cordoned node", onNode(first, before.UID), harness.RolledOut(agent, 1, drainNodes))
		seen := w.testify(t)
		seen.oneEach(t, "drained")
		if len(seen.made) != 1 || len(seen.ended) != 1 || len(seen.restarted) != 0 {
			t.Errorf("a drained node: pods made %v, ended %v, restarted %v", seen.made, seen.ended, seen.restarted)
		}
	}
	if pod := s.View().PodOn("native", first); pod == nil || pod.UID != plain.UID {
		t.Error("the native set's pod is not the one from before")
	}

	out, err = drain(s, second, "--ignore-daemonsets", "--pod-selector=app!="+agent)
	if err != nil || strings.Contains(out, "evicting") || !strings.Contains(out, "drained") {
		t.Errorf("with a pod selector drain says (%v):\n%s", err, out)
	}
	w.sawNothing(t, "drained with a pod selector")
	s.Kubectl("uncordon", first, second)
	w.sawNothing(t, "uncordoned")
}

// onNode is met when the node, which is cordoned, has a pod that is not the one from before.
func onNode(name string, before types.UID) harness.Condition {
	return harness.All(func(v harness.View) error {
		if node := v.Node(name); node == nil || !node.Spec.Unschedulable {
			return errNotYet("node " + name + " is not cordoned")
		}
		return nil
	}, func(v harness.View) error {
		if pod := v.PodOn(agent, name); pod == nil || pod.UID == before || !harness.Ready(pod) {
			return errNotYet("node " + name + " has no new pod")
		}
		return nil
	})
}

// errNotYet says what is missing.
type errNotYet string

func (e errNotYet) Error() string { return string(e) }
