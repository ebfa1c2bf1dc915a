// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"everynode.dev/everynode/internal/apply/executor"
	"everynode.dev/everynode/test/harness"
)

const (
	// failoverTime is how long there may be no leader that works after one was killed, where no write is slow: a lease of 10 s, a try every 1.5 s, and the fence.
	failoverTime = 20 * time.Second
	// slowFence is how long a new leader waits where a slow write may be under way.
	slowFence = executor.SlowWriteTimeout + executor.Fence
)

// What a new leader logs before it waits for the writes of the last one, and when it has read the cluster after that.
const (
	fenceBegins = "Waiting until no write of the last leader can take effect any more"
	fenceEnds   = "Read the cluster"
)

// TestFailover: the leader is killed in the middle of a roll. Its successor waits for the writes that can still take effect, and for no others.
func TestFailover(t *testing.T) {
	long(t)
	onlyEverynode(t, cluster(t), "a plane has one process of upstream's controller")
	c := harness.Own(t, harness.Options{Nodes: neighbourNodes, Controller: harness.Everynode, Managers: 2})
	t.Run("WithoutASlowWrite", func(t *testing.T) { failoverWithoutASlowWrite(t, c) })
	t.Run("WithASlowWrite", func(t *testing.T) { failoverWithASlowWrite(t, c) })
}

func failoverWithoutASlowWrite(t *testing.T, c *harness.Cluster) {
	s := c.Space(t, neighbourNodes)
	s.Run("ds", harness.WithBudget("1", "0"))
	recorder := s.Observe("ds")
	written := s.Update("ds", harness.WithImage(harness.Image2))
	s.Wait("the roll has begun", harness.StatusIs("ds", "begun", func(status appsv1.DaemonSetStatus) bool { return status.UpdatedNumberScheduled > 0 }))
	leader, heir := s.Leader(t)
	said := len(c.Log(heir))
	c.Kill(t, leader)
	killed := time.Now()
	s.PollFor(failoverTime, "the other manager has read the cluster", func() error { _, err := logged(c, heir, said, fenceEnds); return err })
	t.Logf("%s had read the cluster %s after the death of %s", heir, time.Since(killed).Round(100*time.Millisecond), leader)
	if line, err := logged(c, heir, said, fenceBegins); err != nil || !strings.Contains(line, waits(executor.Fence)) {
		t.Errorf("it waited otherwise than for %s: %q, %v", executor.Fence, line, err)
	}
	if holder := c.SlowWriter(t); holder != "" {
		t.Errorf("%q has slow writes, and no write was slow", holder)
	}
	s.Wait("the roll ends", harness.RolledOut("ds", written.Generation, neighbourNodes), runsImage("ds", harness.Image2))
	s.Judge(recorder)
	c.StartComponent(t, leader)
}

// failoverWithASlowWrite has a webhook let a create wait while the leader is killed.
func failoverWithASlowWrite(t *testing.T, c *harness.Cluster) {
	s := c.Space(t, neighbourNodes)
	s.Run("ds", harness.WithBudget("1", "0"))
	remove := s.Webhook(harness.SilentWebhook(t), "CREATE", "Fail")
	recorder := s.Observe("ds")
	written := s.Update("ds", harness.WithImage(harness.Image2))
	s.Poll("the leader has a slow write", func() error {
		if c.SlowWriter(t) == "" {
			return errors.New("its lease has no holder")
		}
		return nil
	})
	leader, heir := s.Leader(t)
	said := len(c.Log(heir))
	c.Kill(t, leader)
	killed := time.Now()
	remove()
	var begins string
	s.Poll("the other manager waits for slow writes", func() (err error) {
		if begins, err = logged(c, heir, said, fenceBegins); err == nil && !strings.Contains(begins, waits(slowFence)) {
			err = fmt.Errorf("it waits otherwise than for %s: %s", slowFence, begins)
		}
		return err
	})
	if holder := c.SlowWriter(t); holder == "" {
		t.Errorf("the lease of slow writes was given back while one may be under way")
	}
	var ends string
	s.Poll("it has read the cluster", func() (err error) { ends, err = logged(c, heir, said, fenceEnds); return err })
	t.Logf("%s had read the cluster %s after the death of %s", heir, time.Since(killed).Round(100*time.Millisecond), leader)
	if waited := timeOf(t, ends).Sub(timeOf(t, begins)); waited < slowFence {
		t.Errorf("it has read the cluster after %s, and a write may take effect for %s:\n%s\n%s", waited, slowFence, begins, ends)
	}
	s.Wait("the roll ends", harness.RolledOut("ds", written.Generation, neighbourNodes), runsImage("ds", harness.Image2))
	s.Poll("nobody has slow writes any more", func() error {
		if holder := c.SlowWriter(t); holder != "" {
			return fmt.Errorf("%q has", holder)
		}
		return nil
	})
	s.Judge(recorder)
}

// logged is the first line with a text in the log of a component after its first bytes.
func logged(c *harness.Cluster, component string, bytes int, text string) (string, error) {
	for line := range strings.Lines(c.Log(component)[bytes:]) {
		if strings.Contains(line, text) && strings.HasSuffix(line, "\n") {
			return line, nil
		}
	}
	return "", fmt.Errorf("%s has not logged %q", component, text)
}

// waits is how a line of a log says for how long a new leader waits.
func waits(d time.Duration) string { return fmt.Sprintf("for=%q", d) }

// timeOf is the time of a line of a log, without the year.
func timeOf(t *testing.T, line string) time.Time {
	t.Helper()
	const layout = "0102 15:04:05.000000"
	at, err := time.Parse(layout, line[1:min(len(line), 1+len(layout))])
	if err != nil {
		t.Fatal(err)
	}
	return at
}
