// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// guard is a policy that is there together with others: it refuses a kind of write for the pods of a node, or for one pod, for a while or for ever.
type guard struct {
	policy
	// pod is the only pod that it protects; empty for all of the node.
	pod types.UID
	// until is when it ends; zero for never.
	until time.Time
}

// mostGuards is how many there are at a time, at most.
const mostGuards = 3

// codeAnswers are refusals with every code that there is, also those by which the API server says something else where it says them itself.
func codeAnswers() []refusal {
	full := apierrors.NewForbidden(podResource("pods"), "", errors.New("denied"))
	down := apierrors.NewInternalError(errors.New(`failed calling webhook "w.example": context deadline exceeded`))
	return []refusal{
		{"400", apierrors.NewBadRequest("denied")},
		{"401", apierrors.NewUnauthorized("denied")},
		{"403", full},
		{"404 of a namespace", apierrors.NewNotFound(podResource("namespaces"), namespace)},
		{"409 of a quota", apierrors.NewConflict(podResource("resourcequotas"), "q", errors.New("the object has been modified"))},
		{"413", apierrors.NewRequestEntityTooLargeError("limit is 3145728")},
		{"422", apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "", nil)},
		{"429 of a budget of disruptions", apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)},
		{"500 of a webhook", down},
		{"504", apierrors.NewGenericServerResponse(http.StatusGatewayTimeout, "", podResource("pods"), "", "denied", 0, true)},
	}
}

// guardOps are guards that come, and that go before their time.
func (s *sim) guardOps(ops []op) []op {
	for i, g := range s.w.guards {
		ops = append(ops, op{words("guard %d goes: %s", i+1, g), 1, func() { s.w.guards = slices.Delete(slices.Clone(s.w.guards), i, i+1) }})
	}
	if len(s.w.guards) >= mostGuards {
		return ops
	}
	answers := slices.Concat(policyAnswers(), codeAnswers())
	for i, n := range s.w.nodes() {
		for k, verb := range policyVerbs() {
			g := &guard{policy: policy{verb, n.Name, answers[(7*s.terms+5*s.w.born[n.Name]+3*i+k)%len(answers)]}}
			if k > 0 && len(s.podsOn(n.Name)) > 0 && s.w.born[n.Name]%2 == 0 {
				g.pod = s.podsOn(n.Name)[0].UID
			}
			for _, seconds := range []int{0, 20} {
				ops = append(ops, op{words("a guard comes for %d s: %s", seconds, g), 1, func() {
					g := *g
					if seconds > 0 {
						g.until = s.w.now.Add(time.Duration(seconds) * time.Second)
					}
					s.w.guards = append(slices.Clone(s.w.guards), &g)
				}})
			}
		}
	}
	return ops
}

// String says what a guard refuses.
func (g *guard) String() string {
	if g.pod != "" {
		return words("no %s of %s: %s", g.verb, g.pod, g.what)
	}
	return words("no %s of pods of %s: %s", g.verb, g.node, g.what)
}

// guarded is what a guard says to a request; nil if none stands against it.
func (s *sim) guarded(r *request) error {
	for _, g := range s.w.guards {
		over := !g.until.IsZero() && !g.until.After(s.w.now)
		p := s.w.pod(r.action.pod)
		if !over && s.concerns(r, g.verb, g.node) && (g.pod == "" || p != nil && p.UID == g.pod) {
			return g.err
		}
	}
	return nil
}

// keepGuard has a guard that is there for ever protect its node as the policy does that stays until all else has come to its end.
func (s *sim) keepGuard() {
	for _, g := range s.w.guards {
		if s.w.policy == nil && g.pod == "" && g.until.IsZero() {
			s.w.policy = &g.policy
		}
	}
}
