// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/agent/cri"
	"everynode.dev/everynode/internal/agent/pull"
	"everynode.dev/everynode/internal/imageref"
)

// hung is a runtime that takes connections, and answers nothing until the time of a call is over.
type hung struct{ calls int }

func (h *hung) ask() error {
	h.calls++
	return fmt.Errorf("asking: %w", status.Error(codes.DeadlineExceeded, "context deadline exceeded"))
}

func (h *hung) Image(context.Context, imageref.Full) (string, error) { return "", h.ask() }
func (h *hung) Pull(context.Context, cri.Pull) (string, error)       { return "", h.ask() }
func (h *hung) Fill(context.Context) (int, error)                    { return 0, h.ask() }

// TestRuntimeThatHangsIsAskedOnce: each call takes 10 s, and the liveness probe ends an agent whose step takes too long.
func TestRuntimeThatHangsIsAskedOnce(t *testing.T) {
	for name, always := range map[string]bool{"for an image": false, "for the file system": true} {
		t.Run(name, func(t *testing.T) {
			h := &hung{}
			l := newLoop()
			l.runtime = h
			for i := range 100 {
				image := fmt.Sprint("i", i)
				l.wants = append(l.wants, pull.Want{Key: pull.Key{Image: image, Tag: "1"}, Ref: image + ":1", Always: always})
			}
			if f := l.facts(t.Context()); !strings.Contains(f.Down, "context deadline exceeded") || h.calls != 1 {
				t.Errorf("after %d calls it is down for %q", h.calls, f.Down)
			}
		})
	}
}

func TestImageThatMayBeThereIsNotPulledWhileTheRuntimeHangs(t *testing.T) {
	inTime(t, tags(v1beta1.ImageTagSpec{Tag: "v1"}), func(t *testing.T, w *world) {
		w.images["r.io/app:v1"] = "sha256:there"
		w.down = status.Error(codes.DeadlineExceeded, "context deadline exceeded")
		w.begin()
		s := w.after(time.Minute)
		if got := of(s, "r.io/app", "v1"); !strings.Contains(got, "the container runtime does not answer: ") || len(w.pulled()) != 0 {
			t.Errorf("%s, pulls %v", got, w.pulled())
		}
		w.set(func() { w.down = nil })
		s = w.after(10 * time.Second)
		expect(t, "when it answers", of(s, "r.io/app", "v1"), "Succeeded v0 100% r.io/app@sha256:there")
		if len(w.pulled()) != 0 {
			t.Errorf("pulls %v", w.pulled())
		}
	})
}
