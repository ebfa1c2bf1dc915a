// SPDX-License-Identifier: Apache-2.0

package advanced

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
	kruisedialect "everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/test/harness"
	"everynode.dev/everynode/test/observe"
)

// name is that of the set of a scenario, unless its manifest says otherwise.
const name = "agent"

// Images: each is another tag, and the last two have the same content.
const (
	one        = "registry.example/agent:1"
	two        = "registry.example/agent:2"
	three      = "registry.example/agent:3"
	broken     = "registry.example/agent:non-existent"
	sameDigest = "registry.example/agent:1-digest-same"
	sameAgain  = "registry.example/agent:2-digest-same"
)

// agent is the manifest that most scenarios begin with.
const agent = `
apiVersion: apps.kruise.io/v1beta1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: agent, image: "registry.example/agent:1"}]
`

// scenario is one story.
type scenario struct {
	name  string
	nodes int
	smoke bool // one of those of make test
	play  func(s *stage)
}

// stage is where a scenario plays.
type stage struct {
	*harness.Space
	t        *testing.T
	name     string
	manifest []byte // as JSON
	recorder *observe.Recorder
	// kubectl is the program that drains nodes; "" is the one in localplane.
	kubectl string
	// unjudged is set by a scenario in which the set is never available on all of its nodes at once.
	unjudged bool
	// checks are made of what the recorder says in the end.
	checks []func(report observe.Report)
}

// play plays a scenario, and judges it.
func play(t *testing.T, c *harness.Cluster, sc scenario) {
	s := newStage(t, c, sc.nodes)
	sc.play(s)
	s.finish()
}

// newStage is a stage with the manifest that most scenarios begin with.
func newStage(t *testing.T, c *harness.Cluster, nodes int) *stage {
	s := &stage{Space: c.Space(t, nodes), t: t, name: name}
	s.start(agent)
	return s
}

// start makes text the manifest of the scenario.
func (s *stage) start(text string) {
	s.t.Helper()
	s.finish()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		s.t.Fatalf("reading a manifest: %v\n%s", err, text)
	}
	s.manifest = raw
	var meta metav1.PartialObjectMetadata
	if err := json.Unmarshal(raw, &meta); err != nil {
		s.t.Fatalf("reading a manifest: %v\n%s", err, text)
	}
	s.name = meta.Name
	s.merge("spec: {template: {spec: {nodeSelector: {%s: %s}}}}", harness.PoolLabel, s.Name)
}

// finish judges what was recorded.
func (s *stage) finish() {
	s.t.Helper()
	if s.recorder == nil {
		return
	}
	report, err := s.recorder.Finish(s.Context())
	s.recorder = nil
	if err != nil {
		s.t.Fatalf("the observation itself failed: %v", err)
	}
	if err := report.Err(); err != nil && (!s.unjudged || len(report.Violations) > 0) {
		s.t.Fatalf("observed from outside: %v\n%s", err, s.View().Describe())
	}
	for _, check := range s.checks {
		check(report)
	}
	s.t.Logf("observed from outside: %s", report.Summary())
}

// merge merges a fragment into the manifest.
func (s *stage) merge(fragment string, args ...any) {
	s.t.Helper()
	raw, err := yaml.YAMLToJSON(fmt.Appendf(nil, fragment, args...))
	if err != nil {
		s.t.Fatalf("reading a fragment: %v\n%s", err, fragment)
	}
	if s.manifest, err = jsonpatch.MergePatch(s.manifest, raw); err != nil {
		s.t.Fatalf("merging a fragment: %v\n%s", err, fragment)
	}
}

// apply merges fragments into the manifest and applies it; what kubectl prints is returned.
func (s *stage) apply(fragments ...string) string {
	s.t.Helper()
	for _, fragment := range fragments {
		s.merge("%s", fragment)
	}
	if s.recorder == nil {
		s.recorder = s.ObserveAdvanced(s.name)
	}
	out, err := s.KubectlWith(string(s.manifest), "apply", "-f", "-")
	if err != nil {
		s.t.Fatalf("kubectl apply: %v\n%s\n%s", err, out, s.manifest)
	}
	return out
}

// refused applies the manifest with fragments merged, which has to be refused with each of these texts; the manifest stays.
func (s *stage) refused(fragment string, texts ...string) {
	s.t.Helper()
	before := s.manifest
	s.merge("%s", fragment)
	out, err := s.KubectlWith(string(s.manifest), "apply", "-f", "-")
	s.manifest = before
	if err == nil {
		s.t.Fatalf("this was not refused:\n%s\n%s", fragment, out)
	}
	for _, text := range texts {
		if !strings.Contains(out, text) {
			s.t.Errorf("the refusal of\n%s\nlacks %q:\n%s", fragment, text, out)
		}
	}
}

// run applies the manifest, and waits until the set runs on every node.
func (s *stage) run(fragments ...string) {
	s.t.Helper()
	s.apply(fragments...)
	s.rolled()
}

// rolled waits until every node of the stage has one available pod of the newest revision.
func (s *stage) rolled(more ...harness.Condition) {
	s.t.Helper()
	s.rolledOn(len(s.Nodes), more...)
}

func (s *stage) rolledOn(nodes int, more ...harness.Condition) {
	s.t.Helper()
	conditions := append([]harness.Condition{harness.RolledOut(s.name, s.generation(), nodes)}, more...)
	s.Wait(fmt.Sprintf("set %s is rolled out on %d nodes", s.name, nodes), conditions...)
}

