// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/api/openyurt"
	"everynode.dev/everynode/test/harness"
	"everynode.dev/everynode/test/observe"
)

const (
	set    = "ds"
	agents = "agents" // the name of the policy
)

// dialect is a kind of daemon set.
type dialect struct {
	name     string
	advanced bool
	// fragment is the update strategy, in YAML.
	fragment    string
	annotations string
	enforcement v1alpha1.Enforcement
	// owned is whether the owner of a node deletes the old pod.
	owned bool
	// policy are fields that every policy of it has.
	policy string
}

// native is a DaemonSet of apps/v1 whose own budget limits nothing.
func native() dialect {
	return dialect{name: "native", fragment: "{type: RollingUpdate, rollingUpdate: {maxUnavailable: 100%}}", enforcement: v1alpha1.EnforcementFull}
}

// alongside is a DaemonSet of apps/v1 with OnDelete, whose pods the controller of Kubernetes creates.
func alongside() dialect {
	return dialect{name: "alongside", fragment: "{type: OnDelete}", policy: "  pace: {maxUnavailable: 100%}\n", enforcement: v1alpha1.EnforcementOnDelete}
}

// dialects are all kinds of daemon sets of which Everynode creates the pods.
func dialects() []dialect {
	edge := func(strategy openyurt.Strategy) string {
		return fmt.Sprintf(`{%s: %s, %s: "100%%"}`, openyurt.UpdateStrategy, strategy.Format(), openyurt.MaxUnavailable)
	}
	surge := native()
	surge.name, surge.fragment = "surge", "{type: RollingUpdate, rollingUpdate: {maxUnavailable: 0, maxSurge: 100%}}"
	return []dialect{
		native(), surge,
		{name: "in-place", advanced: true, fragment: "{type: RollingUpdate, rollingUpdate: {maxUnavailable: 100%, rollingUpdateType: InPlaceIfPossible}}", enforcement: v1alpha1.EnforcementFull},
		{name: "advanced-rolling-update", fragment: "{type: OnDelete}", annotations: edge(openyurt.AdvancedRollingUpdate), enforcement: v1alpha1.EnforcementFull},
		{name: "ota", fragment: "{type: OnDelete}", annotations: edge(openyurt.OTA), enforcement: v1alpha1.EnforcementAnnouncements, owned: true},
	}
}

// version, resource and argument are how manifests, kubectl and kubectl-everynode name the kind.
func (d *dialect) version() string {
	if d.advanced {
		return "apps.kruise.io/v1beta1"
	}
	return "apps/v1"
}

func (d *dialect) resource() string {
	if d.advanced {
		return "daemonsets.apps.kruise.io"
	}
	return "daemonsets.apps"
}

func (d *dialect) argument() string {
	if d.advanced {
		return "ads/" + set
	}
	return "daemonset/" + set
}

// stage is a namespace with nodes in three zones and one daemon set.
type stage struct {
	*harness.Space
	t       *testing.T
	dialect dialect
	// zones are the nodes of each zone, in the order of their names.
	zones    [3][]string
	recorder *observe.Recorder
	updated  time.Time
}

// newStage runs the daemon set on that many nodes of the shared plane.
func newStage(t *testing.T, d dialect, nodes int) *stage {
	t.Helper()
	return stageOn(t, shared.Cluster(t), d, nodes)
}

// stageOn runs the daemon set on that many nodes of a plane.
func stageOn(t *testing.T, c *harness.Cluster, d dialect, nodes int) *stage {
	t.Helper()
	s := &stage{Space: c.Space(t, nodes), t: t, dialect: d}
	slices.Sort(s.Nodes)
	for i, node := range s.Nodes {
		k := i * len(s.zones) / nodes
		s.zones[k] = append(s.zones[k], node)
		s.EditNode(node, func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = fmt.Sprintf("zone-%d", k) })
	}
	s.kubectl(s.manifest(harness.Image), "apply", "-f", "-")
	s.Wait("the set runs on every node", harness.RolledOut(set, 1, nodes))
	return s
}

