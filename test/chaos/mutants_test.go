// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"everynode.dev/everynode/test/observe"
)

// judgeMutants changes what was recorded in one place each, and fails if nobody notices: a judge that is content with everything would be
// content with the run as well.
func (u *troupe) judgeMutants() {
	u.t.Helper()
	for _, m := range u.members {
		log, rules := u.ledger.Of(m.name, m.limit)
		most := observe.Judge(log, rules).MostUnavailable
		noticed := func(what string, log []observe.Event, rules observe.Rules, by ...observe.Invariant) {
			u.t.Helper()
			report := observe.Judge(log, rules)
			if !slices.ContainsFunc(report.Violations, func(v observe.Violation) bool { return slices.Contains(by, v.Invariant) }) {
				u.t.Errorf("set %s, %s: nobody notices", m.name, what)
			}
		}
		noticed("two more pods on a node", crowd(log, rules.From), rules, observe.OnePod, observe.SurgePods)
		if most > 1 {
			smaller := rules
			smaller.Limit = most - 1
			noticed("a smaller budget", log, smaller, observe.Budget)
		}
	}
}

// crowd gives the first pod that was created since then two twins.
func crowd(log []observe.Event, from uint64) []observe.Event {
	at := slices.IndexFunc(log, func(e observe.Event) bool {
		_, isPod := e.Object.(*corev1.Pod)
		return isPod && e.Type == watch.Added && e.Version > from
	})
	if at < 0 {
		return log
	}
	var twins []observe.Event
	for i := range 2 {
		twin := log[at]
		pod := twin.Object.(*corev1.Pod).DeepCopy()
		pod.UID, pod.Name = types.UID(fmt.Sprint("twin", i)), fmt.Sprint(pod.Name, "-twin", i)
		twin.Object = pod
		twins = append(twins, twin)
	}
	return slices.Insert(slices.Clone(log), at+1, twins...)
}
