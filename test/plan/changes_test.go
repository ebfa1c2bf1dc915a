// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/api/openyurt"
	"everynode.dev/everynode/internal/rollout"
	"everynode.dev/everynode/test/harness"
)

// Images of the sets.
const (
	one = "registry.example/agent:1"
	two = "registry.example/agent:2"
)

// half is the label of half of the nodes.
const half = harness.LabelPrefix + "half"

// change is an edit of a set and what comes before it.
type change struct {
	name string
	// spec is merged into the specification of the set before, in YAML; advanced is whether it is one of apps.kruise.io.
	advanced bool
	spec     string
	// hostPort is a port of the node that its pods take, 0 for none.
	hostPort int
	// annotations are those of the set before.
	annotations map[string]string
	// before happens once the set runs everywhere.
	before func(s *stage)
	// args are the arguments of plan, but for the set.
	args func(s *stage) []string
	// fresh is whether there is no set before.
	fresh bool
	// burst is how many pods one pass of the manager creates or deletes at most, where the set says that; they are the waves of what is no update.
	burst int
	// want says how many nodes of that many have each verdict.
	want func(nodes int) map[string]int
	// after puts right what before has done to nodes.
	after func(s *stage)
}

// always are the same arguments at every stage.
func always(args ...string) func(*stage) []string { return func(*stage) []string { return args } }

// all is one verdict for every node.
func all(verdict string) func(int) map[string]int {
	return func(nodes int) map[string]int { return map[string]int{verdict: nodes} }
}

// changes are the kinds of change that plans are held against.
func changes() []change {
	newImage := always("--image", "agent="+two)
	onDelete := "updateStrategy: {type: OnDelete, rollingUpdate: null}"
	ten := "updateStrategy: {rollingUpdate: {maxUnavailable: 10%}}"
	inPlace := "updateStrategy: {rollingUpdate: {maxUnavailable: 10%, rollingUpdateType: InPlaceIfPossible}}"
	return []change{
		{name: "image", spec: ten, args: newImage, want: all("recreate")},
		{name: "min-ready", spec: "minReadySeconds: 2\n" + ten, args: always("--image", "agent="+two, "--max-unavailable", "25%"), want: all("recreate")},
		{name: "surge", spec: "updateStrategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 10}}", args: newImage, want: all("surge")},
		{name: "host-port", hostPort: 18080, spec: "updateStrategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 10}}", args: newImage,
			want: func(nodes int) map[string]int { // no new pod starts beside an old one, and what has begun uses the budget up
				return map[string]int{"surge": min(10, nodes), "wait": nodes - min(10, nodes)}
			}},
		{name: "on-delete", spec: onDelete, args: newImage, want: all("wait")},
		{name: "fewer-nodes", spec: ten, before: labelHalf, after: unlabelHalf, want: func(nodes int) map[string]int {
			return map[string]int{"recreate": nodes / 2, "remove": nodes - nodes/2}
		}, args: always("--patch", fmt.Sprintf(`{"spec":{"template":{"spec":{"nodeSelector":{%q:"yes"}}}}}`, half))},
		{name: "in-place", advanced: true, spec: inPlace, args: newImage, want: all("in-place")},
		{name: "not-in-place", advanced: true, spec: inPlace, want: all("recreate"),
			args: always("--patch", `{"spec":{"template":{"metadata":{"annotations":{"a":"b"}},"spec":{"terminationGracePeriodSeconds":2}}}}`)},
		{name: "partition", advanced: true, spec: ten, args: always("--image", "agent="+two, "--partition", "50%"), want: func(nodes int) map[string]int {
			return map[string]int{"recreate": nodes - nodes/2, "wait": nodes / 2}
		}},
		{name: "canary", advanced: true, spec: ten, before: labelHalf, after: unlabelHalf, args: always("--image", "agent="+two, "--selector", half+"=yes"),
			want: func(nodes int) map[string]int { return map[string]int{"recreate": nodes / 2, "wait": nodes - nodes/2} }},
		{name: "paused", advanced: true, spec: ten, args: always("--image", "agent="+two, "--paused"), want: all("wait")},
		{name: "new-set", advanced: true, fresh: true, burst: 10, args: fromFile(10), want: all("create")},
		{name: "cut-nodes", spec: ten, before: cutSome, after: healSome, args: newImage, want: all("recreate")}, // what is cut uses up half of the budget
		{name: "edge", spec: onDelete, annotations: edge(openyurt.AdvancedRollingUpdate), before: cutSome, after: healSome, args: newImage, want: func(nodes int) map[string]int {
			return map[string]int{"recreate": nodes - few(nodes), "blocked": few(nodes)} // what is cut is left out, and takes no slot of the budget
		}},
		{name: "ota", spec: onDelete, annotations: edge(openyurt.OTA), args: newImage, want: all("wait")}, // for the owners of the nodes
	}
}

