// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"everynode.dev/everynode/internal/wiring"
)

// lookAtDefinitions is how often a manager looks whether the definitions of a dialect have come or gone.
const lookAtDefinitions = 10 * time.Second

// errAgain is what an error is that ends what a manager serves, so that it begins again: with what is defined by then, and what there is.
var errAgain = errors.New("beginning again")

// errDefinitions is one of these.
var errDefinitions = fmt.Errorf("definitions have come or gone: %w", errAgain)

// definitionWatch ends with errDefinitions when a definition of the dialect of OpenKruise comes that was missing, or goes. Neither is a reason to keep
// the other dialects from their work, nor to wait for a person. It runs in every manager, whether it leads or not.
type definitionWatch struct {
	client  metadata.Interface // nil where the dialect is not served
	missing []string
	every   time.Duration
}

func newDefinitionWatch(o *options, cfg *rest.Config) (*definitionWatch, error) {
	w := &definitionWatch{missing: o.missing, every: lookAtDefinitions}
	foreign := (*foreignError)(nil)
	if !slices.Contains(o.dialects, wiring.Kruise) && o.leftOut == nil || errors.As(o.leftOut, &foreign) {
		return w, nil
	}
	var err error
	if w.client, err = metadata.NewForConfig(cfg); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return w, nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*definitionWatch) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (w *definitionWatch) Start(ctx context.Context) error {
	for w.client != nil && pause(ctx, w.every) == nil {
		missing, err := w.look(ctx)
		if err != nil {
			klog.FromContext(ctx).V(2).Info("Could not look at the definitions; trying again", "reason", err.Error())
			continue
		}
		if !slices.Equal(missing, w.missing) {
			return fmt.Errorf("%w: missing were %q, and now are %q", errDefinitions, w.missing, missing)
		}
	}
	<-ctx.Done()
	return nil
}

// look returns the names of the definitions that are not there.
func (w *definitionWatch) look(ctx context.Context) (missing []string, err error) {
	for _, name := range kruiseDefinitions() {
		_, err := w.client.Resource(definitionResource).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			missing = append(missing, name)
		case err != nil:
			return nil, fmt.Errorf("reading the definition %s: %w", name, err)
		}
	}
	return missing, nil
}
