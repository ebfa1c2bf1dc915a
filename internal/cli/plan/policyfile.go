// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/cli/change"
	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/cli/installed"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/policies"
	"everynode.dev/everynode/internal/cli/resolver"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// PolicyFile is the policy that a plan was made for with --policy, and the one that the cluster had under this name then.
type PolicyFile struct {
	Name        string                      `json:"name"`
	Namespace   string                      `json:"namespace"`
	Labels      map[string]string           `json:"labels,omitempty"`
	Annotations map[string]string           `json:"annotations,omitempty"`
	Spec        *v1alpha1.RolloutPolicySpec `json:"spec"`
	// UID and Generation are those of the policy of the cluster; they are empty if there was none, or if it could not be read.
	UID        string `json:"uid,omitempty"`
	Generation int64  `json:"generation,omitempty"`
}

// policyFrom reads the policy for a set in a file.
func (q *question) policyFrom(o *options.Options, c *options.Clients, file string) error {
	data, err := readFile(o, file)
	if err != nil {
		return err
	}
	if q.policyIn = file; file == "-" {
		q.policyIn = o.InName
	}
	q.policy, err = readPolicy(data, source{namespace: c.Namespace, where: q.policyIn, set: q.named})
	return err
}

// source is where a policy is written, with the namespace of policies without one, and the set that it is read for.
type source struct {
	namespace, where string
	set              *resolver.Set
}

// readPolicy reads the policy of a file: the only one, or the one of several that applies to the set.
func readPolicy(data []byte, from source) (*policies.Policy, error) {
	written, err := documents(data)
	if err != nil {
		return nil, fmt.Errorf("reading the policy in %s: %w", from.where, err)
	}
	var all []*policies.Policy
	for _, document := range written {
		typed, object, err := policies.Parse(document)
		if err != nil {
			return nil, fmt.Errorf("reading the policy in %s: %w", from.where, err)
		}
		if typed.Name == "" {
			return nil, fmt.Errorf("reading the policy in %s: metadata.name is missing: name the policy", from.where)
		}
		if typed.Namespace == "" {
			typed.Namespace = from.namespace
		}
		typed.Status = v1alpha1.RolloutPolicyStatus{}
		all = append(all, &policies.Policy{Object: &unstructured.Unstructured{Object: normal(object)}, Typed: typed, Rules: policy.Read(typed)})
	}
	chosen, err := from.choose(all)
	if err != nil {
		return nil, err
	}
	return usable(chosen, from.where)
}

// choose returns the only policy, or the only one of several that applies to the set.
func (from source) choose(all []*policies.Policy) (*policies.Policy, error) {
	if len(all) == 1 {
		return all[0], nil // that it does not apply is reported later
	}
	var apply []*policies.Policy
	for _, p := range all {
		if p.Rules.Selects(policies.SetOf(from.set)) {
			apply = append(apply, p)
		}
	}
	switch {
	case len(all) == 0:
		return nil, fmt.Errorf("%s is empty: write a RolloutPolicy with `%s policy init NAME`", from.where, options.Program)
	case len(apply) == 0:
		return nil, fmt.Errorf("no policy in %s (%s) applies to %s: add the set to the spec.targets of one of them, in the namespace of the set", from.where, policies.Names(all), from.set.Title())
	case len(apply) > 1:
		return nil, fmt.Errorf("%d policies in %s apply to %s: %s; change spec.targets so that one remains", len(apply), from.where, from.set.Title(), policies.Names(apply))
	}
	return apply[0], nil
}

// usable returns a policy, unless it cannot be followed.
func usable(p *policies.Policy, where string) (*policies.Policy, error) {
	if len(p.Rules.Problems) > 0 {
		return nil, fmt.Errorf("the policy in %s cannot be followed: %s", where, strings.Join(p.Rules.Problems, "; "))
	}
	return p, nil
}

