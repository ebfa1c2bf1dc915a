// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"everynode.dev/everynode/api/kruise"
)

// asking is clients that ask all the time, and what has failed.
type asking struct {
	w       *world
	cancel  context.CancelFunc
	clients sync.WaitGroup

	mu     sync.Mutex
	rounds map[string]int // of each client
	failed []error
}

// startAsking has clients create, change, read and delete Advanced DaemonSets, for which the API server asks the webhooks to admit them and to convert
// them; and has somebody reach the webhooks as an API server does that has just begun: with a connection of its own, trusting what is published.
func (w *world) startAsking() *asking {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	a := &asking{w: w, cancel: cancel, rounds: map[string]int{}}
	w.t.Cleanup(a.stop) // before the plane ends
	host := w.webhooks().Host
	a.start(ctx, "an API server that has just begun", func(int) error { return w.reach(ctx, host) })
	for writes, reads := range map[string]string{"v1alpha1": "v1beta1", "v1beta1": "v1alpha1"} {
		set := w.object(unplaced("of-"+writes, kruise.Group+"/"+writes))
		a.start(ctx, "a client of "+writes, func(round int) error {
			set := set.DeepCopy()
			set.SetName(fmt.Sprintf("of-%s-%d", writes, round))
			return w.live(ctx, set, reads)
		})
	}
	a.count()
	return a
}

func (a *asking) stop() {
	a.cancel()
	a.clients.Wait()
}

// start has a client ask again and again.
func (a *asking) start(ctx context.Context, who string, ask func(round int) error) {
	const between = 200 * time.Millisecond // for the machine has other things to do
	a.clients.Go(func() {
		tick := time.NewTicker(between)
		defer tick.Stop()
		for round := 0; ; round++ {
			err := ask(round)
			if ctx.Err() != nil {
				return
			}
			a.mu.Lock()
			if a.rounds[who]++; err != nil {
				a.failed = append(a.failed, fmt.Errorf("%s %s, round %d: %w", time.Now().Format(time.TimeOnly), who, round, err))
			}
			a.mu.Unlock()
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
}

// during has something done, and looks whether all clients have asked meanwhile and got what they asked for.
func (a *asking) during(what string, do func()) {
	t := a.w.t
	t.Helper()
	began := time.Now()
	do()
	for who, done := range a.count() {
		const enough = 3 // rounds after what was done, so that its end is seen as well
		a.w.until("more rounds of "+who, func() error {
			if now := a.count()[who]; now < done+enough {
				return fmt.Errorf("%d rounds after %d", now, done)
			}
			return nil
		})
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, err := range a.failed {
		t.Errorf("%s: %v", what, err)
	}
	a.failed = nil
	t.Logf("%s took %s, with these rounds so far: %v", what, time.Since(began).Round(time.Second), a.rounds)
}

// count is how often each client has asked, once all have.
func (a *asking) count() map[string]int {
	const clients = 3
	counts := map[string]int{}
	a.w.until("all clients to ask", func() error {
		a.mu.Lock()
		defer a.mu.Unlock()
		for who, n := range a.rounds {
			counts[who] = n
		}
		if len(counts) < clients {
			return fmt.Errorf("only %v have: %w", counts, errors.Join(a.failed...))
		}
		return nil
	})
	return counts
}

// live is the life of a set, which is changed and listed in another version. What fails is asked again neither by it nor by its client.
func (w *world) live(ctx context.Context, set *unstructured.Unstructured, other string) error {
	in := func(version string) dynamic.ResourceInterface {
		return w.dynamic.Resource(schema.GroupVersionResource{Group: kruise.Group, Version: version, Resource: "daemonsets"}).Namespace(team)
	}
	name, writes, reads := set.GetName(), in(set.GroupVersionKind().Version), in(other)
	if _, err := writes.Create(ctx, set, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating: %w", err)
	}
	if _, err := reads.Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"minReadySeconds":7}}`), metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("changing: %w", err)
	}
	found, err := writes.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading: %w", err)
	}
	if seconds, _, _ := unstructured.NestedInt64(found.Object, "spec", "minReadySeconds"); seconds != 7 {
		return fmt.Errorf("read minReadySeconds %d, want 7", seconds)
	}
	if _, err := reads.List(ctx, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("listing: %w", err)
	}
	if err := writes.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("deleting: %w", err)
	}
	return nil
}

// reach reaches the webhooks over a new connection for each that is trusted there, by admission and by conversion.
func (w *world) reach(ctx context.Context, host string) error {
	bundles, err := w.bundles(ctx)
	if err != nil {
		return err
	}
	for where, bundle := range bundles {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(bundle)
		if _, err := handshake(ctx, host, &tls.Config{RootCAs: pool}); err != nil {
			return fmt.Errorf("trusting what is published for %s: %w", where, err)
		}
	}
	return nil
}

// handshake connects to the webhooks, and returns the certificate that is served.
func handshake(ctx context.Context, host string, config *tls.Config) (*x509.Certificate, error) {
	connection, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", host)
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	over, ok := connection.(*tls.Conn)
	if !ok {
		return nil, fmt.Errorf("a connection of %T", connection)
	}
	return over.ConnectionState().PeerCertificates[0], nil
}
