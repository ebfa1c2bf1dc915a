// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"fmt"
	"math/rand/v2"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// author makes up a story from a seed.
type author struct {
	*rand.Rand
	sets  []string
	nodes int // names of nodes are n1 to this number
	// among is whether others are at work in the cluster, and barred whether they may stand in the way.
	among, barred bool
}

func newAuthor(seed uint64) *author {
	a := &author{Rand: rand.New(rand.NewPCG(seed, 0)), sets: []string{"ds"}}
	a.nodes = 1 + a.IntN(6)
	if a.chance(4) {
		a.sets = append(a.sets, "other")
	}
	return a
}

// chance is true once in n times.
func (a *author) chance(n int) bool { return a.IntN(n) == 0 }

func pick[T any](a *author, from ...T) T { return from[a.IntN(len(from))] }

// start is a cluster without anything.
func start() *state { return &state{at: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)} }

// first makes nodes and creates the sets.
func (a *author) first() []act {
	var acts []act
	for i := range a.nodes {
		name, zone, taint := fmt.Sprintf("n%d", i+1), pick(a, "a", "a", "b"), a.taint()
		acts = append(acts, act{words: fmt.Sprintf("there is node %s in zone %s, its taint is %q", name, zone, taint), do: func(c *cluster) {
			n := newNode(name, map[string]string{"zone": zone})
			if taint != "" {
				n.Spec.Taints = []corev1.Taint{{Key: "team", Value: "x", Effect: taint}}
			}
			must(c.create(nodes, n))
		}})
	}
	for _, name := range a.sets {
		ds := a.newSet(name)
		acts = append(acts, act{words: "a user creates " + wordsOf(ds), do: func(c *cluster) { createSet(c, ds) }})
	}
	return acts
}

func (a *author) taint() corev1.TaintEffect {
	if !a.chance(6) {
		return ""
	}
	return pick(a, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute)
}

func (a *author) newSet(name string) *appsv1.DaemonSet {
	labels := map[string]string{"app": name}
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	ds.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	ds.Spec.Template.Labels = labels
	ds.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: pick(a, "img:1", "img:2", slow)}}
	for _, edit := range []edit{a.strategy(), a.placement(), a.details()} {
		edit.do(ds)
	}
	return ds
}

// wordsOf is what makes a difference in a set.
func wordsOf(ds *appsv1.DaemonSet) string {
	u, spec := ds.Spec.UpdateStrategy, ds.Spec.Template.Spec
	text := fmt.Sprintf("%s (%s", ds.Name, spec.Containers[0].Image)
	if u.Type == appsv1.OnDeleteDaemonSetStrategyType {
		text += ", OnDelete"
	} else {
		text += fmt.Sprintf(", maxUnavailable %s, maxSurge %s", u.RollingUpdate.MaxUnavailable, u.RollingUpdate.MaxSurge)
	}
	if ds.Spec.RevisionHistoryLimit != nil {
		text += fmt.Sprintf(", history %d", *ds.Spec.RevisionHistoryLimit)
	}
	return text + fmt.Sprintf(", minReady %d, selector %v, affinity %v, tolerations %d)",
		ds.Spec.MinReadySeconds, spec.NodeSelector, spec.Affinity != nil, len(spec.Tolerations))
}

// edit is a change of a set by a user.
type edit struct {
	words string
	do    func(ds *appsv1.DaemonSet)
}

func (a *author) strategy() edit {
	if a.chance(6) {
		return edit{"the strategy OnDelete", func(ds *appsv1.DaemonSet) {
			ds.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}
		}}
	}
	unavailable := pick(a, intstr.FromInt32(1), intstr.FromInt32(1), intstr.FromInt32(2), intstr.FromString("50%"), intstr.FromString("100%"))
	surge := intstr.FromInt32(0)
	if a.chance(3) {
		unavailable, surge = surge, pick(a, intstr.FromInt32(1), intstr.FromInt32(2), intstr.FromString("40%"))
	}
	return edit{fmt.Sprintf("maxUnavailable %s and maxSurge %s", &unavailable, &surge), func(ds *appsv1.DaemonSet) {
		ds.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{
			Type:          appsv1.RollingUpdateDaemonSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &unavailable, MaxSurge: &surge},
		}
	}}
}

