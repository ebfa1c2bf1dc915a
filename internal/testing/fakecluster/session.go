// SPDX-License-Identifier: Apache-2.0

package fakecluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/internal/cli/options"
)

// Session runs command lines one after the other, and returns the visible output and the requests.
func (c *Cluster) Session(tb testing.TB, root func(*options.Options) *cobra.Command, lines ...string) string {
	tb.Helper()
	c.HonourDryRun(tb)
	var text strings.Builder
	for _, line := range lines {
		c.again()
		err := c.Run(tb, root, words(line)...)
		fmt.Fprintf(&text, "$ kubectl everynode %s\n%s%s", line, c.Out, c.Err)
		if err != nil {
			fmt.Fprintf(&text, "error: %v (code %d)\n", err, options.Code(err))
		}
		for _, action := range slices.Concat(c.Dynamic.Actions(), c.Kubernetes.Actions()) {
			if sent := writes(action); sent != "" {
				fmt.Fprintf(&text, "-> %s\n", sent)
			}
		}
		text.WriteByte('\n')
	}
	return text.String()
}

// again makes everything ready for the next command: flags keep nothing of the one before.
func (c *Cluster) again() {
	c.Out.Reset()
	c.Err.Reset()
	c.Dynamic.ClearActions()
	c.Kubernetes.ClearActions()
	next := options.New(c.Options.IOStreams)
	next.Version, next.Now, next.After, next.Getenv, next.Given = c.Options.Version, c.Options.Now, c.Options.After, c.Options.Getenv, c.Options.Given
	c.Options = next
}

// words splits a line at blanks, but not within quotes.
func words(line string) []string {
	var all []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			all = append(all, part)
		} else {
			all = append(all, strings.Fields(part)...)
		}
	}
	return all
}

// writes describes a request that changes something; it is empty for all others.
func writes(action clienttesting.Action) string {
	what := action.GetVerb() + " " + action.GetResource().Resource
	if action.GetSubresource() != "" {
		what += "/" + action.GetSubresource()
	}
	switch a := action.(type) {
	case clienttesting.PatchActionImpl:
		return fmt.Sprintf("%s %s by %s%s: %s", what, a.Name, a.PatchOptions.FieldManager, dry(a.PatchOptions.DryRun), a.Patch)
	case clienttesting.DeleteActionImpl:
		o := a.DeleteOptions
		if o.PropagationPolicy != nil {
			what += " " + string(*o.PropagationPolicy)
		}
		if o.Preconditions != nil && o.Preconditions.UID != nil {
			what += " only " + string(*o.Preconditions.UID)
		}
		return what + " " + a.Name + dry(o.DryRun)
	case clienttesting.CreateActionImpl:
		return fmt.Sprintf("%s by %s%s:\n%s", what, a.CreateOptions.FieldManager, dry(a.CreateOptions.DryRun), written(a.Object))
	case clienttesting.UpdateActionImpl:
		return fmt.Sprintf("%s by %s%s:\n%s", what, a.UpdateOptions.FieldManager, dry(a.UpdateOptions.DryRun), written(a.Object))
	}
	return ""
}

func dry(run []string) string {
	if len(run) == 0 {
		return ""
	}
	return " (dry run)"
}

// longest is how much of an object is written out.
const longest = 2500

func written(object runtime.Object) string {
	var content any = object
	if u, ok := object.(*unstructured.Unstructured); ok {
		content = u.Object
	}
	data, err := yaml.Marshal(content)
	if err != nil {
		return err.Error()
	}
	text := strings.TrimRight(string(data), "\n")
	if len(text) > longest {
		text = text[:longest] + "…"
	}
	return "   " + strings.ReplaceAll(text, "\n", "\n   ")
}

// HonourDryRun makes dry-run requests change nothing; the fake clients of client-go do not support dry runs.
func (c *Cluster) HonourDryRun(tb testing.TB) {
	tb.Helper()
	for _, side := range []struct {
		prepend func(verb, resource string, reaction clienttesting.ReactionFunc)
		tracker clienttesting.ObjectTracker
	}{{c.Dynamic.PrependReactor, c.Dynamic.Tracker()}, {c.Kubernetes.PrependReactor, c.Kubernetes.Tracker()}} {
		side.prepend("patch", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
			a := action.(clienttesting.PatchActionImpl)
			if len(a.PatchOptions.DryRun) == 0 {
				return false, nil, nil
			}
			before, err := side.tracker.Get(a.Resource, a.Namespace, a.Name)
			if err != nil {
				return true, nil, err
			}
			aside := clienttesting.NewObjectTracker(runtime.NewScheme(), serializer.NewCodecFactory(runtime.NewScheme()).UniversalDecoder()) // no watch sees what happens in it
			if err := aside.Create(a.Resource, before.DeepCopyObject(), a.Namespace); err != nil {
				return true, nil, err
			}
			return clienttesting.ObjectReaction(aside)(action)
		})
		side.prepend("delete", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
			a := action.(clienttesting.DeleteActionImpl)
			return slices.Equal(a.DeleteOptions.DryRun, []string{metav1.DryRunAll}), nil, nil
		})
		side.prepend("create", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
			a := action.(clienttesting.CreateActionImpl)
			return slices.Equal(a.CreateOptions.DryRun, []string{metav1.DryRunAll}), a.Object, nil
		})
		side.prepend("update", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
			a := action.(clienttesting.UpdateActionImpl)
			return slices.Equal(a.UpdateOptions.DryRun, []string{metav1.DryRunAll}), a.Object, nil
		})
	}
}
