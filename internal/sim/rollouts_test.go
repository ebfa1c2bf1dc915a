// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	api "everynode.dev/everynode/api/kruise"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/everynode/v1alpha1"
)

const (
	policyName = "p"
	// mostApprovals is how many approvals there are at a time, at most.
	mostApprovals = 8
)

// kinds is the end of the kinds of objects that there are in a run.
func (s *sim) kinds() kind {
	if s.cfg.with("rollouts") {
		return kinds
	}
	return ofPolicies
}

// anyRollout is a rollout policy by chance, in the words that newPolicy reads.
func anyRollout(r *rand.Rand) string {
	approval := func() string { return oneOf(r, "", ":approval") }
	words := []string{oneOf(r, "1", "1", "1", "2", "50%") + ":" + oneOf(r, "20", "20", "5", "0") + approval()}
	if r.IntN(2) == 0 {
		words = append(words, oneOf(r, "1", "50%", "70%")+":"+oneOf(r, "0", "5", "20")+approval())
	}
	if r.IntN(3) == 0 {
		words = append(words, "grow:1")
	}
	if r.IntN(3) == 0 {
		words = append(words, "upgrading:"+oneOf(r, "1", "1", "2", "50%"))
	}
	if r.IntN(4) == 0 {
		words = append(words, "between:"+oneOf(r, "5", "30"))
	}
	if r.IntN(4) == 0 {
		words = append(words, "latest")
	}
	if r.IntN(3) == 0 {
		words = append(words, "judge:"+oneOf(r, "1", "1", "1", "3"))
	}
	return strings.Join(words, ",")
}

// anyZones is by chance what a policy makes of the zones of nodes, in the words that newPolicy reads.
func anyZones(r *rand.Rand) string { return oneOf(r, ",spread", ",zones", ",spread,zones") }

// specOf reads a policy: each wave is its number of nodes, its soak in seconds and whether it needs an approval; grow is a wave of all other nodes in steps.
func (c config) specOf() v1alpha1.RolloutPolicySpec {
	target := v1alpha1.Target{APIVersion: "apps/v1", Kind: "DaemonSet", Name: setName}
	if c.dialect == kruiseRun {
		target.APIVersion = api.Group + "/" + api.VersionStored
	}
	spec := v1alpha1.RolloutPolicySpec{Targets: []v1alpha1.Target{target}, Pace: &v1alpha1.Pace{MaxUnavailable: c.budget()}, ConcurrencyGroup: c.group()}
	for _, word := range strings.Split(c.rollout, ",") {
		parts := strings.Split(word, ":")
		value := intstr.Parse(parts[min(1, len(parts)-1)])
		switch parts[0] {
		case "grow":
			spec.Waves = append(spec.Waves, v1alpha1.Wave{Name: "grow", Growth: &v1alpha1.Growth{Start: value}})
		case "upgrading":
			spec.Pace.MaxUpgrading = &value
		case "between":
			spec.Pace.MinTimeBetween = &metav1.Duration{Duration: time.Duration(value.IntVal) * time.Second}
		case "judge": // a pod may be unavailable for so many seconds
			spec.Failure = &v1alpha1.Failure{NodeDeadline: &metav1.Duration{Duration: time.Duration(value.IntVal) * time.Second}}
		case "group": // see group
		case "undo", "anytime", "analysis":
			undoOf(&spec, parts[0], value)
		case "waiting", "late", "alerts":
			reasonsOf(&spec, parts[0], value)
		case "spread":
			for i := range spec.Waves {
				if w := &spec.Waves[i].Nodes; w.Count != nil || w.Percent != nil {
					w.SpreadBy = []string{zoneLabel}
				}
			}
		case "zones":
			spec.Order = &v1alpha1.Order{TopologyKey: zoneLabel, Domains: v1alpha1.OneAtATime}
		case "latest":
			spec.JoiningNodes = v1alpha1.JoiningLatest
		default:
			w := v1alpha1.Wave{Name: words("w%d", len(spec.Waves)+1), Soak: &metav1.Duration{Duration: time.Duration(value.IntVal) * time.Second}}
			if n := intstr.Parse(parts[0]); n.Type == intstr.Int {
				w.Nodes.Count = &n.IntVal
			} else {
				percent, _ := strconv.ParseInt(strings.TrimSuffix(parts[0], "%"), 10, 32)
				of := int32(percent)
				if k := len(spec.Waves); k > 0 && spec.Waves[k-1].Nodes.Percent != nil && of <= *spec.Waves[k-1].Nodes.Percent {
					of = 100 // a wave without nodes is no policy that can be followed
				}
				w.Nodes.Percent = &of
			}
			if slices.Contains(parts, "approval") {
				w.After = []v1alpha1.Gate{{Type: v1alpha1.GateApproval}}
			}
			spec.Waves = append(spec.Waves, w)
		}
	}
	return spec
}

