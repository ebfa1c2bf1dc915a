// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/cli/command"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

var update = flag.Bool("update", false, "write the golden files")

const (
	advanced = "apiVersion: apps.kruise.io/v1beta1\nkind: DaemonSet\nmetadata: {name: agent, namespace: default, uid: uid-ads, labels: {tier: agent}}\nspec: {}\n"
	native   = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: plain, namespace: default, uid: uid-ds}\nspec: {}\n"
	other    = "apiVersion: everynode.dev/v1alpha1\nkind: RolloutPolicy\nmetadata: {name: others, namespace: default}\n" +
		"spec: {targets: [{apiVersion: apps.kruise.io/v1beta1, kind: DaemonSet, selector: {matchLabels: {tier: agent}}}]}\n"
)

func TestInit(t *testing.T) {
	c := fakecluster.New(t, fakecluster.Object(t, advanced), fakecluster.Object(t, native))
	text := c.Session(t, command.Root, "policy init agent", "policy init plain --name nights --canary 3 --spread-by node.kubernetes.io/instance-type --percent 25 --soak 90m --approval "+
		"--window '0 22 * * 1-4' --window-duration 6h --time-zone Europe/Berlin", "policy init plain --canary 0 --percent 0 --soak 0s",
		"policy init plain --canary 0 --percent 0 -o json",
		"policy init", "policy init absent", "policy init agent --canary -1", "policy init agent --percent 101", "policy init agent --percent 10 --percent 50", "policy init agent --soak 1m --soak 2m --approval", "policy init agent --soak -1m", "policy init agent --soak 1d", "policy init agent --window '0 22 * * *' --window-duration 1d",
		"policy init agent --canary 0 --approval", "policy init agent --canary 0 --spread-by zone", "policy init agent --time-zone Europe/Berlin",
		"policy init agent --window '0 22 * *'", "policy init agent --window '0 22 * * *' --time-zone Nowhere/Land", "policy init agent --name A_B", "policy what")
	text += fakecluster.New(t, fakecluster.Object(t, advanced), fakecluster.Object(t, other)).Session(t, command.Root, "policy init agent --percent 0")
	onDelete := func(set string) runtime.Object {
		return fakecluster.Object(t, strings.Replace(set, "spec: {}", "spec: {updateStrategy: {type: OnDelete}}", 1))
	}
	text += fakecluster.New(t, onDelete(native), onDelete(advanced)).Session(t, command.Root, "policy init plain --percent 0", "policy init agent --percent 0")
	annotated := strings.NewReplacer("uid: uid-ds}", "uid: uid-ds, annotations: {apps.openyurt.io/update-strategy: OTA}}", "spec: {}", "spec: {updateStrategy: {type: OnDelete}}").Replace(native)
	text += fakecluster.New(t, fakecluster.Object(t, annotated)).Session(t, command.Root, "policy init plain --percent 0")
	on := func(nodes int) runtime.Object {
		return fakecluster.Object(t, fmt.Sprintf("%sstatus: {desiredNumberScheduled: %d}\n", native, nodes))
	}
	text += fakecluster.New(t, on(6)).Session(t, command.Root, "policy init plain", "policy init plain --canary 2 --percent 20", "policy init plain --canary 5", "policy init plain --canary 5 --percent 20")
	text += fakecluster.New(t, on(11)).Session(t, command.Root, "policy init plain")
	fakecluster.Golden(t, *update, "init.txt", text)
}

// What is written can be followed, and applies to the set, without a change by a person.
func TestInitCanBeFollowed(t *testing.T) {
	c := fakecluster.New(t, fakecluster.Object(t, advanced))
	line := "policy init agent --name 123 --canary 2 --approval --soak 1h30m0.5s --window '30 2 * * *' --window-duration 90m --time-zone America/New_York"
	if err := c.Run(t, command.Root, strings.Fields(strings.ReplaceAll(strings.ReplaceAll(line, "'30 2 * * *'", "@daily"), "  ", " "))...); err != nil {
		t.Fatal(err)
	}
	p := &v1alpha1.RolloutPolicy{}
	if err := yaml.UnmarshalStrict(c.Out.Bytes(), p); err != nil {
		t.Fatal(err)
	}
	read := policy.Read(p)
	if len(read.Problems) > 0 || p.Name != "123" || !read.Selects(policy.Set{Advanced: true, Namespace: "default", Name: "agent"}) {
		t.Errorf("%+v", read)
	}
	if w := read.Waves[0]; w.Count != 2 || !w.Approval || w.Soak.String() != "1h30m0.5s" {
		t.Errorf("the canary is %+v", w)
	}
}

// Who may not read policies can still write a new one; that there may be another is said.
func TestInitWithoutTheRightToRead(t *testing.T) {
	c := fakecluster.New(t, fakecluster.Object(t, advanced))
	c.Dynamic.PrependReactor("list", "rolloutpolicies", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(action.GetResource().GroupResource(), "", errors.New(`User "jane" cannot list resource "rolloutpolicies"`))
	})
	err := c.Run(t, command.Root, "policy", "init", "agent")
	if options.Code(err) != options.ExitOK || !strings.Contains(c.Err.String(), `it is not known whether a rollout policy applies to ads/agent: you are not allowed to list`) {
		t.Errorf("%v, it prints %s", err, c.Err)
	}
}

// The samples of the documentation can be followed.
func TestSamples(t *testing.T) {
	files, err := filepath.Glob("../../../docs/samples/policies/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("found %v: %v", files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		documents := strings.Split(string(data), "\n---\n")
		for _, document := range documents {
			p := &v1alpha1.RolloutPolicy{}
			if err := yaml.UnmarshalStrict([]byte(document), p); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			alone := len(documents) == 1
			if problems := policy.Read(p).Problems; len(problems) > 0 || alone && p.Name != strings.TrimSuffix(filepath.Base(file), ".yaml") {
				t.Errorf("%s: %s, %v", file, p.Name, problems)
			}
		}
	}
}
