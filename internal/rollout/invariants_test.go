// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"time"
)

// invariant is something that holds for every plan.
type invariant struct {
	name  string
	holds func(d *dumb, p Plan) error
}

// invariants are what a plan must be, said without saying how it is made. mutants_test.go shows each able to fail.
func invariants() []invariant {
	return []invariant{
		{"one verdict for each node", oneVerdictEach},
		{"actions name what there is", actionsAreReal},
		{"at most burst actions", burstIsKept},
		{"actions of a node agree", actionsAgree},
		{"never two pods without surge", neverTwoPods},
		{"at most one current and one old pod with surge", surgePairs},
		{"nothing is done where nothing may be", handsOff},
		{"an external set only deletes old pods", externalSetsOnlyDelete},
		{"the budget is kept", budgetIsKept},
		{"available current pods stay", currentPodsStay},
		{"running pods stay under OnDelete", onDeleteKeeps},
		{"hooks are asked first", hooksAreAsked},
		{"a change in place goes step by step", stepByStep},
		{"a paused set starts no update", pauseIsKept},
		{"nodes that are not selected are not updated", selectorIsKept},
		{"a node that only may keep its pod is left alone", eligibilityIsKept},
		{"the partition is kept", partitionIsKept},
		{"a node that is held keeps its revision", heldNodesKeep},
		{"announcements are true", announcementsAreTrue},
		{"every pod says what it should", everyPodSays},
		{"images come first", imagesComeFirst},
		{"a node that is left out waits", awayNodesWait},
		{"the update answers for the nodes that it takes down", blameIsKept},
		{"pods that are replaced first are those of the first nodes", inOrder},
		{"what has to be done is done", nothingForgotten},
		{"the budget is used up", budgetIsUsed},
		{"what was refused comes last", refusedComesLast},
		{"verdicts fit the actions", verdictsFit},
		{"charges add up", chargesAddUp},
		{"the status is upstream's", statusIsRight},
		{"the back-off is kept", backoffIsKept},
		{"notes name their actions", notesFit},
		{"wakes in time", wakesInTime},
	}
}

// violations checks a plan against all invariants.
func violations(s Snapshot, p Plan) []string { return newDumb(s).violations(p) }

func (d *dumb) violations(p Plan) []string {
	var out []string
	for i, inv := range invariants() {
		if err := inv.holds(d, p); err != nil {
			out = append(out, fmt.Sprintf("%s: %v", inv.name, err))
			if i < 2 {
				return out // the others would look up what is not there
			}
		}
	}
	return out
}

func oneVerdictEach(d *dumb, p Plan) error {
	if len(p.Verdicts) != len(d.nodes) {
		return fmt.Errorf("%d verdicts for %d nodes", len(p.Verdicts), len(d.nodes))
	}
	return nil
}

func actionsAreReal(d *dumb, p Plan) error {
	for i, a := range p.Actions {
		if a.Node < 0 || a.Node >= len(d.s.Nodes) {
			return fmt.Errorf("action %d is for node %d", i, a.Node)
		}
		switch a.Kind {
		case Create:
			if !d.known() || a.Revision < 0 || a.Revision >= len(d.s.Revisions) ||
				a.Revision != d.s.Set.Update && a.Revision != d.s.Nodes[a.Node].Last && (d.s.Gate == nil || a.Revision != d.s.Gate.Joining) {
				return fmt.Errorf("action %d creates revision %d", i, a.Revision)
			}
		case Delete, Prepare, Restore, Mark, Patch, Unmark, Resume:
			if d.pod(a) == nil {
				return fmt.Errorf("action %d is for %q, which node %d has not", i, a.Pod, a.Node)
			}
			if d.pod(a).Deleting {
				return fmt.Errorf("action %d is for %q, which is being deleted", i, a.Pod)
			}
		default:
			return fmt.Errorf("action %d is of kind %d", i, a.Kind)
		}
	}
	return nil
}

// pod finds the pod that an action is for.
func (d *dumb) pod(a Action) *Pod {
	pods := d.s.Nodes[a.Node].Pods
	i := slices.IndexFunc(pods, func(p Pod) bool { return p.Name == a.Pod && p.UID == a.UID })
	if i < 0 {
		return nil
	}
	return &pods[i]
}

func burstIsKept(d *dumb, p Plan) error {
	burst := d.burst()
	if len(p.Actions)+len(p.Announcements) > burst {
		return fmt.Errorf("%d actions and %d announcements", len(p.Actions), len(p.Announcements))
	}
	return nil
}

