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

// Shared is a plane that all tests of a package use: the first of them that asks for it starts it, and Run stops it.
type Shared struct {
	// Options are asked for when the plane is started.
	Options func() (Options, error)

	once    sync.Once
	cluster *Cluster
	err     error
}

// Run runs the tests of the package for its TestMain, and returns its exit code. The logs of a plane whose tests have failed are kept. What was tested
// with rights that are not those of the shipped roles has failed (Cluster.Stop).
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

// Cluster is the plane. Where this machine lacks what the plane needs, the test is skipped with a list of that.
func (s *Shared) Cluster(t testing.TB) *Cluster {
	t.Helper()
	s.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		var options Options
		if options, s.err = s.Options(); s.err == nil {
			s.cluster, s.err = Start(ctx, options)
		}
	})
	var missing *localplane.MissingError
	if errors.As(s.err, &missing) {
		t.Skipf("SKIPPED: %v", missing)
	}
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.cluster
}
