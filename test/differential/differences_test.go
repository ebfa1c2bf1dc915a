// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/daemon"
	"k8s.io/kubernetes/pkg/controller/daemon/util"
)

// What is counted beside the differences.
const (
	same      = "the same"
	sameAgain = "the same, when the native controller tried again"
)

// misled and young are the names of differences.
const (
	misled  = "generation of another set"
	young   = "young pods"
	refused = "a write that is refused"
)

// ending is what both have made of a step.
type ending struct {
	from, native, ours *state
	step               []act
	found              []mismatch
	// accepted is the name of the difference that this is, or that there is none; empty if this must not be.
	accepted string
	// told is the end of the native controller after it was started anew; the others are what each makes of the end of the other. They are
	// nil until somebody asks.
	told, nativeOnOurs, oursOnTold *state
	// informed is what the native controller makes of the step where nothing misleads it, beside what ours has made of it; nil until somebody asks.
	informed *ending
	// grown is what both make of the step where no pod is young; nil until somebody asks.
	grown *ending
	// admitted is what each makes of its own end when everything is admitted; nil until somebody asks.
	admitted *ending
}

func (e *ending) String() string {
	var b strings.Builder
	for _, m := range e.found {
		fmt.Fprintln(&b, m)
	}
	return b.String()
}

// difference is one that is accepted, of one set.
type difference struct {
	name, reason string
	// most is in how many of 1,000 steps it may be accepted.
	most       int
	recognised func(t *testing.T, e *ending, set string) bool
}

// differences are all that are accepted. Beside them there are the conditions in the status, which only Everynode writes, and names of pods,
// which it derives; neither is compared.
func differences() []difference {
	return []difference{
		{
			name: "no event for the native controller", most: 10,
			reason: "a node that need not run its pod any more, but may keep it, causes no event in the native controller, so its status is outdated until " +
				"the next event. With a surge, a new pod that reaches minReadySeconds causes no event either, so the update stops. After a restart, " +
				"until it does nothing more, the native controller does what Everynode does.",
			recognised: func(t *testing.T, e *ending, set string) bool {
				return (e.onlyStatus(set) || waitsSurging(e.native, set)) && e.sameAnywhere(t, set)
			},
		},
		{
			name: misled, most: 25,
			reason: "a set that was deleted and created again counts its templates from 1, as the last one did. The native controller treats a pod of the " +
				"last set as current if the label pod-template-generation happens to have the same number; Everynode compares templates. When the step " +
				"is repeated with pods that lose that label as soon as their set is another one, the native controller must do what Everynode has done, " +
				"or the difference is in this list, too.",
			recognised: func(t *testing.T, e *ending, set string) bool {
				return e.native.misled[set] && e.inform(t).accepts(t, set)
			},
		},
		{
			name: "pods that have no place", most: 10,
			reason: "a pod that cannot terminate, on a node that must not run it, takes a slot of the native controller's budget for as long as it exists, " +
				"and none of Everynode's (internal/rollout). Without such pods both do the same, except for the choice of old revisions, which was made before.",
			recognised: func(t *testing.T, e *ending, set string) bool {
				theirs, our := placed(e.toldAgain(t)), placed(e.ours)
				if len(our.tables[pods]) == len(e.ours.tables[pods]) {
					return false
				}
				theirs, our = play(t, upstream, theirs, nil), play(t, ours, our, nil)
				return theirs != nil && our != nil && anyNode(see(e.from, theirs).of(set)).butHistory().is(anyNode(see(e.from, our).of(set)).butHistory())
			},
		},
		{
			name: young, most: 10,
			reason: "the native controller replaces an old pod that is ready, but not for minReadySeconds yet, whatever the budget is. Everynode replaces it " +
				"only while no more nodes are unavailable than may be, and together with as many others as may surge, because only a clock makes the " +
				"difference (internal/rollout). When the step is repeated with pods that have been ready for long enough, both do the same, or the " +
				"difference is in this list, too.",
			recognised: func(t *testing.T, e *ending, _ string) bool {
				return !e.from.grown && e.waits() && e.grow(t).accepted != ""
			},
		},
		{
			name: "another node", most: 15,
			reason: "an update that cannot continue stops on the nodes that it took first. The native controller takes them in random order, Everynode by " +
				"name. The number of nodes in each state is the same, and each of the two has nothing to do in the final state of the other.",
			recognised: func(t *testing.T, e *ending, set string) bool {
				return e.sameAnywhere(t, set) && e.bothRest(t, set)
			},
		},
		{
			name: "pace", most: 10,
			reason: "an update that is followed by another change, and cannot continue after that, keeps the progress that it had by then. This depends on " +
				"the speed of the controller, and on the first node. Both then have the same newest revision and the same number of available pods, and " +
				"each of the two has nothing to do in the final state of the other.",
			recognised: func(t *testing.T, e *ending, set string) bool {
				return slices.ContainsFunc(e.step, func(a act) bool { return a.then > 0 }) && e.sameService(t, set) && e.bothRest(t, set)
			},
		},
		{
			name: refused, most: 20,
			reason: "the native controller updates no node of a set while a missing pod of the set cannot be created, or a superfluous one cannot be " +
				"deleted, and does nothing at all while a pod cannot be adopted or released. In Everynode only the node with the rejected write waits, " +
				"and the others continue. Once everything is admitted both reach the same state, and until then Everynode has left no more nodes without " +
				"the update; or the difference is in this list, too.",
			recognised: func(t *testing.T, e *ending, set string) bool {
				if !e.native.stands() || !e.aheadOf(set) {
					return false
				}
				then := e.admit(t)
				return then.accepts(t, set) || then.sameService(t, set) && then.bothRest(t, set)
			},
		},
		{
			name: "a surge of no nodes", most: 5,
			reason: "a maxSurge in percent is 0 where no node must run a pod. The native controller then uses maxUnavailable, which is also 0, and keeps an " +
				"old pod where it may stay but need not; Everynode deletes it, as both do where the set has other nodes.",
			recognised: func(_ *testing.T, e *ending, set string) bool {
				ds := at[appsv1.DaemonSet](e.ours, sets, set)
				return ds != nil && util.AllowsSurge(ds) && ds.Status.DesiredNumberScheduled == 0 && e.ours.serving(ds) < e.native.serving(ds)
			},
		},
	}
}