// after applies the plan to one node: the pods that are left live, with the created one among them. One that is prepared to
// be deleted is not.
func (d *dumb) after(p Plan, f facts) (live []Pod, creates int) {
	live = slices.Clone(f.live)
	for _, a := range p.Actions {
		switch {
		case a.Node != f.index:
		case a.Kind == Create:
			creates++
			live = append(live, Pod{Revision: a.Revision, UID: "created"})
		case a.Kind == Delete, a.Kind == Prepare:
			live = slices.DeleteFunc(live, func(p Pod) bool { return p.UID == a.UID })
		}
	}
	return live, creates
}

func actionsAgree(d *dumb, p Plan) error {
	touched := map[string]ActionKind{}
	for _, a := range p.Actions {
		key := fmt.Sprint(a.Node, "/", a.UID)
		if before := touched[key]; a.Kind != Create && before != 0 && !(before == Mark && a.Kind == Patch) {
			return fmt.Errorf("%s after %s of %s", a.Kind, before, a.Pod)
		}
		touched[key] = a.Kind
	}
	for _, f := range d.nodes {
		live, creates := d.after(p, f)
		if creates > 1 {
			return fmt.Errorf("%d creates on %s", creates, f.Name)
		}
		// Only pods that have ended may be deleted in the same breath in which one is created.
		if gone := len(f.live) + creates - len(live); creates > 0 && gone > len(f.live)-len(f.running) {
			return fmt.Errorf("%s loses running pods and gets one", f.Name)
		}
	}
	return nil
}

func neverTwoPods(d *dumb, p Plan) error {
	for _, f := range d.nodes {
		if _, creates := d.after(p, f); !d.surge() && creates > 0 && len(f.pods) > 0 {
			return fmt.Errorf("%s has %d pods and gets one", f.Name, len(f.pods))
		}
	}
	return nil
}

func surgePairs(d *dumb, p Plan) error {
	for _, f := range d.nodes {
		if _, creates := d.after(p, f); d.surge() && creates > 0 && (len(f.current) > 0 || len(f.old) > 1) {
			return fmt.Errorf("%s has %d current and %d old pods and gets one", f.Name, len(f.current), len(f.old))
		}
	}
	return nil
}

func handsOff(d *dumb, p Plan) error {
	for _, a := range p.Actions {
		f := d.nodes[a.Node]
		switch {
		case !d.known():
			return fmt.Errorf("action %+v without a wanted revision", a)
		case !f.Gone && (f.Fit == NotKnown || f.Fit > MustLeave):
			return fmt.Errorf("action on %s, which is not evaluated", f.Name)
		case a.Kind == Create && (f.Gone || f.Fit != MustRun):
			return fmt.Errorf("a pod for %s, which must not get one", f.Name)
		case a.Kind == Create && f.Blocked != "":
			return fmt.Errorf("a pod for %s, which is blocked", f.Name)
		case a.Kind == Delete && f.Gone && d.pod(a).Scheduled:
			return fmt.Errorf("%s is left to the pod garbage collector", a.Pod)
		case a.Kind != Delete && f.Gone, a.Kind > Prepare && f.Fit == MustLeave:
			return fmt.Errorf("%s of %s, which has to go", a.Kind, a.Pod)
		}
	}
	return nil
}

// budgetIsKept looks at what the plan takes away (or adds, with surge) on nodes whose old pod is available, or may be by another clock.
func budgetIsKept(d *dumb, p Plan) error {
	started := 0
	for _, a := range p.Actions {
		f := d.nodes[a.Node]
		if !d.mayRun(f) || len(f.live) != 1 || len(f.old) != 1 || len(f.leaving) > 0 || a.Kind != Create && (a.Kind == Patch || d.surge()) {
			continue
		}
		young := d.young(f.old[0]) && !preparing(f.old[0])
		if young && !d.surge() && d.early(f) {
			return fmt.Errorf("%s may be available and goes, with %d charged and a limit of %d", f.old[0].Name, d.count(d.charged), d.limit())
		}
		if d.serving(f.old[0]) || young && d.surge() {
			started++
		}
	}
	if charged := d.count(d.charged); started > 0 && charged+started > d.limit()+number(d.probe()) {
		return fmt.Errorf("%d charged and %d started, limit %d", charged, started, d.limit())
	}
	return nil
}

