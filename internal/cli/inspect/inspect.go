// SPDX-License-Identifier: Apache-2.0

// Package inspect reads DaemonSets with the rights of the user, and computes the decisions that the manager would make.
package inspect

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/internal/cli/live"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/resolver"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/internal/dialects"
	"everynode.dev/everynode/internal/rollout"
)

// Evaluation is a set at one moment, with the decision for it.
type Evaluation struct {
	live.View
	Set  *resolver.Set
	Plan rollout.Plan
	// Governance is the effect of the rollout policies on the set.
	Governance Governance
}

// Cluster is the data that was read, with all sets.
type Cluster struct {
	Evaluations []Evaluation
	// Nodes are sorted by name.
	Nodes []corev1.Node
}

// At evaluates one set.
func At(ctx context.Context, o *options.Options, c *options.Clients, set *resolver.Set) (*Evaluation, error) {
	cluster, err := All(ctx, o, c, []*resolver.Set{set})
	if err != nil {
		return nil, err
	}
	return &cluster.Evaluations[0], nil
}

// All evaluates several sets at once.
func All(ctx context.Context, o *options.Options, c *options.Clients, sets []*resolver.Set) (*Cluster, error) {
	read := live.ReadOptions{Client: c.Kubernetes, Dynamic: c.Dynamic, Namespace: commonNamespace(sets), Facts: facts()}
	for _, set := range sets {
		read.Sets = append(read.Sets, live.ReadSet{Source: set.Source, InPlace: set.Dialect.InPlace, Object: set.Object})
	}
	reading, err := live.Read(ctx, read)
	if err != nil {
		return nil, Explain(err)
	}
	cluster := &Cluster{Nodes: reading.Nodes()}
	rules := governor{c: c, note: o.Note}
	for _, set := range sets {
		reading.Govern(set.Key())
		view, ok := reading.Evaluate(set.Key(), o.Time())
		if !ok {
			return nil, fmt.Errorf("%s cannot be evaluated: it has no UID, so it does not come from a cluster", set.Title())
		}
		governance := rules.of(ctx, set)
		if len(governance.Policies) == 1 {
			governance.Neighbours = rules.neighbours(ctx, set, governance.Policies[0].Rules, o.Time())
		}
		governance.Govern(&view)
		cluster.Evaluations = append(cluster.Evaluations, Evaluation{View: view, Set: set, Plan: live.Decide(view.Workload, view.Snapshot), Governance: governance})
	}
	return cluster, nil
}

// facts returns a function that reads the facts that the dialects need, and why a pod does not start. The manager needs
// the latter for the conditions of one dialect only; users need it for all.
func facts() dialect.FactsFunc {
	needed := dialects.FactsOf(dialects.Names())
	return func(p *corev1.Pod) *dialect.PodFacts {
		f, trouble := needed(p), kruise.Trouble(p)
		switch {
		case trouble == "":
			return f
		case f == nil:
			return &dialect.PodFacts{Trouble: trouble}
		default:
			f.Trouble = trouble
			return f
		}
	}
}

// commonNamespace returns the namespace of the sets if it is the same, otherwise all namespaces: so fewer rights are
// needed for a single namespace.
func commonNamespace(sets []*resolver.Set) string {
	namespace := metav1.NamespaceAll
	for i, set := range sets {
		switch {
		case i == 0:
			namespace = set.Namespace()
		case set.Namespace() != namespace:
			return metav1.NamespaceAll
		}
	}
	return namespace
}

// Explain adds the request, and the missing right, to an error of a list.
func Explain(err error) error {
	if list := (*live.ListError)(nil); errors.As(err, &list) {
		return options.Explain(list.Err, options.Request{Verb: "list", Resource: list.Resource, Namespace: list.Namespace})
	}
	return err
}

// Nodes returns the names of the nodes of the Snapshot, in its order.
func (m *Evaluation) Nodes() []string {
	names := make([]string, len(m.Snapshot.Nodes))
	for i := range m.Snapshot.Nodes {
		names[i] = m.Snapshot.Nodes[i].Name
	}
	return names
}
