// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestAnOptionalSource: the sets of an optional dialect that cannot be read keep the others from nothing, and are taken in as soon as they can be read.
func TestAnOptionalSource(t *testing.T) {
	for name, broken := range map[string]error{
		"forbidden":  apierrors.NewForbidden(corev1.Resource("daemonsets"), "", errors.New("no role")),
		"not found":  apierrors.NewNotFound(corev1.Resource("daemonsets"), ""),
		"an error":   apierrors.NewInternalError(errors.New("conversion webhook failed")),
		"no answers": context.DeadlineExceeded,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				var mu sync.Mutex
				var all []string
				late := func() []string {
					mu.Lock()
					defer mu.Unlock()
					return slices.Clone(all)
				}
				r.feed.Sources = append(r.feed.Sources, advanced())
				r.feed.Late = func(dialect string, is bool) {
					mu.Lock()
					defer mu.Unlock()
					all = append(all, fmt.Sprint(dialect, " ", is))
				}
				r.relist("nodes", "10", node("n1"))
				r.relist("daemonsets", "10", set("agent"))
				r.relist("advanceddaemonsets", "10", set("other"))
				r.resources["advanceddaemonsets"].broken.Store(&broken)
				ctx, cancel := context.WithCancel(t.Context())
				r.cancel = cancel
				began := time.Now()
				if err := r.feed.Start(ctx); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took > 3*patience {
					t.Errorf("it has waited for %s", took)
				}
				read := make(chan error, 1)
				go func() { read <- r.feed.Await(ctx, "kruise") }()
				settle()
				x := r.feed.Index
				if native, kruise := len(x.Keys("native")), len(x.Keys("kruise")); native != 1 || kruise != 0 || len(read) != 0 || !slices.Equal(late(), []string{"kruise true"}) {
					t.Errorf("%d and %d sets; late: %q; the sets that cannot be read are waited for: %v", native, kruise, late(), len(read) == 0)
				}
				if err := r.feed.Await(ctx, "native"); err != nil {
					t.Error(err)
				}
				r.resources["advanceddaemonsets"].broken.Store(nil)
				settle()
				if got := len(x.Keys("kruise")); got != 1 || len(read) != 1 || !slices.Equal(late(), []string{"kruise true", "kruise false"}) {
					t.Errorf("%d sets of the dialect that can be read again; late: %q", got, late())
				}
				// Another controller of apps/v1 has ended, and the sets cannot be read again.
				r.resources["advanceddaemonsets"].broken.Store(&broken)
				if err := r.feed.Start(ctx); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(late(), []string{"kruise true", "kruise false", "kruise true"}) {
					t.Errorf("late: %q", late())
				}
				r.stop()
			})
		})
	}
}