func currentPodsStay(d *dumb, p Plan) error {
	for _, f := range d.nodes {
		if !d.mayRun(f) || !d.anyServing(f.current) {
			continue
		}
		live, _ := d.after(p, f)
		running := filter(live, func(p Pod) bool { return !p.Phase.Terminal() && p.UID != "created" })
		if len(running) == 0 {
			return fmt.Errorf("%s loses its last running pod, and had an available one of the wanted revision", f.Name)
		}
		if d.surge() && len(filter(running, func(p Pod) bool { return p.Revision == d.s.Set.Update })) == 0 {
			return fmt.Errorf("%s loses its pod of the wanted revision", f.Name)
		}
		if len(f.live) == 1 && len(live) != 1 {
			return fmt.Errorf("%s has what it wants, and something is done", f.Name)
		}
	}
	return nil
}

func onDeleteKeeps(d *dumb, p Plan) error {
	for _, f := range d.nodes {
		if d.s.Set.Strategy == RollingUpdate || !d.mayRun(f) || len(f.running) == 0 {
			continue
		}
		live, _ := d.after(p, f)
		if !slices.ContainsFunc(live, func(p Pod) bool { return p.UID == f.running[0].UID }) {
			return fmt.Errorf("%s loses the pod that it runs", f.Name)
		}
	}
	return nil
}

// inOrder: among the nodes with one available old pod, those where the update starts come before those where it does not.
func inOrder(d *dumb, p Plan) error {
	waiting := ""
	for _, f := range d.ordered() {
		if !d.candidate(f) || d.idle(f) || d.surge() && f.Fit == MayStay {
			continue
		}
		acts := slices.ContainsFunc(p.Actions, func(a Action) bool { return a.Node == f.index })
		if f.Refusal != nil {
			continue // see refusedComesLast
		}
		if acts && waiting != "" {
			return fmt.Errorf("%s is updated and %s waits", f.Name, waiting)
		}
		if !acts {
			waiting = f.Name
		}
	}
	return nil
}

func nothingForgotten(d *dumb, p Plan) error {
	if slices.ContainsFunc(p.Verdicts, func(v Verdict) bool { return v.Kind == WaitBurst }) || p.Wake == d.s.Now {
		return nil
	}
	for _, f := range d.nodes {
		live, creates := d.after(p, f)
		if d.barred(f) {
			continue
		}
		if d.creates(f) && creates == 0 {
			return fmt.Errorf("%s gets no pod", f.Name)
		}
		for _, pod := range live {
			if _, goes := d.condemned(f, pod); goes && pod.UID != "created" {
				return fmt.Errorf("%s is not deleted", pod.Name)
			}
		}
		acts := slices.ContainsFunc(p.Actions, func(a Action) bool { return a.Node == f.index })
		if d.candidate(f) && d.idle(f) && !d.early(f) && d.s.Set.MaxReplacing == nil && !acts && !d.slowed() {
			return fmt.Errorf("%s is old and not available, and stays", f.old[0].Name)
		}
		if d.mustAct(f.index) && !acts {
			return fmt.Errorf("nothing is done on %s", f.Name)
		}
	}
	return nil
}

// slowed is whether a policy limits how many updates start.
func (d *dumb) slowed() bool {
	return d.s.Gate != nil && (d.s.Gate.InFlight >= 0 || d.s.Gate.Starts >= 0)
}

func budgetIsUsed(d *dumb, p Plan) error {
	idle, started := 0, 0
	for _, f := range d.nodes {
		if !d.candidate(f) || d.idle(f) || d.surge() && f.Fit == MayStay || d.barred(f) || d.slowed() {
			continue
		}
		switch kind := p.Verdicts[f.index].Kind; {
		case slices.Contains([]VerdictKind{Recreating, Surging, UpdatingInPlace, Preparing, WaitBurst}, kind),
			f.Refusal != nil && p.Wake == d.s.Now: // there was no room for it
			started++
		default:
			idle++
		}
	}
	if idle > 0 && d.count(d.charged)+started < d.limit()+number(d.probe()) {
		return fmt.Errorf("%d nodes wait, %d started, limit %d", idle, started, d.limit())
	}
	return nil
}

func verdictsFit(d *dumb, p Plan) error {
	for i, v := range p.Verdicts {
		first := slices.IndexFunc(p.Actions, func(a Action) bool { return a.Node == i })
		switch {
		case int(v.Kind) >= len(verdicts):
			return fmt.Errorf("node %d: unknown verdict", i)
		case v.Kind.Acts() != (first >= 0):
			return fmt.Errorf("node %d: %s, and its first action is %d", i, v.Kind, first)
		case first >= 0 && p.Actions[first].Reason != v.Kind:
			return fmt.Errorf("node %d: %s, and its first action is for %s", i, v.Kind, p.Actions[first].Reason)
		case first < 0 && d.mustAct(i) && d.nodes[i].Refusal != nil && v.Kind != Blocked:
			return fmt.Errorf("node %d: %s instead of blocked", i, v.Kind)
		case first < 0 && d.mustAct(i) && d.nodes[i].Refusal == nil && v.Kind != WaitBurst:
			return fmt.Errorf("node %d: %s instead of wait-burst", i, v.Kind)
		}
	}
	return nil
}

