// SPDX-License-Identifier: Apache-2.0

package localplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"everynode.dev/everynode/localplane/internal/component"
	"everynode.dev/everynode/localplane/internal/home"
	"everynode.dev/everynode/localplane/internal/nodes"
	"everynode.dev/everynode/localplane/internal/supervisor"
)

// ComponentState is the state of a component.
type ComponentState string

// States of a component without a process: a killed one was ended on request and waits for a start; a down one has
// ended and is restarted soon; a failed one ended before it was ready, or could not be started, and waits for a start.
const (
	ComponentReady    ComponentState = "ready"
	ComponentStarting ComponentState = "starting"
	ComponentKilled   ComponentState = "killed"
	ComponentDown     ComponentState = "down"
	ComponentFailed   ComponentState = "failed"
)

// Status is the status of a plane.
type Status struct {
	Dir        string            `json:"dir"`
	Components []ComponentStatus `json:"components"`
	// Nodes is nil if the API server did not respond; NodesError is the reason.
	Nodes      *NodeCount `json:"nodes,omitempty"`
	NodesError string     `json:"nodesError,omitempty"`
	// Registry is the address of the registry for pushes from this machine; empty without real nodes.
	Registry string `json:"registry,omitempty"`
}

// ComponentStatus is the status of a component.
type ComponentStatus struct {
	Name  string         `json:"name"`
	State ComponentState `json:"state"`
	PID   int            `json:"pid,omitempty"`
	// UptimeSeconds is the time since the process was started, CPUSeconds its user and system time.
	UptimeSeconds float64 `json:"uptimeSeconds"`
	CPUSeconds    float64 `json:"cpuSeconds"`
	RSSBytes      uint64  `json:"rssBytes"`
	// Restarts counts the restarts that were not requested.
	Restarts int `json:"restarts"`
}

// NodeCount counts nodes by state; a node that is cut off counts only as cut.
type NodeCount struct {
	Ready    int `json:"ready"`
	NotReady int `json:"notReady"`
	Cut      int `json:"cut"`
}

// Status returns the status of the plane.
func (p *Plane) Status(ctx context.Context) (*Status, error) {
	components, err := p.control.Components(ctx)
	if err != nil {
		return nil, err
	}
	status := &Status{Dir: p.Dir()}
	if status.Registry, err = p.registryAddress(); err != nil {
		return nil, err
	}
	for _, c := range components {
		status.Components = append(status.Components, componentStatus(c, time.Now()))
	}
	if status.Nodes, err = p.countNodes(ctx); err != nil {
		if down := whatIsMissing(components); down != nil {
			err = down
		}
		status.NodesError = err.Error()
	}
	return status, nil
}

// explain returns the reason for a failed request to the API server if it is a component that does not run.
func (p *Plane) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	components, askErr := p.control.Components(ctx)
	if askErr != nil {
		return err
	}
	if down := whatIsMissing(components); down != nil {
		return down
	}
	return err
}

// whatIsMissing returns an error with the first required component that does not run.
func whatIsMissing(components []supervisor.Status) error {
	for _, name := range []string{component.Etcd, component.APIServer} {
		if !runs(components, name) {
			return notRunning(name)
		}
	}
	return nil
}

func runs(components []supervisor.Status, name string) bool {
	return slices.ContainsFunc(components, func(c supervisor.Status) bool { return c.Name == name && c.PID != 0 })
}

func notRunning(name string) error {
	return fmt.Errorf("%s does not run: `component start %s` first", name, name)
}

func (p *Plane) countNodes(ctx context.Context) (*NodeCount, error) {
	client, err := p.connect()
	if err != nil {
		return nil, err
	}
	const patience = 3 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	count, err := nodes.Count(ctx, client, p.home.IsCut)
	if err != nil {
		return nil, err
	}
	return &NodeCount{Ready: count.Ready, NotReady: count.NotReady, Cut: count.Cut}, nil
}

func componentStatus(c supervisor.Status, now time.Time) ComponentStatus {
	st := ComponentStatus{
		Name: c.Name, PID: c.PID, Restarts: c.Restarts,
		CPUSeconds: c.Usage.CPU.Seconds(), RSSBytes: c.Usage.RSS,
	}
	if c.PID != 0 {
		st.UptimeSeconds = now.Sub(c.Since).Seconds()
	}
	switch {
	case c.PID != 0 && c.Ready:
		st.State = ComponentReady
	case c.PID != 0:
		st.State = ComponentStarting
	case c.Failed:
		st.State = ComponentFailed
	case c.Wanted:
		st.State = ComponentDown
	default:
		st.State = ComponentKilled
	}
	return st
}

// stopTimeout is the timeout for stopping a plane of another process.
const stopTimeout = 15 * time.Second

// stopRemote asks the process of the plane to stop it, and waits for that.
func (p *Plane) stopRemote(ctx context.Context) error {
	pid, running := p.home.Holder()
	if !running {
		return nil
	}
	askErr := p.control.Down(ctx)
	err := poll(ctx, stopTimeout, func(context.Context) (bool, error) {
		_, running := p.home.Holder()
		return !running, nil
	})
	if err != nil {
		return fmt.Errorf("process %d still holds %s: end it with `kill -9 %d` (what it started ends with it): %w",
			pid, p.Dir(), pid, errors.Join(askErr, err))
	}
	return nil
}

// CleanUp ends the processes that a killed `up` left running in dir, and returns their names. It is an error if a plane
// runs there.
func CleanUp(dir string) ([]string, error) {
	h, err := home.At(dir)
	if err != nil {
		return nil, err
	}
	if !h.Exists() {
		return nil, fmt.Errorf("there is no plane in %s", h.Dir())
	}
	lock, err := h.Lock()
	if err != nil {
		return nil, err
	}
	state, err := h.LoadState()
	if err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	ended, err := supervisor.EndLeftovers(state)
	return ended, errors.Join(err, removeCgroups(h, state.RealNodes), lock.Unlock())
}
