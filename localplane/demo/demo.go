// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"everynode.dev/everynode/internal/cli/view"
	"everynode.dev/everynode/localplane"
)

const (
	// DefaultNodes is how many nodes the plane has unless told otherwise.
	DefaultNodes = 30
	// LeastNodes is the smallest number of nodes that the story can be told with: the two nodes that are cut use up two
	// slots of the budget, and at least one has to be left.
	LeastNodes = 12
)

// Options says how the story is told.
type Options struct {
	// Plane is the plane to start; its Dir and Nodes have to be set, and its Progress becomes part of the story.
	Plane localplane.Options
	// Out is where the story goes; Getenv reads the environment (for colours).
	Out    io.Writer
	Getenv func(string) string
}

// Plane is what the story needs of a control plane.
type Plane interface {
	// RESTConfig is the administrator's access.
	RESTConfig() *rest.Config
	// CutNode makes a node unreachable, HealNode brings it back.
	CutNode(ctx context.Context, name string) error
	HealNode(ctx context.Context, name string) error
	// Stop stops everything that belongs to the plane and waits for it. Done is closed when it has stopped.
	Stop(ctx context.Context) error
	Done() <-chan struct{}
}

var _ Plane = &localplane.Plane{}

// Run starts a plane, tells the story and stops the plane. It returns nil when everything that was promised was seen, and
// in any case when everything that it started has ended.
func Run(ctx context.Context, o Options) error {
	if o.Plane.Nodes < LeastNodes {
		return &localplane.UsageError{Message: fmt.Sprintf(
			"--nodes is %d: the demo needs at least %d, as two of them are cut off during an update whose budget is %d%% of all",
			o.Plane.Nodes, LeastNodes, budgetPercent)}
	}
	began := time.Now()
	screen := view.Open(o.Out, o.Getenv)
	o.Plane.Progress = progress{screen}
	plane, err := localplane.Start(ctx, o.Plane)
	if ctx.Err() != nil {
		return interrupted(ctx, plane)
	}
	if err != nil {
		return err
	}
	s := &story{plane: plane, view: screen, count: o.Plane.Nodes, dark: map[string]bool{}}
	err = s.tell(ctx)
	if ctx.Err() != nil {
		err = errInterrupted
	}
	shown := errors.Join(screen.Close(), screen.Say("\nStopping everything."))
	if err = errors.Join(err, plane.Stop(context.WithoutCancel(ctx))); err != nil {
		return err
	}
	if shown != nil {
		return shown
	}
	return screen.Say(s.summary(time.Since(began)))
}

var errInterrupted = errors.New("the demo was interrupted before its end; everything is stopped")

// interrupted stops a plane that was ready just when it was not wanted any more.
func interrupted(ctx context.Context, plane *localplane.Plane) error {
	if plane == nil {
		return errInterrupted
	}
	return errors.Join(errInterrupted, plane.Stop(context.WithoutCancel(ctx)))
}

// progress hands the lines of the plane to the view, so that they do not run into the picture.
type progress struct{ view view.View }

// Write implements io.Writer for whole lines.
func (p progress) Write(text []byte) (int, error) {
	if err := p.view.Say(strings.TrimSuffix(string(text), "\n")); err != nil {
		return 0, err
	}
	return len(text), nil
}

// clients are the ways to talk to the plane.
type clients struct {
	typed   kubernetes.Interface
	dynamic dynamic.Interface
}

func connect(plane Plane) (clients, error) {
	typed, err := kubernetes.NewForConfig(plane.RESTConfig())
	if err != nil {
		return clients{}, fmt.Errorf("making a client for the plane: %w", err)
	}
	undecoded, err := dynamic.NewForConfig(plane.RESTConfig())
	if err != nil {
		return clients{}, fmt.Errorf("making a client for the plane: %w", err)
	}
	return clients{typed: typed, dynamic: undecoded}, nil
}
