// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/policies"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// policyWrites answers writes of policies as the API server does, and counts those that it stores.
func policyWrites(s *server) (stored *int) {
	stored = new(int)
	tracker := s.Dynamic.Tracker()
	s.Dynamic.PrependReactor("patch", "rolloutpolicies", func(action clienttesting.Action) (bool, runtime.Object, error) {
		p := action.(clienttesting.PatchActionImpl)
		object, err := tracker.Get(p.GetResource(), p.GetNamespace(), p.GetName())
		if err != nil {
			return true, nil, err
		}
		before, err := object.(*unstructured.Unstructured).MarshalJSON()
		if err != nil {
			return true, nil, err
		}
		after, err := jsonpatch.MergePatch(before, p.GetPatch())
		if err != nil {
			return true, nil, err
		}
		edited := &unstructured.Unstructured{}
		if err := edited.UnmarshalJSON(after); err != nil {
			return true, nil, err
		}
		edited.SetGeneration(edited.GetGeneration() + 1)
		if len(p.PatchOptions.DryRun) > 0 {
			return true, edited, nil
		}
		*stored++
		return true, edited, tracker.Update(p.GetResource(), edited, p.GetNamespace())
	})
	s.Dynamic.PrependReactor("create", "rolloutpolicies", func(action clienttesting.Action) (bool, runtime.Object, error) {
		c := action.(clienttesting.CreateActionImpl)
		object := c.GetObject().(*unstructured.Unstructured)
		if s.forbidden {
			return true, nil, apierrors.NewForbidden(c.GetResource().GroupResource(), object.GetName(), errors.New("no"))
		}
		if len(c.CreateOptions.DryRun) > 0 {
			return true, object, nil
		}
		*stored++
		return true, object, tracker.Create(c.GetResource(), object, c.GetNamespace())
	})
	return stored
}

// edited is the policy that plans of this file are for: it has another wave than the one of the cluster.
const edited = "  waves: [{name: two, nodes: {count: 2}}, {name: rest, nodes: {percent: 100}}]\n"