// manifest is the daemon set with an image.
func (s *stage) manifest(image string) string {
	d := &s.dialect
	annotations := d.annotations
	if annotations == "" {
		annotations = "{}"
	}
	return fmt.Sprintf(`
apiVersion: %s
kind: DaemonSet
metadata: {name: %s, annotations: %s}
spec:
  selector: {matchLabels: {app: %s}}
  updateStrategy: %s
  template:
    metadata: {labels: {app: %s}}
    spec:
      nodeSelector: {%s: %s}
      terminationGracePeriodSeconds: 1
      containers: [{name: daemon, image: %q}]
`, d.version(), set, annotations, set, d.fragment, set, harness.PoolLabel, s.Name, image)
}

// kubectl runs kubectl with a standard input; it must succeed.
func (s *stage) kubectl(input string, args ...string) {
	s.t.Helper()
	if out, err := s.KubectlWith(input, args...); err != nil {
		s.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// govern creates the policy with these fields of its specification, and waits until it is ready.
func (s *stage) govern(spec string) {
	s.t.Helper()
	s.kubectl(fmt.Sprintf("apiVersion: everynode.dev/v1alpha1\nkind: RolloutPolicy\nmetadata: {name: %s}\nspec:\n  targets: [{apiVersion: %s, kind: DaemonSet, name: %s}]\n%s",
		agents, s.dialect.version(), set, s.dialect.policy+spec), "apply", "-f", "-")
	s.await(v1alpha1.PhaseComplete)
	if got := s.status().Enforcement; got != s.dialect.enforcement {
		s.t.Errorf("the enforcement is %s, want %s", got, s.dialect.enforcement)
	}
}

// editPolicy merges a fragment of JSON into the specification of the policy.
func (s *stage) editPolicy(spec string) {
	s.t.Helper()
	s.kubectl("", "patch", "rolloutpolicy", agents, "--type=merge", "-p", `{"spec":`+spec+`}`)
}

// policy reads the policy.
func (s *stage) policy() *v1alpha1.RolloutPolicy {
	s.t.Helper()
	u, err := s.Cluster.Dynamic.Resource(v1alpha1.GroupVersion().WithResource(v1alpha1.ResourcePolicies)).Namespace(s.Name).Get(s.Context(), agents, metav1.GetOptions{})
	if err != nil {
		s.t.Fatalf("reading the policy: %v", err)
	}
	p := &v1alpha1.RolloutPolicy{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, p); err != nil {
		s.t.Fatalf("decoding the policy: %v", err)
	}
	return p
}

// status is what the policy reports of the set.
func (s *stage) status() v1alpha1.SetStatus {
	s.t.Helper()
	if p := s.policy(); len(p.Status.Sets) == 1 {
		return p.Status.Sets[0]
	}
	return v1alpha1.SetStatus{}
}

// await waits until the policy has read its newest specification and reports this phase.
func (s *stage) await(phase v1alpha1.Phase) {
	s.t.Helper()
	s.Poll("the phase is "+string(phase), func() error {
		p := s.policy()
		if p.Status.ObservedGeneration != p.Generation || len(p.Status.Sets) != 1 || p.Status.Sets[0].Phase != phase {
			return fmt.Errorf("the status is %+v", p.Status)
		}
		return nil
	})
}

// observe records what follows.
func (s *stage) observe() {
	s.t.Helper()
	if s.dialect.advanced {
		s.recorder = s.ObserveAdvanced(set)
	} else {
		s.recorder = s.Observe(set)
	}
	s.updated = time.Now()
}

// update changes the image, and records what follows.
func (s *stage) update(image string) {
	s.t.Helper()
	s.observe()
	patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":%q}]`, image)
	s.kubectl("", "patch", s.dialect.resource(), set, "--type=json", "-p", patch)
	s.Poll("the rollout has begun", func() error {
		if st := s.status(); st.TargetRevision == st.CommittedRevision {
			return fmt.Errorf("the target is still %s", st.TargetRevision)
		}
		return nil
	})
}

// finish waits until the revision is committed, and returns the history of the rollout.
func (s *stage) finish() history {
	s.t.Helper()
	s.await(v1alpha1.PhaseComplete)
	st := s.status()
	if st.TargetRevision != st.CommittedRevision {
		s.t.Errorf("revision %s is committed, the target is %s", st.CommittedRevision, st.TargetRevision)
	}
	s.Wait("the set runs on every node", harness.RolledOut(set, s.View().Set(set).Generation, len(s.Nodes)))
	hash := s.hash(st.TargetRevision)
	report, err := s.recorder.Finish(s.Context())
	if err != nil {
		s.t.Fatalf("the observation itself failed: %v", err)
	}
	if err := report.Err(); err != nil && !s.dialect.owned { // that a user deletes pods is no violation
		s.t.Errorf("observed from outside: %v", err)
	}
	return historyOf(s.recorder.Log(), hash)
}

// soFar is the history of a rollout that has not ended.
func (s *stage) soFar() history {
	s.t.Helper()
	return historyOf(s.recorder.Log(), s.hash(s.status().TargetRevision))
}

// hash is the hash in the name of a ControllerRevision.
func (s *stage) hash(revision string) string {
	s.t.Helper()
	hash, ok := strings.CutPrefix(revision, set+"-")
	if !ok {
		s.t.Fatalf("the name of the revision is %q", revision)
	}
	return hash
}

// foreseen is what a program reads of a plan.
type foreseen struct {
	Revision string
	Nodes    []foreseenNode
	Estimate struct{ Low, High string }
	Policy   struct{ Waves []foreseenWave }
}

type foreseenNode struct{ Name, Start, End string }

type foreseenWave struct {
	Name, Start, Complete, End, Soak string
	Nodes                            []string
}

// plan returns what kubectl everynode foresees of the update to an image.
func (s *stage) plan(image string) *foreseen {
	s.t.Helper()
	out, err := s.Plugin("plan", s.dialect.argument(), "--image", "daemon="+image, "-o", "json", "--assume-stop", "1s", "--assume-start", "2s", "--assume-change", "2s")
	if err != nil {
		s.t.Fatalf("kubectl everynode plan: %v\n%s", err, out)
	}
	f := &foreseen{}
	if err := json.Unmarshal([]byte(out), f); err != nil {
		s.t.Fatalf("reading the plan: %v\n%s", err, out)
	}
	return f
}

// steps returns the steps of a plan: the nodes of a wave that start at the same time form a step.
func (f *foreseen) steps(t *testing.T) []step {
	t.Helper()
	starts := map[string]time.Duration{}
	for _, n := range f.Nodes {
		starts[n.Name] = length(t, n.Start)
	}
	var steps []step
	for _, w := range f.Policy.Waves {
		nodes := slices.Clone(w.Nodes)
		slices.SortStableFunc(nodes, func(a, b string) int { return int(starts[a] - starts[b]) })
		for i, node := range nodes {
			if i == 0 || starts[node] != starts[nodes[i-1]] {
				steps = append(steps, step{wave: w.Name})
			}
			steps[len(steps)-1].nodes = append(steps[len(steps)-1].nodes, node)
		}
		if len(nodes) > 0 {
			steps[len(steps)-1].soak = length(t, w.Soak)
		}
	}
	return steps
}

// length reads a duration; an empty text is 0.
func length(t *testing.T, text string) time.Duration {
	t.Helper()
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("reading the plan: %v", err)
	}
	return d
}

// errStillMet is that nothing has changed.
var errStillMet = errors.New("nothing has changed")

// holds checks a condition for a while, in which nothing may change.
func (s *stage) holds(d time.Duration, what string, met harness.Condition) {
	s.t.Helper()
	var broken error
	_ = s.TryFor(d, func(v harness.View) error {
		if broken = met(v); broken != nil {
			return nil // it need not wait any longer
		}
		return errStillMet
	})
	if broken != nil {
		s.t.Errorf("%s: %v", what, broken)
	}
}

// versionOf is the resourceVersion of the policy.
func versionOf(t *testing.T, p *v1alpha1.RolloutPolicy) uint64 {
	t.Helper()
	version, err := strconv.ParseUint(p.ResourceVersion, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return version
}

// runs is met when exactly that many nodes have a pod with an image.
func runs(image string, count int) harness.Condition {
	return func(v harness.View) error {
		nodes := map[string]bool{}
		for _, p := range v.Pods(set) {
			if p.Spec.Containers[0].Image == image {
				nodes[p.Spec.NodeName] = true
			}
		}
		if len(nodes) != count {
			return fmt.Errorf("%d nodes have image %s, want %d", len(nodes), image, count)
		}
		return nil
	}
}
