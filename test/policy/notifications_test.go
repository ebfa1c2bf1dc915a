// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/test/harness"
)

// signingKey is that of a published example.
const signingKey = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// source names the cluster in events.
const source = "https://plane.example"

// inbox is the target of notifications of the plane. It refuses the first delivery of every event. Another target hangs.
type inbox struct {
	dir     string
	webhook *standardwebhooks.Webhook

	mu sync.Mutex
	// tries are the deliveries of each event.
	tries map[string]int
	// accepted are the events that were accepted, in their order; wrong says what was wrong with a delivery.
	accepted []cloudevents.Event
	wrong    []string
}

// start serves the targets on loopback, until the process ends, and writes the file that names them.
func (b *inbox) start() (file string, err error) {
	b.tries = map[string]int{}
	if b.webhook, err = standardwebhooks.NewWebhook(signingKey); err != nil {
		return "", err
	}
	if b.dir, err = os.MkdirTemp("", "everynode-targets-"); err != nil {
		return "", err
	}
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	key := filepath.Join(b.dir, "key")
	text := fmt.Sprintf("apiVersion: config.everynode.dev/v1alpha1\nkind: NotificationTargets\nsource: %s\ntargets:\n- {name: mail, webhook: {url: %q}, signingKeyFiles: [%q]}\n"+
		"- {name: hangs, timeout: 1m, webhook: {url: %q}, signingKeyFiles: [%q]}\n", source, httptest.NewServer(b).URL, key, hanging.URL, key)
	if err := os.WriteFile(key, []byte(signingKey), 0o600); err != nil {
		return "", err
	}
	file = filepath.Join(b.dir, "targets.yaml")
	return file, os.WriteFile(file, []byte(text), 0o600)
}

// remove removes the files.
func (b *inbox) remove() {
	if b.dir != "" {
		_ = os.RemoveAll(b.dir)
	}
}

// ServeHTTP implements http.Handler.
func (b *inbox) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	e := cloudevents.New()
	if err := b.webhook.Verify(body, r.Header); err != nil {
		b.wrong = append(b.wrong, fmt.Sprintf("the signature of %s: %v", body, err))
	}
	if err := e.UnmarshalJSON(body); err != nil {
		b.wrong = append(b.wrong, fmt.Sprintf("%s is no event: %v", body, err))
		return
	}
	if err := e.Validate(); err != nil || e.ID() != r.Header.Get("webhook-id") || e.Source() != source {
		b.wrong = append(b.wrong, fmt.Sprintf("%s with the headers %v: %v", body, r.Header, err))
	}
	if b.tries[e.ID()]++; b.tries[e.ID()] == 1 {
		out.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	b.accepted = append(b.accepted, e)
}

// letter is an event about a set.
type letter struct {
	id, kind string
	Wave     string
	Revision string
	Number   int64 `json:"revisionNumber"`
	Dialect  string
	Policy   string
	Reason   string
}

// letters are the events about the set of a stage, in their order.
func (b *inbox) letters(s *stage) []letter {
	s.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, wrong := range b.wrong {
		s.t.Error(wrong)
	}
	var all []letter
	for i := range b.accepted {
		e := &b.accepted[i]
		if e.Subject() != fmt.Sprintf("/apis/%s/namespaces/%s/daemonsets/%s", s.dialect.version(), s.Name, set) {
			continue
		}
		l := letter{id: e.ID(), kind: strings.TrimPrefix(e.Type(), "dev.everynode.rollout.")}
		if err := e.DataAs(&l); err != nil || l.Policy != agents || l.Dialect == "" || l.Reason == "" {
			s.t.Errorf("%s: %v", e, err)
		}
		all = append(all, l)
	}
	return all
}

