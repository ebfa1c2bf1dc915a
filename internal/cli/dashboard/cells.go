// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/rollout"
)

// cell is a node of the picture of a set.
type cell struct {
	Node    string `json:"k"`
	Verdict string `json:"v"`
	// Reason is the sentence of the verdict with its details, if there are any.
	Reason string `json:"r,omitempty"`
	// NotReady is when the node became not ready, in seconds since 1970; 0 if it is ready.
	NotReady int64 `json:"x,omitempty"`
	Gone     bool  `json:"gone,omitempty"`
	// Stuck reports whether its new pod does not start by itself.
	Stuck bool `json:"s,omitempty"`
	// Charged reports whether the node uses the budget.
	Charged bool `json:"c,omitempty"`
	// Wave is the index of its wave in head.WaveNames; -1 for none.
	Wave int `json:"w"`
	// Values are the indexes of its values in the facets; -1 for none.
	Values []int `json:"f"`
	Pods   []pod `json:"p,omitempty"`
}

// pod is a pod of a cell.
type pod struct {
	Name     string `json:"name"`
	Revision string `json:"revision"`
	State    string `json:"state"`
	Restarts uint16 `json:"restarts,omitempty"`
}

// facet is a label by which nodes can be grouped.
type facet struct {
	Key    string   `json:"key"`
	Values []string `json:"values"`
}

const (
	// mostValues is the maximum number of values of a label by which nodes can be grouped, mostFacets that of labels.
	mostValues = 500
	mostFacets = 40
)

// wellKnown are the labels by which nodes are grouped most: places, and the pools of the distributions.
func wellKnown() []string {
	return []string{
		corev1.LabelTopologyZone, corev1.LabelTopologyRegion, "karpenter.sh/nodepool", "cloud.google.com/gke-nodepool", "eks.amazonaws.com/nodegroup", "kubernetes.azure.com/agentpool",
		"apps.openyurt.io/nodepool", corev1.LabelInstanceTypeStable, corev1.LabelArchStable,
	}
}

// facets keeps the labels by which nodes can be grouped: to find them takes long, and the labels of nodes change seldom.
type facets struct {
	labels []map[string]string
	found  []facet
}

// of returns the facets of nodes with these labels.
func (f *facets) of(labels []map[string]string) []facet {
	if f.found == nil || !slices.EqualFunc(f.labels, labels, sameLabels) {
		f.found = facetsOf(labels)
	}
	f.labels = labels
	return f.found
}

// sameLabels compares the labels of two nodes. Most are the same map: then nothing of it is read.
func sameLabels(a, b map[string]string) bool {
	return reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer() || maps.Equal(a, b)
}

// facetsOf returns the labels by which nodes can be grouped. If there are more than can be offered, those are left out that all nodes have with the same value: nodes have
// over a hundred labels where programs describe their hardware.
func facetsOf(labels []map[string]string) []facet {
	values, has := map[string]map[string]bool{}, map[string]int{}
	for _, of := range labels {
		for key, value := range of {
			if key == corev1.LabelHostname {
				continue
			}
			has[key]++
			if values[key] == nil {
				values[key] = map[string]bool{}
			}
			if len(values[key]) <= mostValues {
				values[key][value] = true
			}
		}
	}
	known := wellKnown()
	rank := func(key string) int {
		at := slices.Index(known, key)
		switch divides := len(values[key]) > 1 || has[key] < len(labels); {
		case at >= 0:
			return at
		case divides:
			return len(known)
		default:
			return len(known) + 1
		}
	}
	facets := []facet{}
	for _, key := range slices.SortedFunc(maps.Keys(values), func(a, b string) int { return cmp.Or(rank(a)-rank(b), strings.Compare(a, b)) }) {
		if n := len(values[key]); n <= mostValues && len(facets) < mostFacets {
			facets = append(facets, facet{Key: key, Values: slices.Sorted(maps.Keys(values[key]))})
		}
	}
	return facets
}

// valuesOf returns the indexes of the values of a node.
func valuesOf(facets []facet, labels map[string]string) []int {
	indexes := make([]int, len(facets))
	for i := range facets {
		indexes[i] = -1
		if value, has := labels[facets[i].Key]; has {
			if at, found := slices.BinarySearch(facets[i].Values, value); found {
				indexes[i] = at
			}
		}
	}
	return indexes
}

// causesOf is m.Cause, which is asked once for each verdict: a set has thousands of nodes.
func causesOf(m *inspect.Evaluation) func(rollout.VerdictKind) string {
	known := map[rollout.VerdictKind]string{}
	return func(kind rollout.VerdictKind) string {
		cause, is := known[kind]
		if !is {
			cause = m.Cause(kind)
			known[kind] = cause
		}
		return cause
	}
}

// cellOf returns the cell of a node. causeOf is why nodes have a verdict, where that is not only its sentence.
func cellOf(m *inspect.Evaluation, i int, facets []facet, causeOf func(rollout.VerdictKind) string) cell {
	node, report := &m.Snapshot.Nodes[i], inspect.NodeOf(&m.Snapshot, &m.Plan, i)
	c := cell{Node: node.Name, Verdict: report.Verdict, Charged: report.Charged, Gone: node.Gone, Wave: -1, Values: valuesOf(facets, m.Labels[i])}
	if report.Reason != m.Plan.Verdicts[i].Kind.Sentence() {
		c.Reason = report.Reason
	}
	if cause := causeOf(m.Plan.Verdicts[i].Kind); cause != "" {
		c.Reason = cause
	}
	if !node.Ready && !node.Gone {
		c.NotReady = max(int64(node.Since)/1e9, 1)
	}
	c.Stuck = inspect.StuckBy(node, m.Plan.Verdicts[i].Kind, m.Snapshot.Set.Update) != ""
	waves := m.Governance.Waves
	if future := m.Governance.Future(); future != nil {
		waves = future // those that the policy would give
	}
	if i < len(waves) {
		c.Wave = waves[i]
	}
	for j := range report.Pods {
		p := &report.Pods[j]
		c.Pods = append(c.Pods, pod{p.Name, p.Revision, p.State, node.Pods[j].Restarts})
	}
	return c
}

// restarts counts the restarts of containers, in pods of the new revision and in others.
type restarts struct {
	New     int `json:"new"`
	Old     int `json:"old"`
	NewPods int `json:"newPods"`
	OldPods int `json:"oldPods"`
}

// restartsOf counts without the pods that are stopping or have ended, as the numbers of pods of revisions do.
func restartsOf(s *rollout.Snapshot) (r restarts) {
	for i := range s.Nodes {
		for j := range s.Nodes[i].Pods {
			p := &s.Nodes[i].Pods[j]
			if p.Deleting || p.Phase.Terminal() {
				continue
			}
			if p.Revision == s.Set.Update {
				r.New, r.NewPods = r.New+int(p.Restarts), r.NewPods+1
			} else {
				r.Old, r.OldPods = r.Old+int(p.Restarts), r.OldPods+1
			}
		}
	}
	return r
}
