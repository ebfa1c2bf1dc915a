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
	// DefaultNodes is the default number of nodes.
	DefaultNodes = 30
	// LeastNodes is the minimum number of nodes: the two nodes that are cut off use two slots of the budget, and at
	// least one must be left.
	LeastNodes = 12
)

// Options are the options of the demo.
type Options struct {
	// Plane are the options of the plane; Dir and Nodes are required, and its progress is shown in the demo.
	Plane localplane.Options
	// Out is the output; Getenv reads the environment (for colours).
	Out    io.Writer
	Getenv func(string) string
}

// Plane is the part of a local control plane that the demo uses.
type Plane interface {
	// RESTConfig returns the configuration of the administrator.
	RESTConfig() *rest.Config
	// Kubeconfig returns the path of its kubeconfig.
	Kubeconfig() string
	// CutNode disconnects a node, HealNode reconnects it.
	CutNode(ctx context.Context, name string) error
	HealNode(ctx context.Context, name string) error
	// Stop stops the plane and waits for that. Done is closed when it has stopped.
	Stop(ctx context.Context) error
	Done() <-chan struct{}
}

var _ Plane = &localplane.Plane{}

// Run starts a plane, runs the demo and stops the plane. It returns nil if all checks passed. When it returns,
// everything that it started has ended.
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

// interrupted stops a plane that became ready just after an interruption.
func interrupted(ctx context.Context, plane *localplane.Plane) error {
	if plane == nil {
		return errInterrupted
	}
	return errors.Join(errInterrupted, plane.Stop(context.WithoutCancel(ctx)))
}

// progress writes the lines of the plane through the view, so that they do not overwrite the picture.
type progress struct{ view view.View }

// Write implements io.Writer for whole lines.
func (p progress) Write(text []byte) (int, error) {
	if err := p.view.Say(strings.TrimSuffix(string(text), "\n")); err != nil {
		return 0, err
	}
	return len(text), nil
}

// clients are clients of the plane.
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
