// SPDX-License-Identifier: Apache-2.0

package predownload

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/rollout"
)

const second = rollout.Time(time.Second)

// waits says of each node whether it waits, and until when in seconds.
func waits(in *Input, known map[string]Pulled) string {
	unlisted := in.Wait(func(image string, job *Job) func(string) Pulled {
		return func(node string) Pulled {
			p := known[node+" "+image]
			if job == nil {
				p.Ordered = 0
			}
			return p
		}
	})
	var all []string
	for _, n := range in.Snapshot.Nodes {
		if n.ImageWait {
			all = append(all, fmt.Sprintf("%s:%d", n.Name, n.ImageUntil/second))
		}
		if slices.Contains(unlisted, n.Name) {
			all = append(all, "(unlisted)")
		}
	}
	return strings.Join(all, " ")
}

func TestNodesThatWait(t *testing.T) {
	two := `{"containers":[{"name":"main","image":"a:2"},{"name":"side","image":"s:2"}]}`
	jobs := []Job{{Name: "main", Hash: "h1", Image: "a:2", Stays: true, Created: 7 * second}, {Name: "side", Hash: "h1", Image: "s:2", Stays: true, Created: 7 * second}}
	for name, e := range map[string]struct {
		old, wanted string
		jobs        []Job
		known       map[string]Pulled
		change      func(*Input)
		want        string
	}{
		"nothing is ordered": {image("a:1"), image("a:2"), jobs, nil, nil, "n0:0 n1:0 n2:0"},
		"one is there, one is ordered": {image("a:1"), image("a:2"), jobs, map[string]Pulled{"n0 a:2": {There: true, Ordered: second}, "n1 a:2": {Ordered: 5 * second}}, nil,
			"n1:305 n2:0"},
		"the old pod runs it": {image("a:2"), image("a:2") + " ", jobs, nil, nil, ""},
		"of two images the last counts": {image("a:1"), two, jobs, map[string]Pulled{
			"n0 a:2": {Ordered: 5 * second}, "n0 s:2": {Ordered: 9 * second}, "n1 a:2": {Ordered: 5 * second}, "n2 a:2": {There: true}, "n2 s:2": {Ordered: 7 * second},
		}, nil, "n0:309 n1:0 n2:307"},
		"ordered by a job that ends":                                  {image("a:1"), image("a:2"), []Job{{Name: "main", Hash: "h1", Image: "a:2"}}, map[string]Pulled{"n0 a:2": {Ordered: 5 * second}}, nil, "n0:0 n1:0 n2:0"},
		"ordered by a job for another image":                          {image("a:1"), image("a:2"), []Job{{Name: "main", Hash: "h1", Image: "b:2", Stays: true}}, map[string]Pulled{"n0 a:2": {Ordered: 5 * second}}, nil, "n0:0 n1:0 n2:0"},
		"a node without an old pod":                                   {image("a:1"), image("a:2"), jobs, nil, func(in *Input) { in.Snapshot.Nodes[1].Pods = nil }, "n0:0 n2:0"},
		"a node that cannot be told waits from when the job was made": {image("a:1"), image("a:2"), jobs, map[string]Pulled{"n1 a:2": {Unlisted: true}}, nil, "n0:0 n1:307 (unlisted) n2:0"},
		"the last of two counts, told or not": {image("a:1"), two, jobs, map[string]Pulled{
			"n0 a:2": {Unlisted: true}, "n0 s:2": {Ordered: 9 * second}, "n1 a:2": {Unlisted: true}, "n2 a:2": {Unlisted: true}, "n2 s:2": {There: true},
		}, nil, "n0:309 (unlisted) n1:0 (unlisted) n2:307 (unlisted)"},
		"one that cannot be told has the image":               {image("a:1"), image("a:2"), jobs, map[string]Pulled{"n1 a:2": {There: true, Unlisted: true}}, nil, "n0:0 n2:0"},
		"one that cannot be told, and nobody has asked it to": {image("a:1"), image("a:2"), nil, map[string]Pulled{"n1 a:2": {Unlisted: true}}, nil, "n0:0 n1:0 n2:0"},
		"no wanted revision":                                  {image("a:1"), image("a:2"), jobs, nil, func(in *Input) { in.Snapshot.Set.Update = rollout.NoRevision }, ""},
		"a pod of a revision that is unknown":                 {image("a:1"), image("a:2"), jobs, nil, func(in *Input) { setAll(in, rollout.Pod{Revision: rollout.NoRevision}) }, "n0:0 n1:0 n2:0"},
	} {
		t.Run(name, func(t *testing.T) {
			in := world(t, e.old, e.wanted)
			in.Set.PullAhead.Wait, in.Jobs = true, e.jobs
			if e.change != nil {
				e.change(in)
			}
			if got := waits(in, e.known); got != e.want {
				t.Errorf("got %q, want %q", got, e.want)
			}
		})
	}
}