// judge looks for a difference for every set of which something was found.
func (e *ending) judge(t *testing.T) {
	var names []string
	for _, m := range e.found {
		i := slices.IndexFunc(differences(), func(d difference) bool { return d.recognised(t, e, m.set) })
		if i < 0 {
			return
		}
		names = append(names, differences()[i].name)
	}
	slices.Sort(names)
	e.accepted = strings.Join(slices.Compact(names), ", ")
}

// accepts is whether both have left the same of a set, or what differs is accepted.
func (e *ending) accepts(t *testing.T, set string) bool {
	return !slices.ContainsFunc(e.found, func(m mismatch) bool { return m.set == set }) ||
		slices.ContainsFunc(differences(), func(d difference) bool { return d.recognised(t, e, set) })
}

// inform tells the native controller the step once more, in a world in which it takes no pod for current by its generation that was made before its set.
func (e *ending) inform(t *testing.T) *ending {
	if e.informed != nil {
		return e.informed
	}
	from := e.from.unmistakable()
	e.informed = &ending{from: from, step: e.step, native: play(t, upstream, from, e.step), ours: e.ours.unmistakable()}
	if e.informed.native == nil {
		t.Fatal("a cluster in which nothing misleads the native controller has not come to rest")
	}
	e.informed.found = see(from, e.informed.native).compare(see(from, e.informed.ours))
	return e.informed
}

// stands is whether anything stands against writes.
func (s *state) stands() bool { return len(s.rules) > 0 || s.quota > 0 }

// aheadOf is whether Everynode has left no more nodes of a set to be updated than the native controller, or has seen an edit of which that has not come to
// know.
func (e *ending) aheadOf(set string) bool {
	theirs, our := at[appsv1.DaemonSet](e.native, sets, set), at[appsv1.DaemonSet](e.ours, sets, set)
	left := func(s *appsv1.DaemonSetStatus) int32 { return s.DesiredNumberScheduled - s.UpdatedNumberScheduled }
	return theirs != nil && our != nil &&
		(left(&our.Status) <= left(&theirs.Status) || our.Status.ObservedGeneration > theirs.Status.ObservedGeneration)
}

