// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"everynode.dev/everynode/localplane"
)

// Shared is a plane that all tests of a package share: the first test that needs it starts it, and Run stops it.
type Shared struct {
	// Options returns the options of the plane when it is started.
	Options func() (Options, error)

	once    sync.Once
	cluster *Cluster
	err     error
}

// Run runs the tests of the package for its TestMain, and returns its exit code. The logs of a plane are kept if tests
// failed. Tests also fail if the programs had other rights than those of the manifests (Cluster.Stop).
func (s *Shared) Run(m *testing.M) int {
	code := m.Run()
	if s.cluster != nil {
		if err := s.cluster.Stop(code != 0); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	return code
}

// startTimeout is how long the start of a plane may take on a loaded machine.
const startTimeout = 5 * time.Minute

// Cluster returns the plane. If this machine lacks what the plane needs, the test is skipped with a list.
func (s *Shared) Cluster(t testing.TB) *Cluster {
	t.Helper()
	s.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		var options Options
		if options, s.err = s.Options(); s.err == nil {
			s.cluster, s.err = Start(ctx, options)
		}
	})
	require(t, s.err)
	return s.cluster
}

// Own starts a plane for one test, and stops it when the test ends. If this machine lacks what the plane needs, the test is skipped with a list.
func Own(t testing.TB, options Options) *Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	c, err := Start(ctx, options)
	require(t, err)
	t.Cleanup(func() {
		if err := c.Stop(t.Failed()); err != nil {
			t.Error(err)
		}
	})
	return c
}

// require ends the test where a plane could not be started.
func require(t testing.TB, err error) {
	t.Helper()
	var missing *localplane.MissingError
	if errors.As(err, &missing) {
		t.Skipf("SKIPPED: %v", missing)
	}
	if err != nil {
		t.Fatal(err)
	}
}
