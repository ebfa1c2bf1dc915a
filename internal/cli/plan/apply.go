// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	kruiseapi "everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/cli/change"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/resolver"
)

const applyLong = `Make exactly the edit of a plan, if the plan is still valid.

The plan is made again first. It is not valid any more if the set was recreated (another UID), has changed (another
generation or revision, or other OpenYurt annotations), if the rollout policies that apply to it have changed, or if any node would
get another verdict. Then nothing is changed, the differences are printed, and the exit code is 4. The edit is sent on
the condition that the set has not changed since. Rollout policies are read again just before, and once more after the
edit: if one of them changed in the same moment, the edit is made, the change is printed, and the exit code is 1.

Fields that other field managers have applied by server-side apply are not changed, unless you pass --force-conflicts.

For a plan that was made with --policy, --with-policy also creates or edits that policy, before the set is edited. Then the plan is not valid any more either if
the policy of this name has changed since.

With --dry-run=server the server checks the edit and stores nothing. With --dry-run=client the plan is made again
as with plan --local, and nothing is sent.

` + options.ExitText

const applyExample = `  kubectl everynode plan ads/agent --image agent=registry.example/agent:2 -o json >plan.json
  kubectl everynode apply --plan plan.json

  # Only check whether it is still valid
  kubectl everynode apply --plan plan.json --dry-run`