// admit has each go on from its own end when everything is admitted.
func (e *ending) admit(t *testing.T) *ending {
	if e.admitted == nil {
		step := []act{admitAll()}
		e.admitted = &ending{from: e.from, step: step, native: play(t, upstream, e.native, step), ours: play(t, ours, e.ours, step)}
		if e.admitted.native == nil || e.admitted.ours == nil {
			t.Fatal("a cluster in which everything is admitted has not come to rest")
		}
		e.admitted.found = see(e.from, e.admitted.native).compare(see(e.from, e.admitted.ours))
	}
	return e.admitted
}

// waits is whether a set waits for pods to be ready for long enough.
func (e *ending) waits() bool {
	return slices.ContainsFunc([]*state{e.from, e.native, e.ours}, func(s *state) bool {
		return slices.ContainsFunc(s.names(sets), func(name string) bool { return at[appsv1.DaemonSet](s, sets, name).Spec.MinReadySeconds > 0 })
	})
}

// grow tells both the step once more, in a world in which a pod that is ready has been so for long.
func (e *ending) grow(t *testing.T) *ending {
	if e.grown == nil {
		from := newCluster(e.from).state
		from.grown = true
		e.grown = playBoth(t, &from, e.step)
	}
	return e.grown
}

// onlyStatus is whether nothing else was found of a set.
func (e *ending) onlyStatus(set string) bool {
	return !slices.ContainsFunc(e.found, func(m mismatch) bool { return m.set == set && m.of != ofStatus })
}

// waitsSurging is whether a set has both a surge and minReadySeconds.
func waitsSurging(s *state, set string) bool {
	ds := at[appsv1.DaemonSet](s, sets, set)
	return ds != nil && ds.Spec.MinReadySeconds > 0 && util.AllowsSurge(ds)
}

// restarts is how often the native controller is started anew at most: it gets by one node further each time.
const restarts = 10

// toldAgain is what the native controller makes of its own end when it is started anew until nothing changes.
func (e *ending) toldAgain(t *testing.T) *state {
	if e.told != nil {
		return e.told
	}
	e.told = e.native
	for range restarts {
		next := play(t, upstream, e.told, nil)
		if next == nil || see(e.told, next).is(see(e.told, e.told)) {
			break
		}
		e.told = next
	}
	return e.told
}

// sameAnywhere is whether both have left the same of a set, whichever nodes it is on.
func (e *ending) sameAnywhere(t *testing.T, set string) bool {
	return anyNode(see(e.from, e.toldAgain(t)).of(set)).is(anyNode(see(e.from, e.ours).of(set)))
}

// bothRest is whether each of the two leaves as it is what the other one has left of a set.
func (e *ending) bothRest(t *testing.T, set string) bool {
	rests := func(s, after *state) bool { return after != nil && see(s, s).of(set).is(see(s, after).of(set)) }
	told := e.toldAgain(t)
	if e.nativeOnOurs == nil {
		e.nativeOnOurs, e.oursOnTold = play(t, upstream, e.ours, nil), play(t, ours, told, nil)
	}
	return rests(e.ours, e.nativeOnOurs) && rests(told, e.oursOnTold)
}

// sameService is whether both have the same newest revision of a set in the end, and as many pods of it that are available.
func (e *ending) sameService(t *testing.T, set string) bool {
	told := e.toldAgain(t)
	theirs, our := at[appsv1.DaemonSet](told, sets, set), at[appsv1.DaemonSet](e.ours, sets, set)
	return theirs != nil && our != nil && told.currentHash(theirs) == e.ours.currentHash(our) && told.serving(theirs) == e.ours.serving(our)
}

