// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"encoding/json"
	"maps"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "k8s.io/apimachinery/pkg/util/json"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/internal/dialect/native"
	"everynode.dev/everynode/internal/rollout"
)

const advancedVersion, nativeVersion = "apps.kruise.io/v1beta1", "apps/v1"

// begin is when the stories begin.
func begin() rollout.Time {
	return rollout.Time(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
}

// state is a moment in the life of a set with three nodes.
type state struct {
	name string
	// update is the strategy of the set, as JSON; advanced is whether only an Advanced DaemonSet has it, and native whether only a DaemonSet of apps/v1 has.
	update           string
	advanced, native bool
	// pods are those of the three nodes: see podOf.
	pods [3]string
	// changed is whether the template was changed after the manager has looked; unseen whether it has never looked.
	changed, unseen bool
	// lasts is how long the state has lasted when the manager looks again.
	lasts time.Duration
	// holds is what a rollout policy keeps the nodes with an old pod back for, and governed what it says of the set.
	holds    rollout.VerdictKind
	governed *dialect.Governed
	// undone is whether the policy returns nodes to the old revision.
	undone bool
	// more changes the snapshot.
	more func(s *rollout.Snapshot)
	// deleted is whether the set is being deleted.
	deleted bool
	// problems are those of the specification.
	problems []dialect.Problem
}

const (
	rolling  = `{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":1}}`
	onDelete = `{"type":"OnDelete"}`
)

func paused(more string) string {
	return `{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":1,` + more + `}}`
}

func governed(phase v1alpha1.Phase, settled bool) *dialect.Governed {
	return &dialect.Governed{Phase: phase, Settled: settled, Message: "The policy has the reason."}
}

// states are the moments of the table.
func states() []state {
	const soon, late = time.Minute, rollout.StallAfter
	refused := func(s *rollout.Snapshot) {
		s.Nodes[2].Refusal = &rollout.Refusal{Message: "exceeded quota: few", RetryAt: s.Now.Add(time.Minute)}
	}
	invalid := []dialect.Problem{{Reason: "InvalidSpec", Message: "The field x cannot be read.", Fatal: true}}
	return []state{
		{name: "created; the manager has not seen it", update: rolling, unseen: true},
		{name: "the first pods are being created", update: rolling, pods: [3]string{"", "starting", "new"}},
		{name: "complete", update: rolling, pods: [3]string{"new", "new", "new"}},
		{name: "the template was changed; the manager has not seen it", update: rolling, pods: [3]string{"new", "new", "new"}, changed: true},
		{name: "rolling", update: rolling, pods: [3]string{"new", "starting", "old"}},
		{name: "all pods are of the new revision, the last is not available", update: rolling, pods: [3]string{"new", "new", "starting"}},
		{name: "complete, then a pod is not ready", update: rolling, pods: [3]string{"new", "new", "unready"}},
		{name: "paused in the middle", update: paused(`"paused":true`), advanced: true, pods: [3]string{"new", "old", "old"}},
		{name: "partition reached", update: paused(`"partition":2`), advanced: true, pods: [3]string{"old", "old", "new"}},
		{name: "partition in percent, reached", update: paused(`"partition":"66%"`), advanced: true, pods: [3]string{"old", "new", "new"}},
		{name: "partition not reached", update: paused(`"partition":2`), advanced: true, pods: [3]string{"old", "old", "starting"}},
		{name: "OnDelete, old pods are left", update: onDelete, pods: [3]string{"new", "old", "old"}},
		{name: "a new pod crashes, for a minute", update: rolling, pods: [3]string{"old", "old", "crashing"}, lasts: soon},
		{name: "a new pod crashes, for ten minutes", update: rolling, pods: [3]string{"old", "old", "crashing"}, lasts: late},
		{name: "a pod is refused (quota, webhook), for a minute", update: rolling, pods: [3]string{"old", "old", ""}, more: refused, lasts: soon},
		{name: "a pod is refused, for ten minutes", update: rolling, pods: [3]string{"old", "old", ""}, more: refused, lasts: late},
		{name: "the specification is not valid", update: rolling, advanced: true, problems: invalid},
		{name: "policy: a wave soaks, or a window is closed", update: rolling, pods: [3]string{"new", "old", "old"}, holds: rollout.WaitSoak, governed: governed(v1alpha1.PhaseSoaking, false)},
		{name: "policy: a wave soaks, `readyWhen: WaveHealthy`", update: rolling, pods: [3]string{"new", "old", "old"}, holds: rollout.WaitSoak, governed: governed(v1alpha1.PhaseSoaking, true)},
		{name: "policy: waits for an approval", update: rolling, pods: [3]string{"new", "old", "old"}, holds: rollout.WaitApproval, governed: governed(v1alpha1.PhaseWaitingForApproval, false)},
		{name: "policy: suspended", update: rolling, pods: [3]string{"new", "old", "old"}, holds: rollout.WaitSuspended, governed: governed(v1alpha1.PhaseSuspended, false)},
		{name: "policy: the revision has failed, and is undone", update: rolling, pods: [3]string{"old", "old", "old"}, undone: true, governed: governed(v1alpha1.PhaseFailed, false)},
		{name: "policy: the revision was rejected", update: rolling, pods: [3]string{"old", "old", "old"}, holds: rollout.WaitRejected, governed: governed(v1alpha1.PhaseRejected, false)},
		{name: "policy: deleted in the middle", update: rolling, pods: [3]string{"new", "old", "old"}, holds: rollout.WaitPolicy, governed: governed(v1alpha1.PhaseStalled, false)},
		{name: "policy next to kube-controller-manager, so `OnDelete`: a wave soaks", update: onDelete, native: true, pods: [3]string{"new", "old", "old"}, governed: governed(v1alpha1.PhaseSoaking, false)},
		{name: "policy next to kube-controller-manager, so `OnDelete`: waits for an approval", update: onDelete, native: true, pods: [3]string{"new", "old", "old"}, governed: governed(v1alpha1.PhaseWaitingForApproval, false)},
		{name: "being deleted", update: rolling, pods: [3]string{"new", "new", "new"}, deleted: true},
	}
}

// podOf is a pod of a kind: new or old and available; starting, unready or crashing and of the new revision; none if the kind is empty.
func podOf(kind, node string, now, since rollout.Time) []rollout.Pod {
	p := rollout.Pod{Name: "pod-" + node, UID: "uid-" + node, Revision: 1, Phase: rollout.Running, Scheduled: true, Created: begin() - 1, ReadySince: begin() - 1}
	switch kind {
	case "":
		return nil
	case "new":
		p.Ready = true
	case "old":
		p.Ready, p.Revision = true, 0
	case "starting":
		p.Phase, p.ReadySince, p.Created = rollout.Pending, now, now
	case "unready":
		p.ReadySince = now
	case "crashing":
		p.ReadySince, p.Created, p.Trouble = since, since, "container agent: CrashLoopBackOff"
	}
	return []rollout.Pod{p}
}

// object is the set as the API server has it when the manager has looked at a state.
func (st *state) object(t *testing.T, version string) *unstructured.Unstructured {
	t.Helper()
	obj := map[string]any{}
	decode(t, []byte(`{"apiVersion":"`+version+`","kind":"DaemonSet","metadata":{"name":"agent","namespace":"agents","uid":"u","generation":2},
		"spec":{"selector":{"matchLabels":{"app":"agent"}},"updateStrategy":`+st.update+`,
		"template":{"metadata":{"labels":{"app":"agent"}},"spec":{"containers":[{"name":"agent","image":"agent:v2"}]}}}}`), &obj)
	metadata := obj["metadata"].(map[string]any)
	switch {
	case st.unseen && version == nativeVersion:
		metadata["generation"] = int64(1)
		decode(t, []byte(`{"currentNumberScheduled":0,"numberMisscheduled":0,"desiredNumberScheduled":0,"numberReady":0}`), into(obj, "status"))
	case st.unseen:
		metadata["generation"] = int64(1)
		decode(t, defaultOfStatus(t, "kruise/00-crd-daemonsets.apps.kruise.io.yaml"), into(obj, "status"))
	default:
		if st.lasts > 0 {
			st.look(t, version, obj, 0)
		}
		st.look(t, version, obj, st.lasts)
	}
	metadata = obj["metadata"].(map[string]any) // look has made another one
	if st.changed {
		metadata["generation"] = int64(3)
	}
	if st.deleted {
		metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
	}
	return &unstructured.Unstructured{Object: obj}
}

// look lets the manager decide and write the status, some time after the state has begun.
func (st *state) look(t *testing.T, version string, obj map[string]any, after time.Duration) {
	t.Helper()
	now := begin().Add(after)
	r := dialect.Report{Now: time.Unix(0, int64(now)), ObservedGeneration: 2, UpdateRevision: "v2", Governed: st.governed, Problems: st.problems}
	w := native.Digest(obj)
	patch := native.StatusPatch
	if version == advancedVersion {
		w, patch = kruise.Digest(obj), kruise.Report
	}
	if len(w.Problems) > 0 {
		t.Fatalf("%s: %v", st.name, w.Problems)
	}
	if len(st.problems) == 0 {
		s := st.snapshot(&w, now)
		plan := rollout.Decide(*s)
		r.Snapshot, r.Plan, r.Numbers = s, &plan, plan.Status
		if st.undone {
			r.Numbers.Updated = 0 // the status speaks of the revision that the template describes
		}
	}
	data, changed := patch(&w, r)
	if !changed && after == 0 {
		t.Fatalf("%s: no status is written", st.name)
	}
	if !changed {
		return
	}
	before, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	merged, err := jsonpatch.MergePatch(before, data)
	if err != nil {
		t.Fatal(err)
	}
	written := map[string]any{}
	decode(t, merged, &written)
	maps.Copy(obj, written)
}

func (st *state) snapshot(w *dialect.Workload, now rollout.Time) *rollout.Snapshot {
	s := &rollout.Snapshot{Now: now, Set: w.Set, Revisions: []rollout.Revision{{Name: "v1", Number: 1}, {Name: "v2", Number: 2}}}
	s.Set.Update = 1
	if st.undone {
		s.Set.Update = 0
	}
	for i, kind := range st.pods {
		name := string(rune('a' + i))
		s.Nodes = append(s.Nodes, rollout.Node{Name: name, Fit: rollout.MustRun, Ready: true, Selected: true, Last: 1, Pods: podOf(kind, name, now, begin())})
	}
	if st.holds != rollout.NotEvaluated {
		s.Gate = &rollout.Gate{InFlight: -1, Starts: -1, Holds: []rollout.VerdictKind{st.holds, st.holds, st.holds}}
	}
	if st.more != nil {
		st.more(s)
	}
	return s
}

func decode(t *testing.T, data []byte, to any) {
	t.Helper()
	if err := kjson.Unmarshal(data, to); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
}

// into returns a new map that is a field of obj.
func into(obj map[string]any, field string) *map[string]any {
	m := map[string]any{}
	obj[field] = m
	return &m
}
