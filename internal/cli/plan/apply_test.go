// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"everynode.dev/everynode/internal/cli/change"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/view"
	"everynode.dev/everynode/internal/dialects"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

func jsonString(text string) string {
	data, _ := json.Marshal(text)
	return string(data)
}

// planned is a server and a plan for its set.
type planned struct {
	*server
	file string
}

func newPlanned(t *testing.T, s *server, args ...string) *planned {
	t.Helper()
	if err := s.Run(t, New, append(args, "-o", "json")...); err != nil {
		t.Fatal(err)
	}
	p := &planned{server: s, file: filepath.Join(t.TempDir(), "plan.json")}
	if err := os.WriteFile(p.file, s.Out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Out.Reset()
	s.Options.Output = options.OutputTable
	return p
}

// editSet changes the set in the cluster.
func (p *planned) editSet(t *testing.T, edit func(*unstructured.Unstructured)) {
	t.Helper()
	resource := dialects.Onlookers()[1].Source.Resource
	object, err := p.Dynamic.Tracker().Get(resource, "default", "agent")
	if err != nil {
		t.Fatal(err)
	}
	changed := object.(*unstructured.Unstructured).DeepCopy()
	edit(changed)
	if err := p.Dynamic.Tracker().Update(resource, changed, "default"); err != nil {
		t.Fatal(err)
	}
}

// screen is what a person sees of apply.
func (p *planned) screen(t *testing.T, args ...string) string {
	t.Helper()
	p.Out.Reset()
	p.Err.Reset()
	stored := p.stored
	err := p.Run(t, NewApply, append([]string{"--plan", p.file}, args...)...)
	text := fmt.Sprintf("$ kubectl everynode %s\n%s%s", strings.Join(append([]string{"apply --plan plan.json"}, args...), " "), p.Out, p.Err)
	if err != nil {
		text += fmt.Sprintf("error: %v (code %d)\n", err, options.Code(err))
	}
	return text + fmt.Sprintf("-> %s stored\n\n", view.Plural(p.stored-stored, "write"))
}

// TestApplyScreens are the screens of a plan that holds.
func TestApplyScreens(t *testing.T) {
	for name, lines := range map[string][][]string{
		"apply":         {nil, {"-o", "json"}, {"-o", "yaml"}},
		"apply-dry-run": {{"--dry-run"}, {"--dry-run=client"}, {"--dry-run", "-o", "json"}},
	} {
		t.Run(name, func(t *testing.T) {
			text := ""
			for _, line := range lines {
				text += newPlanned(t, newServer(t, settled(true, 3).Objects(t)...), image3()...).screen(t, line...)
			}
			fakecluster.Golden(t, *update, name+".txt", text)
		})
	}
}

func image3() []string {
	return []string{"ads/agent", "--image", "agent=registry.example/agent:3", "--partition", "1"}
}

func TestApply(t *testing.T) {
	for name, c := range map[string]struct {
		busy   int
		args   []string
		stored int
		tried  int // writes that were sent, to be stored by nobody
		says   string
	}{
		"a plan that holds":               {stored: 1, tried: 1, says: "default/ads/agent was edited: generation 3, revision "},
		"the status changes meanwhile":    {busy: 3, stored: 1, tried: 1, says: "was edited"},
		"only looked at":                  {args: []string{"--dry-run"}, tried: 2, says: "the plan for default/ads/agent is still valid; nothing has been changed"},
		"looked at by the server":         {args: []string{"--dry-run=server"}, tried: 2, says: "is still valid; nothing has been changed"},
		"looked at here":                  {args: []string{"--dry-run=client"}, says: "is still valid; nothing has been changed"},
		"not even a dry run":              {args: []string{"--dry-run=none"}, stored: 1, tried: 1, says: "was edited"},
		"no such dry run":                 {args: []string{"--dry-run=later"}, says: `--dry-run "later" is not known`},
		"what came of it as JSON":         {args: []string{"-o", "json"}, stored: 1, tried: 1, says: `"generation": 3`},
		"the status never stops changing": {busy: 99, tried: 1, says: "the set's status changes too often"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlanned(t, newServer(t, settled(true, 3).Objects(t)...), image3()...)
			p.busy, p.tried = c.busy, 0
			err := p.Run(t, NewApply, append([]string{"--plan", p.file}, c.args...)...)
			said := p.Out.String()
			if err != nil {
				said = err.Error()
			}
			if !strings.Contains(said, c.says) || p.stored != c.stored || p.tried != c.tried {
				t.Fatalf("%d writes were stored, want %d, and %d tried, want %d; it says %s, want %s", p.stored, c.stored, p.tried, c.tried, said, c.says)
			}
			if c.stored == 0 {
				return
			}
			set, err := p.Dynamic.Resource(dialects.Onlookers()[1].Source.Resource).Namespace("default").Get(t.Context(), "agent", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			text, _ := set.MarshalJSON()
			if !bytes.Contains(text, []byte("agent:3")) || !bytes.Contains(text, []byte(`"partition":1`)) {
				t.Errorf("the edit is not there: %s", text)
			}
		})
	}
}

// A plan does not hold any more if the set is another one, or any node would get another verdict.
func TestStalePlans(t *testing.T) {
	screens := map[string]string{}
	for name, c := range map[string]struct {
		change func(*testing.T, *planned)
		says   []string
	}{
		"another set": {func(t *testing.T, p *planned) {
			p.editSet(t, func(u *unstructured.Unstructured) { u.SetUID("another") })
		}, []string{"deleted and made again", "another"}},
		"another generation": {func(t *testing.T, p *planned) {
			p.editSet(t, func(u *unstructured.Unstructured) { u.SetGeneration(5) })
		}, []string{"generation 5, not 2"}},
		"the set is gone": {func(t *testing.T, p *planned) {
			if err := p.Dynamic.Tracker().Delete(dialects.Onlookers()[1].Source.Resource, "default", "agent"); err != nil {
				t.Fatal(err)
			}
		}, []string{"there is no ads/agent"}},
		"a node has got a taint": {func(t *testing.T, p *planned) {
			node, err := p.Kubernetes.CoreV1().Nodes().Get(t.Context(), "node-2", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			node.Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoExecute}}
			if _, err := p.Kubernetes.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}, []string{": make a new one, because ", " would get another verdict:\n  node-", "node-2: recreate in the plan, and remove now (removing)"}},
		"a node has come": {func(t *testing.T, p *planned) {
			more := settled(true, 4).Nodes()[3].(*corev1.Node)
			if _, err := p.Kubernetes.CoreV1().Nodes().Create(t.Context(), more, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}, []string{"node-4 is new (create)"}},
		"a node has gone": {func(t *testing.T, p *planned) {
			for _, err := range []error{
				p.Kubernetes.CoreV1().Nodes().Delete(t.Context(), "node-1", metav1.DeleteOptions{}),
				p.Kubernetes.CoreV1().Pods("default").Delete(t.Context(), "agent-node-1-7c9", metav1.DeleteOptions{}),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
		}, []string{"node-1 is gone"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlanned(t, newServer(t, settled(true, 3).Objects(t)...), image3()...)
			c.change(t, p)
			screens[name] = name + ":\n" + p.screen(t)
			err := p.Run(t, NewApply, "--plan", p.file)
			if options.Code(err) != options.ExitStale || p.stored > 0 {
				t.Fatalf("%d writes were stored, code %d: %v", p.stored, options.Code(err), err)
			}
			for _, part := range append(c.says, "the plan is no longer valid, and nothing has been changed") {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("it does not say %q: %v", part, err)
				}
			}
			if text := err.Error(); strings.HasSuffix(text, "\n") || strings.Contains(text, "\n;") {
				t.Errorf("its last line is none: %q", text)
			}
		})
	}
	text := ""
	for _, name := range slices.Sorted(maps.Keys(screens)) {
		text += screens[name]
	}
	fakecluster.Golden(t, *update, "apply-stale.txt", text)
}

// What another manager has applied is left alone, as the verbs that steer a set leave it alone.
func TestApplyOfWhatOthersHaveApplied(t *testing.T) {
	const image = `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"agent\"}":{"f:image":{}}}}}}}`
	for name, c := range map[string]struct {
		manager, fields string
		args            []string
		refused         bool
	}{
		"the image is another's":      {manager: "gitops", fields: image, refused: true},
		"and only looked at":          {manager: "gitops", fields: image, args: []string{"--dry-run=client"}, refused: true},
		"taken over":                  {manager: "gitops", fields: image, args: []string{"--force-conflicts"}},
		"something else is another's": {manager: "gitops", fields: `{"f:spec":{"f:minReadySeconds":{}}}`},
		"the image is our own":        {manager: options.FieldManager, fields: image},
	} {
		t.Run(name, func(t *testing.T) {
			objects := settled(true, 3).Objects(t)
			objects[len(objects)-1].(*unstructured.Unstructured).SetManagedFields([]metav1.ManagedFieldsEntry{{
				Manager: c.manager, Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(c.fields),
			}})
			p := newPlanned(t, newServer(t, objects...), image3()...)
			err := p.Run(t, NewApply, append([]string{"--plan", p.file}, c.args...)...)
			owned := (*change.OwnedError)(nil)
			if errors.As(err, &owned) != c.refused || !c.refused && err != nil || (p.stored == 0) != c.refused {
				t.Fatalf("%d writes were stored: %v", p.stored, err)
			}
			if want := []string{`"gitops" has .spec.template.spec.containers[name="agent"].image`}; c.refused && !slices.Equal(owned.Owned, want) {
				t.Errorf("it names %q, want %q", owned.Owned, want)
			}
		})
	}
}

// What is filled in here may differ from what the server fills in: who has it left alone is told how to ask it.
func TestStaleWithoutAskingTheServer(t *testing.T) {
	p := newPlanned(t, newServer(t, settled(true, 3).Objects(t)...), image3()...)
	more := settled(true, 4).Nodes()[3].(*corev1.Node)
	if _, err := p.Kubernetes.CoreV1().Nodes().Create(t.Context(), more, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p.tried = 0
	err := p.Run(t, NewApply, "--plan", p.file, "--dry-run=client")
	if options.Code(err) != options.ExitStale || !strings.HasSuffix(err.Error(), "\nThis time the server was not used, as it was for the plan: use --dry-run=server") || p.tried > 0 {
		t.Errorf("%d writes were tried, code %d: %v", p.tried, options.Code(err), err)
	}
}

// A set that cannot be read says nothing of a plan: who waits for a plan that holds would make another one for ever.
func TestAPlanIsNotStaleWithoutAnAnswer(t *testing.T) {
	for name, refused := range map[string]error{
		"no server": errors.New("connection refused"),
		"no right":  apierrors.NewForbidden(schema.GroupResource{Group: "apps.kruise.io", Resource: "daemonsets"}, "agent", errors.New("no")),
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlanned(t, newServer(t, settled(true, 3).Objects(t)...), image3()...)
			p.Dynamic.PrependReactor("get", "daemonsets", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, refused })
			err := p.Run(t, NewApply, "--plan", p.file)
			if options.Code(err) != options.ExitError || strings.Contains(err.Error(), "does not hold") || p.stored > 0 {
				t.Errorf("code %d: %v", options.Code(err), err)
			}
		})
	}
}

