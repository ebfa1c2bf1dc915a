// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/test/harness"
	"everynode.dev/everynode/test/observe"
)

const (
	restoreNodes = 7
	surging      = "surging"
	inPlace      = "in-place"
)

// inPlaceSet is an Advanced DaemonSet that is updated in place.
const inPlaceSet = `
apiVersion: apps.kruise.io/v1beta1
kind: DaemonSet
metadata: {name: in-place}
spec:
  selector: {matchLabels: {app: in-place}}
  minReadySeconds: 2
  updateStrategy: {type: RollingUpdate, rollingUpdate: {rollingUpdateType: InPlaceIfPossible, maxUnavailable: 1}}
  template:
    metadata: {labels: {app: in-place}}
    spec:
      nodeSelector: {%s: %s}
      terminationGracePeriodSeconds: 1
      containers: [{name: daemon, image: %q}]
`

// restoredSpace has two sets: one of apps/v1 with maxSurge 1, and an Advanced one that is updated in place.
type restoredSpace struct {
	*harness.Space
	t *testing.T
}

// TestRestoredStorage: etcd is restored from a copy that was taken in the middle of a roll. The next roll has begun when that happens. Two managers are left
// alone: the one that leads detects the restore and reads everything again. Both sets keep their budgets before and after it, the roll
// of the copy is completed, and another one works.
func TestRestoredStorage(t *testing.T) {
	long(t)
	onlyEverynode(t, cluster(t), "upstream's controller must be restarted by whoever restores the storage")
	// The leader keeps its lease while there is no API server: it is the one that has read what never was.
	c := ownCluster(t, harness.Options{
		Nodes: restoreNodes, Controller: harness.Everynode, Advanced: true, Managers: 2,
		ManagerArgs: []string{"--leader-elect-lease-duration=50s", "--leader-elect-renew-deadline=45s"},
	})
	s := &restoredSpace{c.Space(t, restoreNodes), t}
	s.Run(surging, harness.WithBudget("0", "1"))
	if out, err := s.KubectlWith(fmt.Sprintf(inPlaceSet, harness.PoolLabel, s.Name, harness.Image), "apply", "-f", "-"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s.Wait("both sets run", s.rolled(harness.Image))
	lost := s.openLedger()
	leader, other := s.Leader(t)

	s.roll(harness.Image2)
	s.Wait("the first roll is half done", s.midRoll(harness.Image2))
	backup := filepath.Join(t.TempDir(), "etcd")
	c.Kill(t, "etcd")
	if err := os.CopyFS(backup, os.DirFS(s.etcdDir())); err != nil {
		t.Fatal(err)
	}
	c.StartComponent(t, "etcd")
	s.Wait("the first roll ends", s.rolled(harness.Image2))
	s.roll(harness.Image3)
	s.Wait("the second roll is half done", s.midRoll(harness.Image3))
	said := map[string]int{leader: len(c.Log(leader)), other: len(c.Log(other))}
	kept := s.restore(backup, lost)

	s.Poll("the leader detects the restore", func() error { _, err := logged(c, leader, 0, "was restored from an earlier moment"); return err })
	s.Poll("a manager has read everything again", func() error {
		_, err := logged(c, leader, said[leader], fenceEnds)
		if err != nil {
			_, err = logged(c, other, said[other], fenceEnds)
		}
		return err
	})
	// The watches of a space do not survive a store that goes back.
	after := &restoredSpace{c.SpaceIn(t, s.Name, 0), t}
	after.Wait("the roll of the copy ends", after.rolled(harness.Image2))
	after.roll(harness.Image3)
	after.Wait("another roll ends", after.rolled(harness.Image3))
	if err := kept.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, ledger := range map[string]*observe.Ledger{"until the restore": lost, "with the restore": kept} {
		for _, set := range []string{surging, inPlace} {
			report := ledger.Judge(set, 0)
			if err := report.Err(); err != nil {
				t.Errorf("set %s, %s: %v", set, name, err)
			}
			t.Logf("set %s, %s: %s", set, name, report.Summary())
		}
	}
}

func (s *restoredSpace) etcdDir() string { return filepath.Join(s.Cluster.Plane.Dir(), "etcd") }

func (s *restoredSpace) openLedger() *observe.Ledger {
	s.t.Helper()
	store, err := s.Cluster.Plane.Store()
	if err != nil {
		s.t.Fatal(err)
	}
	ledger, err := observe.OpenLedger(s.t.Context(), store, s.Name)
	if err != nil {
		s.t.Fatal(err)
	}
	return ledger
}

// restore does what an administrator does: the control plane ends, etcd starts with the data of the copy, and the control plane starts again. The ledger that it
// finishes is complete, and the one that it returns misses nothing: no API server runs when either is read.
func (s *restoredSpace) restore(backup string, lost *observe.Ledger) (kept *observe.Ledger) {
	s.t.Helper()
	c, others := s.Cluster, []string{"kube-controller-manager", "kube-scheduler", "kwok"}
	for _, component := range append(slices.Clone(others), "kube-apiserver") {
		c.Kill(s.t, component)
	}
	store, err := c.Plane.Store()
	if err = errors.Join(err, lost.Finish(s.t.Context())); err != nil {
		s.t.Fatal(err)
	}
	c.Kill(s.t, "etcd")
	if err := errors.Join(os.RemoveAll(s.etcdDir()), os.CopyFS(s.etcdDir(), os.DirFS(backup))); err != nil {
		s.t.Fatal(err)
	}
	c.StartComponent(s.t, "etcd")
	if kept, err = lost.Restored(s.t.Context(), store); err != nil {
		s.t.Fatal(err)
	}
	for _, component := range append([]string{"kube-apiserver"}, others...) {
		c.StartComponent(s.t, component)
	}
	return kept
}

// roll has both sets run another image.
func (s *restoredSpace) roll(image string) {
	s.t.Helper()
	patch := fmt.Sprintf(`[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": %q}]`, image)
	s.Kubectl("patch", "daemonsets.apps", surging, "--type=json", "-p", patch)
	s.Kubectl("patch", "daemonsets.apps.kruise.io", inPlace, "--type=json", "-p", patch)
}

// rolled is met when every node has a pod of both sets with the image, and the status reports that.
func (s *restoredSpace) rolled(image string) harness.Condition {
	return func(v harness.View) error {
		for _, name := range []string{surging, inPlace} {
			set := v.Set(name)
			if set == nil || set.Spec.Template.Spec.Containers[0].Image != image {
				return fmt.Errorf("set %s is not seen with image %s", name, image)
			}
			err := errors.Join(harness.RolledOut(name, set.Generation, restoreNodes)(v), runsImage(name, image)(v))
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// midRoll is met when some nodes of both sets run the image, and others do not.
func (s *restoredSpace) midRoll(image string) harness.Condition {
	return func(v harness.View) error {
		for _, name := range []string{surging, inPlace} {
			updated := map[string]bool{}
			for _, pod := range v.Pods(name) {
				if pod.Spec.Containers[0].Image == image && pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning {
					updated[pod.Spec.NodeName] = true
				}
			}
			if n := len(updated); n < 1 || n > restoreNodes-1 {
				return fmt.Errorf("%d nodes of set %s are updated", n, name)
			}
		}
		return nil
	}
}