// usePolicy replaces the policies of the cluster by the given one, if there is one.
func (f *prediction) usePolicy(ctx context.Context, o *options.Options, c *options.Clients) error {
	if f.policy == nil {
		return nil
	}
	set := policies.SetOf(f.named)
	if !f.policy.Rules.Selects(set) {
		if named := f.policy.Typed.Namespace; named != set.Namespace {
			return fmt.Errorf("the policy in %s is for the namespace %s, and %s is in %s: change metadata.namespace", f.policyIn, named, f.named.Title(), set.Namespace)
		}
		return fmt.Errorf("the policy in %s does not apply to %s: add the set to its spec.targets", f.policyIn, f.named.Title())
	}
	g := inspect.Governance{Set: set, Policies: []*policies.Policy{f.policy}}
	var err error
	if g.Approvals, err = policies.Approvals(ctx, c, set.Namespace); err != nil {
		g.Approvals = nil // none of them concerns this policy, or that is not known: they are assumed to be missing
	}
	if f.stored, err = storedPolicy(ctx, c, f.policy.Typed); err != nil {
		f.stored = nil // the plan does not need it, and to store the policy fails if it exists
	}
	if err := f.validatePolicy(ctx, c); err != nil {
		return err
	}
	if f.stored != nil { // the file replaces its specification, and the rollout continues with its progress
		g.Approvals = f.stored.Recall(g.Approvals)
		if st := f.stored.Status(f.named); st != nil && st.Enforcement != v1alpha1.EnforcementNone {
			g.Stored = st
		}
	}
	g.ReadGroup(ctx, o, c, f.named)
	switch alongside := f.isAlongside(ctx, c); {
	case f.unenforced != "", alongside && f.digest(f.object).Set.Strategy != rollout.OnDelete:
		f.unenforced, f.view.Snapshot.Gate = f.policy.Typed.Name, nil
	case alongside:
		g.AdoptBy(&f.view, f.policy.Rules)
	}
	f.governance, f.view.Snapshot.Set.MaxUnavailable = g, f.view.Workload.Set.MaxUnavailable // without the limit of another policy
	return nil
}

// validatePolicy lets the API server validate the policy of a file. That of a stored plan was validated then, and is again when it is stored.
func (f *prediction) validatePolicy(ctx context.Context, c *options.Clients) (err error) {
	if f.policy.Object.Object == nil {
		return nil
	}
	if f.local {
		f.unvalidated = errors.New("--local uses no dry run on the server")
		return nil
	}
	if f.unvalidated, err = policies.Validate(ctx, c, f.policy, f.stored); err != nil {
		return fmt.Errorf("the API server refuses the policy in %s: %w", f.policyIn, err)
	}
	return nil
}

// isAlongside reports whether the manager follows policies next to the controller that keeps the pods: a policy of the cluster reports it, the flags of the manager show it, or
// that controller has written the last status of the set. If none of these is known, a policy for a set with OnDelete is meant for that.
func (f *prediction) isAlongside(ctx context.Context, c *options.Clients) bool {
	set := f.named
	if set.Advanced() {
		return false
	}
	for _, p := range f.ofCluster {
		if st := p.Status(set); st != nil {
			return st.Enforcement == v1alpha1.EnforcementOnDelete
		}
	}
	alone, known := installed.PoliciesAlone(ctx, c.Kubernetes)
	if !known {
		alone, known = installed.KeptByKubernetes(set.Object)
	}
	f.unserved = !known && f.view.Workload.Set.Strategy == rollout.OnDelete
	return alone || f.unserved
}

// storedPolicy returns the policy in the cluster with the same name; nil if there is none.
func storedPolicy(ctx context.Context, c *options.Clients, named *v1alpha1.RolloutPolicy) (*policies.Policy, error) {
	all, err := policies.List(ctx, c, named.Namespace)
	if at := slices.IndexFunc(all, func(p *policies.Policy) bool { return p.Typed.Name == named.Name }); at >= 0 {
		return all[at], nil
	}
	return nil, err
}

