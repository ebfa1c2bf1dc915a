// SPDX-License-Identifier: Apache-2.0

package edit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/pub"
	"everynode.dev/everynode/internal/cli/change"
	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/podselector"
	"everynode.dev/everynode/internal/cli/resolver"
)

// NewPreDelete returns the command pre-delete.
func NewPreDelete(o *options.Options) *cobra.Command {
	c := &cobra.Command{
		Use:   "pre-delete",
		Short: "Show and release pods that wait for the hook lifecycle.preDelete",
		Long: lines("Show and release pods that wait for the hook spec.lifecycle.preDelete of an Advanced DaemonSet.",
			"", "Such a pod is about to be deleted, has the label "+kruise.LifecycleState+"="+kruise.LifecyclePreparingDelete+", and waits as long as",
			"it has a label or a finalizer that the hook names. Normally the controller that the hook belongs to removes it; use these verbs when it does not.",
			"", options.ExitText),
		Example: lines("  # Which pods wait for what?", "  kubectl everynode pre-delete list", "",
			"  # Release the pod of one node", "  kubectl everynode pre-delete release node-0002"),
		Args: options.Arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(newHookList(o), newHookRelease(o))
	return c
}

func newHookList(o *options.Options) *cobra.Command {
	everywhere := false
	c := &cobra.Command{
		Use:     "list [ads/NAME] [NODE|POD]...",
		Short:   "Show which pods wait for a hook, and what holds them",
		Long:    lines("Show which pods wait for a hook, and what holds them.", "", options.ExitText),
		Example: lines("  kubectl everynode pre-delete list", "", "  kubectl everynode pre-delete list ads/agent -o json"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := o.Clients()
			if err != nil {
				return err
			}
			found, err := findHeld(cmd.Context(), c, asked{args: args, everywhere: everywhere})
			if err == nil {
				err = found.unmet(true)
			}
			if err != nil {
				return err
			}
			return o.Print(rowsOf(found.held), func(w io.Writer) error { return heldTable(w, o.Now(), found.held, everywhere) })
		},
		ValidArgsFunction: podselector.Complete(o, true),
	}
	c.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "Look in all namespaces.")
	return c
}

