// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// mostInColumn is how many daemon sets a column of kubectl get names. Source: kubectl names as many addresses of Endpoints.
const mostInColumn = 3

// Summary is the status of a policy in short. A column of a CustomResourceDefinition shows only the first of several values, so each field is one string. The
// daemon sets with an active rollout come first. A policy that is stalled and applies to no daemon set has the phase Stalled, and before that, while
// its daemon set may appear, Reconciling.
func Summary(sets []v1alpha1.SetStatus, conditions []metav1.Condition) v1alpha1.Summary {
	if _, stalled := Kept(conditions); len(sets) == 0 && stalled != metav1.ConditionFalse {
		phase := string(v1alpha1.PhaseStalled)
		if stalled == metav1.ConditionUnknown {
			phase = v1alpha1.ConditionReconciling
		}
		return v1alpha1.Summary{Sets: "-", Phases: phase, Waves: "-"}
	}
	sets = slices.Clone(sets)
	slices.SortStableFunc(sets, func(a, b v1alpha1.SetStatus) int { return cmp.Compare(rank(a), rank(b)) })
	column := func(of func(s *v1alpha1.SetStatus) string) string {
		var parts []string
		for i := range sets[:min(len(sets), mostInColumn)] {
			parts = append(parts, cmp.Or(of(&sets[i]), "-"))
		}
		return strings.Join(parts, ",")
	}
	out := v1alpha1.Summary{
		Sets:   column(func(s *v1alpha1.SetStatus) string { return s.Name }),
		Phases: column(func(s *v1alpha1.SetStatus) string { return string(s.Phase) }),
		Waves:  column(func(s *v1alpha1.SetStatus) string { return s.Wave }),
	}
	if more := len(sets) - mostInColumn; more > 0 {
		out.Sets += fmt.Sprintf(" + %d more...", more)
	}
	return out
}

// rank is 1 for a daemon set without an active rollout, else 0.
func rank(s v1alpha1.SetStatus) int {
	if s.Phase == v1alpha1.PhaseComplete {
		return 1
	}
	return 0
}

// mostInCondition is how many characters the message of a condition has at most. The CRD allows 32768, and the API server refuses a status with a longer one.
const mostInCondition = 16 * 1024

// mostInMessage is how many daemon sets a message names for one text, and how many texts it has.
const mostInMessage = 10

// setTexts are texts about daemon sets. Sets with the same text come together.
type setTexts struct{ all []setText }

// setText is a text about some daemon sets.
type setText struct {
	text string
	sets []string
}

func (t *setTexts) add(set, text string) {
	at := slices.IndexFunc(t.all, func(s setText) bool { return s.text == text })
	if at < 0 {
		at = len(t.all)
		t.all = append(t.all, setText{text: text})
	}
	t.all[at].sets = append(t.all[at].sets, set)
}

func (t *setTexts) String() string { return t.joined("; ") }

// joined joins the texts. Of many, it has only the first ones, and the number of daemon sets that the others are about.
func (t *setTexts) joined(separator string) string {
	var parts []string
	for i := range t.all[:min(len(t.all), mostInMessage)] {
		s := &t.all[i]
		parts = append(parts, some(s.sets, mostInMessage)+": "+s.text)
	}
	others := map[string]bool{}
	for i := mostInMessage; i < len(t.all); i++ {
		for _, set := range t.all[i].sets {
			others[set] = true
		}
	}
	if len(others) > 0 {
		parts = append(parts, fmt.Sprintf("more daemon sets in status.sets: %d", len(others)))
	}
	return strings.Join(parts, separator)
}