// file returns the policy of --policy for the document; nil without it.
func (f *prediction) file() *PolicyFile {
	if f.policy == nil {
		return nil
	}
	p := fileOf(f.policy.Typed)
	if f.stored != nil {
		p.UID, p.Generation = string(f.stored.Typed.UID), f.stored.Typed.Generation
	}
	return p
}

func fileOf(typed *v1alpha1.RolloutPolicy) *PolicyFile {
	return &PolicyFile{Name: typed.Name, Namespace: typed.Namespace, Labels: typed.Labels, Annotations: typed.Annotations, Spec: &typed.Spec}
}

// policy returns the policy as it was read from the file.
func (p *PolicyFile) policy() (*policies.Policy, error) {
	if p.Spec == nil {
		return nil, errors.New("reading the plan: policyFile.spec is missing: write the plan with plan --policy FILE -o json")
	}
	typed := &v1alpha1.RolloutPolicy{Spec: *p.Spec.DeepCopy()}
	typed.APIVersion, typed.Kind = v1alpha1.GroupVersion().String(), v1alpha1.KindPolicy
	typed.Name, typed.Namespace, typed.Labels, typed.Annotations = p.Name, p.Namespace, p.Labels, p.Annotations
	return usable(&policies.Policy{Object: &unstructured.Unstructured{}, Typed: typed, Rules: policy.Read(typed)}, "the plan")
}

// isOf reports whether this is the policy for a set in a text, ignoring the cluster's version of it.
func (p *PolicyFile) isOf(text string, set *resolver.Set) error {
	read, err := readPolicy([]byte(text), source{namespace: p.Namespace, where: "the form", set: set})
	if err != nil {
		return err
	}
	was := *p
	was.UID, was.Generation = "", 0
	given, err := json.Marshal(fileOf(read.Typed))
	if err != nil {
		return fmt.Errorf("encoding the policy: %w", err)
	}
	planned, err := json.Marshal(was)
	if err != nil {
		return fmt.Errorf("encoding the policy: %w", err)
	}
	if !equalJSON(given, planned) {
		return options.Usagef("the plan is not for the rollout policy in the form: make it again")
	}
	return nil
}

// AppliedPolicy describes how the policy of a plan was stored.
type AppliedPolicy struct {
	Name       string `json:"name"`
	Generation int64  `json:"generation"`
	Created    bool   `json:"created,omitempty"`
	// Fields are the fields of the policy that have changed.
	Fields []string `json:"fields,omitempty"`
}

// checkAlone returns an error if another policy of the cluster applies to the set.
func (f *prediction) checkAlone(p *PolicyFile) error {
	for _, other := range f.ofCluster {
		if other.Typed.Name != p.Name {
			return fmt.Errorf("%s applies to %s too, and nothing starts if two policies apply to a set: plan for that one, or take the set out of its spec.targets first",
				other, f.named.Title())
		}
	}
	return nil
}

// storePolicy stores the policy of a plan, unless the one of the cluster has changed since.
func (f *prediction) storePolicy(ctx context.Context, c *options.Clients, p *PolicyFile, flags change.Flags) (*AppliedPolicy, error) {
	switch {
	case f.stored == nil && p.UID != "":
		return nil, stale("rolloutpolicy/%s was deleted", p.Name)
	case f.stored == nil:
		return p.create(ctx, c, flags)
	case p.UID == "":
		return nil, stale("rolloutpolicy/%s exists now", p.Name)
	}
	object := change.Object{Resource: policies.Resource(), Read: f.stored.Object}
	result, err := change.Patch(ctx, c, change.Request{Object: object, Flags: flags, Edit: p.edit})
	if err != nil {
		return nil, err
	}
	applied := &AppliedPolicy{Name: p.Name, Generation: result.Object.GetGeneration()}
	for _, field := range result.Fields {
		applied.Fields = append(applied.Fields, field.String())
	}
	return applied, nil
}

