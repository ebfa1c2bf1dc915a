// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/test/harness"
)

// What others in the cluster do to a set of seven nodes, with a budget of one: see harness.Subject.
const neighbourNodes = 7

// subject is a set of apps/v1 on that many nodes.
func subject(t *testing.T, nodes int, unavailable, surge string) *harness.Subject {
	t.Helper()
	const name = "ds"
	s := cluster(t).Space(t, nodes)
	return &harness.Subject{
		Space: s, Set: name, APIVersion: "apps/v1", Kind: "DaemonSet", Image: harness.Image2,
		Create: func() { s.Create(name, harness.WithBudget(unavailable, surge)) },
		Roll:   func() { s.Update(name, harness.WithImage(harness.Image2)) },
		Touch: func(seconds int) {
			written := s.Update(name, harness.WithMinReady(int32(seconds)))
			s.Wait("the set is looked at again", harness.RolledOut(name, written.Generation, nodes))
		},
		UID: func() types.UID { return s.View().Set(name).UID },
	}
}

// TestOneProtectedPod plays each write that the dialect has.
func TestOneProtectedPod(t *testing.T) {
	for _, test := range []struct {
		name, operation, unavailable, surge string
		last                                bool
	}{
		{"DeleteOnTheFirstNode", "DELETE", "1", "0", false},
		{"DeleteOnTheLastNode", "DELETE", "1", "0", true},
		{"CreateWithSurgeOnTheFirstNode", "CREATE", "0", "1", false},
		{"CreateWithSurgeOnTheLastNode", "CREATE", "0", "1", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			subject(t, neighbourNodes, test.unavailable, test.surge).OneProtectedPod(test.operation, test.last)
		})
	}
}

func TestADeleteWebhookThatIsDown(t *testing.T) {
	subject(t, neighbourNodes, "1", "0").ADeleteWebhookThatIsDown()
}

func TestAWebhookThatNeverAnswers(t *testing.T) {
	subject(t, neighbourNodes, "1", "0").AWebhookThatNeverAnswers()
}

func TestMutatorsThatNeverAnswer(t *testing.T) {
	subject(t, 3, "1", "0").MutatorsThatNeverAnswer()
}

func TestAWebhookThatDeniesWithoutACode(t *testing.T) {
	subject(t, neighbourNodes, "1", "0").AWebhookThatDeniesWithoutACode()
}

func TestPodsOfStrangers(t *testing.T) {
	subject(t, neighbourNodes, "1", "0").PodsOfStrangers(t, cluster(t).Space(t, 0))
}

func TestARevisionWithAFinalizer(t *testing.T) {
	subject(t, neighbourNodes, "1", "0").ARevisionWithAFinalizer()
}
