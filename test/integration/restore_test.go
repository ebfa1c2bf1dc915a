// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/test/harness"
	"everynode.dev/everynode/test/observe"
)

const (
	restoreNodes = 7
	surging      = "surging"
	inPlace      = "in-place"
	onEdge       = "edge"
)

// restoredSets are the sets, and the budget of the one whose strategy does not show it.
func restoredSets() map[string]int { return map[string]int{surging: 0, inPlace: 0, onEdge: 1} }

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

// restoredSpace has a set of each dialect: one of apps/v1 with maxSurge 1, an Advanced one that is updated in place, and one with the annotations of OpenYurt.
type restoredSpace struct {
	*harness.Space
	t *testing.T
}

// copyAge is how old the copy is at least when it is restored. After five minutes the API server compacts etcd.
var copyAge = flag.Duration("copy-age", 0, "how old the copy of etcd is that TestRestoredStorage restores; all sets are rolled until then")

// TestRestoredStorage: etcd is restored from a copy that was taken in the middle of a roll. The next roll has begun when that happens. Two managers are left
// alone. All sets keep their budgets before and after it, the roll of the copy is completed, and another one works. A leader that keeps its lease while there is
// no API server has read what never was: it must detect that. One that loses its lease is followed by a process that reads everything.
func TestRestoredStorage(t *testing.T) {
	long(t)
	onlyEverynode(t, cluster(t), "the administrator who restores the storage must restart upstream's controller")
	for _, test := range []struct {
		name, detected string
		args           []string
	}{
		{"TheLeaderKeepsItsLease", "was restored from an earlier moment", []string{"--leader-elect-lease-duration=50s", "--leader-elect-renew-deadline=45s"}},
		{"TheLeaderMayLoseItsLease", "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := harness.Own(t, harness.Options{Nodes: restoreNodes, Controller: harness.Everynode, Advanced: true, Edge: true, Managers: 2, ManagerArgs: test.args})
			restoreInMidRoll(&restoredSpace{c.Space(t, restoreNodes), t}, test.detected)
		})
	}
}

// restoreInMidRoll plays it. The leader must log that it has detected the restore, if there is a text for that.
func restoreInMidRoll(s *restoredSpace, detected string) {
	t, c := s.t, s.Cluster
	s.Run(surging, harness.WithBudget("0", "1"))
	s.Run(onEdge, harness.WithOnDelete, harness.WithAnnotation("apps.openyurt.io/update-strategy", "AdvancedRollingUpdate"),
		harness.WithAnnotation("apps.openyurt.io/max-unavailable", "1"))
	if out, err := s.KubectlWith(fmt.Sprintf(inPlaceSet, harness.PoolLabel, s.Name, harness.Image), "apply", "-f", "-"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s.Wait("all sets run", s.rolled(harness.Image))
	lost := s.openLedger()
	leader, other := s.Leader(t)
	backup, taken := s.copyInMidRoll(harness.Image2)
	for images := []string{harness.Image, harness.Image2}; time.Since(taken) < *copyAge; slices.Reverse(images) {
		s.roll(images[0])
		s.Wait("one more roll ends", s.rolled(images[0]))
	}
	s.roll(harness.Image3)
	s.Wait("the last roll is half done", s.midRoll(harness.Image3))
	said := map[string]int{leader: len(c.Log(leader)), other: len(c.Log(other))}
	t.Logf("the copy is restored %s after it was taken", time.Since(taken).Round(time.Second))
	kept := s.restore(backup, lost)
	restored := time.Now()

	s.Poll("the leader detects the restore", func() error { _, err := logged(c, leader, 0, detected); return err })
	s.Poll("a manager has read everything again", func() error {
		_, err := logged(c, leader, said[leader], fenceEnds)
		if err != nil {
			_, err = logged(c, other, said[other], fenceEnds)
		}
		return err
	})
	t.Logf("a manager had read everything again after %s", time.Since(restored).Round(time.Second))
	// The watches of a space do not survive a store that goes back.
	after := &restoredSpace{c.SpaceIn(t, s.Name, 0), t}
	after.Wait("the roll of the copy ends", after.rolled(harness.Image2))
	t.Logf("the roll of the copy had ended after %s", time.Since(restored).Round(time.Second))
	after.roll(harness.Image3)
	after.Wait("another roll ends", after.rolled(harness.Image3))
	if err := kept.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, ledger := range map[string]*observe.Ledger{"until the restore": lost, "with the restore": kept} {
		for set, limit := range restoredSets() {
			report := ledger.Judge(set, limit)
			if err := report.Err(); err != nil {
				t.Errorf("set %s, %s: %v", set, name, err)
			}
			t.Logf("set %s, %s: %s", set, name, report.Summary())
		}
	}
}

// copyInMidRoll rolls all sets, copies etcd while that is half done, and waits until it has ended.
func (s *restoredSpace) copyInMidRoll(image string) (backup string, taken time.Time) {
	s.t.Helper()
	s.roll(image)
	s.Wait("the first roll is half done", s.midRoll(image))
	backup = filepath.Join(s.t.TempDir(), "etcd")
	s.Cluster.Kill(s.t, "etcd")
	if err := os.CopyFS(backup, os.DirFS(s.etcdDir())); err != nil {
		s.t.Fatal(err)
	}
	taken = time.Now()
	s.Cluster.StartComponent(s.t, "etcd")
	s.Wait("the first roll ends", s.rolled(image))
	return backup, taken
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

// roll has all sets run another image.
func (s *restoredSpace) roll(image string) {
	s.t.Helper()
	patch := fmt.Sprintf(`[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": %q}]`, image)
	s.Kubectl("patch", "daemonsets.apps", surging, onEdge, "--type=json", "-p", patch)
	s.Kubectl("patch", "daemonsets.apps.kruise.io", inPlace, "--type=json", "-p", patch)
}

// rolled is met when every node has a pod of all sets with the image, and the status reports that.
func (s *restoredSpace) rolled(image string) harness.Condition {
	return func(v harness.View) error {
		for name := range restoredSets() {
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

// midRoll is met when some nodes of each set run the image, and others do not.
func (s *restoredSpace) midRoll(image string) harness.Condition {
	return func(v harness.View) error {
		for name := range restoredSets() {
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