func (a *author) placement() edit {
	switch a.IntN(6) {
	case 0:
		return edit{"a selector of zone a", func(ds *appsv1.DaemonSet) { ds.Spec.Template.Spec.NodeSelector = map[string]string{"zone": "a"} }}
	case 1:
		return edit{"an affinity to zone b", func(ds *appsv1.DaemonSet) {
			ds.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"b"}}},
				}}},
			}}
		}}
	case 2:
		effect := pick(a, "", corev1.TaintEffectNoSchedule)
		return edit{fmt.Sprintf("a toleration of the taint, effect %q", effect), func(ds *appsv1.DaemonSet) {
			ds.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "team", Operator: corev1.TolerationOpExists, Effect: effect}}
		}}
	default:
		return edit{"no rules of placement", func(ds *appsv1.DaemonSet) {
			s := &ds.Spec.Template.Spec
			s.NodeSelector, s.Affinity, s.Tolerations = nil, nil, nil
		}}
	}
}

func (a *author) details() edit {
	ready, history := pick(a, int32(0), 0, 0, 5, 20), pick(a, int32(10), 10, 1, 0)
	return edit{fmt.Sprintf("minReadySeconds %d and history %d", ready, history), func(ds *appsv1.DaemonSet) {
		ds.Spec.MinReadySeconds, ds.Spec.RevisionHistoryLimit = ready, &history
	}}
}

func (a *author) image() edit {
	image := pick(a, "img:1", "img:1", "img:2", "img:2", "img:3", slow, broken, crash, picky, flaky)
	return edit{image, func(ds *appsv1.DaemonSet) { ds.Spec.Template.Spec.Containers[0].Image = image }}
}

func (a *author) label() edit {
	value := pick(a, "x", "y")
	return edit{"the label version=" + value + " and an annotation", func(ds *appsv1.DaemonSet) {
		ds.Spec.Template.Labels = map[string]string{"app": ds.Name, "version": value}
		ds.Spec.Template.Annotations = map[string]string{"note": value}
	}}
}

// step is what happens next.
func (a *author) step() []act {
	acts := []act{a.act()}
	for a.chance(3) { // before the cluster has come to rest
		acts[len(acts)-1].then = time.Duration(a.IntN(25)) * time.Second
		acts = append(acts, a.act())
	}
	return acts
}

func (a *author) act() act {
	switch {
	case a.barred && a.chance(4):
		a.barred = false
		return admitAll()
	case a.among && a.chance(3):
		a.barred = true
		return a.neighbourAct()
	}
	set, node := pick(a, a.sets...), fmt.Sprintf("n%d", 1+a.IntN(a.nodes))
	switch n := a.IntN(20); {
	case n < 9:
		return a.edit(set)
	case n < 13:
		return pick(a, podActs(set, node)...)
	case n < 17:
		if a.chance(4) && a.nodes < 8 {
			a.nodes++
			joins := nodeActs(fmt.Sprintf("n%d", a.nodes))
			return joins[len(joins)-1]
		}
		return pick(a, nodeActs(node)...)
	case n == 17:
		orphan, ds := a.chance(2), a.newSet(set)
		return act{words: fmt.Sprintf("a user deletes %s (orphaning its pods: %v) and creates %s", set, orphan, wordsOf(ds)), do: func(c *cluster) {
			deleteSet(c, set, orphan)
			createSet(c, ds)
		}}
	case n == 18:
		e, adoptable := a.image(), a.chance(2)
		return act{words: fmt.Sprintf("a user gives %s %s, for which there is a revision of a stranger (adoptable: %v)", set, e.words, adoptable),
			do: func(c *cluster) { collide(c, set, adoptable, e.do) }}
	default:
		k := a.IntN(4)
		return act{words: fmt.Sprintf("somebody deletes revision %d of %s", k, set), do: func(c *cluster) { deleteRevision(c, set, k) }}
	}
}

func (a *author) edit(set string) act {
	e := a.image()
	switch a.IntN(9) {
	case 0:
		e = a.strategy()
	case 1:
		e = a.placement()
	case 2:
		e = a.details()
	case 3:
		e = a.label()
	}
	return act{words: fmt.Sprintf("a user gives %s %s", set, e.words), do: func(c *cluster) { editSet(c, set, e.do) }}
}

// deleteRevision deletes one of the revisions of a set, if it has so many.
func deleteRevision(c *cluster, set string, k int) {
	ds := at[appsv1.DaemonSet](&c.state, sets, set)
	if ds == nil {
		return
	}
	var owned []string
	dependants(c, ds.UID, func(resource string, o object) {
		if resource == revisions {
			owned = append(owned, o.GetName())
		}
	})
	if k < len(owned) {
		byUser(c, revisions, owned[k])
	}
}