// makePolicy makes the policy of the configuration, once more as another object.
func (s *sim) makePolicy() {
	if !s.cfg.with("rollouts") {
		return
	}
	s.w.born[policyName]++
	s.w.put(ofPolicies, &v1alpha1.RolloutPolicy{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: policyName, UID: types.UID(words("policy-%d", s.w.born[policyName])), Generation: 1,
			CreationTimestamp: metav1.NewTime(s.w.now),
		},
		Spec: s.cfg.specOf(),
	})
}

// policy is the rollout policy; nil if there is none.
func (w *world) rolloutPolicy() *v1alpha1.RolloutPolicy {
	p, _ := w.state[ofPolicies][policyName].(*v1alpha1.RolloutPolicy)
	return p
}

// approvals are those that there are, sorted by name.
func (w *world) approvals() []*v1alpha1.RolloutApproval {
	var list []*v1alpha1.RolloutApproval
	for _, o := range w.all(ofApprovals) {
		list = append(list, o.(*v1alpha1.RolloutApproval))
	}
	return list
}

// editPolicy changes the specification of the policy.
func (s *sim) editPolicy(change func(*v1alpha1.RolloutPolicySpec)) {
	if p := s.w.rolloutPolicy(); p != nil {
		p = p.DeepCopy()
		change(&p.Spec)
		p.Generation++
		s.w.put(ofPolicies, p)
	}
}

// decide makes an approval.
func (s *sim) decide(decision v1alpha1.Decision, wave, revision string) {
	s.w.born["approvals"]++
	name := words("decision-%d", s.w.born["approvals"])
	s.w.put(ofApprovals, &v1alpha1.RolloutApproval{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(s.w.now)},
		Spec:       v1alpha1.RolloutApprovalSpec{Policy: policyName, Set: setName, Wave: wave, Revision: revision, Decision: decision},
	})
}

// rolloutOps are what people do with policies and approvals, and how a manager writes their statuses.
func (s *sim) rolloutOps(ops []op) []op {
	if m := s.lead; m != nil && !m.cut {
		ops = m.rules.writeOps(ops)
		ops = m.provider.providerOps(ops)
	}
	add := func(weight int, do func(), format string, args ...any) {
		ops = append(ops, op{words(format, args...), weight, do})
	}
	if s.cfg.grouped() {
		ops = s.peerOps(ops)
	}
	for _, a := range s.w.approvals() {
		add(1, func() { s.w.remove(ofApprovals, a.Name) }, "a user deletes %s", a.Name)
	}
	p := s.w.rolloutPolicy()
	if p == nil {
		add(4, s.makePolicy, "a user makes the rollout policy anew")
		add(1, s.release, "a user takes the marks from the revisions")
		return ops
	}
	add(1, func() { s.w.remove(ofPolicies, policyName) }, "a user deletes the rollout policy")
	add(1, func() {
		p := p.DeepCopy()
		p.Status = v1alpha1.RolloutPolicyStatus{}
		s.w.put(ofPolicies, p)
	}, "the status of the rollout policy is lost")
	if p.Spec.Suspend {
		add(3, func() { s.editPolicy(func(spec *v1alpha1.RolloutPolicySpec) { spec.Suspend = false }) }, "a user resumes the rollouts")
	} else {
		add(1, func() { s.editPolicy(func(spec *v1alpha1.RolloutPolicySpec) { spec.Suspend = true }) }, "a user suspends the rollouts")
	}
	if len(p.Spec.Freezes) > 0 {
		add(3, func() { s.editPolicy(func(spec *v1alpha1.RolloutPolicySpec) { spec.Freezes = nil }) }, "the freeze of rollouts ends")
	} else {
		add(1, func() {
			// No clock of a manager is wrong by so much that it would not see the freeze.
			f := v1alpha1.Freeze{From: metav1.NewTime(s.w.now.Add(-10 * time.Hour)), To: metav1.NewTime(s.w.now.Add(1000 * time.Hour))}
			s.editPolicy(func(spec *v1alpha1.RolloutPolicySpec) { spec.Freezes = []v1alpha1.Freeze{f} })
		}, "a freeze of rollouts begins")
	}
	ops = s.windowOps(ops, p)
	for _, n := range []int32{1, 2} {
		if len(p.Spec.Waves) == 0 {
			break
		}
		if first := p.Spec.Waves[0].Nodes.Count; first == nil || *first != n {
			add(1, func() {
				s.editPolicy(func(spec *v1alpha1.RolloutPolicySpec) {
					spec.Waves[0].Nodes.Count, spec.Waves[0].Nodes.Percent = &n, nil
				})
			}, "a user gives the first wave %d nodes", n)
		}
	}
	return s.decisionOps(ops, p)
}

