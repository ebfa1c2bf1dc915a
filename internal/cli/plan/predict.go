// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/cli/live"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/policies"
	"everynode.dev/everynode/internal/cli/resolver"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/plan"
	"everynode.dev/everynode/internal/revision"
	"everynode.dev/everynode/internal/rollout"
)

// newUID is the UID of a set that does not exist yet.
const newUID = types.UID("not-created-yet")

// question is an edit of a set (nil for a new set) to predict, with the assumptions.
type question struct {
	live *resolver.Set
	// named is the set after the edit.
	named *resolver.Set
	edit  Edit
	// withoutEdit reports whether the plan is about the remaining work: no edit was given.
	withoutEdit bool
	local       bool
	given       times
	// policy is the rollout policy to plan for, and policyIn where it is written; nil for the one of the cluster.
	policy   *policies.Policy
	policyIn string
	// failed are the nodes on which the new revision fails, according to --what-if.
	failed []string
}

// prediction is the predicted result of an edit.
type prediction struct {
	question
	dryRunResult
	view           live.View
	nodes          []corev1.Node
	imageInventory *imageInventory
	// before and after are the names of the current revision (empty for a new set) and of the revision after the edit.
	before, after string
	// was and is are the current template and the edited template.
	was, is   map[string]any
	obstacles obstacles
	assumed   assumed
	result    plan.Result
	// longest is the duration if all pods take long.
	longest time.Duration
	// lastEnd is when the last wave of the policy ends, and longestEnd if all pods take long; 0 without a soak, or if a wave does not end.
	lastEnd, longestEnd time.Duration
	// governance is what is known about the rollout policies of the set, and governor has played it; nil without one.
	governance inspect.Governance
	governor   *governor
	// ofCluster are the policies of the cluster that apply to the set.
	ofCluster []*policies.Policy
	// unenforced is the name of the policy that controls nothing of the set; empty if there is none.
	unenforced string
	// unserved reports whether it is assumed that the manager follows the policy next to another controller, because that is not known.
	unserved bool
	// stored is the policy of the cluster with the name of the one of --policy; nil if there is none.
	stored *policies.Policy
	// unvalidated is the reason why the API server has not validated the policy of --policy; nil if it has, or without one.
	unvalidated error
	// fails are the names of the nodes in failed.
	fails map[string]bool
}

// predict predicts the result of an edit. It reads, and writes nothing.
func predict(ctx context.Context, o *options.Options, c *options.Clients, q question) (*prediction, error) {
	t, err := q.try(ctx, c)
	if err != nil {
		return nil, err
	}
	f := &prediction{question: q, dryRunResult: t}
	if q.live == nil {
		f.object.SetUID(newUID)
	}
	if err := f.read(ctx, o, c); err != nil {
		return nil, err
	}
	if err := f.checkSpec(); err != nil {
		return nil, err
	}
	if err := f.revisions(); err != nil {
		return nil, err
	}
	if err := f.findFailed(); err != nil {
		return nil, err
	}
	f.imageInventory = newImageInventory(f.nodes)
	f.imageInventory.nodeImages(ctx, c)
	f.obstacles = f.findObstacles(ctx, c)
	f.recreateForResources(ctx, c)
	f.markAgents(ctx, c)
	f.waitForImages(ctx, c)
	f.assumed = assume(f)
	if err := f.usePolicy(ctx, o, c); err != nil {
		return nil, err
	}
	return f, f.foreseeRange()
}

// read reads the cluster as if the set had the edit.
func (f *prediction) read(ctx context.Context, o *options.Options, c *options.Clients) error {
	edited := *f.named
	edited.Object = f.object
	cluster, err := inspect.All(ctx, o, c, []*resolver.Set{&edited})
	if err != nil {
		return err
	}
	f.view, f.governance, f.nodes = cluster.Evaluations[0].View, cluster.Evaluations[0].Governance, cluster.Nodes
	f.ofCluster = f.governance.Policies
	f.dropUnenforced()
	return nil
}

// dropUnenforced plays the set without its policy if the status of the policy says that it controls nothing of the set, and the edit does not change that: another
// controller keeps the pods, and only a set with OnDelete is left to the policy.
func (f *prediction) dropUnenforced() {
	st := f.governance.Stored
	if f.live == nil || st == nil || st.Enforcement != v1alpha1.EnforcementNone || f.view.Workload.Set.Strategy == rollout.OnDelete {
		return
	}
	now := f.digest(f.live.Object)
	if slices.ContainsFunc(now.Problems, func(p dialect.Problem) bool { return p.Fatal }) {
		return // that is the reason, and the edit may correct it
	}
	f.unenforced = f.governance.Policies[0].Typed.Name
	f.governance = inspect.Governance{Set: f.governance.Set}
	f.view.Snapshot.Gate, f.view.Snapshot.Set.MaxUnavailable = nil, f.view.Workload.Set.MaxUnavailable
}

// checkSpec returns an error if the manager would do nothing for the edited set.
func (f *prediction) checkSpec() error {
	for _, problem := range f.view.Workload.Problems {
		if problem.Fatal {
			return fmt.Errorf("nothing would be done for %s after the edit: %s", f.named, problem.Message)
		}
	}
	return nil
}

// revisions finds the names of the revisions before and after the edit.
func (f *prediction) revisions() error {
	var err error
	w := f.view.Workload
	if f.after, err = f.revisionOf(w); err != nil {
		return err
	}
	f.is = w.Template
	if f.live == nil {
		return nil
	}
	now := f.digest(f.live.Object)
	f.was = now.Template
	f.before, err = f.revisionOf(&now)
	return err
}

func (f *prediction) digest(object *unstructured.Unstructured) dialect.Workload {
	return f.named.Source.Digest(object.Object)
}

// revisionOf returns the name of the revision of a template: the one in the history, or the one that would be created.
func (f *prediction) revisionOf(w *dialect.Workload) (string, error) {
	entries := f.view.History.Entries
	if r := revision.Resolve(entries, w.Template); r.Current >= 0 {
		return entries[r.Current].Hash, nil
	}
	hash, err := revision.Hash(w.Template, w.CollisionCount)
	if err != nil {
		return "", fmt.Errorf("naming the revision of the template: %w", err)
	}
	return hash, nil
}
