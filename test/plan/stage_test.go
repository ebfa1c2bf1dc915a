// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/internal/cli/command"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/test/harness"
)

// document is what a program reads of a plan.
type document struct {
	Revision string
	Nodes    []struct {
		Name, Verdict, Reason string
		Wave                  int
		End                   string
	}
	Budget struct {
		Limit, Waves, MostAtOnce, MostDown, DownNow int
		Of                                          string
	}
	Unfinished int
	Estimate   struct {
		Low, High, Source string
		Pods              int
	}
	// file is where the plan is kept.
	file string
}

// stage is where a change is made.
type stage struct {
	*harness.Space
	t   *testing.T
	set string
	// kind is how the set is named on the command line.
	kind string
	log  *podLog
}

func newStage(t *testing.T, nodes int) *stage {
	t.Helper()
	return &stage{Space: shared.Cluster(t).Space(t, nodes), t: t, set: "agent", kind: "ads/"}
}

// create makes the set and waits until it runs on every node.
func (s *stage) create(c change) {
	s.t.Helper()
	if !c.advanced {
		s.kind = "daemonset/"
	}
	object := map[string]any{}
	if err := yaml.Unmarshal([]byte(s.manifest(c)), &object); err != nil {
		s.t.Fatal(err)
	}
	extra := map[string]any{}
	if err := yaml.Unmarshal([]byte(c.spec), &extra); err != nil {
		s.t.Fatal(err)
	}
	for key, value := range extra {
		object["spec"].(map[string]any)[key] = value
	}
	if c.annotations != nil {
		object["metadata"].(map[string]any)["annotations"] = c.annotations
	}
	text, err := json.Marshal(object)
	if err != nil {
		s.t.Fatal(err)
	}
	if out, err := s.KubectlWith(string(text), "apply", "-f", "-"); err != nil {
		s.t.Fatalf("creating the set: %v\n%s", err, out)
	}
	s.Wait("the set runs on every node", harness.RolledOut(s.set, 1, len(s.Nodes)))
}

// run runs kubectl everynode in this process, as who may do everything.
func (s *stage) run(args ...string) string {
	s.t.Helper()
	clients, err := options.NewClients(rest.CopyConfig(s.Cluster.Config), s.Name)
	if err != nil {
		s.t.Fatal(err)
	}
	var out, errs bytes.Buffer
	o := options.New(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &errs})
	o.Given = clients
	root := command.Root(o)
	root.SetArgs(args)
	if err := root.ExecuteContext(s.Context()); err != nil {
		s.t.Fatalf("kubectl everynode %v: %v\n%s%s", args, err, out.String(), errs.String())
	}
	return out.String()
}

// plan makes the plan of a change.
func (s *stage) plan(c change) *document {
	s.t.Helper()
	args := []string{"plan", "-o", "json"}
	if !c.fresh {
		args = append(args, s.kind+s.set)
	}
	text := s.run(append(args, c.args(s)...)...)
	d := &document{file: filepath.Join(s.t.TempDir(), "plan.json")}
	if err := json.Unmarshal([]byte(text), d); err != nil {
		s.t.Fatalf("reading the plan: %v\n%s", err, text)
	}
	if err := os.WriteFile(d.file, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return d
}

// apply carries a plan out, and returns the generation of the set after that.
func (s *stage) apply(d *document) int64 {
	s.t.Helper()
	var applied struct{ Generation int64 }
	text := s.run("apply", "--plan", d.file, "-o", "json")
	if err := json.Unmarshal([]byte(text), &applied); err != nil || applied.Generation == 0 {
		s.t.Fatalf("reading what apply says: %v\n%s", err, text)
	}
	return applied.Generation
}

// with are the nodes of the stage with a verdict.
func (s *stage) with(d *document, verdict string) []string {
	var nodes []string
	for _, n := range d.Nodes {
		if n.Verdict == verdict && slices.Contains(s.Nodes, n.Name) {
			nodes = append(nodes, n.Name)
		}
	}
	return nodes
}

// unfinished are the nodes on which what begins does not come to its end, but for those that keep their old pod meanwhile.
func (d *document) unfinished() []string {
	var nodes []string
	for _, n := range d.Nodes {
		if n.Wave > 0 && n.End == "" && n.Verdict != "surge" {
			nodes = append(nodes, n.Name)
		}
	}
	return nodes
}

// watch begins the log.
func (s *stage) watch() {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	log, err := newLog(ctx, s.Cluster.Client, s.Name)
	if err != nil {
		cancel()
		s.t.Fatalf("watching pods: %v", err)
	}
	s.t.Cleanup(func() {
		cancel()
		log.wait()
	})
	s.log = log
}
