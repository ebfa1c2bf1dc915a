// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"everynode.dev/everynode/internal/cli/change"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/resolver"
)

// run continues an interrupted migration, or starts one.
func (v *verb) run(ctx context.Context, c *options.Clients, arg string) error {
	name, isAdvanced, err := resolver.Split(arg)
	if err != nil {
		return err
	}
	to := advanced()
	if v.back || isAdvanced {
		to = native()
	}
	r, err := readRecord(ctx, c, name)
	if err != nil {
		return err
	}
	if r != nil {
		return v.resume(ctx, c, r, to)
	}
	set, err := find(ctx, c, arg, name)
	if err != nil {
		return err
	}
	if to == set.Resource {
		return v.already(set)
	}
	if r, err = v.prepare(ctx, c, set); err != nil {
		return err
	}
	if v.Dry() {
		return v.preview(r)
	}
	if err := r.write(ctx, c, nil); err != nil {
		return err
	}
	return v.execute(ctx, c, r)
}

// resume continues an interrupted migration, if it has the same direction.
func (v *verb) resume(ctx context.Context, c *options.Clients, r *record, to schema.GroupVersionResource) error {
	made := title(r.new, r.to())
	switch {
	case r.to() != to:
		return fmt.Errorf("a migration to %s was interrupted: finish it first, with `%s`", made, commandTo(r.to(), r.new.GetName()))
	case v.Dry():
		return fmt.Errorf("a migration to %s was interrupted: run it without --dry-run to continue, or read the ConfigMap %s", made, r.name)
	}
	v.say("continuing the migration to %s", made)
	return v.execute(ctx, c, r)
}

// find returns the named set, whichever kind it has now: a repeated command names the old kind.
func find(ctx context.Context, c *options.Clients, arg, name string) (*resolver.Set, error) {
	set, err := resolver.FindToChange(ctx, c, arg)
	if missing := (*resolver.Missing)(nil); errors.As(err, &missing) && arg != name {
		if now, elsewhere := resolver.Find(ctx, c, name); elsewhere == nil {
			return now, nil
		}
	}
	return set, err
}

// already reports that there is nothing to do, and how to convert to the other kind.
func (v *verb) already(set *resolver.Set) error {
	if v.ForMachines() {
		set.Object.SetManagedFields(nil)
		return v.Print(set.Object.Object, nil)
	}
	kinds := map[bool]string{true: "an Advanced DaemonSet", false: "a DaemonSet of apps/v1"}
	v.say("%s is %s already: nothing to do (`%s` makes it %s)", title(set.Object, set.Resource), kinds[set.Advanced()],
		commandTo(other(set.Resource), set.Name()), kinds[!set.Advanced()])
	return nil
}

// commandTo returns the command that converts a set to that kind.
func commandTo(kind schema.GroupVersionResource, name string) string {
	command := options.Program + " migrate " + name
	if kind == native() {
		return command + " --back"
	}
	return command
}

// settling is how long a status may be outdated after the end of a rollout, because it is not written immediately.
const settling = 5 * time.Second

// requireRolledOut returns an error for a set that cannot be migrated in its current state.
func (v *verb) requireRolledOut(ctx context.Context, c *options.Clients, set *resolver.Set) error {
	var refused error
	err := until(ctx, min(settling, v.timeout), func() (bool, error) {
		fresh, err := c.Dynamic.Resource(set.Resource).Namespace(set.Namespace()).Get(ctx, set.Name(), metav1.GetOptions{})
		if err != nil {
			return false, options.Explain(err, options.Request{Verb: "get", Resource: set.Resource.GroupResource(), Namespace: set.Namespace(), Name: set.Name()})
		}
		set.Object = fresh
		if err := refusals(fresh, set.String()); err != nil {
			return false, err
		}
		refused = inFlight(fresh, set.String())
		return refused == nil, nil
	})
	if wait.Interrupted(err) && refused != nil {
		return refused
	}
	return err
}

// title returns the name of an object as kubectl writes it.
func title(object *unstructured.Unstructured, kind schema.GroupVersionResource) string {
	return change.Object{Resource: kind, Read: object}.Name()
}

// say prints a step, unless the output is for programs.
func (v *verb) say(format string, args ...any) {
	if !v.ForMachines() {
		// An error while printing does not undo the step.
		_, _ = fmt.Fprintln(v.Out, options.Printable(fmt.Sprintf(format, args...)))
	}
}

