// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/policies"
	"everynode.dev/everynode/internal/cli/resolver"
	"everynode.dev/everynode/internal/cli/view"
	"everynode.dev/everynode/internal/rollout"
)

const (
	// minInterval is the minimum time between two pictures, heartbeat the maximum, so that times in it are updated.
	minInterval = 100 * time.Millisecond
	heartbeat   = time.Second
)

// follow draws until ctx ends or, with --exit-status, until the rollout ends. The timeout also applies if the cluster
// does not answer.
func (s *status) follow(ctx context.Context, c *options.Clients, arg string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	limited := ctx
	if s.timeout > 0 {
		var stop context.CancelFunc
		limited, stop = context.WithTimeout(ctx, s.timeout)
		defer stop()
	}
	set, err := policies.FindToRead(limited, s.Options, c, arg)
	if err == nil {
		err = mayWatch(limited, c, set)
	}
	if err != nil {
		return s.ended(limited, nil, err)
	}
	watched, err := inspect.Watch(limited, s.Options, c, set)
	if err != nil {
		return s.ended(limited, nil, err)
	}
	defer watched.Wait()
	defer cancel()
	picture := s.open()
	sight, err := s.draw(limited, watched, set, picture)
	err = errors.Join(err, picture.Close())
	if sight != nil && s.wait {
		err = errors.Join(err, s.printResult(sight))
	}
	return s.ended(limited, sight, err)
}

// open returns the output for pictures; with --exit-status and -o json there is none.
func (s *status) open() view.View {
	switch {
	case s.ForMachines():
		return view.NewLines(io.Discard, 0)
	case s.watch:
		return view.Open(s.Out, s.Getenv)
	default:
		return view.NewLines(s.Out, heartbeat)
	}
}

// draw returns the last observation; if the set is deleted, an error.
func (s *status) draw(ctx context.Context, watched *inspect.Watched, set *resolver.Set, picture view.View) (*inspect.Observation, error) {
	tracker := view.NewTracker(set.Title())
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	connection := &connection{picture: picture}
	var last *inspect.Observation
	confirm := false // whether the policies were read for this picture, because the last one was the end
	for {
		now := s.observe(watched, set, tracker, last == nil)
		if now == nil {
			return last, &options.Exit{Code: options.ExitUnfinished, Err: fmt.Errorf("%s is gone", set.Title())}
		}
		last = now
		if err := errors.Join(connection.report(s.Now(), watched.Lost()), picture.Show(last.Model)); err != nil {
			return last, err
		}
		switch ended := s.wait && last.Outcome().State != inspect.Rolling; {
		case ended && confirm:
			return last, nil
		case ended:
			confirm = true
			watched.Reread()
			continue
		}
		confirm = false
		if !pause(ctx, minInterval) {
			return last, nil
		}
		select {
		case <-ctx.Done():
			return last, nil
		case <-ticker.C:
		case <-watched.Changed():
		}
	}
}

// observe returns the state of the set now; nil if it does not exist any more.
func (s *status) observe(watched *inspect.Watched, set *resolver.Set, tracker *view.Tracker, first bool) *inspect.Observation {
	snapshot, plan, ok := watched.Evaluate(s.Time())
	workload := watched.Workload()
	if !ok || workload == nil || workload.UID != set.Object.GetUID() {
		return nil
	}
	if first {
		tracker.Recall(snapshot, plan, watched.Began())
	}
	model := tracker.Next(snapshot, plan)
	model.Explain(watched.Cause)
	model.Stopped, model.Unheld = watched.Stopped(), watched.Unheld()
	sight := watched.Observe(model, plan)
	sight.Set, sight.Workload, sight.IgnoreUnreachable = set, workload, s.ignoreUnreachable
	if sight.Model.Policy = policyLines(sight); sight.Model.Policy != nil {
		sight.Model.Batches = view.Batches{}
	}
	return sight
}

// connection reports when the connection is lost and restored, because a picture that does not change looks the same
// without a connection.
type connection struct {
	picture view.View
	lost    bool
}

func (c *connection) report(now time.Time, err error) error {
	if c.lost == (err != nil) {
		return nil
	}
	c.lost = err != nil
	if !c.lost {
		return c.picture.Say("reconnected at " + now.Format(time.TimeOnly))
	}
	if request := (*url.Error)(nil); errors.As(err, &request) {
		err = request.Err // the address of a watch is long and not useful
	}
	return c.picture.Say(fmt.Sprintf("connection lost, reconnecting since %s: %v", now.Format(time.TimeOnly), err))
}

