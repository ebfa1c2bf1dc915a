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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/test/harness"
)

// gitopsScenarios are about tools that apply a set, wait for it, and apply it again.
func gitopsScenarios() []scenario {
	return []scenario{
		{"helm-waits-for-rollouts", 3, false, helmWaits},
		{"two-managers-that-apply-in-a-loop", 3, false, appliedInALoop},
		{"a-policy-and-a-job-applied-in-a-loop", 3, false, policyAppliedInALoop},
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
	if err := h.upgrade(3*time.Second, withImage(broken), rolling("partition: 0")); err == nil || !strings.Contains(err.Error(), context.DeadlineExceeded.Error()) {
		s.t.Errorf("helm upgrade --wait while no pod can start: %v", err)
	}
	r := action.NewRollback(h.with)
	r.Version, r.WaitStrategy, r.Timeout = 2, kube.StatusWatcherStrategy, patience
	if err := r.Run("agent"); err != nil {
		s.t.Fatalf("helm rollback --wait: %v", err)
	}
	h.has("helm rollback --wait", two, 3)
}

// applier applies objects again and again as several managers, each its own fields, without force, as GitOps controllers do.
type applier struct {
	*stage
	mu     sync.Mutex
	fields map[string][]applied // by field manager
	rounds int
}

// applied is what a manager has of an object, as JSON.
type applied struct {
	resource schema.GroupVersionResource
	name     string
	manifest string
}

func ofSet(name, manifest string) applied {
	return applied{v1beta1.GroupVersion().WithResource(kruise.Resource), name, manifest}
}

func ofJob(name, spec string) applied {
	return applied{v1beta1.GroupVersion().WithResource(kruise.ResourceJob), name, fmt.Sprintf(`{"apiVersion":"apps.kruise.io/v1beta1","kind":"ImagePullJob","metadata":{"name":%q},"spec":%s}`, name, spec)}
}

func ofPolicy(name, spec string) applied {
	return applied{v1alpha1.GroupVersion().WithResource("rolloutpolicies"), name, fmt.Sprintf(`{"apiVersion":"everynode.dev/v1alpha1","kind":"RolloutPolicy","metadata":{"name":%q},"spec":%s}`, name, spec)}
}

// set changes what a manager applies.
func (a *applier) set(manager string, objects ...applied) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fields[manager] = objects
	a.rounds = 0
}

// once lets each manager apply its fields.
func (a *applier) once(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, manager := range []string{"kustomize-controller", "operator"} {
		for _, of := range a.fields[manager] {
			object := &unstructured.Unstructured{}
			if err := json.Unmarshal([]byte(of.manifest), &object.Object); err != nil {
				return err
			}
			if _, err := a.Cluster.Dynamic.Resource(of.resource).Namespace(a.Name).Apply(ctx, of.name, object, metav1.ApplyOptions{FieldManager: manager}); err != nil {
				return fmt.Errorf("%s applies %s %s: %w", manager, of.resource.Resource, of.name, err)
			}
		}
	}
	a.rounds++
	return nil
}

// loop applies until the returned function is called, which fails if an apply has failed.
func (a *applier) loop() (stop func()) {
	ctx, cancel := context.WithCancel(a.Context())
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
	return func() {
		a.t.Helper()
		cancel()
		if err := <-ended; err != nil {
			a.t.Errorf("in the loop: %v", err)
		}
	}
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
	a := &applier{stage: s, fields: map[string][]applied{}}
	partition := func(n int) applied {
		return ofSet(s.name, fmt.Sprintf(`{"apiVersion":"apps.kruise.io/v1beta1","kind":"DaemonSet","metadata":{"name":%q},"spec":{"updateStrategy":{"rollingUpdate":{"partition":%d}}}}`, s.name, n))
	}
	a.set("kustomize-controller", ofSet(s.name, string(s.manifest)))
	a.set("operator", partition(2))
	s.recorder = s.ObserveAdvanced(s.name)
	if err := a.once(s.Context()); err != nil {
		s.t.Fatal(err)
	}
	s.rolled()
	before := s.generation()

	stop := a.loop()
	s.merge("%s", withImage(two))
	a.set("kustomize-controller", ofSet(s.name, string(s.manifest)))
	s.Wait("the new image is applied", harness.Observed(s.name, before+1))
	s.held(1, a.again)
	a.set("operator", partition(0))
	s.Wait("the new partition is applied", harness.Observed(s.name, before+2))
	s.rolled(s.runs(two), a.again)
	stop()
	if after := s.generation(); after != before+2 {
		s.t.Errorf("two changes made %d generations", after-before)
	}
	a.checkOwners(partition(0), before+2, 2)
}