// edit changes the policy of the cluster to that of the plan.
func (p *PolicyFile) edit(object *unstructured.Unstructured) error {
	switch {
	case string(object.GetUID()) != p.UID:
		return stale("rolloutpolicy/%s was deleted and made again (UID %s, not %s)", p.Name, object.GetUID(), p.UID)
	case object.GetGeneration() != p.Generation:
		return stale("rolloutpolicy/%s has been changed (generation %d, not %d)", p.Name, object.GetGeneration(), p.Generation)
	}
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p.Spec)
	if err != nil {
		return fmt.Errorf("encoding the policy: %w", err)
	}
	object.Object["spec"] = spec
	if len(p.Labels) > 0 {
		object.SetLabels(labels.Merge(object.GetLabels(), p.Labels))
	}
	if len(p.Annotations) > 0 {
		object.SetAnnotations(labels.Merge(object.GetAnnotations(), p.Annotations))
	}
	return nil
}

// create creates the policy.
func (p *PolicyFile) create(ctx context.Context, c *options.Clients, flags change.Flags) (*AppliedPolicy, error) {
	read, err := p.policy()
	if err != nil {
		return nil, err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(read.Typed)
	if err != nil {
		return nil, fmt.Errorf("encoding the policy: %w", err)
	}
	delete(content, "status")
	object := &unstructured.Unstructured{Object: content}
	applied := &AppliedPolicy{Name: p.Name, Created: true, Generation: 1}
	if flags.DryRun == change.DryRunClient {
		return applied, nil
	}
	how := metav1.CreateOptions{DryRun: flags.ServerSide(), FieldManager: options.FieldManager, FieldValidation: metav1.FieldValidationStrict}
	_, err = c.Dynamic.Resource(policies.Resource()).Namespace(p.Namespace).Create(ctx, object, how)
	if apierrors.IsAlreadyExists(err) {
		return nil, stale("rolloutpolicy/%s exists now", p.Name)
	}
	if err != nil {
		return nil, options.Explain(err, options.Request{Verb: "create", Resource: policies.Resource().GroupResource(), Namespace: p.Namespace, Name: p.Name})
	}
	return applied, nil
}

// noteOthers names the other sets that the policy of a plan applies to: the plan says nothing about them.
func (f *prediction) noteOthers(ctx context.Context, o *options.Options, c *options.Clients) {
	sets, err := resolver.Readable(ctx, o, c, false)
	if err != nil {
		o.Note("it is not known to which other sets the policy applies: %v", err)
		return
	}
	var names []string
	for _, set := range sets {
		if set.String() != f.named.String() && f.policy.Rules.Selects(policies.SetOf(set)) {
			names = append(names, set.String())
		}
	}
	if len(names) > 0 {
		o.Note("rolloutpolicy/%s also applies to %s, which the plan is not about", f.policy.Typed.Name, strings.Join(names, ", "))
	}
}

// text says what has become of the policy, a line each.
func (p *AppliedPolicy) text(dryRun bool) string {
	lines := make([]string, 0, 1+len(p.Fields))
	switch {
	case dryRun && p.Created:
		lines = append(lines, "rolloutpolicy/"+p.Name+" would be created")
	case p.Created:
		lines = append(lines, "rolloutpolicy/"+p.Name+" was created")
	case len(p.Fields) == 0:
		lines = append(lines, "rolloutpolicy/"+p.Name+" is unchanged")
	case dryRun:
		lines = append(lines, "rolloutpolicy/"+p.Name+" would be edited:")
	default:
		lines = append(lines, fmt.Sprintf("rolloutpolicy/%s was edited: generation %d", p.Name, p.Generation))
	}
	for _, field := range p.Fields {
		lines = append(lines, "  "+options.Printable(field))
	}
	return strings.Join(lines, "\n")
}