// prepare makes all possible checks before the first change.
func (v *verb) prepare(ctx context.Context, c *options.Clients, set *resolver.Set) (*record, error) {
	to := other(set.Resource)
	if to == advanced() && !resolver.Served(c, to) {
		return nil, fmt.Errorf("this cluster has no Advanced DaemonSets (%s is not served): install the CRDs of Everynode first (the chart, or kubectl apply --server-side -f config/kruise)", to.GroupVersion())
	}
	if err := v.requireRolledOut(ctx, c, set); err != nil {
		return nil, err
	}
	t, err := translate(set.Object, to)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", set, err)
	}
	if len(t.lost) > 0 && !v.drop {
		return nil, fmt.Errorf("%s has fields that %s does not have:\n  %s\nremove them first, or use --drop-fields",
			set, to.GroupVersion(), strings.Join(t.lost, "\n  "))
	}
	for _, lost := range t.lost {
		change.Note(v.Options, "left out: %s", lost)
	}
	v.warnInstallers(set)
	r := &record{name: recordPrefix + set.Name(), oldUID: set.Object.GetUID(), old: set.Object, new: t.object}
	switch _, err := get(ctx, c, r, to); {
	case err == nil:
		return nil, fmt.Errorf("there is %s already: delete one of the two, or rename it", title(r.new, to))
	case !apierrors.IsNotFound(err):
		return nil, err
	}
	if v.DryRun == change.DryRunClient {
		return r, nil
	}
	return r, v.ask(ctx, c, r)
}

// warnInstallers names the tools that may recreate the old object.
func (v *verb) warnInstallers(set *resolver.Set) {
	for _, maker := range change.Installers(set.Object) {
		change.Note(v.Options, "%s is managed by %s: change the manifest there too, or the old kind is created again next to the new one", set, maker)
	}
	appliers := change.Appliers(set.Object)
	if _, applied := set.Object.GetAnnotations()[corev1.LastAppliedConfigAnnotation]; applied {
		appliers = append(appliers, "kubectl apply")
	}
	if len(appliers) > 0 {
		change.Note(v.Options, "%s is applied by %s: change the manifest there too, or the next apply creates the old kind again next to the new one", set, strings.Join(appliers, ", "))
	}
}

// ask makes a dry run of each write.
func (v *verb) ask(ctx context.Context, c *options.Clients, r *record) error {
	dry := []string{metav1.DryRunAll}
	if err := r.write(ctx, c, dry); err != nil {
		return err
	}
	if err := remove(ctx, c, r, dry); err != nil {
		return err
	}
	return create(ctx, c, r, dry)
}

// preview prints what would be done, or the new object for programs.
func (v *verb) preview(r *record) error {
	if v.ForMachines() {
		return v.Print(r.new.Object, nil)
	}
	from, to := title(r.old, other(r.to())), title(r.new, r.to())
	s := statusOf(r.old)
	v.say("%s would become %s%s:", from, to, v.Suffix())
	v.say("  1. keep both in the ConfigMap %s, to continue after an interruption", r.name)
	v.say("  2. delete %s without its pods", from)
	v.say("  3. create %s, paused so that nothing is updated", to)
	v.say("  4. wait until the pods of all %d nodes are reported as up to date", s.desired)
	v.say("  5. give it its update strategy, and delete the ConfigMap")
	return nil
}

// execute does the remaining steps.
func (v *verb) execute(ctx context.Context, c *options.Clients, r *record) error {
	_, err := get(ctx, c, r, r.to())
	if apierrors.IsNotFound(err) {
		err = v.replace(ctx, c, r)
	}
	if err != nil {
		return err
	}
	made, err := v.adopted(ctx, c, r)
	if err != nil {
		return err
	}
	wanted, _, _ := unstructured.NestedMap(r.new.Object, "spec", "updateStrategy")
	result, err := change.Patch(ctx, c, change.Request{
		Object: change.Object{Resource: r.to(), Read: made}, Flags: change.Flags{DryRun: change.DryRunNone},
		Edit: func(object *unstructured.Unstructured) error {
			return unstructured.SetNestedMap(object.Object, released(wanted, object), "spec", "updateStrategy")
		},
	})
	if err != nil {
		return err
	}
	if err := r.remove(ctx, c); err != nil {
		return err
	}
	if v.ForMachines() {
		result.Object.SetManagedFields(nil)
		return v.Print(result.Object.Object, nil)
	}
	v.say("%s manages the pods now", title(r.new, r.to()))
	return nil
}

// released returns the final strategy; if an object was paused, paused is set to false.
func released(wanted map[string]any, object *unstructured.Unstructured) map[string]any {
	if _, paused, _ := unstructured.NestedBool(object.Object, "spec", "updateStrategy", "rollingUpdate", "paused"); !paused {
		return wanted
	}
	if _, ok := wanted["rollingUpdate"].(map[string]any); !ok {
		wanted["rollingUpdate"] = map[string]any{}
	}
	wanted["rollingUpdate"].(map[string]any)["paused"] = false
	return wanted
}

