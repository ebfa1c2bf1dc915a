// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"everynode.dev/everynode/test/harness"
)

// profiled is for how long the CPU profile of a roll is taken, from its beginning: a good part of one with 1,000 nodes.
const profiled = 8 * time.Second

// freeAddress is one on loopback that nobody listens on.
func freeAddress() (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("looking for a free port: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}

// managed is whether the controller of a row is everynode-manager.
func (w row) managed() bool { return !w.floor() && w.controller != harness.Native }

// profile writes a CPU profile of the manager beside the table, if that is wanted, in the background; the function returned waits for it.
func (b *bench) profile() (done func() error) {
	if !b.profiled {
		return func() error { return nil }
	}
	ended := make(chan error, 1)
	go func() {
		ended <- b.takeProfile(filepath.Join(*out, fmt.Sprintf("%s-%d.pb.gz", b.row.Name, len(b.nodes))))
	}()
	return func() error { return <-ended }
}

func (b *bench) takeProfile(path string) error {
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%.0f", b.metrics, profiled.Seconds())
	request, err := http.NewRequestWithContext(b.ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("asking the manager for a profile: %w", err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		return fmt.Errorf("asking the manager for a profile: %s: %s, %w", answer.Status, raw, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, raw, 0o644)
}

func TestProfiled(t *testing.T) {
	for _, w := range rows() {
		if want := w.Name == everynodeRow || w.Name == advancedRow || w.Name == inPlaceRow; w.managed() != want {
			t.Errorf("whether %s has a manager: %v", w.Name, w.managed())
		}
	}
}
