// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	kjson "k8s.io/apimachinery/pkg/util/json"

	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/internal/dialect/openyurt"
	"everynode.dev/everynode/internal/rollout"
)

func TestOpenKruise(t *testing.T) { check(t, "testdata/openkruise.txt", kruise.Digest) }

func TestOpenYurt(t *testing.T) { check(t, "testdata/openyurt.txt", openyurt.Digest) }

func check(t *testing.T, file string, digest func(map[string]any) dialect.Workload) {
	for _, r := range readTable(t, file) {
		t.Run(strings.ReplaceAll(r.name, " ", "_"), func(t *testing.T) {
			want := r.peerDoes
			switch {
			case r.peer == "" || r.peerDoes == "" || (r.does == "") != (r.because == ""):
				t.Fatal("a row needs peer and peer-does, and does together with because")
			case r.does == r.peerDoes:
				t.Fatal("the row says that Everynode does something else, and names the same")
			case r.does != "":
				want = r.does
			}
			if got := r.decide(t, digest); got != want {
				t.Errorf("Everynode does %q, want %q\nthe other one: %s; does %q", got, want, r.peer, r.peerDoes)
			}
		})
	}
}

// decide is what the dialect makes of a row: the nodes of each kind of action, or "refused".
func (r *row) decide(t *testing.T, digest func(map[string]any) dialect.Workload) string {
	t.Helper()
	w := digest(r.object(t))
	if slices.ContainsFunc(w.Problems, func(p dialect.Problem) bool { return p.Fatal }) {
		return "refused"
	}
	w.Set.Update = 1
	s := rollout.Snapshot{Now: now, Set: w.Set, Nodes: r.nodes, Revisions: []rollout.Revision{{Name: "old", Number: 1}, {Name: "new", Number: 2}}}
	if r.change != "" {
		s.Revisions[0].Change = kruise.InPlace(template("old", r.change), template("new", r.change))
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		n.Selected = w.NodeSelector != nil && w.NodeSelector.Matches(labels.Set(r.marks[n.Name]))
		for k := range n.Pods {
			if p := &n.Pods[k]; p.Hook == rollout.HookNone {
				p.Hook = w.PreDelete.State(r.marks[n.Name], nil)
			}
		}
	}
	return r.show(&s, rollout.Decide(s))
}

func (r *row) show(s *rollout.Snapshot, p rollout.Plan) string {
	done := map[string][]string{}
	for _, a := range p.Actions {
		kind, node := a.Reason.String(), s.Nodes[a.Node].Name
		if a.Kind == rollout.Create && r.tellsRevision {
			node += " at " + s.Revisions[a.Revision].Name
		}
		if !slices.Contains(done[kind], node) {
			done[kind] = append(done[kind], node)
		}
	}
	if len(done) == 0 {
		return "nothing"
	}
	var all []string
	for _, kind := range slices.Sorted(maps.Keys(done)) {
		slices.Sort(done[kind])
		all = append(all, kind+": "+strings.Join(done[kind], " "))
	}
	return strings.Join(all, "; ")
}

// object is the set of a row, of either API: what the dialect of the other one does not know it does not read.
func (r *row) object(t *testing.T) map[string]any {
	t.Helper()
	spec := map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": "x"}}, "template": template("new", "image")}
	maps.Copy(spec, r.set)
	status := map[string]any{"desiredNumberScheduled": 0} // as before the first write of it
	meta := map[string]any{"namespace": "ns", "name": "ds", "uid": "u", "generation": 2, "annotations": r.annotations}
	raw, err := json.Marshal(map[string]any{"metadata": meta, "spec": spec, "status": status})
	if err != nil {
		t.Fatal(err)
	}
	var obj map[string]any
	if err := kjson.Unmarshal(raw, &obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

// template is a pod template whose image, init image or command is that of a revision.
func template(revision, change string) map[string]any {
	container, initial := map[string]any{"name": "c", "image": "c"}, map[string]any{"name": "i", "image": "i"}
	switch change {
	case "init-image":
		initial["image"] = revision
	case "command":
		container["command"] = []any{revision}
	default:
		container["image"] = revision
	}
	return map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"app": "x"}},
		"spec":     map[string]any{"containers": []any{container}, "initContainers": []any{initial}},
	}
}
