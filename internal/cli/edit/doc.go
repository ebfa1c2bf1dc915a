// SPDX-License-Identifier: Apache-2.0

// Package edit implements the commands that control a rollout: pause, resume, suspend, partition, canary, restart,
// set-image, undo and pre-delete.
//
// Each command makes one patch of one object (package change). The controller of the set decides what follows.
//
// Rule: a change for which the kind of the set has no field, or that would have no effect, is refused with a remedy.
package edit

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"everynode.dev/everynode/api/openyurt"
	"everynode.dev/everynode/internal/cli/change"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/resolver"
)

// Commands returns the commands.
func Commands(o *options.Options) []*cobra.Command {
	return []*cobra.Command{
		newPause(o), newResume(o), newSuspend(o), newPartition(o), newCanary(o), newRestart(o), newSetImage(o), newUndo(o), NewPreDelete(o),
	}
}

// verb is one of the commands.
type verb struct {
	*options.Options
	change.Flags
	// check, if not nil, validates the arguments after the name of the set, and the flags of the command.
	check func(args []string) error
}

// command completes a cobra command. The first argument is the name of the set; run gets the others. The command line
// is validated before the first request.
func (v *verb) command(c *cobra.Command, run func(ctx context.Context, c *options.Clients, set *resolver.Set, args []string) error) *cobra.Command {
	c.Long += "\n\n" + options.ExitText
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := v.Flags.Validate(); err != nil {
			return err
		}
		if v.check != nil {
			if err := v.check(args[1:]); err != nil {
				return err
			}
		}
		clients, err := v.Clients()
		if err != nil {
			return err
		}
		set, err := resolver.FindToChange(cmd.Context(), clients, args[0])
		if err != nil {
			return err
		}
		return run(cmd.Context(), clients, set, args[1:])
	}
	if c.ValidArgsFunction == nil {
		c.ValidArgsFunction = resolver.Complete(v.Options)
	}
	v.Flags.Add(c)
	return c
}

// step is an edit of a set, with the message for its success.
type step struct {
	set  *resolver.Set
	done string
	edit change.Edit
}

// patch makes a step, and prints the result.
func (v *verb) patch(ctx context.Context, c *options.Clients, s step) error {
	object := change.Object{Resource: s.set.Resource, Read: s.set.Object}
	result, err := change.Patch(ctx, c, change.Request{Object: object, Flags: v.Flags, Edit: s.edit})
	if err != nil {
		return err
	}
	return change.Report(v.Options, v.Flags, change.Outcome{Object: object, Result: result, Done: s.done})
}

// note prints additional information for the user.
func (v *verb) note(format string, args ...any) { change.Note(v.Options, format, args...) }

// The fields of a rolling update.
const (
	fieldPaused    = "paused"
	fieldPartition = "partition"
	fieldSelector  = "selector"
)

// rolling returns the path of a field of the rolling update.
func rolling(field string) []string {
	return []string{"spec", "updateStrategy", "rollingUpdate", field}
}

const onDelete = "OnDelete"

// strategyOf returns the type of the update strategy of a set; the default is RollingUpdate.
func strategyOf(set *unstructured.Unstructured) string {
	kind, _, _ := unstructured.NestedString(set.Object, "spec", "updateStrategy", "type")
	return kind
}

// requireRolling returns an error for a set that has no such field, or for which it has no effect.
func requireRolling(set *resolver.Set, what string) error {
	switch {
	case !set.Advanced():
		return fmt.Errorf("%s is of apps/v1, which has no field to %s: convert it to an Advanced DaemonSet with `%s migrate %s`, which restarts no pod",
			set, what, options.Program, set)
	case strategyOf(set.Object) == onDelete:
		return fmt.Errorf("%s has the update strategy OnDelete, with which a node is updated only when its pod is deleted, so it is not possible to %s: "+
			"set spec.updateStrategy.type to RollingUpdate first", set, what)
	}
	return nil
}

// warnHeldBack prints why a new template is not rolled out to all nodes, as far as the set shows it.
func (v *verb) warnHeldBack(s *resolver.Set) {
	set := s.Object
	if strategyOf(set) == onDelete {
		v.onDelete(s)
		return
	}
	if !s.Advanced() {
		return
	}
	v.warnPaused(s)
	v.warnPartition(s)
	v.warnCanary(s)
}

// onDelete prints when the nodes of a set with the strategy OnDelete are updated. An OpenYurt annotation of a DaemonSet
// of apps/v1 can change that.
func (v *verb) onDelete(s *resolver.Set) {
	strategy := openyurt.Strategy("")
	if !s.Advanced() {
		strategy, _ = openyurt.ParseStrategy(s.Object.GetAnnotations()[openyurt.UpdateStrategy])
	}
	switch {
	case strategy == openyurt.AdvancedRollingUpdate: // it is rolled out
	case strategy == openyurt.OTA:
		v.note("the update strategy is %s: a node is updated when its owner, or `%s ota upgrade`, upgrades its pod", strategy, options.Program)
	case s.Advanced():
		v.note("the update strategy is OnDelete: a node is updated when its pod is deleted")
	default:
		v.note("the update strategy is OnDelete: a node is updated when its pod is deleted, by a user or, with the dialect policy, by a rollout policy")
	}
}

// holds reports whether the pause or the partition of a set still holds nodes back.
func holds(s *resolver.Set) bool {
	paused, _, _ := unstructured.NestedBool(s.Object.Object, rolling(fieldPaused)...)
	return paused || partitionOf(s) != ""
}

// partitionOf returns the partition of a set as text, or "" if it holds no nodes back.
func partitionOf(s *resolver.Set) string {
	partition, ok, _ := unstructured.NestedFieldNoCopy(s.Object.Object, rolling(fieldPartition)...)
	text := fmt.Sprint(partition)
	if !ok || partition == nil || text == "0" || text == "0%" {
		return ""
	}
	return text
}

// warnPartition prints that a partition holds nodes back.
func (v *verb) warnPartition(s *resolver.Set) {
	if partition := partitionOf(s); partition != "" {
		v.note("the partition is %s: at that many nodes the old pod stays", partition)
	}
}

// warnCanary prints that only some nodes are updated.
func (v *verb) warnCanary(s *resolver.Set) {
	set := s.Object
	if selector, ok, _ := unstructured.NestedMap(set.Object, rolling(fieldSelector)...); ok && len(selector) > 0 {
		v.note("it is a canary: only nodes that match %s are updated", describe(selector))
	}
}

// warnPaused prints that a set is paused.
func (v *verb) warnPaused(s *resolver.Set) {
	if paused, _, _ := unstructured.NestedBool(s.Object.Object, rolling(fieldPaused)...); paused {
		v.note("it is paused: no node is updated before `%s resume %s`", options.Program, s)
	}
}

// lines joins the lines of a help text.
func lines(all ...string) string { return strings.Join(all, "\n") }
