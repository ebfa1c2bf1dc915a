// SPDX-License-Identifier: Apache-2.0

package advanced

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/test/harness"
)

// TestADefinitionIsMissing: the definition of the Advanced DaemonSet is deleted, and with it all such sets and their pods. The manager is not restarted. A
// DaemonSet of apps/v1 is rolled meanwhile, within its budget. When the definition and the sets of a backup are applied, these get their pods and
// can be rolled.
func TestADefinitionIsMissing(t *testing.T) {
	const nodes, plain, definition = 7, "plain", "daemonsets." + kruise.Group
	c := harness.Own(t, options(2))
	s := newStage(t, c, nodes)
	s.merge("%s", rolling("maxUnavailable: 1"))
	s.applyUnrecorded()
	s.Wait("the Advanced set runs", harness.RolledOut(name, s.generation(), nodes))
	s.Run(plain, harness.WithBudget("1", "0"))
	backup, before := s.backup(), s.set().UID
	recorder := s.Observe(plain)

	s.Kubectl("delete", "customresourcedefinition", definition, "--timeout=2m")
	s.Poll("every manager continues without the dialect", func() error {
		for _, manager := range managers() {
			if err := s.logsSince(manager, 0, "A dialect is left out"); err != nil {
				return err
			}
		}
		return nil
	})
	written := s.Update(plain, harness.WithImage(harness.Image2))
	s.Wait("a set of apps/v1 is rolled", harness.RolledOut(plain, written.Generation, nodes), image(plain, harness.Image2))
	if out, err := s.KubectlWith("", "get", "customresourcedefinition", definition); err == nil {
		t.Errorf("the definition is there before the roll has ended:\n%s", out)
	}

	said := map[string]int{}
	for _, manager := range managers() {
		said[manager] = len(c.Log(manager))
	}
	s.Kubectl("apply", "--server-side", "-f", filepath.Join("..", "..", "config", "kruise", "00-crd-"+definition+".yaml"))
	began := time.Now()
	s.Poll("the sets of the backup are accepted", func() error {
		if out, err := s.KubectlWith(string(backup), "apply", "-f", "-"); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	s.Wait("the Advanced set runs again", harness.RolledOut(name, s.generation(), nodes), func(v harness.View) error {
		if set := v.Advanced(name); set.UID == before {
			return errors.New("it is the one from before")
		}
		return nil
	})
	t.Logf("the Advanced set ran on every node %s after its definition had come back", time.Since(began).Round(time.Second))
	s.Poll("a manager serves the dialect again", func() error {
		var errs []error
		for _, manager := range managers() {
			err := s.logsSince(manager, said[manager], `"Serving a dialect" dialect="kruise"`)
			if err == nil {
				return nil
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
	s.Judge(recorder)
	s.merge("%s", withImage(two))
	s.applyUnrecorded()
	s.Wait("the Advanced set is rolled", harness.RolledOut(name, s.generation(), nodes), s.runs(two))
	rolled := harness.UIDs(s.View().Pods(plain))
	written = s.Update(plain, harness.WithMinReady(1))
	s.Wait("the set of apps/v1 is served as before", harness.RolledOut(plain, written.Generation, nodes))
	if now := harness.UIDs(s.View().Pods(plain)); !maps.Equal(rolled, now) {
		t.Errorf("the pods of the set of apps/v1 were %v, and are %v", rolled, now)
	}
}

func managers() []string { return []string{harness.ManagerComponent, harness.ManagerComponent + "-2"} }

// applyUnrecorded applies the manifest. No recorder watches the set: its watch could not continue without the definition.
func (s *stage) applyUnrecorded() {
	s.t.Helper()
	if out, err := s.KubectlWith(string(s.manifest), "apply", "-f", "-"); err != nil {
		s.t.Fatalf("kubectl apply: %v\n%s", err, out)
	}
}

// backup is the set as it is stored, without what the API server sets, as backup tools keep it.
func (s *stage) backup() []byte {
	s.t.Helper()
	resource := v1beta1.GroupVersion().WithResource(kruise.Resource)
	object, err := s.Cluster.Dynamic.Resource(resource).Namespace(s.Name).Get(s.Context(), s.name, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(object.Object, "status")
	raw, err := json.Marshal(object)
	if err != nil {
		s.t.Fatal(err)
	}
	return raw
}

// logsSince is nil when a component has logged a text after the first bytes of its log.
func (s *stage) logsSince(component string, bytes int, text string) error {
	if log := s.Cluster.Log(component); !strings.Contains(log[min(bytes, len(log)):], text) {
		return fmt.Errorf("%s has not logged %q", component, text)
	}
	return nil
}

// image is met when every pod of a set runs an image.
func image(set, image string) harness.Condition {
	return harness.EachPod(set, "on image "+image, func(pod *corev1.Pod) bool { return imageOf(pod) == image })
}
