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

// ComponentState is what a component is doing.
type ComponentState string

// What a component without a process may be: a killed one was ended on purpose and waits for a start on purpose; a down one
// has ended and starts again by itself in a moment; a failed one ended before it was ready, or could not be run at all, and
// is left so until somebody starts it.
const (
	ComponentReady    ComponentState = "ready"
	ComponentStarting ComponentState = "starting"
	ComponentKilled   ComponentState = "killed"
	ComponentDown     ComponentState = "down"
	ComponentFailed   ComponentState = "failed"
)

// Status is how a plane is.
type Status struct {
	Dir        string            `json:"dir"`
	Components []ComponentStatus `json:"components"`
	// Nodes is nil when the API server did not answer; NodesError then tells why.
	Nodes      *NodeCount `json:"nodes,omitempty"`
	NodesError string     `json:"nodesError,omitempty"`
	// Registry is where the registry of the real nodes takes images from this machine; empty without real nodes.
	Registry string `json:"registry,omitempty"`
}

// ComponentStatus is how a component is.
type ComponentStatus struct {
	Name  string         `json:"name"`
	State ComponentState `json:"state"`
	PID   int            `json:"pid,omitempty"`
	// UptimeSeconds is since the process was started, CPUSeconds its user and system time.
	UptimeSeconds float64 `json:"uptimeSeconds"`
	CPUSeconds    float64 `json:"cpuSeconds"`
	RSSBytes      uint64  `json:"rssBytes"`
	// Restarts counts the starts that nobody asked for.
	Restarts int `json:"restarts"`
}

// NodeCount counts nodes by state; a cut node counts as that alone.
type NodeCount struct {
	Ready    int `json:"ready"`
	NotReady int `json:"notReady"`
	Cut      int `json:"cut"`
}

// Status tells how the plane is.
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

// explain turns the error of a request to the API server into the reason, if that is a component that does not run.
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

// whatIsMissing is an error that names the first component without which there are no answers, if one does not run.
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

// stopTimeout is how long a plane may take to stop when another process runs it.
const stopTimeout = 15 * time.Second

// stopRemote asks the process that runs the plane to stop it and waits until it has.
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

// CleanUp ends what a killed `up` left running in dir, and returns the names of it. It is an error if a plane runs there.
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
