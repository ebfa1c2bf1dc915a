// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"everynode.dev/everynode/test/harness"
	"everynode.dev/everynode/test/observe"
)

const (
	rollNodes  = 200
	rollBudget = 20 // 10%
	rollTime   = 6 * time.Minute
)

// TestRoll200Budget: a roll of 200 nodes with maxUnavailable 10% never has more than 20 nodes unavailable, and uses the
// budget that it has.
func TestRoll200Budget(t *testing.T) {
	long(t)
	s := cluster(t).Space(t, rollNodes)
	s.Run("ds", harness.WithBudget("10%", "0"))
	recorder := s.Observe("ds")
	started := time.Now()
	written := s.Update("ds", harness.WithImage(harness.Image2))
	s.WaitFor(rollTime, "the roll ends", harness.RolledOut("ds", written.Generation, rollNodes), runsImage("ds", harness.Image2))
	t.Logf("rolled in %s", time.Since(started).Round(time.Second))
	report := s.Judge(recorder)
	checkRoll(t, report)
	if report.MostUnavailable < rollBudget/2 {
		t.Errorf("at most %d nodes were unavailable at once: the budget of %d was not used", report.MostUnavailable, rollBudget)
	}
}

// checkRoll says in numbers what the observer judged: a second look, so that a broken judge is noticed.
func checkRoll(t *testing.T, report observe.Report) {
	t.Helper()
	if report.Limit != rollBudget || report.MostUnavailable > rollBudget {
		t.Errorf("%d nodes unavailable, budget %d, want at most %d", report.MostUnavailable, report.Limit, rollBudget)
	}
	if report.MostPodsOnNode != 1 {
		t.Errorf("a node had %d pods", report.MostPodsOnNode)
	}
	if len(report.Created) != rollNodes || len(report.Deleted) != rollNodes || len(report.Restarted) != 0 {
		t.Errorf("%d pods created, %d deleted, %d restarted, want %d, %d and 0",
			len(report.Created), len(report.Deleted), len(report.Restarted), rollNodes, rollNodes)
	}
}

// TestRollKillManager: killing the manager with SIGKILL at ten random moments of the roll changes nothing of this, also when
// there are two and either of them is killed. Most of its time goes by waiting for the lease of a killed leader to run out,
// so it has planes of its own and lets other tests run meanwhile.
func TestRollKillManager(t *testing.T) {
	long(t)
	t.Parallel()
	controller, err := harness.ControllerUnderTest()
	if err != nil {
		t.Fatal(err)
	}
	t.Run("OneManager", func(t *testing.T) {
		c := harness.Own(t, harness.Options{Nodes: rollNodes, Controller: controller})
		if controller == harness.Native {
			rollWhileKilling(t, c, []string{harness.NativeComponent})
			return
		}
		rollWhileKilling(t, c, []string{harness.ManagerComponent})
	})
	t.Run("TwoManagers", func(t *testing.T) {
		if controller == harness.Native {
			t.Skip("SKIPPED: a plane has one process of the native controller; run without EVERYNODE_E2E_CONTROLLER=native")
		}
		c := harness.Own(t, harness.Options{Nodes: rollNodes, Controller: controller, Managers: 2})
		rollWhileKilling(t, c, []string{harness.ManagerComponent, harness.ManagerComponent + "-2"})
	})
}

const kills = 10

// rollWhileKilling rolls 200 nodes and kills one of the components, in turn at random, at ten moments of the roll. The
// moments are numbers of pod events since its beginning, so that they fall between writes and not between rolls.
func rollWhileKilling(t *testing.T, c *harness.Cluster, components []string) {
	s := c.Space(t, rollNodes)
	s.Run("ds", harness.WithBudget("10%", "0"))
	random := seeded(t)
	moments := randomMoments(random)
	t.Logf("kills after %v pod events", moments)

	recorder := s.Observe("ds")
	begin := recorder.PodEvents()
	written := s.Update("ds", harness.WithImage(harness.Image2))
	for _, moment := range moments {
		victim := components[random.IntN(len(components))]
		s.WaitFor(rollTime, fmt.Sprintf("%d pod events have happened", moment), func(harness.View) error {
			if seen := recorder.PodEvents() - begin; seen < moment {
				return fmt.Errorf("only %d pod events so far", seen)
			}
			return nil
		})
		c.Kill(t, victim)
		c.StartComponent(t, victim)
	}
	s.WaitFor(rollTime, "the roll ends", harness.RolledOut("ds", written.Generation, rollNodes), runsImage("ds", harness.Image2))
	checkRoll(t, s.Judge(recorder))
}

// randomMoments are numbers of pod events, in order. Replacing one pod gives at least four of them (terminating, gone,
// created, ready), so all moments lie before the end of the roll.
func randomMoments(random *rand.Rand) []int {
	const events = 4 * rollNodes * 9 / 10
	moments := make([]int, kills)
	for i := range moments {
		moments[i] = 1 + random.IntN(events)
	}
	slices.Sort(moments)
	return moments
}

// seeded is a source of random numbers; its seed is printed and can be given again in EVERYNODE_TEST_SEED.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	const variable = "EVERYNODE_TEST_SEED"
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv(variable); text != "" {
		given, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s is %q: give a whole number, or leave it out", variable, text)
		}
		seed = given
	}
	t.Logf("seed: %s=%d", variable, seed)
	return rand.New(rand.NewPCG(seed, seed))
}
