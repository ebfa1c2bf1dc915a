// SPDX-License-Identifier: Apache-2.0

package advanced

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/kube"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/test/harness"
)

// gitopsScenarios are about tools that apply a set, wait for it, and apply it again.
func gitopsScenarios() []scenario {
	return []scenario{
		{"helm-waits-for-rollouts", 3, false, helmWaits},
		{"two-managers-that-apply-in-a-loop", 3, false, appliedInALoop},
	}
}

// helmOf is Helm for the namespace of a scenario. It keeps its releases in memory.
type helmOf struct {
	*stage
	with *action.Configuration
}

func newHelm(s *stage) *helmOf {
	s.t.Helper()
	flags := genericclioptions.NewConfigFlags(false)
	kubeconfig := s.Cluster.Plane.Kubeconfig()
	flags.KubeConfig, flags.Namespace = &kubeconfig, &s.Name
	with := action.NewConfiguration(action.ConfigurationSetLogger(slog.DiscardHandler))
	if err := with.Init(flags, s.Name, "memory"); err != nil {
		s.t.Fatal(err)
	}
	return &helmOf{stage: s, with: with}
}

// chart is a chart with the manifest of the scenario.
func (h *helmOf) chart() *chart.Chart {
	return &chart.Chart{
		Metadata:  &chart.Metadata{APIVersion: chart.APIVersionV2, Name: "agent", Version: "1.0.0"},
		Templates: []*common.File{{Name: "templates/set.yaml", Data: h.manifest}},
	}
}

// upgrade is helm upgrade --wait, with fragments merged into the manifest.
func (h *helmOf) upgrade(timeout time.Duration, fragments ...string) error {
	h.t.Helper()
	for _, fragment := range fragments {
		h.merge("%s", fragment)
	}
	u := action.NewUpgrade(h.with)
	u.Namespace, u.WaitStrategy, u.Timeout = h.Name, kube.StatusWatcherStrategy, timeout
	_, err := u.RunWithContext(h.Context(), "agent", h.chart(), nil)
	return err
}

// has fails unless that many nodes have an available pod with the image, as the API server has it now.
func (h *helmOf) has(when, image string, nodes int) {
	h.t.Helper()
	pods, err := h.Cluster.Client.CoreV1().Pods(h.Name).List(h.Context(), metav1.ListOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	found := 0
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.DeletionTimestamp == nil && imageOf(pod) == image && harness.Ready(pod) {
			found++
		}
	}
	if found != nodes {
		h.t.Errorf("%s: %d nodes run %s, want %d\n%s", when, found, image, nodes, h.View().Describe())
	}
}

// helmWaits: helm install, upgrade and rollback with --wait return when the rollout has ended, or has reached its partition, and not before; they fail while it does not end.
func helmWaits(s *stage) {
	const patience = 2 * time.Minute
	h := newHelm(s)
	s.recorder = s.ObserveAdvanced(s.name)
	i := action.NewInstall(h.with)
	i.ReleaseName, i.Namespace, i.WaitStrategy, i.Timeout = "agent", s.Name, kube.StatusWatcherStrategy, patience
	if _, err := i.RunWithContext(s.Context(), h.chart(), nil); err != nil {
		s.t.Fatalf("helm install --wait: %v", err)
	}
	h.has("helm install --wait", one, 3)
	if err := h.upgrade(patience, withImage(two)); err != nil {
		s.t.Fatalf("helm upgrade --wait: %v", err)
	}
	h.has("helm upgrade --wait", two, 3)
	if err := h.upgrade(patience, withImage(three), rolling("partition: 2")); err != nil {
		s.t.Fatalf("helm upgrade --wait with a partition: %v", err)
	}
	h.has("helm upgrade --wait with a partition", three, 1)
	h.has("helm upgrade --wait with a partition", two, 2)
	err := h.upgrade(3*time.Second, withImage(broken), rolling("partition: 0"))
	if err == nil {
		s.t.Error("helm upgrade --wait returns while no pod can start")
	}
	r := action.NewRollback(h.with)
	r.Version, r.WaitStrategy, r.Timeout = 2, kube.StatusWatcherStrategy, patience
	if err := r.Run("agent"); err != nil {
		s.t.Fatalf("helm rollback --wait: %v", err)
	}
	h.has("helm rollback --wait", two, 3)
}

