// SPDX-License-Identifier: Apache-2.0

package analyses

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	everynode "everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/policy"
)

func key(name string) clustercache.Key { return clustercache.Key{Namespace: "default", Name: name} }

// started runs a Runner until the test ends.
func started(t *testing.T, all Providers, c clock.WithTicker) *Runner {
	t.Helper()
	r := New(all, c)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		r.Run(ctx)
		close(done)
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	return r
}

// await waits until a condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for range 2000 {
		if holds() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("waited in vain until %s", what)
}

// A provider that hangs delays neither other providers, nor those that ask.
func TestAProviderThatHangsDelaysNoOther(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	hanging := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	good := serve(t, text(200, `{"result": 0}`))
	r := started(t, provide(t, fmt.Sprintf("- {name: hangs, timeout: 1m, webhook: {url: '%s'}}\n- {name: good, webhook: {url: '%s'}}", hanging, good)), clock.RealClock{})
	for i := range 3 * concurrency {
		r.Ask(key(fmt.Sprint("a", i)), []policy.Question{{Provider: "hangs", Success: "result == 0", Interval: time.Minute}}, func() {})
	}
	woken := make(chan struct{}, 10)
	r.Ask(key("b"), []policy.Question{{Provider: "good", Success: "result == 0", Interval: time.Minute}}, func() { woken <- struct{}{} })
	<-woken
	if all := r.Answers(key("b")); len(all) != 1 || all[0].Answer != everynode.AnswerPass || all[0].Provider != "good" {
		t.Errorf("answers %+v", all)
	}
	if all := r.Answers(key("b")); len(all) != 0 {
		t.Errorf("answers that were taken come again: %+v", all)
	}
	if all := r.Answers(key("a0")); len(all) != 0 {
		t.Errorf("a provider that hangs has answered %+v", all)
	}
}

// One namespace whose requests hang keeps no other one from a provider.
func TestANamespaceTakesFewPlaces(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "greedy") {
			<-r.Context().Done()
			return
		}
		_, _ = w.Write([]byte(`{"result": 0}`))
	})
	all := provide(t, "- {name: judge, timeout: 1m, webhook: {url: '"+url+"'}}")
	r := started(t, all, clock.RealClock{})
	p := all["judge"]
	for i := range 3 * concurrency {
		r.Ask(key(fmt.Sprint("a", i)), []policy.Question{{Provider: "judge", Namespace: "greedy", Success: "result == 0", Interval: time.Minute}}, func() {})
	}
	await(t, "requests hang", func() bool { return len(p.slots) >= ofNamespace })
	woken := make(chan struct{}, 1)
	r.Ask(key("b"), []policy.Question{{Provider: "judge", Namespace: "other", Success: "result == 0", Interval: time.Minute}}, func() { woken <- struct{}{} })
	select {
	case <-woken:
	case <-time.After(10 * time.Second):
		t.Fatal("the other namespace has no answer")
	}
	for i := range 3 * concurrency {
		r.Ask(key(fmt.Sprint("a", i)), nil, nil)
	}
	await(t, "nothing is kept of a namespace", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return len(p.turns) == 0 })
}

// A question is asked at once and after each interval, until it is not asked any more. Its last answer is void then.
func TestQuestionsAreRepeated(t *testing.T) {
	var requests atomic.Int32
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		_, _ = w.Write([]byte(`{"result": 0}`))
	})
	fake := clocktesting.NewFakeClock(time.Now())
	r := New(provide(t, "- {name: judge, webhook: {url: '"+url+"'}}"), fake)
	q, woken := policy.Question{Provider: "judge", Success: "result == 0", Interval: time.Minute}, make(chan struct{}, 10)
	wake := func() { woken <- struct{}{} }
	r.Ask(key("a"), []policy.Question{q, q}, wake) // before Run
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		r.Run(ctx)
		close(done)
	}()
	<-woken
	await(t, "the interval is waited for", fake.HasWaiters)
	r.Ask(key("a"), []policy.Question{q}, wake) // the same goes on
	fake.Step(59 * time.Second)
	if n := requests.Load(); n != 1 {
		t.Errorf("%d requests before the interval has ended", n)
	}
	fake.Step(time.Second)
	<-woken
	if n, all := requests.Load(), r.Answers(key("a")); n != 2 || len(all) != 2 || all[1].Question != q {
		t.Errorf("%d requests, answers %+v", n, all)
	}
	await(t, "the interval is waited for", fake.HasWaiters)
	next := q
	next.Wave = "next"
	r.Ask(key("a"), []policy.Question{next}, wake)
	<-woken
	if all := r.Answers(key("a")); len(all) != 1 || all[0].Question != next {
		t.Errorf("answers %+v", all)
	}
	r.Ask(key("a"), nil, wake)
	await(t, "nothing is asked any more", func() bool { return !fake.HasWaiters() })
	fake.Step(time.Hour)
	if n := requests.Load(); n != 3 {
		t.Errorf("%d requests, want 3", n)
	}
	stop()
	<-done
	r.Ask(key("a"), []policy.Question{q}, wake) // after the end nothing starts
	if n := requests.Load(); n != 3 {
		t.Errorf("%d requests after the end, want 3", n)
	}
}

// TestExpressionsAreCompiledOnce: for all measurements of all questions with the same expression, until none is asked.
func TestExpressionsAreCompiledOnce(t *testing.T) {
	fake := clocktesting.NewFakeClock(time.Now())
	r := New(provide(t, "- {name: judge, webhook: {url: '"+serve(t, text(200, `{"result": 0}`))+"'}}"), fake)
	var compiled atomic.Int32
	r.programs.compile = func(text string) (*expression, error) {
		compiled.Add(1)
		return compile(text)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		r.Run(ctx)
		close(done)
	}()
	q, woken := policy.Question{Provider: "judge", Success: "result == 0", Interval: time.Minute}, make(chan struct{}, 1)
	wake := func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	}
	for k := range int64(3) {
		q.Complete = k // the same analysis of a wave that is complete again
		r.Ask(key("a"), []policy.Question{q}, wake)
		<-woken
		await(t, "it is measured again", func() bool {
			fake.Step(time.Minute)
			return len(woken) > 0
		})
		<-woken
	}
	if all := r.Answers(key("a")); len(all) == 0 || all[len(all)-1].Answer != everynode.AnswerPass || compiled.Load() != 1 {
		t.Errorf("answers %+v, compiled %d times", all, compiled.Load())
	}
	r.Ask(key("a"), nil, wake)
	await(t, "nothing is kept", func() bool { r.programs.mu.Lock(); defer r.programs.mu.Unlock(); return len(r.programs.of) == 0 })
	stop()
	<-done
}

// TestAnswersAreBounded: of a set that does not take its answers, as while its passes wait, the newest are kept.
func TestAnswersAreBounded(t *testing.T) {
	fake := clocktesting.NewFakeClock(time.Now())
	r := started(t, provide(t, "- {name: judge, webhook: {url: '"+serve(t, text(200, `{"result": 0}`))+"'}}"), fake)
	woken := make(chan struct{}, 1)
	r.Ask(key("a"), []policy.Question{{Provider: "judge", Success: "result == 0", Interval: time.Minute}}, func() { woken <- struct{}{} })
	for range maxAnswers + 2 {
		<-woken
		await(t, "the interval is waited for", fake.HasWaiters)
		fake.Step(time.Minute)
	}
	<-woken
	all := r.Answers(key("a"))
	if len(all) != maxAnswers || !all[len(all)-1].At.Time.Equal(fake.Now()) {
		t.Errorf("%d answers", len(all))
	}
}
