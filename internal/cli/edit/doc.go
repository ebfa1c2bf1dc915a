// SPDX-License-Identifier: Apache-2.0

// Package edit holds the verbs that steer a rollout: pause, resume, partition, canary, restart, set-image, undo and pre-delete.
//
// Each is one ordinary patch of one object (package change). What happens then is what the controller of the set decides.
//
// Rule: what a kind of set has no field for, or has no effect as the set is, is refused with the remedy.
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

// Commands are the verbs.
func Commands(o *options.Options) []*cobra.Command {
	return []*cobra.Command{
		newPause(o), newResume(o), newPartition(o), newCanary(o), newRestart(o), newSetImage(o), newUndo(o), NewPreDelete(o),
	}
}

// verb is one of them.
type verb struct {
	*options.Options
	change.Flags
	// check, where there is one, says what is wrong with the arguments behind the name of the set, and with the flags of the verb's own.
	check func(args []string) error
}

// command makes a command of the verb. The first argument names the set; run gets the others. What is wrong with the command line is told
// before the cluster is asked.
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

// step is an edit of a set, and what to say when it is done.
type step struct {
	set  *resolver.Set
	done string
	edit change.Edit
}

// patch makes a step, and prints what was done.
func (v *verb) patch(ctx context.Context, c *options.Clients, s step) error {
	object := change.Object{Resource: s.set.Resource, Read: s.set.Object}
	result, err := change.Patch(ctx, c, change.Request{Object: object, Flags: v.Flags, Edit: s.edit})
	if err != nil {
		return err
	}
	return change.Report(v.Options, v.Flags, change.Outcome{Object: object, Result: result, Done: s.done})
}

// note tells what the user should know besides.
func (v *verb) note(format string, args ...any) { change.Note(v.Options, format, args...) }

// The fields of a rolling update.
const (
	fieldPaused    = "paused"
	fieldPartition = "partition"
	fieldSelector  = "selector"
)

// rolling is the path of a field of the rolling update.
func rolling(field string) []string {
	return []string{"spec", "updateStrategy", "rollingUpdate", field}
}

const onDelete = "OnDelete"

// strategyOf is the type of the update strategy of a set; empty is RollingUpdate.
func strategyOf(set *unstructured.Unstructured) string {
	kind, _, _ := unstructured.NestedString(set.Object, "spec", "updateStrategy", "type")
	return kind
}

// requireRolling refuses a set that has no such field, or for which it means nothing.
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

// warnHeldBack says why a new template does not go to all nodes at once, as far as the set says so itself.
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

// onDelete says who updates the nodes of a set with the strategy OnDelete. An annotation of OpenYurt says more of a DaemonSet of apps/v1.
func (v *verb) onDelete(s *resolver.Set) {
	strategy := openyurt.Strategy("")
	if !s.Advanced() {
		strategy, _ = openyurt.ParseStrategy(s.Object.GetAnnotations()[openyurt.UpdateStrategy])
	}
	switch strategy {
	case openyurt.AdvancedRollingUpdate: // it rolls at once
	case openyurt.OTA:
		v.note("the update strategy is %s: a node is updated when its owner, or `%s ota upgrade`, upgrades its pod", strategy, options.Program)
	default:
		v.note("the update strategy is OnDelete: a node is updated when its pod is deleted")
	}
}

// holds is whether a set that is updated still holds nodes back by its pause or its partition.
func holds(s *resolver.Set) bool {
	paused, _, _ := unstructured.NestedBool(s.Object.Object, rolling(fieldPaused)...)
	return paused || partitionOf(s) != ""
}

// partitionOf is the partition of a set, as text; empty where it holds nothing back.
func partitionOf(s *resolver.Set) string {
	partition, ok, _ := unstructured.NestedFieldNoCopy(s.Object.Object, rolling(fieldPartition)...)
	text := fmt.Sprint(partition)
	if !ok || partition == nil || text == "0" || text == "0%" {
		return ""
	}
	return text
}

// warnPartition says that a partition holds nodes back.
func (v *verb) warnPartition(s *resolver.Set) {
	if partition := partitionOf(s); partition != "" {
		v.note("the partition is %s: at that many nodes the old pod stays", partition)
	}
}

// warnCanary says that only some nodes are updated.
func (v *verb) warnCanary(s *resolver.Set) {
	set := s.Object
	if selector, ok, _ := unstructured.NestedMap(set.Object, rolling(fieldSelector)...); ok && len(selector) > 0 {
		v.note("it is a canary: only nodes that match %s are updated", describe(selector))
	}
}

// warnPaused says that a set is paused.
func (v *verb) warnPaused(s *resolver.Set) {
	if paused, _, _ := unstructured.NestedBool(s.Object.Object, rolling(fieldPaused)...); paused {
		v.note("it is paused: no node is updated before `%s resume %s`", options.Program, s)
	}
}

// lines joins the lines of a text of help.
func lines(all ...string) string { return strings.Join(all, "\n") }