// NewApply returns the command apply.
func NewApply(o *options.Options) *cobra.Command {
	w := &application{}
	cmd := &cobra.Command{
		Use:               "apply --plan FILE",
		Short:             "Apply the edit of a plan, if the plan is still valid",
		Long:              applyLong,
		Example:           applyExample,
		Args:              options.Arguments(0),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := w.flags.Validate(); err != nil {
				return err
			}
			if w.file == "" {
				return options.Usagef("name the plan to apply: --plan FILE, as written by plan -o json")
			}
			return w.run(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&w.file, "plan", "", "The plan, as written by plan -o json or -o yaml; - is the standard input.")
	cmd.Flags().BoolVar(&w.withPolicy, "with-policy", false, "Also create or edit the rollout policy that the plan was made for (plan --policy).")
	w.flags.Add(cmd)
	if err := cmd.MarkFlagFilename("plan", "json", "yaml"); err != nil {
		panic(err) // the flag does not exist: every test that creates a command finds this
	}
	return cmd
}

// Applied is the output of apply for programs.
type Applied struct {
	Set       string `json:"set"`
	Namespace string `json:"namespace"`
	// Revision is the revision of the edited set, Generation its generation.
	Revision   string `json:"revision"`
	Generation int64  `json:"generation"`
	DryRun     bool   `json:"dryRun,omitempty"`
	// Policy describes how the policy of the plan was stored, with --with-policy.
	Policy *AppliedPolicy `json:"policy,omitempty"`
	// Unchanged reports whether the plan does not edit the set.
	Unchanged bool `json:"unchanged,omitempty"`
	// PolicyChange is how the rollout policies of the set changed while the edit was sent; empty if they did not.
	PolicyChange string `json:"policyChange,omitempty"`
}

// application is a parsed command line of apply.
type application struct {
	file       string
	withPolicy bool
	flags      change.Flags
}

func (w *application) run(ctx context.Context, o *options.Options) error {
	d, err := readDocument(o, w.file)
	if err == nil {
		err = o.SameNamespace("the plan", d.Namespace)
	}
	if err != nil {
		return err
	}
	if w.withPolicy && d.PolicyFile == nil {
		return options.Usagef("--with-policy: the plan was made without --policy: make it with `%s plan %s --policy FILE -o json`", options.Program, d.Set)
	}
	c, err := o.Clients()
	if err != nil {
		return err
	}
	inNamespace := *c
	inNamespace.Namespace = d.Namespace
	local := d.Tried == triedLocally || w.flags.DryRun == change.DryRunClient
	f, err := replan(ctx, o, &inNamespace, replanRequest{d, local, w.withPolicy})
	if err != nil {
		return err
	}
	if !w.flags.Force {
		if err := f.owned(); err != nil {
			return err
		}
	}
	applied, err := w.apply(ctx, &inNamespace, d, f)
	if err != nil {
		return err
	}
	if w.withPolicy {
		f.noteOthers(ctx, o, &inNamespace)
	}
	var unchecked error
	if !w.flags.Dry() {
		applied.PolicyChange, unchecked = d.readPolicies(ctx, &inNamespace, f)
	}
	if err := o.Print(applied, func(out io.Writer) error { return applied.show(out) }); err != nil {
		return err
	}
	return applied.differs(unchecked)
}

// apply stores the policy if that is wanted, so that it governs what follows, and then makes the edit of the set.
func (w *application) apply(ctx context.Context, c *options.Clients, d *Document, f *prediction) (Applied, error) {
	applied := Applied{Set: d.Set, Namespace: d.Namespace, Revision: f.after, Generation: f.object.GetGeneration(), DryRun: w.flags.Dry()}
	if w.withPolicy {
		err := f.checkAlone(d.PolicyFile)
		if err == nil {
			applied.Policy, err = f.storePolicy(ctx, c, d.PolicyFile, w.flags)
		}
		if err != nil {
			return applied, err
		}
		if applied.Unchanged = f.edit.empty(); applied.Unchanged {
			applied.Generation = f.live.Object.GetGeneration()
		}
	}
	if applied.Unchanged || w.flags.DryRun == change.DryRunClient {
		return applied, nil
	}
	object, err := d.carryOut(ctx, c, f, w.flags.ServerSide())
	switch {
	case err != nil && applied.Policy != nil && !w.flags.Dry():
		return applied, fmt.Errorf("rolloutpolicy/%s has been stored, and %s/%s has not been edited: %w", d.PolicyFile.Name, d.Namespace, d.Set, err)
	case err != nil:
		return applied, err
	}
	applied.Generation = object.GetGeneration()
	return applied, nil
}

// empty reports whether an edit changes nothing.
func (e Edit) empty() bool {
	var ops []json.RawMessage
	return e.Type == string(types.JSONPatchType) && json.Unmarshal(e.Patch, &ops) == nil && len(ops) == 0
}

// differs returns an error if the edit was made while a rollout policy changed, or if that is not known.
func (a *Applied) differs(unchecked error) error {
	const remedy = "the rollout may differ from the plan: follow it with `%s status %s -n %s -w`"
	switch {
	case a.PolicyChange != "":
		return fmt.Errorf("the edit was made, and meanwhile %s, so "+remedy, a.PolicyChange, options.Program, a.Set, a.Namespace)
	case unchecked != nil:
		return fmt.Errorf("the edit was made, and %w; "+remedy, unchecked, options.Program, a.Set, a.Namespace)
	default:
		return nil
	}
}

func (a Applied) show(w io.Writer) error {
	text := fmt.Sprintf("%s/%s was edited: generation %d, revision %s\nFollow it with: %s status %s -n %s -w",
		a.Namespace, a.Set, a.Generation, a.Revision, options.Program, a.Set, a.Namespace)
	if a.Unchanged {
		text = fmt.Sprintf("%s/%s is unchanged: generation %d, revision %s", a.Namespace, a.Set, a.Generation, a.Revision)
	}
	if a.DryRun {
		text = fmt.Sprintf("the plan for %s/%s is still valid; nothing has been changed", a.Namespace, a.Set)
	}
	if a.Policy != nil {
		text = a.Policy.text(a.DryRun) + "\n" + text
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

func readDocument(o *options.Options, file string) (*Document, error) {
	data, err := readFile(o, file)
	if err != nil {
		return nil, err
	}
	if err := isPlan(file, data); err != nil {
		return nil, err
	}
	d := &Document{}
	if err := yaml.UnmarshalStrict(data, d); err != nil {
		return nil, fmt.Errorf("reading the plan: %w (write it with plan -o json)", err)
	}
	if d.WhatIf != nil {
		return nil, errors.New("the plan plays a failure, so it cannot be applied: make one without --what-if")
	}
	if err := d.Edit.check(); err != nil {
		return nil, fmt.Errorf("reading the plan: %w", err)
	}
	return d, nil
}

// isPlan checks that a file is a plan. The error explains what it is, and how to write a plan.
func isPlan(file string, data []byte) error {
	name := file
	if file == "-" {
		name = "the standard input"
	}
	var content any
	if err := yaml.Unmarshal(data, &content); err != nil {
		return fmt.Errorf("%s is not a plan: %w (`%s plan -o json` writes one)", name, err, options.Program)
	}
	object, _ := content.(map[string]any)
	kind, _ := object["kind"].(string)
	version, _ := object["apiVersion"].(string)
	what, how := fmt.Sprintf("it holds %s of %s, and not %s of %s", kind, version, documentKind, documentVersion), "NAME --image CONTAINER=IMAGE"
	switch {
	case kind == documentKind && version == documentVersion:
		return nil
	case content == nil:
		what = "it is empty"
	case kind == "" || version == "":
		what = "it has no apiVersion and kind"
	case kind == kruiseapi.Kind: // DaemonSets of apps/v1 have the same kind
		how = "-f " + file
	}
	return fmt.Errorf("%s is not a plan: %s: make one with `%s plan %s -o json >plan.json`", name, what, options.Program, how)
}

// replanRequest is a document whose edit is planned again. local means: without the server; withPolicy: for the policy that the document was made for.
type replanRequest struct {
	*Document
	local, withPolicy bool
}

// replan plans the edit of a document again, and returns an error if the result differs.
func replan(ctx context.Context, o *options.Options, c *options.Clients, d replanRequest) (*prediction, error) {
	q, err := d.ask(ctx, c)
	if err != nil {
		return nil, err
	}
	if q.live != nil {
		if err := d.same(q.live.Object); err != nil {
			return nil, err
		}
	}
	q.local = d.local
	if d.withPolicy {
		if q.policy, err = d.PolicyFile.policy(); err != nil {
			return nil, err
		}
		q.policyIn = "the plan"
	}
	if err := q.given.restore(d.Assumptions); err != nil {
		return nil, fmt.Errorf("reading the plan: %w", err)
	}
	f, err := predict(ctx, o, c, q)
	if err != nil {
		return nil, err
	}
	if err := d.holds(f); err != nil {
		if d.local && d.Tried == triedByServer { // only defaults that the server sets may differ
			return nil, fmt.Errorf("%w\nThis time the server was not used, as it was for the plan: use --dry-run=server", err)
		}
		return nil, err
	}
	return f, nil
}

// ask converts a document to a question.
func (d *Document) ask(ctx context.Context, c *options.Clients) (question, error) {
	if d.Edit.Type != typeCreate {
		set, err := resolver.Find(ctx, c, d.Set)
		if missing := (*resolver.Missing)(nil); errors.As(err, &missing) {
			return question{}, stale("%v", err)
		}
		if err != nil {
			return question{}, err // nothing is known about the plan
		}
		return question{live: set, named: set, edit: d.Edit}, nil
	}
	wanted, err := manifest(d.Edit.Patch, d.Namespace)
	if err != nil {
		return question{}, fmt.Errorf("reading the plan: %w", err)
	}
	live, err := existing(ctx, c, wanted)
	if err != nil {
		return question{}, err
	}
	if live != nil {
		return question{}, stale("%s/%s exists now", d.Namespace, d.Set)
	}
	return question{named: wanted, edit: d.Edit}, nil
}

// existing returns the set of that kind and name in the cluster, or nil.
func existing(ctx context.Context, c *options.Clients, wanted *resolver.Set) (*resolver.Set, error) {
	object, err := c.Dynamic.Resource(wanted.Resource).Namespace(wanted.Namespace()).Get(ctx, wanted.Name(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // nothing is there, and that is not a failure
	}
	if err != nil {
		return nil, options.Explain(err, options.Request{
			Verb: "get", Resource: wanted.Resource.GroupResource(), Namespace: wanted.Namespace(), Name: wanted.Name(),
		})
	}
	set := *wanted
	set.Object = object
	return &set, nil
}

// owned returns an error if other field managers have applied the fields that the edit changes, as the other commands
// that change a set do.
func (f *prediction) owned() error {
	if f.live == nil {
		return nil
	}
	return change.Conflict(change.Object{Resource: f.live.Resource, Read: f.live.Object}, change.Fields(f.live.Object.Object, f.object.Object))
}

// attempts is how often the edit is sent again if the status of the set changed in the meantime.
const attempts = 5

// carryOut sends the edit, on the condition that the set has not changed since the prediction, if its rollout policies have not either.
func (d *Document) carryOut(ctx context.Context, c *options.Clients, f *prediction, dryRun []string) (*unstructured.Unstructured, error) {
	if f.live == nil {
		if err := d.policiesHold(ctx, c, f); err != nil {
			return nil, err
		}
		object, err := f.edit.send(ctx, c, f.named, dryRun)
		if apierrors.IsAlreadyExists(err) {
			return nil, stale("%s exists now", f.named.Title())
		}
		return object, f.explain(err)
	}
	version := f.live.Object.GetResourceVersion()
	for range attempts {
		if err := d.policiesHold(ctx, c, f); err != nil {
			return nil, err
		}
		edit, err := f.edit.guarded(f.live.Object.GetUID(), version)
		if err != nil {
			return nil, err
		}
		object, err := edit.send(ctx, c, f.named, dryRun)
		if !apierrors.IsConflict(err) {
			return object, f.explain(err)
		}
		now, err := existing(ctx, c, f.live)
		switch {
		case err != nil:
			return nil, err
		case now == nil || now.Object.GetUID() != f.live.Object.GetUID() || now.Object.GetGeneration() != f.live.Object.GetGeneration(),
			!maps.Equal(edgeOf(now.Object), edgeOf(f.live.Object)):
			return nil, stale("%s has been changed while the plan was checked", f.named.Title())
		}
		version = now.Object.GetResourceVersion() // nothing changed that affects the update
	}
	return nil, errors.New("the set's status changes too often for the edit to be sent: try again")
}

// policiesHold returns an error unless the rollout policies of the set are still those of the plan.
func (d *Document) policiesHold(ctx context.Context, c *options.Clients, f *prediction) error {
	why, err := d.readPolicies(ctx, c, f)
	if err == nil && why != "" {
		return stale("%s", why)
	}
	return err
}

func (f *prediction) explain(err error) error {
	return options.Explain(err, options.Request{
		Verb: f.edit.verb(), Resource: f.named.Resource.GroupResource(), Namespace: f.named.Namespace(), Name: f.named.Name(),
	})
}
