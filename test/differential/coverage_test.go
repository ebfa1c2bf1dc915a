// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/controller/daemon/util"
)

// kinds are what has to happen in some steps, or the stories say nothing of it. Each is a question to the end that native has left.
func kinds() map[string]func(e *ending) bool {
	return map[string]func(e *ending) bool{
		"a change half-way": func(e *ending) bool {
			return slices.ContainsFunc(e.step, func(a act) bool { return a.then > 0 })
		},
		"an update that came to its end": func(e *ending) bool {
			return e.updated(func(s *appsv1.DaemonSetStatus) bool { return s.NumberUnavailable == 0 })
		},
		"an update that stands still": func(e *ending) bool {
			return anySet(e, func(_, now *appsv1.DaemonSet) bool {
				return !onDelete(now) && now.Status.UpdatedNumberScheduled < now.Status.DesiredNumberScheduled
			})
		},
		"old pods under OnDelete": func(e *ending) bool {
			return anySet(e, func(_, now *appsv1.DaemonSet) bool {
				return onDelete(now) && now.Status.UpdatedNumberScheduled < now.Status.CurrentNumberScheduled
			})
		},
		"an update with surge": func(e *ending) bool {
			return e.updated(func(*appsv1.DaemonSetStatus) bool { return true }) && anySet(e, func(_, now *appsv1.DaemonSet) bool { return util.AllowsSurge(now) })
		},
		"a pod on a node that only may keep it": func(e *ending) bool {
			return anySet(e, func(_, now *appsv1.DaemonSet) bool { return now.Status.NumberMisscheduled > 0 })
		},
		"a collision": func(e *ending) bool {
			return anySet(e, func(was, now *appsv1.DaemonSet) bool {
				return now.Status.CollisionCount != nil && (was == nil || was.Status.CollisionCount == nil)
			})
		},
		"a set made anew": func(e *ending) bool {
			return anySet(e, func(was, now *appsv1.DaemonSet) bool { return was != nil && was.UID != now.UID })
		},
		"a pod adopted from another set": func(e *ending) bool {
			return anyPod(e, func(was, now *corev1.Pod) bool {
				return was != nil && ownerUID(was) != ownerUID(now) && ownerUID(now) != ""
			})
		},
		"an orphan adopted": func(e *ending) bool {
			return anyPod(e, func(was, now *corev1.Pod) bool {
				return was == nil && strings.HasPrefix(now.Name, "orphan-") && ownerUID(now) != ""
			})
		},
		"a pod released": func(e *ending) bool {
			return anyPod(e, func(was, now *corev1.Pod) bool { return was != nil && ownerUID(was) != "" && ownerUID(now) == "" })
		},
		"pods that failed": func(e *ending) bool { return !maps.Equal(e.from.failed, e.native.failed) },
		"a pod that cannot go": func(e *ending) bool {
			return anyPod(e, func(_, now *corev1.Pod) bool { return now.DeletionTimestamp != nil })
		},
		"a node that left":       func(e *ending) bool { return len(e.native.tables[nodes]) < len(e.from.tables[nodes]) },
		"a history that was cut": func(e *ending) bool { return anyRevisionGone(e) },
	}
}

// kindsAmong are those of stories in which others are at work in the cluster.
func kindsAmong() map[string]func(e *ending) bool {
	all := kinds()
	maps.Copy(all, map[string]func(e *ending) bool{
		"writes that are refused":        func(e *ending) bool { return e.native.stands() },
		"writes that are admitted again": func(e *ending) bool { return e.from.stands() && !e.native.stands() },
		"a quota":                        func(e *ending) bool { return e.native.quota > 0 },
		"a slow webhook":                 func(e *ending) bool { return e.native.slow > 0 },
		"a pod that a webhook has changed": func(e *ending) bool {
			return anyPod(e, func(was, now *corev1.Pod) bool { return was == nil && now.Labels["mesh"] != "" })
		},
		"a pod of a tenant": func(e *ending) bool {
			return anyPod(e, func(_, now *corev1.Pod) bool { return now.Namespace == tenantSpace })
		},
	})
	return all
}