// windowLength is how long a window is open.
const windowLength = 8 * time.Hour

// windowOps are windows that people give the policy: one that is open, one that opens half a day later, and none. No clock of a manager is wrong by so much that it
// would take one for the other.
func (s *sim) windowOps(ops []op, p *v1alpha1.RolloutPolicy) []op {
	add := func(weight int, from time.Time, format string, args ...any) {
		ops = append(ops, op{words(format, args...), weight, func() {
			schedule := words("%d %d * * *", from.UTC().Minute(), from.UTC().Hour())
			s.editPolicy(func(spec *v1alpha1.RolloutPolicySpec) {
				spec.Windows = []v1alpha1.Window{{Schedule: schedule, Duration: metav1.Duration{Duration: windowLength}}}
			})
		}})
	}
	if len(p.Spec.Windows) > 0 {
		none := func() { s.editPolicy(func(spec *v1alpha1.RolloutPolicySpec) { spec.Windows = nil }) }
		ops = append(ops, op{"a user allows rollouts at any time", 2, none})
	} else {
		add(1, s.w.now.Add(12*time.Hour), "a user allows rollouts in half a day only")
	}
	add(1, s.w.now.Add(-windowLength/2), "a user allows rollouts now and for some hours")
	return ops
}

// outside is whether all windows of a policy are closed, for every clock that is wrong by two hours at most.
func outside(p *v1alpha1.RolloutPolicy, now time.Time) bool {
	return len(p.Spec.Windows) > 0 && !slices.ContainsFunc(p.Spec.Windows, func(w v1alpha1.Window) bool {
		var minute, hour int
		_, err := fmt.Sscanf(w.Schedule, "%d %d", &minute, &hour)
		begins := time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute
		since := (now.UTC().Sub(now.UTC().Truncate(24*time.Hour)) - begins + 48*time.Hour) % (24 * time.Hour)
		return err != nil || since < w.Duration.Duration+2*time.Hour || since > 22*time.Hour
	})
}

// decisionOps are decisions of people about the newest revision and older ones, and about the wave that waits and others.
func (s *sim) decisionOps(ops []op, p *v1alpha1.RolloutPolicy) []op {
	if len(s.w.approvals()) >= mostApprovals {
		return ops
	}
	newest := s.everything().target()
	for _, o := range s.w.all(ofRevisions) {
		r := o.(*appsv1.ControllerRevision)
		if !ownedBy(r, s.w.set()) {
			continue
		}
		for i := range p.Spec.Waves {
			wave, weight := p.Spec.Waves[i].Name, 1
			if newest != nil && r.Name == newest.Name && waits(p, wave) != nil {
				weight = 8
			}
			ops = append(ops, op{words("a user approves wave %s of %s", wave, r.Name), weight, func() { s.decide(v1alpha1.Approve, wave, r.Name) }})
			if i == 0 {
				ops = append(ops, op{words("a user promotes wave %s of %s", wave, r.Name), 1, func() { s.decide(v1alpha1.Promote, wave, r.Name) }})
			}
		}
		ops = append(ops, op{words("a user rejects %s", r.Name), 1, func() { s.decide(v1alpha1.Reject, "", r.Name) }})
		if p.Spec.Failure != nil {
			ops = append(ops, op{words("a user retries %s", r.Name), 1, func() { s.decide(v1alpha1.Retry, "", r.Name) }})
		}
	}
	return ops
}