func (d *dumb) mustAct(i int) bool {
	f := d.nodes[i]
	if d.s.Set.ExternalController {
		return false
	}
	steps, _, _ := d.step(f)
	return d.creates(f) || f.back != "" || len(steps) > 0 || slices.ContainsFunc(f.pods, func(p Pod) bool {
		_, goes := d.condemned(f, p)
		return goes
	})
}

func chargesAddUp(d *dumb, p Plan) error {
	sum := 0
	for i, v := range p.Verdicts {
		sum += number(v.Charged)
		if d.charged(d.nodes[i]) && !v.Charged {
			return fmt.Errorf("node %d is not charged", i)
		}
		starts := []VerdictKind{Recreating, Surging, UpdatingInPlace, Preparing}
		if v.Charged && !d.charged(d.nodes[i]) && !slices.Contains(starts, v.Kind) {
			return fmt.Errorf("node %d is charged", i)
		}
	}
	b := p.Budget
	if used := b.UsedByOthers + b.UsedByUnreachable + b.UsedByUpdate; used != sum {
		return fmt.Errorf("%d charged, %d used", sum, used)
	}
	if b.Limit != d.limit() {
		return fmt.Errorf("limit %d, want %d", b.Limit, d.limit())
	}
	return nil
}

func statusIsRight(d *dumb, p Plan) error {
	if want := d.status(); p.Status != want {
		return fmt.Errorf("%+v, want %+v", p.Status, want)
	}
	return nil
}

func backoffIsKept(d *dumb, p Plan) error {
	for i := 1; i < len(p.Memory.Backoffs); i++ {
		if p.Memory.Backoffs[i-1].Node >= p.Memory.Backoffs[i].Node {
			return fmt.Errorf("the back-offs are not sorted")
		}
	}
	for _, a := range p.Actions {
		if a.Reason != ReplacingFailed {
			continue
		}
		name := d.nodes[a.Node].Name
		i := slices.IndexFunc(p.Memory.Backoffs, func(b Backoff) bool { return b.Node == name })
		switch {
		case d.nodes[a.Node].held && !preparing(*d.pod(a)):
			return fmt.Errorf("%s is replaced during the back-off", a.Pod)
		case i < 0 || p.Memory.Backoffs[i].Last != d.s.Now:
			return fmt.Errorf("the replacement of %s is not remembered", a.Pod)
		case p.Memory.Backoffs[i].Delay < time.Second || p.Memory.Backoffs[i].Delay > 15*time.Minute:
			return fmt.Errorf("the delay of %s is %s", name, p.Memory.Backoffs[i].Delay)
		}
	}
	return nil
}

func notesFit(d *dumb, p Plan) error {
	ended := 0
	for _, a := range p.Actions {
		f := d.nodes[a.Node]
		ended += number(a.Kind == Delete && d.mayRun(f) && d.pod(a).Phase.Terminal())
	}
	for _, n := range p.Notes {
		if n.Action < 0 || n.Action >= len(p.Actions) || p.Actions[n.Action].Pod != n.Pod || p.Actions[n.Action].Node != n.Node {
			return fmt.Errorf("note %+v fits no action", n)
		}
		phase := map[NoteKind]Phase{FoundFailedPod: Failed, FoundSucceededPod: Succeeded}[n.Kind]
		if d.pod(p.Actions[n.Action]).Phase != phase {
			return fmt.Errorf("note %+v is about another phase", n)
		}
	}
	if ended != len(p.Notes) {
		return fmt.Errorf("%d notes for %d ended pods", len(p.Notes), ended)
	}
	return nil
}

func wakesInTime(d *dumb, p Plan) error {
	cut := slices.ContainsFunc(p.Verdicts, func(v Verdict) bool { return v.Kind == WaitBurst })
	if cut && p.Wake != d.s.Now {
		return fmt.Errorf("the plan was cut, and wakes at %d", p.Wake)
	}
	by := d.wake(false, p.Verdicts)
	if by != 0 && (p.Wake == 0 || p.Wake > by) {
		return fmt.Errorf("wakes at %d, should at %d", p.Wake, by)
	}
	return nil
}