// tally counts steps by how they ended, and by what happened in them.
type tally struct {
	failed      atomic.Int32 // stories
	kinds       map[string]func(e *ending) bool
	mu          sync.Mutex
	steps       int
	ended, seen map[string]int
}

func (c *tally) add(e *ending) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended == nil {
		c.ended, c.seen = map[string]int{}, map[string]int{}
	}
	c.steps++
	c.ended[e.accepted]++
	for kind, happened := range c.kinds {
		if happened(e) {
			c.seen[kind]++
		}
	}
}

// check fails where nothing of a kind happened, and where too much had to be accepted.
func (c *tally) check(t *testing.T) {
	for _, complaint := range c.complaints() {
		t.Error(complaint)
	}
}

func (c *tally) complaints() (all []string) {
	for _, kind := range slices.Sorted(maps.Keys(c.kinds)) {
		if c.seen[kind] == 0 {
			all = append(all, fmt.Sprintf("no step had %s: the author of the stories has to write of it again", kind))
		}
	}
	if equal := c.ended[same] + c.ended[sameAgain]; equal*10 < c.steps*9 {
		all = append(all, fmt.Sprintf("only %d of %d steps ended the same", equal, c.steps))
	}
	for _, d := range differences() {
		if n := c.accepted(d.name); n*1000 > d.most*c.steps {
			all = append(all, fmt.Sprintf("%q was accepted in %d of %d steps, and may be in %d of 1,000", d.name, n, c.steps, d.most))
		}
	}
	return all
}

// accepted is in how many steps a difference was accepted.
func (c *tally) accepted(name string) int {
	n := 0
	for names, steps := range c.ended {
		if slices.Contains(strings.Split(names, ", "), name) {
			n += steps
		}
	}
	return n
}

func (c *tally) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d steps ended", c.steps)
	for _, name := range slices.Sorted(maps.Keys(c.ended)) {
		fmt.Fprintf(&b, "\n%6d  %s", c.ended[name], name)
	}
	b.WriteString("\nThere were")
	for _, name := range slices.Sorted(maps.Keys(c.seen)) {
		fmt.Fprintf(&b, "\n%6d  %s", c.seen[name], name)
	}
	return b.String()
}

// updated is whether the template of a set is another one than before, all pods are of it, and the status is as asked.
func (e *ending) updated(ask func(s *appsv1.DaemonSetStatus) bool) bool {
	return anySet(e, func(was, now *appsv1.DaemonSet) bool {
		s := &now.Status
		return was != nil && was.UID == now.UID && e.from.currentHash(was) != e.native.currentHash(now) &&
			s.DesiredNumberScheduled > 0 && s.UpdatedNumberScheduled == s.DesiredNumberScheduled && ask(s)
	})
}

func onDelete(ds *appsv1.DaemonSet) bool {
	return ds.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType
}

func anySet(e *ending, ask func(was, now *appsv1.DaemonSet) bool) bool {
	return slices.ContainsFunc(e.native.names(sets), func(name string) bool {
		return ask(at[appsv1.DaemonSet](e.from, sets, name), at[appsv1.DaemonSet](e.native, sets, name))
	})
}

func anyPod(e *ending, ask func(was, now *corev1.Pod) bool) bool {
	return slices.ContainsFunc(e.native.names(pods), func(name string) bool {
		return ask(at[corev1.Pod](e.from, pods, name), at[corev1.Pod](e.native, pods, name))
	})
}

func anyRevisionGone(e *ending) bool {
	return slices.ContainsFunc(e.from.names(revisions), func(name string) bool {
		was := at[appsv1.ControllerRevision](e.from, revisions, name)
		owner := metav1.GetControllerOf(was)
		lives := owner != nil && slices.ContainsFunc(e.native.names(sets), func(set string) bool { return e.native.tables[sets][set].GetUID() == owner.UID })
		return lives && e.native.tables[revisions][name] == nil
	})
}

func ownerUID(o metav1.Object) string {
	if ref := metav1.GetControllerOf(o); ref != nil {
		return string(ref.UID)
	}
	return ""
}