// waits is the status of the set if that wave waits for an approval; nil if it does not.
func waits(p *v1alpha1.RolloutPolicy, wave string) *v1alpha1.SetStatus {
	for i := range p.Status.Sets {
		for _, w := range p.Status.Sets[i].Waves {
			if w.Name == wave && w.Phase == v1alpha1.WaveWaitingForApproval {
				return &p.Status.Sets[i]
			}
		}
	}
	return nil
}

// release takes the marks of a policy from the revisions, as who wants to go on without one does.
func (s *sim) release() {
	for _, o := range s.w.all(ofRevisions) {
		if o.GetAnnotations()[everynode.Committed] != "" {
			o = copyOf(o)
			annotations := o.GetAnnotations()
			delete(annotations, everynode.Committed)
			o.SetAnnotations(annotations)
			s.w.put(ofRevisions, o)
		}
	}
}

// pacifyRollout ends what keeps a rollout from going on for ever. A policy that was deleted is made anew.
func (s *sim) pacifyRollout() {
	if !s.cfg.with("rollouts") {
		return
	}
	s.pacifyPeer()
	if s.w.rolloutPolicy() == nil {
		s.makePolicy()
	}
	s.editPolicy(func(spec *v1alpha1.RolloutPolicySpec) { spec.Suspend, spec.Freezes, spec.Windows = false, nil, nil })
	for _, a := range s.w.approvals() {
		if a.Spec.Decision == v1alpha1.Reject {
			s.w.remove(ofApprovals, a.Name)
		}
	}
}

// fairRollout is what a manager writes of policies, and an approval that a wave waits for; nil where there is nothing to do.
func (s *sim) fairRollout() *op {
	if !s.cfg.with("rollouts") {
		return nil
	}
	if ops := s.lead.rules.writeOps(nil); len(ops) > 0 {
		return &ops[0]
	}
	if o := s.lead.provider.fairAnswer(); o != nil {
		return o
	}
	p, m := s.w.rolloutPolicy(), s.lead
	if p == nil || !m.synced() || m.running || m.due() || m.peer.running || m.peerDue() {
		return nil // people decide when all has come to rest
	}
	if o := s.soakOp(p); o != nil {
		return o
	}
	if s.undoing || s.ill != "" {
		return nil
	}
	// What is held back and never works may use up the budget, so that no wave goes on: people take the waves and the order away then.
	if (len(p.Spec.Waves) > 0 || p.Spec.Order != nil) && slices.ContainsFunc(s.w.pods(), func(p *corev1.Pod) bool { return ownedBy(p, s.w.set()) && live(p) && !works(p) }) {
		return &op{"a user takes the waves away", 1, func() {
			s.editPolicy(func(spec *v1alpha1.RolloutPolicySpec) { spec.Waves, spec.Order = nil, nil })
		}}
	}
	if o := s.unstickPeer(); o != nil {
		return o
	}
	for _, next := range []func(*v1alpha1.RolloutPolicy) *op{s.emptyOp, s.retryOp, s.promoteOp} {
		if o := next(p); o != nil {
			return o
		}
	}
	for i := range p.Spec.Waves {
		wave := p.Spec.Waves[i].Name
		st := waits(p, wave)
		if st == nil || slices.ContainsFunc(s.w.approvals(), func(a *v1alpha1.RolloutApproval) bool {
			former := s.w.set() != nil && a.CreationTimestamp.Time.Before(s.w.set().GetCreationTimestamp().Time) // it was about a set that was deleted
			return !former && a.Spec.Decision == v1alpha1.Approve && a.Spec.Wave == wave && a.Spec.Revision == st.TargetRevision && counts(a, st.TargetNumber) &&
				(a.Status.State == "" || a.Status.Attempt == st.Attempt)
		}) {
			continue
		}
		for _, wrong := range []struct{ wave, revision string }{{"another", st.TargetRevision}, {wave, st.CommittedRevision}} {
			if !s.hasDecision(wrong.wave, wrong.revision) {
				return &op{words("a user approves wave %s of %s", wrong.wave, wrong.revision), 1, func() { s.decide(v1alpha1.Approve, wrong.wave, wrong.revision) }}
			}
		}
		return &op{words("a user approves wave %s of %s", wave, st.TargetRevision), 1, func() { s.decide(v1alpha1.Approve, wave, st.TargetRevision) }}
	}
	return nil
}

// mostRetries is how often a user retries a revision until they let it run for as long as it takes.
const mostRetries = 20

