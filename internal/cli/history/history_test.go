// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"everynode.dev/everynode/internal/cli/history"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing them")

func both(o *options.Options) *cobra.Command {
	root := &cobra.Command{Use: options.Program, SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(history.New(o), history.NewDiff(o))
	o.AddFlags(root)
	return root
}

func roll(advanced bool) fakecluster.Roll {
	return fakecluster.Roll{Name: "agent", Advanced: advanced, Letters: "uoot"}
}

func TestScreens(t *testing.T) {
	unwritten := roll(false)
	unwritten.Spec = map[string]any{"template": unwritten.Template("registry.example/agent:3")}
	for name, c := range map[string]struct {
		roll fakecluster.Roll
		line string
	}{
		"native":       {roll(false), "history agent"},
		"advanced":     {roll(true), "history ads/agent -o wide"},
		"json":         {roll(false), "history agent -o json"},
		"unwritten":    {unwritten, "history agent"},
		"revision":     {roll(true), "history agent --revision 1"},
		"diff":         {roll(false), "diff agent 1 2"},
		"diff-now":     {roll(true), "diff ads/agent " + fakecluster.OldHash},
		"diff-nothing": {roll(true), "diff agent 2 now"},
		"diff-yaml":    {roll(true), "diff agent 1 2 -o yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := fakecluster.New(t, c.roll.Objects(t)...)
			if err := cluster.Run(t, both, strings.Fields(c.line)...); err != nil {
				t.Fatal(err)
			}
			fakecluster.Golden(t, *update, name+".txt", cluster.Out.String())
		})
	}
}

func TestRefusals(t *testing.T) {
	for line, want := range map[string]struct {
		code int
		says string
	}{
		"history agent --revision 7": {options.ExitError, "daemonset/agent has no revision 7: it has 1, 2"},
		"history agent --revision 0": {options.ExitUsage, "--revision is 0: use a number of the history"},
		"diff agent 1 x":             {options.ExitError, "daemonset/agent has no revision x: it has 1, 2"},
		"diff agent 1 99":            {options.ExitError, "daemonset/agent has no revision 99: it has 1, 2"},
	} {
		err := fakecluster.New(t, roll(false).Objects(t)...).Run(t, both, strings.Fields(line)...)
		if options.Code(err) != want.code || err.Error() != want.says {
			t.Errorf("%s: %v (code %d), want %s", line, err, options.Code(err), want.says)
		}
	}
}

// Revisions alone are enough for the history; who may not read these either is told so.
func TestMissingRights(t *testing.T) {
	cluster := fakecluster.New(t, roll(false).Objects(t)...)
	forbid := func(resource schema.GroupResource) {
		cluster.Kubernetes.PrependReactor("list", resource.Resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(resource, "", nil)
		})
	}
	forbid(schema.GroupResource{Resource: "pods"})
	if err := cluster.Run(t, both, "history", "agent"); err != nil || !strings.Contains(cluster.Out.String(), "?") {
		t.Errorf("%v: %s", err, cluster.Out)
	}
	forbid(schema.GroupResource{Group: "apps", Resource: "controllerrevisions"})
	err := cluster.Run(t, both, "history", "agent")
	if want := `you are not allowed to list controllerrevisions.apps in namespace default: ask for the verb "list"`; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v", err)
	}
}

func TestCompletion(t *testing.T) {
	for line, want := range map[string][]string{
		"__complete history ":                  {"agent", "daemonset/agent"},
		"__complete history agent --revision ": {"2", "1"},
		"__complete diff agent ":               {"2", "1", "now"},
		"__complete diff agent 1 ":             {"2", "1", "now"},
		"__complete diff agent 1 2 ":           nil,
	} {
		cluster := fakecluster.New(t, roll(false).Objects(t)...)
		words := append(strings.Fields(line), "")
		if err := cluster.Run(t, both, words...); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(cluster.Out.String(), "\n")
		got := lines[:slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, ":") })]
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
