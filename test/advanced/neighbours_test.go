// SPDX-License-Identifier: Apache-2.0

package advanced

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/test/harness"
)

// neighbourScenarios are about what others in the cluster do (harness.Subject): a policy that protects the pod of one node, while all others are updated with a
// budget of one, and it follows when the policy has gone; webhooks; pods of strangers; and people who delete revisions.
func neighbourScenarios() []scenario {
	const standard, surge = "maxUnavailable: 1", "maxSurge: 1, maxUnavailable: 0"
	return []scenario{
		{"protected-from-being-deleted", 7, true, protected("DELETE", standard, false)},
		{"revision-with-a-finalizer-is-deleted", 7, false, func(s *stage) { s.subject(standard).ARevisionWithAFinalizer() }},
		{"protected-from-being-deleted-on-the-last-node", 7, false, protected("DELETE", standard, true)},
		{"protected-from-being-changed-in-place", 7, false, protected("UPDATE", inPlace+", "+standard, false)},
		{"protected-from-being-changed-in-place-on-the-last-node", 7, false, protected("UPDATE", inPlace+", "+standard, true)},
		{"protected-from-being-created-with-surge", 7, false, protected("CREATE", surge, false)},
		{"protected-from-being-created-with-surge-on-the-last-node", 7, false, protected("CREATE", surge, true)},
		{"delete-webhook-is-down", 7, false, func(s *stage) { s.subject(standard).ADeleteWebhookThatIsDown() }},
		{"webhook-never-answers", 7, false, func(s *stage) { s.subject(standard).AWebhookThatNeverAnswers() }},
		{"webhook-denies-without-a-code", 7, false, func(s *stage) { s.subject(standard).AWebhookThatDeniesWithoutACode() }},
		{"pods-of-strangers", 7, false, func(s *stage) { s.subject(standard).PodsOfStrangers(s.t, s.Cluster.Space(s.t, 0)) }},
	}
}

func protected(operation, strategy string, last bool) func(s *stage) {
	return func(s *stage) { s.subject(strategy).OneProtectedPod(operation, last) }
}

// subject is the set of the stage.
func (s *stage) subject(strategy string) *harness.Subject {
	return &harness.Subject{
		Space: s.Space, Set: s.name, APIVersion: "apps.kruise.io/v1beta1", Kind: "DaemonSet", Image: two,
		Create: func() { s.apply(rolling(strategy)) },
		Roll:   func() { s.apply(withImage(two)) },
		Touch: func(seconds int) {
			s.apply(fmt.Sprintf("spec: {minReadySeconds: %d}", seconds))
			s.rolled()
		},
		UID: func() types.UID { return s.set().UID },
	}
}
