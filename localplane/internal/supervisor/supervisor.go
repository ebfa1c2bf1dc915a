// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"everynode.dev/everynode/localplane/internal/component"
	"everynode.dev/everynode/localplane/internal/home"
	"everynode.dev/everynode/localplane/internal/proc"
)

// readyTimeout is how long a component may take to become ready. It is generous, because it must be sufficient on slow
// machines.
const readyTimeout = 90 * time.Second

// Supervisor manages the components of one plane.
type Supervisor struct {
	home     home.Home
	spawner  *proc.Spawner
	progress func(format string, args ...any)
	units    []*unit
	// ctx ends when the plane stops; it cancels restarts and waits.
	ctx    context.Context
	cancel context.CancelFunc

	// stateMu guards state, and the order of its writes.
	stateMu sync.Mutex
	state   home.State

	// watches are the goroutines that wait for the end of a process, until stopped is closed.
	watches sync.WaitGroup
	stopped chan struct{}

	stopOnce sync.Once
	stopErr  error
}

// New returns the supervisor of the components. It starts nothing. state is the stored state of the home.
func New(h home.Home, state home.State, components []component.Component, progress func(string, ...any)) *Supervisor {
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // a supervisor outlives the call that makes it; Stop ends it
	s := &Supervisor{home: h, spawner: proc.NewSpawner(), progress: progress, ctx: ctx, cancel: cancel, stopped: make(chan struct{}), state: state}
	s.state.Processes = map[string]proc.Identity{}
	for _, c := range components {
		s.units = append(s.units, &unit{component: c, sup: s})
	}
	return s
}

// EndLeftovers ends the processes that an earlier supervisor of this home has left behind, and returns their names.
func EndLeftovers(state home.State) ([]string, error) {
	var ended []string
	var errs []error
	for name, id := range state.Processes {
		if !id.Alive() {
			continue
		}
		if err := id.Kill(5 * time.Second); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
			continue
		}
		ended = append(ended, name)
	}
	slices.Sort(ended)
	return ended, errors.Join(errs...)
}

// StartTier starts the components of a tier and waits until all are ready.
func (s *Supervisor) StartTier(ctx context.Context, tier component.Tier) error {
	return s.each(s.ofTier(tier), func(u *unit) error { return u.start(ctx) })
}

// Start starts the component with this name and those inside of it, unless they run, and waits until they are ready.
func (s *Supervisor) Start(ctx context.Context, name string) error {
	u, err := s.unit(name)
	if err != nil {
		return err
	}
	if err := u.start(ctx); err != nil {
		return err
	}
	return s.each(s.inside(name), func(u *unit) error { return u.start(ctx) })
}

// Kill kills the component with this name, and those inside of it; they stay down until Start.
func (s *Supervisor) Kill(name string) error {
	u, err := s.unit(name)
	if err != nil {
		return err
	}
	within := s.inside(name)
	for _, u := range within {
		u.unwant()
	}
	if err := u.kill(); err != nil {
		return err
	}
	return s.each(within, func(u *unit) error {
		if p := u.unwant(); p != nil {
			return p.Kill()
		}
		return nil
	})
}

// endInside ends the processes that ran inside of a process that has ended. The kernel ends only processes in its PID
// namespace: others would continue in namespaces that no other process uses. Each is restarted inside of the next
// process.
func (s *Supervisor) endInside(host *proc.Process) {
	if s.ctx.Err() != nil {
		return // Stop ends everything gracefully
	}
	for _, u := range s.units {
		if p := u.runningIn(host); p != nil {
			if err := p.Signal(syscall.SIGKILL); err != nil {
				s.progress("%v", err)
			}
		}
	}
}

// inside returns the components that run inside of another one.
func (s *Supervisor) inside(name string) []*unit {
	return s.those(func(u *unit) bool { return u.component.Inside == name })
}

func (s *Supervisor) those(are func(*unit) bool) []*unit {
	var list []*unit
	for _, u := range s.units {
		if are(u) {
			list = append(list, u)
		}
	}
	return list
}

// each calls do for all components concurrently, and waits.
func (s *Supervisor) each(units []*unit, do func(*unit) error) error {
	var wg sync.WaitGroup
	errs := make([]error, len(units))
	for i, u := range units {
		wg.Go(func() { errs[i] = do(u) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (s *Supervisor) ofTier(tier component.Tier) []*unit {
	return s.those(func(u *unit) bool { return u.component.Tier == tier })
}

// pid returns the pid of a component, 0 if it does not run.
func (s *Supervisor) pid(name string) int {
	u, err := s.unit(name)
	if err != nil {
		return 0
	}
	return u.status().PID
}

func (s *Supervisor) isReady(name string) bool {
	u, err := s.unit(name)
	return err == nil && u.status().Ready
}

// Stop ends every component, tier by tier in reverse order. It may be called while components start.
func (s *Supervisor) Stop() error {
	s.stopOnce.Do(func() {
		s.cancel()
		for tier := component.TierEverynode; tier >= component.TierStore; tier-- {
			s.stopErr = errors.Join(s.stopErr, s.each(s.ofTier(tier), (*unit).stop))
		}
		close(s.stopped)
		s.watches.Wait()
		s.spawner.Close()
	})
	return s.stopErr
}

// Names returns the names of the components.
func (s *Supervisor) Names() []string {
	names := make([]string, 0, len(s.units))
	for _, u := range s.units {
		names = append(names, u.component.Name)
	}
	return names
}

func (s *Supervisor) unit(name string) (*unit, error) {
	for _, u := range s.units {
		if u.component.Name == name {
			return u, nil
		}
	}
	return nil, fmt.Errorf("this plane has no component %q: it has %s", name, strings.Join(s.Names(), ", "))
}

// remember records the process of a component; the zero identity means none.
func (s *Supervisor) remember(name string, id proc.Identity) error {
	s.stateMu.Lock()
	defer s.stateMu.Unlock()
	if id == (proc.Identity{}) {
		delete(s.state.Processes, name)
	} else {
		s.state.Processes[name] = id
	}
	return s.home.SaveState(s.state)
}