// TestJobsOfASetThatWaits: they are made whatever was decided before, stay until the roll is over, and come back.
func TestJobsOfASetThatWaits(t *testing.T) {
	in := world(t, image("a:1"), image("a:2"))
	in.Set.PullAhead.Wait = true
	in.Snapshot.Set.MaxUnavailable = rollout.Quantity{Value: 3} // all at once
	in.Set.PullAhead.MinUpdatedReady = rollout.Quantity{Value: 2}
	out := Decide(in)
	if got := made(&out); got != "agent-h1-main=a:2 "+kruise.PredownloadCreated {
		t.Fatalf("made %q", got)
	}
	if p := out.Create[0].Spec.CompletionPolicy; p.Type != v1beta1.CompletionNever || p.TTLSecondsAfterFinished != nil || p.ActiveDeadlineSeconds != nil {
		t.Errorf("the job ends: %+v", p)
	}
	if n := *out.Create[0].Spec.PullPolicy.BackoffLimit; n != 3 {
		t.Errorf("%d further tries: a node waits for minutes after a registry did not answer for two seconds", n)
	}
	in.Revisions[1].Mark = kruise.PredownloadIgnored
	for name, e := range map[string]struct {
		have    Job
		created int
		deleted []string
	}{
		"it is there":             {Job{Name: "agent-h1-main", Hash: "h1", Image: "a:2", Stays: true}, 0, nil},
		"it has gone":             {Job{Name: "other", Hash: "h0", Image: "a:2", Stays: true}, 1, []string{"other"}},
		"it is one that ends":     {Job{Name: "agent-h1-main", Hash: "h1", Image: "a:2"}, 0, []string{"agent-h1-main"}},
		"somebody has changed it": {Job{Name: "agent-h1-main", Hash: "h1", Image: "b:2", Stays: true}, 0, []string{"agent-h1-main"}},
	} {
		in.Jobs = []Job{e.have}
		if out := Decide(in); len(out.Create) != e.created || !slices.Equal(out.Delete, e.deleted) {
			t.Errorf("%s: %d are made, and %q deleted", name, len(out.Create), out.Delete)
		}
	}
}

// TestExternalSetsWriteNoHistory: without marks in the history the jobs stay, so that they are not made again and again.
func TestExternalSetsWriteNoHistory(t *testing.T) {
	in := world(t, image("a:1"), image("a:2"))
	in.Snapshot.Set.ExternalController = true
	in.Revisions[0].Mark = kruise.PredownloadCreated
	out := Decide(in)
	if got := made(&out); got != "agent-h1-main=a:2" && got != "agent-h1-main=a:2 " || len(out.Clear) > 0 || out.Create[0].Spec.CompletionPolicy.Type != v1beta1.CompletionNever {
		t.Errorf("made %q, cleared %v, and the job is %+v", got, out.Clear, out.Create)
	}
	in.Jobs = []Job{{Name: "agent-h1-main", Hash: "h1", Image: "a:2", Stays: true}}
	if out := Decide(in); len(out.Create)+len(out.Delete) > 0 {
		t.Errorf("then %+v", out)
	}
}