// roll applies a new image, and waits until all nodes have it.
func (s *stage) roll(image string, fragments ...string) {
	s.t.Helper()
	s.apply(append([]string{withImage(image)}, fragments...)...)
	s.rolled(s.runs(image))
}

// held waits until that many nodes are updated and the rest is held back by the specification; nothing more happens then.
func (s *stage) held(updated int, more ...harness.Condition) {
	s.t.Helper()
	s.generation()
	conditions := append([]harness.Condition{
		harness.ConditionIs(s.name, kruisedialect.Progressing, corev1.ConditionFalse, kruisedialect.ReasonHeld),
		harness.StatusIs(s.name, fmt.Sprintf("%d updated", updated), func(status appsv1.DaemonSetStatus) bool {
			return int(status.UpdatedNumberScheduled) == updated
		}),
	}, more...)
	s.Wait(fmt.Sprintf("%d nodes are updated and the others are held back", updated), conditions...)
}

// generation is the newest generation of the set, once the view shows it.
func (s *stage) generation() int64 {
	s.t.Helper()
	resource := v1beta1.GroupVersion().WithResource(kruise.Resource)
	object, err := s.Cluster.Dynamic.Resource(resource).Namespace(s.Name).Get(s.Context(), s.name, metav1.GetOptions{})
	if err != nil {
		s.t.Fatalf("reading set %s: %v", s.name, err)
	}
	generation := object.GetGeneration()
	s.Wait("the watch shows the newest generation", func(v harness.View) error {
		if set := v.Advanced(s.name); set == nil || set.Generation < generation {
			return fmt.Errorf("generation %d of set %s is not seen yet", generation, s.name)
		}
		return nil
	})
	return generation
}

// runs is met when every pod runs that image in its first container.
func (s *stage) runs(image string) harness.Condition {
	return harness.EachPod(s.name, "on image "+image, func(pod *corev1.Pod) bool { return imageOf(pod) == image })
}

// running are the nodes whose live pod has the image, by name.
func (s *stage) running(image string) []string {
	var nodes []string
	for _, pod := range s.View().Pods(s.name) {
		if pod.DeletionTimestamp == nil && imageOf(pod) == image {
			nodes = append(nodes, pod.Spec.NodeName)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// pod is the live pod of a node.
func (s *stage) pod(node string) *corev1.Pod {
	s.t.Helper()
	pod := s.View().PodOn(s.name, node)
	if pod == nil {
		s.t.Fatalf("node %s has no pod of set %s\n%s", node, s.name, s.View().Describe())
	}
	return pod
}

// delete deletes the live pod of a node as a person would.
func (s *stage) delete(node string) *corev1.Pod {
	s.t.Helper()
	pod := s.pod(node)
	s.DeletePod(s.recorder, pod)
	return pod
}

// set is the set as it is now.
func (s *stage) set() *v1beta1.DaemonSet { return s.View().Advanced(s.name) }

func (s *stage) uids() map[string]types.UID { return harness.UIDs(s.View().Pods(s.name)) }

// samePods fails unless the pods are those.
func (s *stage) samePods(before map[string]types.UID) {
	s.t.Helper()
	if after := s.uids(); !maps.Equal(before, after) {
		s.t.Errorf("pods before %v, after %v", before, after)
	}
}

// otherPods fails if a node still has its pod of before.
func (s *stage) otherPods(before map[string]types.UID) {
	s.t.Helper()
	for node, uid := range s.uids() {
		if before[node] == uid {
			s.t.Errorf("the pod of node %s is still the one from before", node)
		}
	}
}

// wantNodes fails unless exactly these nodes run the image.
func (s *stage) wantNodes(image string, nodes ...string) {
	s.t.Helper()
	nodes = slices.Sorted(slices.Values(nodes))
	if got := s.running(image); !slices.Equal(got, nodes) {
		s.t.Errorf("image %s runs on %v, want %v\n%s", image, got, nodes, s.View().Describe())
	}
}

// sorted are the nodes of the stage by name.
func (s *stage) sorted() []string { return slices.Sorted(slices.Values(s.Nodes)) }

// wantOutput fails unless the output holds all of the texts.
func (s *stage) wantOutput(out string, texts ...string) {
	s.t.Helper()
	for _, text := range texts {
		if !strings.Contains(out, text) {
			s.t.Errorf("the output lacks %q:\n%s", text, out)
		}
	}
}

// atEnd checks the report of the recorder when the scenario is over.
func (s *stage) atEnd(check func(report observe.Report)) { s.checks = append(s.checks, check) }

// patchPod changes a pod as somebody else would.
func (s *stage) patchPod(pod *corev1.Pod, patch string) {
	s.t.Helper()
	s.Kubectl("patch", "pod", pod.Name, "--type=merge", "-p", patch)
}

func imageOf(pod *corev1.Pod) string { return pod.Spec.Containers[0].Image }

func withImage(image string) string {
	return fmt.Sprintf("spec: {template: {spec: {containers: [{name: agent, image: %q}]}}}", image)
}

// rolling is a fragment with limits of a rolling update.
func rolling(fields string) string {
	return "spec: {updateStrategy: {type: RollingUpdate, rollingUpdate: {" + fields + "}}}"
}

const inPlace = "rollingUpdateType: InPlaceIfPossible"
