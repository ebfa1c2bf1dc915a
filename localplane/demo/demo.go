// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"everynode.dev/everynode/internal/cli/view"
)

// LeastNodes is the smallest number of nodes that the story can be told with: the two nodes that are cut use up two slots
// of the budget, and at least one has to be left.
const LeastNodes = 12

// Plane is what the story needs of a control plane.
type Plane interface {
	// RESTConfig is the administrator's access.
	RESTConfig() (*rest.Config, error)
	// CutNode makes a node unreachable, HealNode brings it back.
	CutNode(ctx context.Context, name string) error
	HealNode(ctx context.Context, name string) error
	// Stop stops everything that belongs to the plane and waits for it.
	Stop() error
}

// Options says how the story is told.
type Options struct {
	// Nodes is the number of simulated nodes; at least LeastNodes.
	Nodes int
	// Start brings up the plane with that many nodes.
	Start func(ctx context.Context) (Plane, error)
	// Out is where the story goes; Getenv reads the environment (for colours).
	Out    io.Writer
	Getenv func(string) string
}

// Run tells the story from the start of the plane to its end. It returns nil when everything that was promised was seen,
// and when it returns the plane has been stopped.
func Run(ctx context.Context, o Options) error {
	if o.Nodes < LeastNodes {
		return fmt.Errorf("--nodes %d is too few for the demo: it cuts two nodes during an update whose budget is %d%% of the nodes; "+
			"name at least %d", o.Nodes, budgetPercent, LeastNodes)
	}
	began := time.Now()
	screen := view.Open(o.Out, o.Getenv)
	plane, err := o.Start(ctx)
	if err != nil {
		return fmt.Errorf("starting the plane: %w", err)
	}
	s := &story{plane: plane, view: screen, count: o.Nodes}
	err = s.tell(ctx)
	if ctx.Err() != nil {
		err = errors.New("the demo was interrupted before its end")
	}
	err = errors.Join(err, screen.Close(), screen.Say("\nStopping everything."), plane.Stop())
	if err != nil {
		return err
	}
	return screen.Say(s.summary(time.Since(began)))
}

// clients are the ways to talk to the plane.
type clients struct {
	typed   kubernetes.Interface
	dynamic dynamic.Interface
}

func connect(plane Plane) (clients, error) {
	config, err := plane.RESTConfig()
	if err != nil {
		return clients{}, fmt.Errorf("reading how to reach the plane: %w", err)
	}
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return clients{}, fmt.Errorf("making a client for the plane: %w", err)
	}
	undecoded, err := dynamic.NewForConfig(config)
	if err != nil {
		return clients{}, fmt.Errorf("making a client for the plane: %w", err)
	}
	return clients{typed: typed, dynamic: undecoded}, nil
}