func newHookRelease(o *options.Options) *cobra.Command {
	v, all := &verb{Options: o}, false
	c := &cobra.Command{
		Use:   "release NODE|POD...|--all [ads/NAME]",
		Short: "Release pods that wait for a hook",
		Long: lines("Release pods that wait for a hook: removes the labels and finalizers that the hook names. Then the controller deletes the pods.",
			"The work that the hook waits for is not done. ads/NAME limits the command to one set.", "", options.ExitText),
		Example: lines("  # Release the pod of one node", "  kubectl everynode pre-delete release node-0002", "",
			"  # Release all waiting pods of a set", "  kubectl everynode pre-delete release --all ads/agent"),
		Args: func(_ *cobra.Command, args []string) error {
			if !all && len(args) == 0 {
				return errors.New("release needs nodes or pods, or --all")
			}
			return podselector.NotBoth(all, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := v.Flags.Validate(); err != nil {
				return err
			}
			c, err := o.Clients()
			if err != nil {
				return err
			}
			return v.release(cmd.Context(), c, args, all)
		},
		ValidArgsFunction: podselector.Complete(o, true),
	}
	c.Flags().BoolVar(&all, "all", false, "All pods that wait.")
	v.Flags.Add(c)
	return c
}

// heldPod is a pod that waits for a hook.
type heldPod struct {
	set *resolver.Set
	pod *corev1.Pod
	inspect.Hold
}

// hooks is the result of a search.
type hooks struct {
	words podselector.Selection
	held  []heldPod
	// free are the named pods that do not wait.
	free []*corev1.Pod
}

// asked defines what is searched; all reports whether all pods are selected, so that arguments may not name nodes and
// pods.
type asked struct {
	args            []string
	everywhere, all bool
}

func findHeld(ctx context.Context, c *options.Clients, a asked) (*hooks, error) {
	words, err := podselector.Parse(a.args)
	if err != nil {
		return nil, err
	}
	sets, err := words.Sets(ctx, c, a.everywhere)
	if err != nil {
		return nil, err
	}
	if words, sets, err = words.Narrow(ctx, c, sets, a.all); err != nil {
		return nil, err
	}
	if words.Set != "" && !sets[0].Advanced() {
		return nil, fmt.Errorf("%s is of apps/v1, which has no hooks: only an Advanced DaemonSet has lifecycle.preDelete", sets[0])
	}
	found := &hooks{words: words}
	for _, set := range sets {
		hook, err := inspect.HookOf(set)
		if err != nil {
			return nil, err
		}
		if hook == nil && words.Empty() {
			continue
		}
		pods, err := podselector.PodsOf(ctx, c, set)
		if err != nil {
			return nil, err
		}
		for _, pod := range pods {
			if _, meant := words.Matches(pod); meant {
				found.add(set, pod, hook)
			}
		}
	}
	return found, nil
}

// PodsFlag is the key of the pods in options.Options.Exact, separated by commas: pre-delete release takes them as arguments.
const PodsFlag = "pods"

// pods are the names of the pods that wait.
func (h *hooks) pods() string {
	var names []string
	for i := range h.held {
		names = append(names, h.held[i].pod.Name)
	}
	return strings.Join(names, ",")
}

// add adds a pod.
func (h *hooks) add(set *resolver.Set, pod *corev1.Pod, hook *pub.LifecycleHook) {
	hold := inspect.HoldOf(hook, pod)
	if hold.Empty() {
		h.free = append(h.free, pod)
		return
	}
	h.held = append(h.held, heldPod{set, pod, hold})
}

// unmet returns an error for each argument without a waiting pod; with mayBeFree, pods that do not wait are accepted.
func (h *hooks) unmet(mayBeFree bool) error {
	waits, runs := map[string]bool{}, map[string]*corev1.Pod{}
	for _, one := range h.held {
		word, _ := h.words.Matches(one.pod)
		waits[word] = true
	}
	for _, pod := range h.free {
		word, _ := h.words.Matches(pod)
		runs[word] = pod
	}
	var errs []error
	for _, word := range h.words.Names() {
		switch pod := runs[word]; {
		case waits[word], pod != nil && mayBeFree:
		case pod != nil && strings.TrimPrefix(word, "pod/") != pod.Name:
			errs = append(errs, fmt.Errorf("%s: no pod on this node waits for a hook", word))
		case pod != nil:
			errs = append(errs, fmt.Errorf("%s: pod %s on node %s does not wait for a hook", word, pod.Name, pod.Spec.NodeName))
		default:
			errs = append(errs, fmt.Errorf("%s: there is no such node with a pod of a set, and no such pod: see `%s pre-delete list`", word, options.Program))
		}
	}
	return errors.Join(errs...)
}

// release removes what holds the named pods. If one of the names is not found, no pod is released.
func (v *verb) release(ctx context.Context, c *options.Clients, args []string, all bool) error {
	found, err := findHeld(ctx, c, asked{args: args, all: all})
	if err != nil {
		return err
	}
	if found.words.Empty() && !all {
		return options.Usagef("release needs nodes or pods, or --all for all pods that wait")
	}
	if err := found.unmet(false); err != nil {
		return err
	}
	if len(found.held) == 0 {
		v.note("no pod waits for a hook")
		return change.Report(v.Options, v.Flags)
	}
	var outcomes []change.Outcome
	var errs []error
	v.Exactly(PodsFlag, found.pods())
	for i := range found.held {
		outcome, err := v.releaseOne(ctx, c, &found.held[i])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		outcomes = append(outcomes, outcome)
	}
	if len(outcomes) > 0 {
		errs = append(errs, change.Report(v.Options, v.Flags, outcomes...))
	}
	return errors.Join(errs...)
}

func (v *verb) releaseOne(ctx context.Context, c *options.Clients, one *heldPod) (change.Outcome, error) {
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(one.pod)
	if err != nil {
		return change.Outcome{}, fmt.Errorf("encoding pod %s: %w", one.pod.Name, err)
	}
	object := change.Object{Resource: corev1.SchemeGroupVersion.WithResource("pods"), Read: &unstructured.Unstructured{Object: raw}}
	object.Read.SetAPIVersion("v1")
	object.Read.SetKind("Pod")
	result, err := change.Patch(ctx, c, change.Request{Object: object, Flags: v.Flags, Edit: func(pod *unstructured.Unstructured) error {
		labels := pod.GetLabels()
		maps.DeleteFunc(labels, func(key, value string) bool { held, ok := one.Labels[key]; return ok && held == value })
		pod.SetLabels(labels)
		pod.SetFinalizers(slices.DeleteFunc(pod.GetFinalizers(), func(name string) bool { return slices.Contains(one.Finalizers, name) }))
		return nil
	}})
	return change.Outcome{Object: object, Result: result, Done: "on " + one.pod.Spec.NodeName + " released: removed " + one.Hold.String()}, err
}

// heldRow is a waiting pod, for machine-readable output.
type heldRow struct {
	Namespace  string            `json:"namespace"`
	Set        string            `json:"set"`
	Node       string            `json:"node"`
	Pod        string            `json:"pod"`
	Since      string            `json:"since,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	Finalizers []string          `json:"finalizers,omitempty"`
}

func rowsOf(held []heldPod) []heldRow {
	rows := []heldRow{}
	for _, h := range held {
		rows = append(rows, heldRow{
			Namespace: h.pod.Namespace, Set: h.set.String(), Node: h.pod.Spec.NodeName, Pod: h.pod.Name,
			Since: h.pod.Annotations[kruise.LifecycleTimestamp], Labels: h.Labels, Finalizers: h.Finalizers,
		})
	}
	return rows
}

func heldTable(w io.Writer, now time.Time, held []heldPod, everywhere bool) error {
	if len(held) == 0 {
		_, err := fmt.Fprintln(w, "No pod waits for a hook.")
		return err
	}
	rows := [][]string{{"SET", "NODE", "POD", "SINCE", "HELD BY"}}
	for _, row := range rowsOf(held) {
		rows = append(rows, []string{row.Set, row.Node, row.Pod, age(now, row.Since), ""})
	}
	for i := range held {
		rows[i+1][4] = held[i].Hold.String()
	}
	if everywhere {
		rows[0] = append([]string{"NAMESPACE"}, rows[0]...)
		for i := range held {
			rows[i+1] = append([]string{held[i].pod.Namespace}, rows[i+1]...)
		}
	}
	return options.Columns(w, rows)
}

// age returns the time since the timestamp of an annotation: a dash if there is none, the text itself if it is invalid.
func age(now time.Time, since string) string {
	if since == "" {
		return "-"
	}
	at, err := time.Parse(time.RFC3339, since)
	if err != nil {
		return since
	}
	return inspect.Age(now.Sub(at))
}