// serving is how many pods of a set are ready, which at rest all that are available are.
func (s *state) serving(ds *appsv1.DaemonSet) int {
	count := 0
	for _, o := range s.tables[pods] {
		if p := o.(*corev1.Pod); metav1.IsControlledBy(p, ds) && p.DeletionTimestamp == nil && isReady(p) {
			count++
		}
	}
	return count
}

// placed is a state without the pods that are on their way out, on nodes that must not run them.
func placed(s *state) *state {
	next := newCluster(s).state
	for _, name := range s.names(pods) {
		p := at[corev1.Pod](s, pods, name)
		on, _ := util.GetTargetNodeName(p)
		ref := metav1.GetControllerOf(p)
		if p.DeletionTimestamp == nil || ref == nil {
			continue
		}
		ds, node := at[appsv1.DaemonSet](s, sets, ref.Name), at[corev1.Node](s, nodes, on)
		if ds == nil || node == nil {
			continue
		}
		if _, stays := daemon.NodeShouldRunDaemonPod(klog.Logger{}, node, ds); !stays {
			delete(next.tables[pods], name)
		}
	}
	return &next
}

// anyNode is what would be seen if nodes and pods had no names.
func anyNode(seen sight) sight {
	node, pod := regexp.MustCompile(`"n[0-9]+"`), regexp.MustCompile(`\n\t\S+`)
	blind, like := sight{}, []string{}
	for of, text := range seen {
		if !strings.HasPrefix(of.of, onNode) {
			blind[of] = text
			continue
		}
		text = pod.ReplaceAllStringFunc(node.ReplaceAllString(text, "node"), func(w string) string {
			if w == "\n\tnew" {
				return w
			}
			return "\n\tnot new"
		})
		lines := strings.Split(text, "\n")
		slices.Sort(lines)
		like = append(like, strings.Join(lines, "\n"))
	}
	slices.Sort(like)
	blind[topic{of: "pods"}] = strings.Join(like, "\n\n")
	return blind
}

// note remembers the sets for which the native controller takes a pod for current that was made before the set, by its generation.
func (s *state) note() {
	for _, o := range s.tables[pods] {
		p := o.(*corev1.Pod)
		ref := metav1.GetControllerOfNoCopy(p)
		if ref == nil {
			continue
		}
		ds := at[appsv1.DaemonSet](s, sets, ref.Name)
		if ds != nil && p.CreationTimestamp.Before(&ds.CreationTimestamp) &&
			p.Labels[extensionsv1beta1.DaemonSetTemplateGenerationKey] == ds.Annotations[appsv1.DeprecatedTemplateGeneration] &&
			p.Labels[appsv1.ControllerRevisionHashLabelKey] != s.currentHash(ds) {
			s.misled[ds.Name] = true
		}
	}
}

// unmistakable is a state without the generations on pods that were made before their set, and in which no pod keeps its own when a set is made anew.
func (s *state) unmistakable() *state {
	c := newCluster(s)
	c.unmistaken = true
	for _, name := range s.names(sets) {
		c.forgetGenerations(at[appsv1.DaemonSet](s, sets, name))
	}
	return &c.state
}

// forgetGenerations takes the generation from every pod of a set that was made before it.
func (c *cluster) forgetGenerations(ds *appsv1.DaemonSet) {
	for _, name := range c.names(pods) {
		p := at[corev1.Pod](&c.state, pods, name)
		if _, has := p.Labels[extensionsv1beta1.DaemonSetTemplateGenerationKey]; has && p.Labels["app"] == ds.Name && p.CreationTimestamp.Before(&ds.CreationTimestamp) {
			change(c, pods, name, func(p *corev1.Pod) { delete(p.Labels, extensionsv1beta1.DaemonSetTemplateGenerationKey) })
		}
	}
}

// currentHash is the hash of the newest revision of a set.
func (s *state) currentHash(ds *appsv1.DaemonSet) string {
	hash, newest := "", int64(-1)
	for _, name := range s.names(revisions) {
		r := at[appsv1.ControllerRevision](s, revisions, name)
		if metav1.IsControlledBy(r, ds) && r.Revision > newest {
			hash, newest = r.Labels[appsv1.ControllerRevisionHashLabelKey], r.Revision
		}
	}
	return hash
}