// labelHalf labels the nodes in the first half.
func labelHalf(s *stage) {
	for _, node := range s.Nodes[:len(s.Nodes)/2] {
		s.LabelNode(node, half, "yes")
	}
}

func unlabelHalf(s *stage) {
	for _, node := range s.Nodes[:len(s.Nodes)/2] {
		s.LabelNode(node, half, "")
	}
}

// fewNodes are those that are cut.
func (s *stage) fewNodes() []string { return s.Nodes[:few(len(s.Nodes))] }

// few is how many of that many nodes are cut.
func few(nodes int) int { return max(1, nodes/20) }

// edge are the annotations of OpenYurt for a strategy.
func edge(strategy openyurt.Strategy) map[string]string {
	return map[string]string{openyurt.UpdateStrategy: strategy.Format(), openyurt.MaxUnavailable: "10%"}
}

// cutSome cuts some nodes and waits until it is known.
func cutSome(s *stage) {
	for _, node := range s.fewNodes() {
		s.CutNode(node)
	}
	s.Wait("nodes that were cut are not ready", s.areReady(false))
}

func healSome(s *stage) {
	for _, node := range s.fewNodes() {
		s.HealNode(node)
	}
	s.Wait("nodes that were healed are ready", s.areReady(true))
}

// areReady is met when the nodes that are cut, and the pods on them, are all ready or not.
func (s *stage) areReady(want bool) harness.Condition {
	return func(v harness.View) error {
		for _, name := range s.fewNodes() {
			ready := false
			for _, c := range v.Node(name).Status.Conditions {
				ready = ready || c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
			}
			if ready != want {
				return fmt.Errorf("node %s: ready is %v", name, ready)
			}
			if pod := v.PodOn(s.set, name); !want && (pod == nil || harness.Ready(pod)) {
				return fmt.Errorf("the pod on node %s is ready", name)
			}
		}
		return nil
	}
}

// fromFile is the set of the stage in a file, of which a pass of the manager creates no more than that many pods.
func fromFile(burst int) func(s *stage) []string {
	return func(s *stage) []string {
		name := filepath.Join(s.t.TempDir(), "set.yaml")
		text := s.manifest(change{advanced: true}) + fmt.Sprintf("  burstReplicas: %d\n", burst)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			s.t.Fatal(err)
		}
		return []string{"-f", name}
	}
}

// manifest is the set of the stage before a change.
func (s *stage) manifest(c change) string {
	version := "apps/v1"
	if c.advanced {
		version = "apps.kruise.io/v1beta1"
	}
	ports := ""
	if c.hostPort > 0 {
		ports = fmt.Sprintf(", ports: [{containerPort: 80, hostPort: %d}]", c.hostPort)
	}
	return fmt.Sprintf(`apiVersion: %s
kind: DaemonSet
metadata: {name: %s, namespace: %s}
spec:
  selector: {matchLabels: {app: %s}}
  template:
    metadata: {labels: {app: %s}}
    spec:
      nodeSelector: {%s: %s}
      terminationGracePeriodSeconds: 1
      containers: [{name: agent, image: %q%s}]
`, version, s.set, s.Name, s.set, s.set, harness.PoolLabel, s.Name, one, ports)
}

// play makes a change and holds its plan against what happens.
func (c change) play(t *testing.T, nodes int) {
	s := newStage(t, nodes)
	if !c.fresh {
		s.create(c)
	}
	if c.after != nil {
		defer c.after(s) // while the test may still wait for something
	}
	if c.before != nil {
		c.before(s)
	}
	s.watch()
	before := s.log.pods()
	d := s.plan(c)
	for verdict, want := range c.want(nodes) {
		if got := len(s.with(d, verdict)); got != want {
			t.Errorf("%d nodes are to %s, want %d", got, verdict, want)
		}
	}
	s.log.forget(s.with(d, "remove"))   // nothing is to run there any more
	s.log.forget(d.unfinished())        // nor there, as long as these nodes are not ready
	s.log.forget(s.leftDown(d, before)) // nor there: a node that is not ready takes no new pod, so it is not one that should have a pod
	s.comesTrue(d, before, s.apply(d))
	s.inOrder(d, cmp.Or(c.burst, rollout.DefaultBurst))
	s.withinBounds(d)
}