// pause waits. It returns false if ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// mostNamed is the maximum number of nodes in a line.
const mostNamed = 4

// blocking reports whether a wait may need a user: something holds the nodes, or they are not ready. Deleted nodes do
// not block a rollout.
func blocking(wait *view.Wait) bool {
	return wait.Kind.Cause() != rollout.CauseCollector && (wait.Group == rollout.GroupHeld || wait.Kind.Cause() == rollout.CauseHook || wait.NotReady > 0)
}

// printResult prints the result of a rollout, and what blocks it, because in a pipeline there is no picture.
func (s *status) printResult(sight *inspect.Observation) error {
	report := sight.Report()
	return s.Print(report, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s: %s: %s\n", report.State, sight.Set.Title(), options.Printable(report.Why))
		if err == nil && report.Stopped != "" {
			_, err = fmt.Fprintln(w, "  stopped: "+options.Printable(report.Stopped))
		}
		if err == nil && report.Unheld != "" {
			_, err = fmt.Fprintln(w, "  not held: "+options.Printable(report.Unheld))
		}
		for _, text := range waits(sight.Model.Waits, report.State) {
			if err == nil {
				_, err = fmt.Fprintln(w, "  "+text)
			}
		}
		if err != nil {
			return fmt.Errorf("printing: %w", err)
		}
		return nil
	})
}

// mostWaits is the maximum number of reasons that are listed.
const mostWaits = 4

// waits returns the lines about what blocks a rollout: messages of pods, and other reasons. It lists the first ones,
// and the number of the others.
func waits(all []view.Wait, state inspect.State) []string {
	var lines []string
	more, nodes := 0, 0
	for i := range all {
		wait := &all[i]
		switch {
		case wait.Says == "" && (state != inspect.Rolling || !blocking(wait)):
		case len(lines) < mostWaits:
			lines = append(lines, view.List(wait.Nodes, mostNamed)+": "+options.Printable(reasonOf(wait)))
		default:
			more++
			nodes += len(wait.Nodes)
		}
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("and %s more, on %s: see all with -o json", view.Plural(more, "reason"), view.Plural(nodes, "node")))
	}
	return lines
}

// reasonOf returns why nodes wait and, if they are not ready, for how long.
func reasonOf(wait *view.Wait) string {
	if wait.NotReady == 0 {
		return wait.Why()
	}
	return wait.Why() + " (not ready for " + view.Duration(wait.NotReady) + ")"
}

// ended returns the result of the command. limited is the context with the timeout.
func (s *status) ended(limited context.Context, sight *inspect.Observation, err error) error {
	timedOut := errors.Is(limited.Err(), context.DeadlineExceeded)
	switch {
	case err != nil && !timedOut:
		return inspect.Explain(err)
	case !s.wait:
		return nil
	case sight == nil:
		return &options.Exit{Code: options.ExitUnfinished, Err: fmt.Errorf("the cluster could not be read within %s", s.timeout)}
	}
	switch outcome := sight.Outcome(); {
	case outcome.State == inspect.Finished:
		return nil
	case outcome.State == inspect.Failed && sight.Refused() == nil:
		return &options.Exit{Code: options.ExitUnfinished, Err: errors.New("the rollout cannot go on: " + sight.Policy.Remedy())}
	case outcome.State == inspect.Failed:
		return &options.Exit{Code: options.ExitUnfinished, Err: errors.New("the rollout cannot go on: correct the set")}
	case timedOut:
		return &options.Exit{Code: options.ExitUnfinished, Err: fmt.Errorf("the rollout has not finished within %s", s.timeout)}
	default:
		return &options.Exit{Code: options.ExitUnfinished, Err: errors.New("ended before the rollout was finished")}
	}
}

// mayWatch checks the rights to watch first: a rejected watch would be retried forever.
func mayWatch(ctx context.Context, c *options.Clients, set *resolver.Set) error {
	for _, r := range []options.Request{
		{Verb: "watch", Resource: schema.GroupResource{Resource: "nodes"}},
		{Verb: "watch", Resource: schema.GroupResource{Resource: "pods"}, Namespace: set.Namespace()},
		{Verb: "watch", Resource: schema.GroupResource{Group: "apps", Resource: "controllerrevisions"}, Namespace: set.Namespace()},
		{Verb: "watch", Resource: set.Resource.GroupResource(), Namespace: set.Namespace()},
	} {
		if err := c.May(ctx, r); err != nil {
			return err
		}
	}
	return nil
}
