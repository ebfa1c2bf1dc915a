// SPDX-License-Identifier: Apache-2.0

package resolver_test

import (
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"github.com/spf13/cobra"

	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/resolver"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

func native(name string) runtime.Object {
	return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

func advanced(name string) runtime.Object {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps.kruise.io/v1beta1", "kind": "DaemonSet", "metadata": map[string]any{"namespace": "default", "name": name},
	}}
}

// forbid refuses everything about one group.
func forbid(c *fakecluster.Cluster, group string) {
	c.Dynamic.PrependReactor("*", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if a.GetResource().Group != group {
			return false, nil, nil
		}
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Group: group, Resource: "daemonsets"}, "", nil)
	})
}

func TestFind(t *testing.T) {
	for _, c := range []struct {
		name, arg, want, refusal string
		code                     int
		change                   func(*fakecluster.Cluster)
	}{
		{name: "one of apps/v1", arg: "logs", want: "daemonset/logs"},
		{name: "an advanced one", arg: "proxy", want: "ads/proxy"},
		{name: "a kind", arg: "ds/both", want: "daemonset/both"},
		{name: "the other kind", arg: "daemonset.apps.kruise.io/both", want: "ads/both"},
		{name: "in both kinds", arg: "both", refusal: "write daemonset/both for the one of apps/v1, or ads/both", code: options.ExitUsage},
		{name: "an unknown kind", arg: "deploy/logs", refusal: `"deploy" is not a kind of daemon set: write daemonset/logs`, code: options.ExitUsage},
		{name: "no name", arg: "ds/", refusal: "write NAME, daemonset/NAME or ads/NAME", code: options.ExitUsage},
		{name: "nothing", arg: "none", refusal: "there is neither daemonset/none nor ads/none in namespace default: name another one with -n", code: options.ExitError},
		{name: "of the wrong kind", arg: "ads/logs", refusal: "there is no ads/logs in namespace default", code: options.ExitError},
		{name: "a cluster without Advanced DaemonSets", arg: "logs", want: "daemonset/logs", change: func(c *fakecluster.Cluster) {
			forbid(c.WithoutKruise(), "apps.kruise.io")
		}},
		{name: "an advanced one where there are none", arg: "ads/x", refusal: "this cluster has no Advanced DaemonSets (apps.kruise.io/v1beta1 is not served)",
			code: options.ExitError, change: func(c *fakecluster.Cluster) { c.WithoutKruise() }},
		{name: "no right to the other kind", arg: "logs", want: "daemonset/logs", change: func(c *fakecluster.Cluster) { forbid(c, "apps.kruise.io") }},
		{name: "no right to what is meant", arg: "logs", code: options.ExitError, change: func(c *fakecluster.Cluster) { forbid(c, "apps") },
			refusal: `you are not allowed to get daemonsets.apps default/logs: ask for the verb "get" on "daemonsets.apps", and see whether you have it with: kubectl auth can-i get daemonsets.apps -n default`},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster := fakecluster.New(t, native("logs"), native("both"), advanced("proxy"), advanced("both"))
			if c.change != nil {
				c.change(cluster)
			}
			set, err := resolver.Find(t.Context(), cluster.Options.Given, c.arg)
			switch {
			case err == nil && set.String() != c.want:
				t.Errorf("found %s, want %q", set, c.want)
			case err != nil && (c.refusal == "" || !strings.Contains(err.Error(), c.refusal) || options.Code(err) != c.code):
				t.Errorf("error %q with code %d, want %q with %d", err, options.Code(err), c.refusal, c.code)
			}
		})
	}
}

// A bare name that may mean another set, too: who shows it says so, and who changes it wants to know which.
func TestANameThatMayMeanAnotherSet(t *testing.T) {
	for arg, doubtful := range map[string]bool{"logs": true, "ds/logs": false} {
		cluster := fakecluster.New(t, native("logs"), advanced("logs"))
		forbid(cluster, "apps.kruise.io")
		c := cluster.Options.Given
		if set, err := resolver.FindToRead(t.Context(), cluster.Options, c, arg); err != nil || set.String() != "daemonset/logs" {
			t.Errorf("%s: to read: %v, %v", arg, set, err)
		}
		const note = "Note: this is daemonset/logs; it is not known whether ads/logs also exists: you are not allowed to get daemonsets.apps.kruise.io"
		if got := cluster.Err.String(); strings.HasPrefix(got, note) != doubtful || (got == "") == doubtful {
			t.Errorf("%s: to read: it notes %q", arg, got)
		}
		_, err := resolver.FindToChange(t.Context(), c, arg)
		if (err != nil) != doubtful || err != nil && (options.Code(err) != options.ExitUsage || !strings.Contains(err.Error(), "write daemonset/logs to change that one")) {
			t.Errorf("%s: to change: %v", arg, err)
		}
	}
}

// What no API server has said is said once, with what to do, and not for each kind.
func TestFindSaysOnceThatNobodyListens(t *testing.T) {
	cluster := fakecluster.New(t)
	cluster.Dynamic.PrependReactor("get", "daemonsets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, &url.Error{Op: "Get", URL: "http://x", Err: syscall.ECONNREFUSED}
	})
	_, err := resolver.Find(t.Context(), cluster.Options.Given, "logs")
	if err == nil || strings.Count(err.Error(), "refused") != 1 || !strings.Contains(err.Error(), "name another cluster with --context or --kubeconfig") {
		t.Errorf("got %v", err)
	}
}

func TestListTakesBothKinds(t *testing.T) {
	cluster := fakecluster.New(t, native("logs"), advanced("proxy"))
	var names []string
	sets, err := resolver.List(t.Context(), cluster.Options.Given, true)
	for _, s := range sets {
		names = append(names, s.Title())
	}
	if err != nil || !slices.Equal(names, []string{"default/daemonset/logs", "default/ads/proxy"}) {
		t.Errorf("got %v, %v", names, err)
	}
	sets, err = resolver.List(t.Context(), cluster.WithoutKruise().Options.Given, true)
	if err != nil || len(sets) != 1 {
		t.Errorf("without Advanced DaemonSets: got %v, %v", sets, err)
	}
}

func TestCompleteNames(t *testing.T) {
	cluster := fakecluster.New(t, native("logs"), native("both"), advanced("both"))
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	got, directive := resolver.Complete(cluster.Options)(cmd, nil, "")
	if want := []string{"ads/both", "daemonset/both", "daemonset/logs", "logs"}; !slices.Equal(got, want) || directive != cobra.ShellCompDirectiveNoFileComp {
		t.Errorf("got %v, %v, want %v", got, directive, want)
	}
	if got, _ := resolver.CompleteAdvanced(cluster.Options)(cmd, nil, ""); !slices.Equal(got, []string{"ads/both"}) {
		t.Errorf("Advanced DaemonSets: got %v", got)
	}
	if got, _ := resolver.Complete(cluster.Options)(cmd, []string{"logs"}, ""); got != nil {
		t.Errorf("a second argument was completed: %v", got)
	}
}
