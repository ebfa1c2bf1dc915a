// SPDX-License-Identifier: Apache-2.0

package edit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/resolver"
	"everynode.dev/everynode/internal/dialect/kruise"
)

// restartedAt is the template annotation of kubectl rollout restart.
const restartedAt = "kubectl.kubernetes.io/restartedAt"

const inPlace = string(v1beta1.InplaceRollingUpdateType)

// restart is the command with its flags.
type restart struct {
	*verb
	inPlace    bool
	containers []string
}

func newRestart(o *options.Options) *cobra.Command {
	v := &restart{verb: &verb{Options: o}}
	v.check = func([]string) error {
		if len(v.containers) > 0 && !v.inPlace {
			return options.Usagef("--container restarts single containers, which is possible only in place: add --in-place")
		}
		return nil
	}
	c := v.command(&cobra.Command{
		Use:   "restart NAME",
		Short: "Restart all pods, as an update would",
		Long: lines("Restart all pods as an update would: within the budget, and unless a pause, a partition, a canary or a rollout policy holds the update back.",
			"", "It recreates the pods: it sets the annotation "+restartedAt+" of the template, as kubectl rollout restart does.",
			"", "With --in-place the pods stay, with their addresses and volumes: the agent of each node stops the containers, and the kubelet starts them again.",
			"It sets the annotation "+everynode.RestartedAt+" of the template. If no agent has stopped the containers 30 seconds after they should have",
			"ended, the pod is recreated. The set must be updated in place ("+inPlace+"), and undo does not restart the containers again."),
		Example: lines("  # Recreate all pods of agent", "  kubectl everynode restart agent", "",
			"  # Restart one container in each pod, and keep the pods", "  kubectl everynode restart ads/agent --in-place --container agent"),
		Args: options.Arguments(1, resolver.Argument("NAME")),
	}, func(ctx context.Context, c *options.Clients, set *resolver.Set, _ []string) error {
		change, err := v.recreate(set), v.refuse(set)
		if v.inPlace {
			change = v.inTemplate(set)
		}
		if err == nil {
			err = v.patch(ctx, c, change)
		}
		if err == nil {
			v.warnHeldBack(set)
		}
		return err
	})
	c.Flags().BoolVar(&v.inPlace, "in-place", false, "Restart the containers and keep the pods.")
	c.Flags().StringArrayVar(&v.containers, "container", nil, "With --in-place: a container to restart. It can be repeated. The default is all containers and sidecars.")
	if err := c.RegisterFlagCompletionFunc("container", v.completeRestartable); err != nil {
		panic(err) // the flag does not exist: every test that creates a command finds this
	}
	return c
}

// completeRestartable completes the containers that can be restarted in place.
func (v *restart) completeRestartable(cmd *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if c, err := v.Clients(); err == nil {
		if set, err := resolver.Find(cmd.Context(), c, args[0]); err == nil {
			for _, one := range longRunning(set.Object) {
				if kruise.Restartable(one) {
					names = append(names, one.Name)
				}
			}
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// refuse returns why a set cannot be restarted in the requested way; nil if it can.
func (v *restart) refuse(set *resolver.Set) error {
	kind, _, _ := unstructured.NestedString(set.Object.Object, rolling("rollingUpdateType")...)
	changes := set.Advanced() && kind == inPlace && strategyOf(set.Object) != onDelete
	switch {
	case !v.inPlace && changes:
		return fmt.Errorf("%s is updated in place (%s), so its pods would get the restart annotation without a restart: "+
			"restart its containers with --in-place, or set spec.updateStrategy.rollingUpdate.rollingUpdateType to Standard first", set, inPlace)
	case !v.inPlace:
		return nil
	case !set.Advanced():
		return fmt.Errorf("%s is of apps/v1, of which no pod can be changed in place: leave --in-place out, or convert it to an Advanced DaemonSet with `%s migrate %s`",
			set, options.Program, set)
	case strategyOf(set.Object) == onDelete:
		return fmt.Errorf("%s has the update strategy OnDelete, with which a node is updated only when its pod is deleted: set spec.updateStrategy.type to RollingUpdate first", set)
	case !changes:
		return fmt.Errorf("%s is not updated in place: set spec.updateStrategy.rollingUpdate.rollingUpdateType to %s first, or leave --in-place out", set, inPlace)
	}
	return v.refuseContainers(set)
}

// refuseContainers returns why the containers of a set cannot be restarted; nil if they can.
func (v *restart) refuseContainers(set *resolver.Set) error {
	all := longRunning(set.Object)
	var names []string
	for _, c := range all {
		names = append(names, c.Name)
		if (len(v.containers) == 0 || slices.Contains(v.containers, c.Name)) && !kruise.Restartable(c) {
			return fmt.Errorf("container %s of %s has a preStop hook, which only the kubelet runs, or its own restart policy: restart other containers with --container, "+
				"or set spec.updateStrategy.rollingUpdate.rollingUpdateType to Standard and leave --in-place out", c.Name, set)
		}
	}
	for _, name := range v.containers {
		if !slices.Contains(names, name) {
			return options.Usagef("%s has no container %s that can be restarted: it has %s", set, name, strings.Join(names, ", "))
		}
	}
	return nil
}

// longRunning returns the containers and sidecars of a template; none if it cannot be read.
func longRunning(set *unstructured.Unstructured) []*corev1.Container {
	fields, _, _ := unstructured.NestedMap(set.Object, "spec", "template", "spec")
	spec := &corev1.PodSpec{}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(fields, spec) != nil {
		return nil
	}
	return slices.Collect(kruise.LongRunning(spec))
}

// recreate is the change that recreates all pods.
func (v *restart) recreate(set *resolver.Set) step {
	now := v.Now().UTC().Format(time.RFC3339)
	return step{set, "restarted", func(object *unstructured.Unstructured) error {
		return unstructured.SetNestedField(object.Object, now, "spec", "template", "metadata", "annotations", restartedAt)
	}}
}

// inTemplate returns the change that restarts containers in place. The time of a restart is later than that
// of the previous one, even if another clock has recorded it.
func (v *restart) inTemplate(set *resolver.Set) step {
	return step{set, "restarted in place", func(object *unstructured.Unstructured) error {
		annotations, _, err := unstructured.NestedStringMap(object.Object, "spec", "template", "metadata", "annotations")
		if err != nil {
			return fmt.Errorf("%s: reading the annotations of the template: %w", set, err)
		}
		if annotations == nil {
			annotations = map[string]string{}
		}
		now := v.Now().UTC().Truncate(time.Second)
		if last, err := time.Parse(time.RFC3339, annotations[everynode.RestartedAt]); err == nil && !now.After(last) {
			now = last.UTC().Add(time.Second)
		}
		annotations[everynode.RestartedAt] = now.Format(time.RFC3339)
		delete(annotations, everynode.RestartedContainers)
		if len(v.containers) > 0 {
			annotations[everynode.RestartedContainers] = strings.Join(v.containers, ",")
		}
		return unstructured.SetNestedStringMap(object.Object, annotations, "spec", "template", "metadata", "annotations")
	}}
}