// TestApplyWithThePolicy: with --with-policy the policy of the plan is stored, and then the set is edited; without it the policy stays as it is. What has changed in
// the meantime is reported, and nothing is stored.
func TestApplyWithThePolicy(t *testing.T) {
	create := func(manifest string) func(*testing.T, *planned) {
		return func(t *testing.T, p *planned) {
			if err := p.Dynamic.Tracker().Create(policies.Resource(), fakecluster.Object(t, manifest), "default"); err != nil {
				t.Fatal(err)
			}
		}
	}
	change := func(edit func(*unstructured.Unstructured)) func(*testing.T, *planned) {
		return func(t *testing.T, p *planned) {
			object, err := p.Dynamic.Tracker().Get(policies.Resource(), "default", "agents")
			if err != nil {
				t.Fatal(err)
			}
			changed := object.(*unstructured.Unstructured).DeepCopy()
			edit(changed)
			if err := p.Dynamic.Tracker().Update(policies.Resource(), changed, "default"); err != nil {
				t.Fatal(err)
			}
		}
	}
	live := func(spec string) string {
		return strings.Replace(policyOf(spec), "uid: uid-policy}", "uid: uid-policy, generation: 4, labels: {own: x}}", 1)
	}
	another := strings.Replace(policyOf(threeWaves), "name: agents", "name: others", 1)
	for name, c := range map[string]struct {
		live   string // the policy of the cluster when the plan is made
		change func(*testing.T, *planned)
		image  bool
		args   string
		sets   int // writes of the set and of the policy that are stored
		stored int
		says   string
	}{
		"created":              {image: true, args: "--with-policy", sets: 1, stored: 1, says: "rolloutpolicy/agents was created\ndefault/ads/agent was edited: generation 3"},
		"edited":               {live: live(threeWaves), image: true, args: "--with-policy", sets: 1, stored: 1, says: "rolloutpolicy/agents was edited: generation 5\n  .spec.waves"},
		"the policy alone":     {live: live(threeWaves), args: "--with-policy", stored: 1, says: "default/ads/agent is unchanged: generation 2"},
		"as it is":             {live: live(edited), image: true, args: "--with-policy", sets: 1, says: "rolloutpolicy/agents is unchanged\n"},
		"without":              {live: live(threeWaves), image: true, sets: 1, says: "default/ads/agent was edited"},
		"tried":                {image: true, args: "--with-policy --dry-run", says: "rolloutpolicy/agents would be created\nthe plan for default/ads/agent is still valid"},
		"tried, edited":        {live: live(threeWaves), args: "--with-policy --dry-run", says: "rolloutpolicy/agents would be edited:\n  .spec.waves"},
		"tried here":           {image: true, args: "--with-policy --dry-run=client", says: "rolloutpolicy/agents would be created"},
		"for programs":         {image: true, args: "--with-policy -o json", sets: 1, stored: 1, says: `"created": true`},
		"changed":              {live: live(threeWaves), change: change(func(u *unstructured.Unstructured) { u.SetGeneration(5) }), args: "--with-policy", says: "rolloutpolicy/agents has been changed (generation 5, not 4)"},
		"made again":           {live: live(threeWaves), change: change(func(u *unstructured.Unstructured) { u.SetUID("z") }), args: "--with-policy", says: "rolloutpolicy/agents was deleted and made again (UID z, not uid-policy)"},
		"made meanwhile":       {change: create(policyOf(threeWaves)), args: "--with-policy", says: "rolloutpolicy/agents applies to the set now, and did not"},
		"made for another set": {change: create(strings.Replace(policyOf(threeWaves), "name: agent}", "name: x}", 1)), args: "--with-policy", says: "rolloutpolicy/agents exists now"},
		"a second one":         {live: another, args: "--with-policy", says: "rolloutpolicy/others applies to default/ads/agent too"},
	} {
		t.Run(name, func(t *testing.T) {
			file, objects := filepath.Join(t.TempDir(), "policy.yaml"), settled(true, 3).Objects(t)
			if err := os.WriteFile(file, []byte(policyOf(edited)), 0o600); err != nil {
				t.Fatal(err)
			}
			if c.live != "" {
				objects = append(objects, fakecluster.Object(t, c.live))
			}
			args := []string{"ads/agent", "--policy", file}
			if c.image {
				args = append(args, "--image", "agent=registry.example/agent:3")
			}
			p := newPlanned(t, newServer(t, objects...), args...)
			stored := policyWrites(p.server)
			if c.change != nil {
				c.change(t, p)
			}
			err := p.Run(t, NewApply, append([]string{"--plan", p.file}, strings.Fields(c.args)...)...)
			said := p.Out.String()
			if err != nil {
				said = err.Error()
			}
			if !strings.Contains(said, c.says) || p.stored != c.sets || *stored != c.stored {
				t.Fatalf("%d writes of the set were stored, want %d, and %d of the policy, want %d; it says %s, want %s", p.stored, c.sets, *stored, c.stored, said, c.says)
			}
			now, err := p.Dynamic.Resource(policies.Resource()).Namespace("default").Get(t.Context(), "agents", metav1.GetOptions{})
			if c.stored == 0 {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			text, _ := json.Marshal(now)
			if !strings.Contains(string(text), `"count":2`) || strings.Contains(string(text), "canary") || c.live != "" && now.GetLabels()["own"] != "x" {
				t.Errorf("the policy is %s", text)
			}
		})
	}
}

// TestApplyNamesOtherSets: the policy of a plan also governs sets that the plan is not about.
func TestApplyNamesOtherSets(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(strings.Replace(policyOf(edited), "name: agent}", "name: agent}, {apiVersion: apps/v1, kind: DaemonSet, name: net}", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	objects := append(settled(true, 3).Objects(t), fakecluster.Roll{Name: "net", Letters: "u"}.Object())
	p := newPlanned(t, newServer(t, objects...), "ads/agent", "--policy", file)
	policyWrites(p.server)
	if err := p.Run(t, NewApply, "--plan", p.file, "--with-policy"); err != nil || !strings.Contains(p.Err.String(), "rolloutpolicy/agents also applies to daemonset/net, which the plan is not about") {
		t.Errorf("%v, it notes %s", err, p.Err)
	}
}

// A plan that was made for no policy has none to store.
func TestApplyWithThePolicyOfNoPlan(t *testing.T) {
	p := newPlanned(t, newServer(t, settled(true, 3).Objects(t)...), image3()...)
	if err := p.Run(t, NewApply, "--plan", p.file, "--with-policy"); options.Code(err) != options.ExitUsage || !strings.Contains(err.Error(), "the plan was made without --policy") {
		t.Errorf("%v", err)
	}
}

// A document is accepted for the policy that it was made for, and for no other.
func TestMadeForThePolicy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(policyOf(edited)), 0o600); err != nil {
		t.Fatal(err)
	}
	p := newPlanned(t, newServer(t, settled(true, 3).Objects(t)...), "ads/agent", "--policy", file)
	for name, c := range map[string]struct {
		flags map[string]string
		want  string
	}{
		"its own":             {map[string]string{"policy": policyOf(edited)}, ""},
		"written differently": {map[string]string{"policy": "# mine\n" + policyOf(edited)}, ""},
		"another":             {map[string]string{"policy": policyOf(threeWaves)}, "is not for the rollout policy in the form"},
		"none":                {nil, "is not the one of these values"},
		"no policy":           {map[string]string{"policy": "kind: Secret"}, "holds no RolloutPolicy"},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := readDocument(p.Options, p.file)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.MadeBy(t.Context(), p.Options.Given, c.flags); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