// policyAppliedInALoop: one manager applies a set, its rollout policy and an ImagePullJob, another whether the policy is suspended and how many nodes pull at once, both in a loop
// while the set rolls in waves and the images are pulled.
func policyAppliedInALoop(s *stage) {
	a := &applier{stage: s, fields: map[string][]applied{}}
	policy := ofPolicy("agents", `{"targets":[{"apiVersion":"apps.kruise.io/v1beta1","kind":"DaemonSet","name":"agent"}],"waves":[{"name":"canary","nodes":{"count":1}},{"name":"rest","nodes":{"percent":100}}]}`)
	job := ofJob("ahead", fmt.Sprintf(`{"image":%q,"selector":{"matchLabels":{%q:%q}},"completionPolicy":{"type":"Always"}}`, two, harness.PoolLabel, s.Name))
	operator := func(suspend bool, parallelism int) []applied {
		return []applied{ofPolicy("agents", fmt.Sprintf(`{"suspend":%t}`, suspend)), ofJob("ahead", fmt.Sprintf(`{"parallelism":%d}`, parallelism))}
	}
	a.set("kustomize-controller", ofSet(s.name, string(s.manifest)), policy, job)
	a.set("operator", operator(true, 0)...)
	s.recorder = s.ObserveAdvanced(s.name)
	if err := a.once(s.Context()); err != nil {
		s.t.Fatal(err)
	}
	s.rolled()
	before, policyBefore, jobBefore := s.generation(), a.object(policy).GetGeneration(), a.object(job).GetGeneration()

	stop := a.loop()
	s.merge("%s", withImage(two))
	a.set("kustomize-controller", ofSet(s.name, string(s.manifest)), policy, job)
	s.Wait("the new image is applied, and the suspended policy holds it", harness.Observed(s.name, before+1), a.again)
	s.wantNodes(two)
	a.set("operator", operator(false, 2)...)
	s.rolled(s.runs(two), a.again)
	s.Kubectl("wait", "--for=condition=Ready", "--timeout=2m", "rolloutpolicy/agents", "imagepulljob/ahead")
	stop()
	a.checkOwners(ofSet(s.name, ""), before+1, 1)
	a.checkOwners(policy, policyBefore+1, 2)
	a.checkOwners(job, jobBefore+1, 2)
}

// object is an object as it is now.
func (a *applier) object(of applied) *unstructured.Unstructured {
	a.t.Helper()
	object, err := a.Cluster.Dynamic.Resource(of.resource).Namespace(a.Name).Get(a.Context(), of.name, metav1.GetOptions{})
	if err != nil {
		a.t.Fatal(err)
	}
	return object
}

// checkOwners fails unless an object has that generation, and that many managers own a field of the specification, all of those that apply.
func (a *applier) checkOwners(of applied, generation int64, want int) {
	a.t.Helper()
	object := a.object(of)
	if got := object.GetGeneration(); got != generation {
		a.t.Errorf("%s %s has the generation %d, want %d", of.resource.Resource, of.name, got, generation)
	}
	owners := 0
	for _, entry := range object.GetManagedFields() {
		if !strings.Contains(entry.FieldsV1.GetRawString(), `"f:spec"`) {
			continue
		}
		owners++
		if entry.Operation != metav1.ManagedFieldsOperationApply || a.fields[entry.Manager] == nil {
			a.t.Errorf("%s (%s) owns %s of %s %s", entry.Manager, entry.Operation, entry.FieldsV1.GetRawString(), of.resource.Resource, of.name)
		}
	}
	if owners != want {
		a.t.Errorf("%d managers own the specification of %s %s, want %d", owners, of.resource.Resource, of.name, want)
	}
}