// retryOp is that a user retries a revision that has failed; nil if none has, or a user does so already, or has just done so: where a pod has no time to start, it fails
// again at once. Where its time is too short in any case, as where minReadySeconds is as long, a user has the revision not judged any more.
func (s *sim) retryOp(p *v1alpha1.RolloutPolicy) *op {
	if s.retried.Equal(s.w.now) {
		return nil
	}
	for i := range p.Status.Sets {
		st := &p.Status.Sets[i]
		asked := slices.ContainsFunc(s.w.approvals(), func(a *v1alpha1.RolloutApproval) bool {
			return a.Spec.Decision == v1alpha1.Retry && a.Spec.Revision == st.TargetRevision && a.Status.State == ""
		})
		if st.Failure != nil && !asked {
			return &op{words("a user retries %s", st.TargetRevision), 1, func() {
				if s.retried, s.retries = s.w.now, s.retries+1; s.retries%mostRetries == 0 {
					s.editPolicy(func(spec *v1alpha1.RolloutPolicySpec) { spec.Failure, spec.Undo = nil, nil })
				}
				s.decide(v1alpha1.Retry, "", st.TargetRevision)
			}}
		}
	}
	return nil
}

// promoteOp is that a user goes on after a wave of which all nodes that had begun are gone, or a step or zone of which all are left out; nil if there is none, or a user has done so already.
func (s *sim) promoteOp(p *v1alpha1.RolloutPolicy) *op {
	for i := range p.Status.Sets {
		st := &p.Status.Sets[i]
		left := slices.ContainsFunc(st.Waves, func(w v1alpha1.WaveStatus) bool { return w.Name == st.Wave && w.Nodes > 0 }) // else no node of the wave is counted, and nothing can be decided
		gone := slices.ContainsFunc(st.Blocking, func(b v1alpha1.Blocking) bool { return b.Reason == "NodesGone" || b.Reason == "NodesLeftOut" && left })
		asked := slices.ContainsFunc(s.w.approvals(), func(a *v1alpha1.RolloutApproval) bool {
			return a.Spec.Decision == v1alpha1.Promote && a.Spec.Wave == st.Wave && a.Spec.Revision == st.TargetRevision && counts(a, st.TargetNumber) &&
				(a.Status.State == "" || a.Status.Attempt == st.Attempt)
		})
		if gone && !asked {
			return &op{words("a user promotes wave %s of %s", st.Wave, st.TargetRevision), 1, func() { s.decide(v1alpha1.Promote, st.Wave, st.TargetRevision) }}
		}
	}
	return nil
}

// hasDecision is whether anybody has approved a wave of a revision, be it in another rollout.
func (s *sim) hasDecision(wave, revision string) bool {
	return slices.ContainsFunc(s.w.approvals(), func(a *v1alpha1.RolloutApproval) bool { return a.Spec.Wave == wave && a.Spec.Revision == revision })
}

// lastRollouts are two more rollouts, when all has come to its end; the second one is often of a revision that was rolled out before. People approve other
// waves and revisions before they approve the one that waits, and there may be trouble in the middle of a soak.
func (s *sim) lastRollouts() {
	for range 2 {
		if s.broken != nil {
			return
		}
		s.w.editSet(func(spec map[string]any) {
			setImage(spec, otherImage(s.w.set()))
		})
		s.editPolicy(func(spec *v1alpha1.RolloutPolicySpec) {
			spec.Waves, spec.Order = s.cfg.specOf().Waves, s.cfg.specOf().Order
		})
		s.note("a user edits the image once more")
		if s.w.peer() != nil {
			s.editPeer(otherImage(s.w.peer()))
		}
		s.trouble = []trouble{noTrouble, aDeath, aLook, aRejection}[s.w.rv%4]
		s.rest()
	}
	s.lastIllness()
	s.lastUndo()
	s.lastQuota()
}

// counts is whether an approval that is about a revision counts for the rollout of that number.
func counts(a *v1alpha1.RolloutApproval, number int64) bool {
	return a.Status.State == "" || a.Status.State == v1alpha1.ApprovalValid && a.Status.TargetNumber == number
}

// asStored is an object as a store has it: times without fractions of a second.
func asStored[T any](from *T) T {
	var to T
	data, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(data, &to)
	}
	if err != nil {
		panic(fmt.Sprintf("storing %v: %v", from, err))
	}
	return to
}
