// SPDX-License-Identifier: Apache-2.0

package predownload

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/json"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rollout"
)

func template(t *testing.T, spec string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal([]byte(`{"metadata":{"labels":{"app":"agent"},"annotations":{"a":"b"}},"spec":`+spec+`}`), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// world is a set of three nodes with pods of revision old, whose wanted revision is the last one.
func world(t *testing.T, specs ...string) *Input {
	t.Helper()
	in := &Input{Snapshot: &rollout.Snapshot{}}
	for i, spec := range specs {
		in.Revisions = append(in.Revisions, Revision{Name: fmt.Sprintf("agent-h%d", i), Hash: fmt.Sprintf("h%d", i), Template: template(t, spec)})
	}
	last := len(specs) - 1
	in.Set = &dialect.Workload{Namespace: "default", Name: "agent", Template: in.Revisions[last].Template}
	in.Set.PullAhead = dialect.PullAhead{Parallelism: 1, Timeout: 300 * time.Second}
	in.Set.Selector = labels.SelectorFromSet(labels.Set{"app": "agent"})
	in.Snapshot.Set = rollout.Set{Update: last, Strategy: rollout.RollingUpdate, MaxUnavailable: rollout.Quantity{Value: 1}, Limits: rollout.Limits{Descending: true}}
	for i := range 3 {
		in.Snapshot.Nodes = append(in.Snapshot.Nodes, rollout.Node{
			Name: fmt.Sprintf("n%d", i), Fit: rollout.MustRun, Pods: []rollout.Pod{{Revision: max(last-1, 0), Ready: true}},
		})
	}
	return in
}

func image(name string) string { return `{"containers":[{"name":"main","image":"` + name + `"}]}` }

// made are the jobs that are made, as name=image, and the mark.
func made(out *Output) string {
	var all []string
	for _, job := range out.Create {
		all = append(all, job.Name+"="+job.Spec.Image)
	}
	return strings.Join(append(all, out.Mark), " ")
}

func TestWhatIsPulledAhead(t *testing.T) {
	const created, ignored = " " + kruise.PredownloadCreated, kruise.PredownloadIgnored
	for name, e := range map[string]struct {
		specs  []string
		change func(*Input)
		want   string
	}{
		"a new image":                        {[]string{image("a:1"), image("a:2")}, nil, "agent-h1-main=a:2" + created},
		"the same image":                     {[]string{image("a:1"), `{"hostNetwork":true,"containers":[{"name":"main","image":"a:1"}]}`}, nil, ignored},
		"nothing is old":                     {[]string{image("a:1")}, nil, ""},
		"first pods":                         {[]string{image("a:1")}, func(in *Input) { in.Snapshot.Nodes[0].Pods = nil }, ""},
		"an ancient revision":                {[]string{image("a:0"), image("a:2"), image("a:2") + " "}, nil, ignored},
		"back to an image that no node runs": {[]string{image("a:2"), image("a:1"), image("a:2") + " "}, nil, "agent-h2-main=a:2" + created},
		"an image that another container has": {[]string{
			`{"initContainers":[{"name":"first","image":"a:2"}],"containers":[{"name":"main","image":"a:1"}]}`, image("a:2"),
		}, nil, ignored},
		"every kind of image": {[]string{image("a:1"), `{"initContainers":[{"name":"first","image":"i:1"}],"containers":[{"name":"main","image":"a:1"},{"name":"side","image":"s:1"},{"name":"twin","image":"s:1"}],"volumes":[{"name":"side","image":{"reference":"v:1"}},{"name":"x","emptyDir":{}}]}`},
			nil, "agent-h1-first=i:1 agent-h1-side=s:1 agent-h1-volume-side=v:1" + created},
		"marked":               {[]string{image("a:1"), image("a:2")}, func(in *Input) { in.Revisions[1].Mark = kruise.PredownloadCreated }, ""},
		"all at once":          {[]string{image("a:1"), image("a:2")}, func(in *Input) { in.Snapshot.Set.MaxUnavailable = rollout.Quantity{Value: 3} }, ignored},
		"all at once by surge": {[]string{image("a:1"), image("a:2")}, func(in *Input) { in.Snapshot.Set.MaxSurge = rollout.Quantity{Value: 100, Percent: true} }, ignored},
		"all at once, but paused": {[]string{image("a:1"), image("a:2")}, func(in *Input) {
			in.Snapshot.Set.MaxUnavailable, in.Snapshot.Set.Paused = rollout.Quantity{Value: 3}, true
		}, "agent-h1-main=a:2" + created},
		"all at once, but a partition": {[]string{image("a:1"), image("a:2")}, func(in *Input) {
			in.Snapshot.Set.MaxUnavailable, in.Snapshot.Set.Partition = rollout.Quantity{Value: 3}, rollout.Quantity{Value: 1}
		}, "agent-h1-main=a:2" + created},
		"on delete": {[]string{image("a:1"), image("a:2")}, func(in *Input) {
			in.Snapshot.Set.Strategy, in.Snapshot.Set.MaxUnavailable = rollout.OnDelete, rollout.Quantity{Value: 3}
		}, "agent-h1-main=a:2" + created},
		"too few are updated": {[]string{image("a:1"), image("a:2")}, func(in *Input) { in.Set.PullAhead.MinUpdatedReady = rollout.Quantity{Value: 34, Percent: true} }, ""},
		"enough are updated": {[]string{image("a:1"), image("a:2")}, func(in *Input) {
			in.Set.PullAhead.MinUpdatedReady = rollout.Quantity{Value: 33, Percent: true}
			in.Snapshot.Nodes[2].Pods[0].Revision = 1
		}, "agent-h1-main=a:2" + created},
		"a revision that is not known": {[]string{image("a:1")}, func(in *Input) { setAll(in, rollout.Pod{Revision: rollout.NoRevision}) }, "agent-h0-main=a:1" + created},
		"no wanted revision":           {[]string{image("a:1")}, func(in *Input) { in.Snapshot.Set.Update = rollout.NoRevision }, ""},
		"only a pod that goes is old":  {[]string{image("a:1"), image("a:2")}, func(in *Input) { setAll(in, rollout.Pod{Revision: 0, Deleting: true}) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := world(t, e.specs...)
			if e.change != nil {
				e.change(in)
			}
			if in.Snapshot.Set.Update >= 0 && name == "all at once by surge" {
				in.Snapshot.Set.MaxUnavailable = rollout.Quantity{}
			}
			out := Decide(in)
			if got := made(&out); got != e.want {
				t.Errorf("got  %q\nwant %q", got, e.want)
			}
		})
	}
}

func setAll(in *Input, p rollout.Pod) {
	for i := range in.Snapshot.Nodes {
		in.Snapshot.Nodes[i].Pods = []rollout.Pod{p}
	}
}

func TestTheJob(t *testing.T) {
	in := world(t, image("a:0"), image("a:1"), `{"imagePullSecrets":[{"name":"registry"}],"containers":[{"name":"main","image":"a:2"},{"name":"side","image":"a:0"}]}`)
	in.Set.PullAhead.Parallelism = 7
	in.Set.Selector = labels.SelectorFromSet(labels.Set{"app": "agent"})
	jobs := Decide(in).Create
	if len(jobs) != 2 {
		t.Fatalf("got %d jobs", len(jobs))
	}
	job := jobs[0]
	if job.Namespace != "default" || job.Labels["controller-revision-hash"] != "h2" || job.Labels["app"] != "agent" || !slices.Equal(job.Spec.PullSecrets, []string{"registry"}) {
		t.Errorf("got %+v", job)
	}
	s := job.Spec
	if s.Parallelism.IntValue() != 7 || *s.PullPolicy.TimeoutSeconds != 300 || *s.PullPolicy.BackoffLimit != 1 || s.CompletionPolicy.Type != "Always" ||
		*s.CompletionPolicy.TTLSecondsAfterFinished != 600 || s.SandboxConfig.Labels["app"] != "agent" || s.SandboxConfig.Annotations["a"] != "b" {
		t.Errorf("got %+v", s)
	}
	for i, want := range []string{"app in (agent),controller-revision-hash notin (h2)", "app in (agent),controller-revision-hash notin (h0,h2)"} {
		selector, err := metav1.LabelSelectorAsSelector(&jobs[i].Spec.PodSelector.LabelSelector)
		if err != nil || selector.String() != want {
			t.Errorf("job %d follows %v, %v, want %s", i, selector, err, want)
		}
	}
	in.Set.PullAhead.Parallelism, in.Set.PullAhead.Timeout = 1, 20*time.Second
	if s := Decide(in).Create[0].Spec; s.Parallelism.IntValue() != 1 || *s.PullPolicy.TimeoutSeconds != 20 {
		t.Errorf("got %+v", s)
	}
}

func TestWhatIsOver(t *testing.T) {
	in := world(t, image("a:1"), image("a:2"))
	in.Jobs = []Job{{Name: "old", Hash: "h0"}, {Name: "new", Hash: "h1"}}
	in.Revisions[0].Mark = kruise.PredownloadCreated
	if out := Decide(in); !slices.Equal(out.Delete, []string{"old"}) || !slices.Equal(out.Clear, []int{0}) {
		t.Errorf("got %+v", out)
	}
	in.Revisions[0].Mark, in.Revisions[1].Mark = "", kruise.PredownloadCreated
	setAll(in, rollout.Pod{Revision: 1})
	if out := Decide(in); !slices.Equal(out.Delete, []string{"old", "new"}) || len(out.Clear) > 0 || out.Mark != "" {
		t.Errorf("got %+v", out)
	}
}

func TestOrder(t *testing.T) {
	in := world(t, image("a:1"), image("a:2"))
	in.Snapshot.Nodes = append(in.Snapshot.Nodes, rollout.Node{Name: "n3", Pods: []rollout.Pod{{Revision: 1}}}, rollout.Node{Name: "n4", Pods: []rollout.Pod{{Revision: 0}}})
	plan := &rollout.Plan{Verdicts: make([]rollout.Verdict, 5)}
	plan.Verdicts[1].Kind, plan.Verdicts[4].Kind = rollout.WaitPartition, rollout.WaitSelector
	if got, held := in.Order(plan); !slices.Equal(got, []string{"n2", "n0", "n4", "n1"}) || held != nil {
		t.Errorf("got %q, held %v", got, held)
	}
	in.Snapshot.Set.Descending = false
	if got, _ := in.Order(plan); !slices.Equal(got, []string{"n0", "n2", "n1", "n4"}) {
		t.Errorf("got %q", got)
	}
}

func TestSelectorsKeepTheirMeaning(t *testing.T) {
	for _, text := range []string{"a=b", "a in (b,c)", "a!=b", "a notin (b,c)", "a", "!a"} {
		in := world(t, image("a:1"))
		selector, err := labels.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		in.Set.Selector = selector
		written := in.selector([]string{"h"})
		again, err := metav1.LabelSelectorAsSelector(&written)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range []labels.Set{{}, {"a": "b"}, {"a": "c"}, {"a": "d"}, {"a": ""}} {
			if selector.Matches(l) != again.Matches(l) {
				t.Errorf("%s became %s, which differ about %v", text, again, l)
			}
		}
	}
}

// TestJobsOfAnUndo: while the wanted revision is not that of the template, which may have failed because of its pull secrets, a job has the secrets and labels of the wanted one.
func TestJobsOfAnUndo(t *testing.T) {
	in := world(t, `{"imagePullSecrets":[{"name":"good"}],"containers":[{"name":"main","image":"a:1"}]}`, `{"imagePullSecrets":[{"name":"wrong"}],"containers":[{"name":"main","image":"a:2"}]}`)
	in.Revisions[1].Template["metadata"] = map[string]any{"labels": map[string]any{"app": "agent", "new": "true"}}
	in.Snapshot.Set.Update = 0
	setAll(in, rollout.Pod{Revision: 1, Ready: true})
	out := Decide(in)
	if len(out.Create) != 1 || !slices.Equal(out.Create[0].Spec.PullSecrets, []string{"good"}) || out.Create[0].Labels["new"] != "" {
		t.Fatalf("got %+v", out.Create)
	}
}
