// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"everynode.dev/everynode/localplane/internal/component"
	"everynode.dev/everynode/localplane/internal/proc"
)

// errStopping is the error of a start while the plane stops, errUnwanted of a start of a component that was killed in
// the meantime.
var (
	errStopping = errors.New("the plane is stopping")
	errUnwanted = errors.New("it was killed on purpose meanwhile")
)

const (
	firstRestartDelay = time.Second
	lastRestartDelay  = 10 * time.Second
	// steadyAfter is how long a process must run before its next failure counts as the first one.
	steadyAfter = time.Minute
)

// unit is one component and its process, if any.
type unit struct {
	component component.Component
	sup       *Supervisor

	// startMu serializes starts.
	startMu sync.Mutex

	// mu guards the following fields.
	mu      sync.Mutex
	process *proc.Process
	// host is the process in whose namespaces the component runs, or nil.
	host  *proc.Process
	began time.Time
	ready bool
	// wanted is false if the component was killed or stopped on request.
	wanted bool
	// proven reports whether it has been ready since the last requested start. Only then is it restarted when it ends:
	// otherwise the caller of the start gets the error, and a retry would fail in the same way.
	proven   bool
	restarts int
	failures int
}

// start runs the component on request, unless it already runs, and waits until it is ready.
func (u *unit) start(ctx context.Context) error {
	u.request()
	_, err := u.run(ctx, asked)
	return err
}

func (u *unit) request() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.wanted = true
	if u.alive() == nil {
		u.proven = false
	}
}

// cause is the reason why a component is started.
type cause bool

const (
	asked   cause = false
	unasked cause = true // its process has ended, and nothing was requested
)

// run runs the component, unless it already runs, and waits until it is ready. launched reports whether a new process
// was started, whose end is watched.
func (u *unit) run(ctx context.Context, why cause) (launched bool, err error) {
	// Without the lock, so that a requested start need not wait for a restart.
	if err := u.awaitOthers(ctx, why); err != nil {
		return false, err
	}
	u.startMu.Lock()
	defer u.startMu.Unlock()
	began := time.Now()
	p, fresh, err := u.launch(why)
	if err != nil {
		return fresh, err
	}
	if err := u.waitReady(ctx, p); err != nil {
		return fresh, err
	}
	if err := u.link(p); err != nil {
		return fresh, err
	}
	u.markReady(p)
	if fresh {
		u.sup.progress("%s ready after %s", u.component.Name, time.Since(began).Round(10*time.Millisecond))
	}
	return fresh, nil
}

// launch starts the process if there is none, and returns it; fresh reports whether it is a new one.
func (u *unit) launch(why cause) (_ *proc.Process, fresh bool, _ error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.sup.ctx.Err() != nil {
		return nil, false, errStopping
	}
	if p := u.alive(); p != nil {
		if err := p.Lingers(); err != nil {
			return nil, false, fmt.Errorf("starting %s: it was killed, and %w", u.component.Name, err)
		}
		return p, false, nil
	}
	if why == unasked && (!u.wanted || !u.proven) {
		return nil, false, errUnwanted
	}
	p, host, err := u.spawn()
	if err != nil {
		// The component that it runs inside of may have just ended, and will be restarted.
		u.proven = u.proven && u.component.Inside != ""
		return nil, false, err
	}
	u.process, u.host, u.began, u.ready = p, host, time.Now(), false
	u.sup.watches.Go(func() { u.watch(p) })
	if err := u.sup.remember(u.component.Name, p.Identity); err != nil {
		// Otherwise the next start would take it for a connected process.
		return nil, true, errors.Join(err, p.Kill())
	}
	return p, true, nil
}

func (u *unit) spawn() (p, host *proc.Process, err error) {
	host, err = u.findHost()
	if err != nil {
		return nil, nil, err
	}
	log, err := os.OpenFile(u.sup.home.Log(u.component.Name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the log of %s: %w", u.component.Name, err)
	}
	defer log.Close()
	if file := u.component.Ready.File; file != "" {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, fmt.Errorf("starting %s: %w", u.component.Name, err)
		}
	}
	p, err = u.sup.spawner.Start(u.command(log, pidOf(host)))
	return p, host, err
}

// findHost returns the process in whose namespaces the component must run, or nil. It is an error if that does not run:
// the component would run in the namespaces of the machine.
func (u *unit) findHost() (*proc.Process, error) {
	name := u.component.Inside
	if name == "" {
		return nil, nil
	}
	if other, err := u.sup.unit(name); err != nil {
		return nil, err
	} else if host := other.running(); host != nil {
		return host, nil
	}
	return nil, fmt.Errorf("starting %s: %s, inside of which it runs, does not run: `component start %s` first", u.component.Name, name, name)
}

