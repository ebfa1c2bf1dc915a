// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/test/harness"
)

// TestRestoredStorage: etcd is restored from a copy that was taken before a roll, and the manager is left alone. It notices, reads everything again, and
// takes no pod away that the restored set has.
func TestRestoredStorage(t *testing.T) {
	long(t)
	onlyEverynode(t, cluster(t), "upstream's controller has to be restarted by whoever restores the storage")
	c, err := harness.Start(t.Context(), harness.Options{Nodes: neighbourNodes, Controller: harness.Everynode})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(t.Failed()); err != nil {
			t.Error(err)
		}
	})
	s := c.Space(t, neighbourNodes)
	s.Run("ds", harness.WithBudget("0", "1"))
	before := podsOn(t, c, s.Name)
	data, backup := filepath.Join(c.Plane.Dir(), "etcd"), filepath.Join(t.TempDir(), "etcd")

	c.Kill(t, "etcd")
	if err := os.CopyFS(backup, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	c.StartComponent(t, "etcd")
	written := s.Update("ds", harness.WithImage(harness.Image2))
	s.Wait("the roll ends", harness.RolledOut("ds", written.Generation, neighbourNodes))

	others := []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"}
	for _, component := range append(slices.Clone(others), "etcd") {
		c.Kill(t, component)
	}
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(data, os.DirFS(backup)); err != nil {
		t.Fatal(err)
	}
	for _, component := range append([]string{"etcd"}, others...) {
		c.StartComponent(t, component)
	}
	s.Poll("the manager has noticed, and has read everything again", func() error {
		log := c.Log(harness.ManagerComponent)
		_, after, noticed := strings.Cut(log, "was restored from an earlier moment")
		if !noticed && strings.Count(log, "Read the cluster") < 2 || noticed && !strings.Contains(after, "Read the cluster") {
			return fmt.Errorf("the end of its log is %s", log[max(0, len(log)-500):])
		}
		return nil
	})
	s.Poll("the manager works", func() error {
		if _, err := c.Client.CoreV1().Pods(s.Name).List(t.Context(), metav1.ListOptions{}); err != nil {
			return err
		}
		set, err := c.Client.AppsV1().DaemonSets(s.Name).Get(t.Context(), "ds", metav1.GetOptions{})
		if err == nil && (set.Status.NumberAvailable != neighbourNodes || set.Status.ObservedGeneration != set.Generation) {
			err = fmt.Errorf("status %+v", set.Status)
		}
		return err
	})
	if after := podsOn(t, c, s.Name); !maps.Equal(before, after) {
		t.Errorf("pods before %v, and after the restore %v", before, after)
	}
}

// podsOn are the pods of a namespace that are not being deleted, by node.
func podsOn(t *testing.T, c *harness.Cluster, namespace string) map[string]types.UID {
	t.Helper()
	list, err := c.Client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]types.UID{}
	for i := range list.Items {
		if p := &list.Items[i]; p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning {
			found[p.Spec.NodeName] = p.UID
		}
	}
	return found
}