// replace deletes the old object, if it still exists, and creates the new one.
func (v *verb) replace(ctx context.Context, c *options.Clients, r *record) error {
	from := other(r.to())
	old, err := get(ctx, c, r, from)
	if err == nil && old.GetUID() != r.oldUID {
		return fmt.Errorf("%s was recreated since the migration began: delete the ConfigMap %s to start again", title(old, from), r.name)
	}
	if err == nil {
		err = v.orphan(ctx, c, r, old)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if err := create(ctx, c, r, nil); err != nil {
		return err
	}
	v.say("%s created", title(r.new, r.to()))
	return nil
}

// orphan deletes the old object and waits until its pods have no owner.
func (v *verb) orphan(ctx context.Context, c *options.Clients, r *record, old *unstructured.Unstructured) error {
	from := other(r.to())
	if old.GetDeletionTimestamp() == nil {
		if err := remove(ctx, c, r, nil); err != nil {
			return err
		}
	}
	err := until(ctx, v.timeout, func() (bool, error) {
		_, err := get(ctx, c, r, from)
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
	if err != nil {
		return unfinished(err, fmt.Sprintf("%s is still being deleted: check that kube-controller-manager runs, because its garbage collector orphans the pods", title(old, from)))
	}
	v.say("%s deleted, its pods stay", title(old, from))
	return nil
}

// adopted waits until the controller of the new object has found all pods to be up to date.
func (v *verb) adopted(ctx context.Context, c *options.Clients, r *record) (*unstructured.Unstructured, error) {
	var made *unstructured.Unstructured
	var s status
	err := until(ctx, v.timeout, func() (bool, error) {
		var err error
		if made, err = get(ctx, c, r, r.to()); err != nil {
			return false, err
		}
		s = statusOf(made)
		kind, _, _ := unstructured.NestedString(r.new.Object, "spec", "updateStrategy", "type")
		return s.observed >= max(made.GetGeneration(), 1) && (s.updated >= s.desired || kind == typeOnDelete), nil
	})
	name := title(r.new, r.to())
	switch {
	case err == nil:
		v.say("the pods of %d of %d nodes are reported as up to date", s.updated, s.desired)
		return made, nil
	case made != nil && s.observed < max(made.GetGeneration(), 1):
		return nil, unfinished(err, fmt.Sprintf("no controller has observed %s yet: check that a controller for %s runs (`%s doctor`). Its pods run. Run the same command again to continue; the old object is in the ConfigMap %s",
			name, r.to().GroupVersion(), options.Program, r.name))
	default:
		return nil, unfinished(err, fmt.Sprintf("of %s, %d of %d nodes are reported as up to date. It is paused, so nothing is restarted: check `%s diff`, and run the same command again to continue",
			name, s.updated, s.desired, options.Program))
	}
}

// every is the polling interval.
const every = 200 * time.Millisecond

// until polls until a condition is met. A request that is in flight at the timeout is not cancelled, so that its result
// is known.
func until(ctx context.Context, timeout time.Duration, met func() (bool, error)) error {
	return wait.PollUntilContextTimeout(ctx, every, timeout, true, func(context.Context) (bool, error) { return met() })
}

// unfinished returns the error for a timeout; other errors are returned unchanged.
func unfinished(err error, text string) error {
	if wait.Interrupted(err) {
		return &options.Exit{Code: options.ExitUnfinished, Err: errors.New(text)}
	}
	return err
}

// get reads an object. Not found is the error of the API server.
func get(ctx context.Context, c *options.Clients, r *record, kind schema.GroupVersionResource) (*unstructured.Unstructured, error) {
	object, err := c.Dynamic.Resource(kind).Namespace(r.new.GetNamespace()).Get(ctx, r.new.GetName(), metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, options.Explain(err, request("get", kind, r))
	}
	return object, err
}

func request(verb string, kind schema.GroupVersionResource, r *record) options.Request {
	return options.Request{Verb: verb, Resource: kind.GroupResource(), Namespace: r.new.GetNamespace(), Name: r.new.GetName()}
}

// remove deletes exactly the old object, without its pods.
func remove(ctx context.Context, c *options.Clients, r *record, dryRun []string) error {
	kind, policy, uid := other(r.to()), metav1.DeletePropagationOrphan, r.oldUID
	err := c.Dynamic.Resource(kind).Namespace(r.new.GetNamespace()).Delete(ctx, r.new.GetName(), metav1.DeleteOptions{
		PropagationPolicy: &policy, Preconditions: &metav1.Preconditions{UID: &uid}, DryRun: dryRun,
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return options.Explain(err, request("delete", kind, r))
}

// create creates the new object, held.
func create(ctx context.Context, c *options.Clients, r *record, dryRun []string) error {
	object := (&translation{object: r.new}).held()
	_, err := c.Dynamic.Resource(r.to()).Namespace(object.GetNamespace()).Create(ctx, object, metav1.CreateOptions{FieldManager: options.FieldManager, DryRun: dryRun})
	if apierrors.IsAlreadyExists(err) && dryRun == nil {
		return nil // another user continues the same migration
	}
	return options.Explain(err, request("create", r.to(), r))
}