// applier applies its own fields of the set again and again, without force, as a GitOps controller does.
type applier struct {
	*stage
	mu     sync.Mutex
	fields map[string]string // by field manager, as JSON
	rounds int
}

// set changes what a manager applies.
func (a *applier) set(manager, manifest string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fields[manager] = manifest
	a.rounds = 0
}

// once lets each manager apply its fields.
func (a *applier) once(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	sets := a.Cluster.Dynamic.Resource(v1beta1.GroupVersion().WithResource(kruise.Resource)).Namespace(a.Name)
	for _, manager := range []string{"kustomize-controller", "operator"} {
		object := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(a.fields[manager]), &object.Object); err != nil {
			return err
		}
		if _, err := sets.Apply(ctx, a.name, object, metav1.ApplyOptions{FieldManager: manager}); err != nil {
			return fmt.Errorf("%s applies: %w", manager, err)
		}
	}
	a.rounds++
	return nil
}

// again is met when all have applied what they have now ten times.
func (a *applier) again(harness.View) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.rounds < 10 {
		return fmt.Errorf("%d rounds", a.rounds)
	}
	return nil
}

// appliedInALoop: one manager applies the set, another its partition, both in a loop while the set rolls. No apply conflicts, only the changes of the two make a new generation, and
// the manager of Everynode owns nothing but the status.
func appliedInALoop(s *stage) {
	a := &applier{stage: s, fields: map[string]string{}}
	partition := func(n int) string {
		return fmt.Sprintf(`{"apiVersion":"apps.kruise.io/v1beta1","kind":"DaemonSet","metadata":{"name":%q},"spec":{"updateStrategy":{"rollingUpdate":{"partition":%d}}}}`, s.name, n)
	}
	a.set("kustomize-controller", string(s.manifest))
	a.set("operator", partition(2))
	s.recorder = s.ObserveAdvanced(s.name)
	if err := a.once(s.Context()); err != nil {
		s.t.Fatal(err)
	}
	s.rolled()
	before := s.generation()

	ctx, stop := context.WithCancel(s.Context())
	ended := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			if err := a.once(ctx); err != nil && ctx.Err() == nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	s.merge("%s", withImage(two))
	a.set("kustomize-controller", string(s.manifest))
	s.Wait("the new image is applied", harness.Observed(s.name, before+1))
	s.held(1, a.again)
	a.set("operator", partition(0))
	s.Wait("the new partition is applied", harness.Observed(s.name, before+2))
	s.rolled(s.runs(two), a.again)
	stop()
	if err := <-ended; err != nil {
		s.t.Errorf("in the loop: %v", err)
	}
	if after := s.generation(); after != before+2 {
		s.t.Errorf("two changes made %d generations", after-before)
	}
	a.checkOwners()
}

// checkOwners fails if a manager other than the two owns a field of the specification.
func (a *applier) checkOwners() {
	a.t.Helper()
	object, err := a.Cluster.Dynamic.Resource(v1beta1.GroupVersion().WithResource(kruise.Resource)).Namespace(a.Name).Get(a.Context(), a.name, metav1.GetOptions{})
	if err != nil {
		a.t.Fatal(err)
	}
	owners := 0
	for _, entry := range object.GetManagedFields() {
		if !strings.Contains(entry.FieldsV1.GetRawString(), `"f:spec"`) {
			continue
		}
		owners++
		if entry.Operation != metav1.ManagedFieldsOperationApply || a.fields[entry.Manager] == "" {
			a.t.Errorf("%s (%s) owns %s", entry.Manager, entry.Operation, entry.FieldsV1.GetRawString())
		}
	}
	if owners != 2 {
		a.t.Errorf("%d managers own the specification", owners)
	}
}
