// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"strings"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"everynode.dev/everynode/internal/testing/fakecluster"
)

// Errors on the page name the fields of its form, and no flags of the command line.
func TestErrorsNameTheFieldsOfTheForm(t *testing.T) {
	for want, flags := range map[string]map[string]string{
		`Partition "xx": write a number of nodes`: {"partition": "xx"},
		"Image":                                {"image": "nothing"},
		"reading the policy in Rollout policy": {policyFlag: "apiVersion: everynode.dev/v1alpha1\nkind: RolloutPolicy\nmetadata: {name: waves}\nspec: {wavez: []}"},
	} {
		a := &toApply{window: open(t, fakecluster.New(t, roll().Objects(t)...)), request: map[string]any{"verb": "plan", "namespace": "default", "set": "ads/agent", "flags": flags}}
		if got := a.post(t, verbPath).Error; !strings.Contains(got, want) || strings.Contains(got, "--") || strings.Contains(got, "standard input") {
			t.Errorf("%v: %s", flags, got)
		}
	}
}

// A page cannot name another cluster: the error about an API server that does not answer does not advise that.
func TestAnAPIServerThatDoesNotAnswer(t *testing.T) {
	cluster := fakecluster.New(t, roll().Objects(t)...)
	cluster.Kubernetes.PrependReactor("list", "events", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, syscall.ECONNREFUSED })
	page := open(t, cluster).page("/api/set"+setQuery, "details")
	if got := part[details](t, page, "details").Errors; len(got) != 1 || got[0] != "list events in namespace default: connection refused (the API server does not answer; the page tries again)" {
		t.Errorf("%q", got)
	}
}