func TestApplyANewSet(t *testing.T) {
	file := filepath.Join(t.TempDir(), "fresh.yaml")
	if err := os.WriteFile(file, []byte(manifestText), 0o600); err != nil {
		t.Fatal(err)
	}
	p := newPlanned(t, newServer(t, settled(false, 2).Nodes()...), "-f", file)
	if err := p.Run(t, NewApply, "--plan", p.file); err != nil || p.stored != 1 {
		t.Fatalf("%d writes were stored: %v", p.stored, err)
	}
	if err := p.Run(t, NewApply, "--plan", p.file); options.Code(err) != options.ExitStale || !strings.Contains(err.Error(), "exists now") {
		t.Errorf("made a second time: %v", err)
	}
}

// As kubectl does it: of two namespaces none is chosen, and nothing is asked of either.
func TestTwoNamespaces(t *testing.T) {
	file := filepath.Join(t.TempDir(), "fresh.yaml")
	text := strings.Replace(manifestText, "  name: fresh\n", "  name: fresh\n  namespace: here\n", 1)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := newPlanned(t, newServer(t, settled(false, 2).Nodes()...), "-f", file, "-n", "here")
	p.Dynamic.ClearActions()
	for what, err := range map[string]error{
		"the file": p.Run(t, New, "-f", file, "-n", "there"), "the plan": p.Run(t, NewApply, "--plan", p.file, "-n", "there"),
	} {
		want := what + " is for namespace here, and --namespace names there: leave --namespace out, or write -n here"
		if options.Code(err) != options.ExitUsage || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if asked := p.Dynamic.Actions(); len(asked) > 0 {
		t.Errorf("the cluster was asked: %v", asked)
	}
	if err := p.Run(t, NewApply, "--plan", p.file, "-n", "here"); err != nil || p.stored != 1 {
		t.Errorf("%d writes were stored: %v", p.stored, err)
	}
}

func TestWrongPlans(t *testing.T) {
	const remedy = ": make one with `kubectl everynode plan NAME --image CONTAINER=IMAGE -o json >plan.json`"
	for text, want := range map[string]string{
		"a: [":                      "FILE is not a plan: error converting YAML to JSON",
		"":                          "FILE is not a plan: it is empty" + remedy,
		"# nothing":                 "FILE is not a plan: it is empty" + remedy,
		`{"nodes": []}`:             "FILE is not a plan: it has no apiVersion and kind" + remedy,
		"[1]":                       "FILE is not a plan: it has no apiVersion and kind" + remedy,
		"apiVersion: v1\nkind: Pod": "FILE is not a plan: it holds Pod of v1, and not Plan of plan.everynode.dev/v1alpha1" + remedy,
		manifestText: "FILE is not a plan: it holds DaemonSet of apps.kruise.io/v1beta1, and not Plan of plan.everynode.dev/v1alpha1: " +
			"make one with `kubectl everynode plan -f FILE -o json >plan.json`",
		"apiVersion: plan.everynode.dev/v1alpha1\nkind: Plan\nunknown: 1":      "reading the plan: error unmarshaling JSON",
		"apiVersion: plan.everynode.dev/v1alpha1\nkind: Plan\nedit: {type: x}": `reading the plan: edit.type "x" is not known`,
	} {
		file := filepath.Join(t.TempDir(), "x")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := newServer(t).Run(t, NewApply, "--plan", file)
		if err == nil || !strings.HasPrefix(strings.ReplaceAll(err.Error(), file, "FILE"), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if err := newServer(t).Run(t, NewApply); options.Code(err) != options.ExitUsage {
		t.Errorf("without a plan: %v", err)
	}
}