// awaitLetters waits until the events about a set, without those that are repeated, are these, each as TYPE/WAVE. It returns how many there are of each.
func (s *stage) awaitLetters(want ...string) map[string]int {
	s.t.Helper()
	counts := map[string]int{}
	s.Poll("the notifications arrive", func() error {
		var got []string
		clear(counts)
		for _, l := range mail.letters(s) {
			if counts[l.id]++; counts[l.id] == 1 {
				got = append(got, strings.TrimSuffix(l.kind+"/"+l.Wave, "/"))
			}
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("they are %q, want %q", got, want)
		}
		return nil
	})
	return counts
}

// TestNotifications: a rollout with an approval during which the manager is killed, a failure with an undo, and an undo by the template give exactly these
// events, although a target refuses the first delivery of each, and another one hangs. Another manager repeats an event with the same identity.
func TestNotifications(t *testing.T) {
	for _, d := range dialects() {
		if d.name != "native" && d.name != "in-place" {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			s := newStage(t, d, smallNodes)
			s.govern(`
  waves: [{name: canary, nodes: {count: 1}, soak: 3s, after: [{type: Approval}]}]
  failure: {nodeDeadline: 2m, waitingReasons: [ImagePullBackOff], action: Undo}
`)
			s.update(harness.Image2)
			s.await(v1alpha1.PhaseWaitingForApproval)
			want := []string{"wave-begun/canary", "soaking/canary", "awaiting-approval/canary"}
			s.awaitLetters(want...)
			s.nextManagerRepeats("awaiting-approval")
			s.plugin("approve", s.dialect.argument(), "--wave", "canary")
			want = append(want, "wave-begun/remaining", "complete")
			s.awaitLetters(want...)
			s.update(harness.BrokenImage)
			s.await(v1alpha1.PhaseFailed)
			want = append(want, "wave-begun/canary", "failed/canary", "undone/canary")
			s.awaitLetters(want...)
			s.nextManagerRepeats("failed")
			s.await(v1alpha1.PhaseFailed)
			s.update(harness.Image3)
			s.await(v1alpha1.PhaseWaitingForApproval)
			want = append(want, "wave-begun/canary", "soaking/canary", "awaiting-approval/canary")
			s.awaitLetters(want...)
			s.kubectl("", "patch", s.dialect.resource(), set, "--type=json", "-p",
				fmt.Sprintf(`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":%q}]`, harness.Image2))
			counts := s.awaitLetters(append(want, "undone")...)
			repeated := 0
			for _, n := range counts {
				repeated += n - 1
			}
			if repeated != 2 {
				t.Errorf("%d events were repeated, want 2: %+v", repeated, mail.letters(s))
			}
		})
	}
}

// nextManagerRepeats kills the manager, and waits until the next one repeats the newest event of a type with its identity, and sends no other one.
func (s *stage) nextManagerRepeats(kind string) {
	s.t.Helper()
	before := mail.letters(s)
	of := -1
	for i := range before {
		if before[i].kind == kind {
			of = i
		}
	}
	s.Cluster.Kill(s.t, harness.ManagerComponent)
	s.restart()
	s.Poll("the next manager repeats the event", func() error {
		after := mail.letters(s)
		if of < 0 || len(after) != len(before)+1 || after[len(before)].id != before[of].id {
			return fmt.Errorf("the events are %+v", after)
		}
		return nil
	})
}

// sameLetters checks that what happens once in a rollout has one identity, however often the manager was killed.
func (s *stage) sameLetters() {
	s.t.Helper()
	ids := map[string]string{}
	for _, l := range mail.letters(s) {
		about := fmt.Sprintf("%s of wave %q, revision %s (%d)", l.kind, l.Wave, l.Revision, l.Number)
		if l.kind != "wave-begun" && l.kind != "complete" {
			continue // a wave may soak again
		}
		if before, known := ids[about]; known && before != l.id {
			s.t.Errorf("%s has the identities %s and %s", about, before, l.id)
		}
		ids[about] = l.id
	}
	if len(ids) == 0 {
		s.t.Error("there was no notification")
	}
}