// running returns the process, or nil.
func (u *unit) running() *proc.Process {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.alive()
}

// alive is running for callers that hold the lock. watch may not have handled the end of a process yet that other
// goroutines have noticed.
func (u *unit) alive() *proc.Process {
	if u.process == nil || u.process.Ended() {
		return nil
	}
	return u.process
}

// runningIn returns the process if it runs inside of host, otherwise nil.
func (u *unit) runningIn(host *proc.Process) *proc.Process {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.process == nil || u.host != host {
		return nil
	}
	return u.process
}

// pidOf returns the pid of a process, 0 for nil.
func pidOf(p *proc.Process) int {
	if p == nil {
		return 0
	}
	return p.PID
}

// hostPID returns the pid of the process in whose namespaces the component runs, or 0.
func (u *unit) hostPID() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return pidOf(u.host)
}

func (u *unit) command(output io.Writer, inside int) proc.Command {
	c := proc.Command{
		Path: u.component.Path, Args: u.component.Args, Output: output,
		Unshare: u.component.Unshare, Inside: inside,
	}
	if len(u.component.Env) > 0 {
		c.Env = append(os.Environ(), u.component.Env...)
	}
	return c
}

// link makes the changes from outside that a process needs before other components may use it.
func (u *unit) link(p *proc.Process) error {
	if u.component.Linked == nil || u.status().Ready {
		return nil
	}
	if err := u.component.Linked(p.PID, u.sup.pid); err != nil {
		return errors.Join(fmt.Errorf("connecting %s: %w", u.component.Name, err), p.Kill())
	}
	return nil
}

// watch waits for the end of a process and, if that was not requested, restarts it.
func (u *unit) watch(p *proc.Process) {
	select {
	case <-p.Done():
	case <-u.sup.stopped:
		if !p.Ended() {
			return // Stop has waited for it without success, and reports that; the next run ends it
		}
	}
	restart, delay := u.ended(p)
	u.sup.endInside(p)
	if !restart {
		return
	}
	u.sup.progress("%s ended (%s), starts again in %s; its log is %s",
		u.component.Name, p.ExitReason(), delay, u.sup.home.Log(u.component.Name))
	for u.pause(delay) && u.isProven() {
		launched, err := u.run(u.sup.ctx, unasked)
		if err == nil || u.sup.ctx.Err() != nil || errors.Is(err, errUnwanted) {
			return
		}
		u.sup.progress("starting %s again: %v", u.component.Name, err)
		if launched {
			return // the new process is watched
		}
		delay = u.nextDelay()
	}
}

// pause waits. It returns false if the plane ends in the meantime.
func (u *unit) pause(delay time.Duration) bool {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-u.sup.ctx.Done():
		return false
	}
}

// nextDelay returns the time before the next restart, which grows each time.
func (u *unit) nextDelay() time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.delay()
}

// delay is nextDelay for callers that hold the lock.
func (u *unit) delay() time.Duration {
	delay := min(firstRestartDelay<<min(u.failures, 10), lastRestartDelay)
	u.failures++
	return delay
}

// ended records the end of a process, and returns whether and when to restart it.
func (u *unit) ended(p *proc.Process) (restart bool, delay time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.process != p {
		// Already started again after a kill.
		return false, 0
	}
	u.process, u.ready = nil, false
	if err := u.sup.remember(u.component.Name, proc.Identity{}); err != nil {
		u.sup.progress("%v", err)
	}
	if !u.wanted || !u.proven || u.sup.ctx.Err() != nil {
		return false, 0
	}
	if time.Since(u.began) > steadyAfter {
		u.failures = 0
	}
	u.restarts++
	return true, u.delay()
}

// kill kills the process.
func (u *unit) kill() error {
	p := u.unwant()
	if p == nil {
		return fmt.Errorf("%s does not run: start it with `component start %s`", u.component.Name, u.component.Name)
	}
	return p.Kill()
}

// stop asks the process to end, and kills it after the grace period.
func (u *unit) stop() error {
	p := u.unwant()
	if p == nil {
		return nil
	}
	if err := p.Stop(u.component.StopGrace); err != nil {
		return fmt.Errorf("stopping %s: %w", u.component.Name, err)
	}
	return nil
}

// unwant prevents restarts of the component, and returns its process, or nil.
func (u *unit) unwant() *proc.Process {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.wanted = false
	return u.alive()
}

// isProven reports whether the component is still to be restarted after the pause.
func (u *unit) isProven() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.wanted && u.proven
}
