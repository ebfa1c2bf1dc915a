// SPDX-License-Identifier: Apache-2.0

package notifications

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// received is a request that a receiver has got.
type received struct {
	headers http.Header
	body    string
}

// receiver is a target that answers as its function says.
type receiver struct {
	*httptest.Server
	mu  sync.Mutex
	got []received
}

func receive(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		r.mu.Lock()
		r.got = append(r.got, received{q.Header, string(body)})
		n := len(r.got)
		r.mu.Unlock()
		answer(n, w, q)
	}))
	t.Cleanup(func() { r.CloseClientConnections(); r.Close() })
	return r
}

func (r *receiver) requests() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

func ok(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

// bench is a Sender with its counts.
type bench struct {
	t *testing.T
	*Sender
	mu     sync.Mutex
	counts map[string]int
	stop   func()
	ended  chan struct{}
}

// newBench makes a Sender whose targets are named a, b, ... The fields are added to each target.
func newBench(t *testing.T, fields string, urls ...string) *bench {
	t.Helper()
	text := head + "targets:\n"
	for i, url := range urls {
		text += fmt.Sprintf("- {name: %c, webhook: {url: %q}, signingKeyFiles: [%q]%s}\n", 'a'+i, url, keyFile(t, testKey), fields)
	}
	targets, err := parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, counts: map[string]int{}, ended: make(chan struct{})}
	b.Sender = New(targets, clock.RealClock{}, func(target, result string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.counts[target+" "+result]++
	})
	b.backoff = wait.Backoff{Duration: time.Millisecond, Steps: 1}
	return b
}

func (b *bench) run() *bench {
	ctx, cancel := context.WithCancel(b.t.Context())
	b.stop = cancel
	go func() {
		defer close(b.ended)
		b.Run(ctx)
	}()
	b.t.Cleanup(func() { cancel(); <-b.ended })
	return b
}

func (b *bench) counted(what string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.counts[what]
}

func (b *bench) until(what string, met func() bool) {
	b.t.Helper()
	err := wait.PollUntilContextTimeout(b.t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return met(), nil })
	if err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
}

func (b *bench) untilCounted(what string, n int) {
	b.t.Helper()
	b.until(fmt.Sprintf("%s is %d", what, n), func() bool { return b.counted(what) >= n })
}

func notice(wave string) policy.Notice {
	return policy.Notice{
		Type: policy.NoticeSoaking, Set: policy.Set{Namespace: "kube-system", Name: "agent"}, UID: "uid", Dialect: "native", Policy: "agents", Revision: "agent-v2", Number: 2,
		Committed: "agent-v1", Wave: wave, Counts: &policy.NoticeCounts{Nodes: 3, Updated: 3, Available: 3}, At: rollout.Time(1_800_000_000_000_000_000), Reason: "It soaks.", Next: "It passes.",
	}
}

func (b *bench) send(notices ...policy.Notice) { b.Send(b.t.Context(), notices) }

// verify checks a signature as the specification describes it for receivers, with code of its own.
func verify(r received, key string) error {
	secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(key, "whsec_"))
	if err != nil {
		return err
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(strings.Join([]string{r.headers.Get("webhook-id"), r.headers.Get("webhook-timestamp"), r.body}, ".")))
	for _, one := range strings.Split(r.headers.Get("webhook-signature"), " ") {
		version, signature, _ := strings.Cut(one, ",")
		if got, err := base64.StdEncoding.DecodeString(signature); err == nil && version == "v1" && hmac.Equal(got, mac.Sum(nil)) {
			return nil
		}
	}
	return fmt.Errorf("no signature matches in %q", r.headers.Get("webhook-signature"))
}

// A receiver gets a CloudEvent with all attributes, and a signature with each key that the files have when it is sent.
func TestEventIsSentAndSigned(t *testing.T) {
	r := receive(t, ok)
	other := "whsec_" + strings.Repeat("QUFB", 8)
	b := newBench(t, "", r.URL)
	b.targets.all[0].keyFiles = append(b.targets.all[0].keyFiles, keyFile(t, other))
	b.run().send(notice("canary"))
	b.untilCounted("a sent", 1)
	got := r.requests()[0]
	want := `{"specversion":"1.0","id":"` + got.headers.Get("webhook-id") + `","source":"/everynode","type":"dev.everynode.rollout.soaking",` +
		`"subject":"/apis/apps/v1/namespaces/kube-system/daemonsets/agent","time":"2027-01-15T08:00:00Z","datacontenttype":"application/json",` +
		`"data":{"apiVersion":"apps/v1","kind":"DaemonSet","namespace":"kube-system","name":"agent","uid":"uid","dialect":"native","policy":"agents","revision":"agent-v2",` +
		`"revisionNumber":2,"committedRevision":"agent-v1","wave":"canary","counts":{"nodes":3,"updated":3,"available":3,"failed":0},"reason":"It soaks.","next":"It passes."}}`
	if got.body != want {
		t.Errorf("the body is\n%s, want\n%s", got.body, want)
	}
	if n := notice("canary"); got.headers.Get("webhook-id") != n.ID() || strings.Contains(n.ID(), ".") || got.headers.Get("Content-Type") != "application/cloudevents+json; charset=UTF-8" {
		t.Errorf("the headers are %v", got.headers)
	}
	if sent, err := strconv.ParseInt(got.headers.Get("webhook-timestamp"), 10, 64); err != nil || time.Since(time.Unix(sent, 0)).Abs() > 5*time.Minute {
		t.Errorf("the timestamp is %v", got.headers)
	}
	for _, key := range []string{testKey, other} {
		if err := verify(got, key); err != nil {
			t.Error(err)
		}
	}
	got.body += " "
	if verify(got, testKey) == nil {
		t.Error("a body that was changed has a valid signature")
	}
}

// The signature is the one of a published example.
func TestSignatureOfTheSpecification(t *testing.T) {
	keys, err := readKeys([]string{keyFile(t, testKey)})
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	sign(h, &message{id: "msg_p5jXN8AQM9LWM0D4loKWxJek", body: []byte(`{"test": 2432232314}`)}, keys, time.Unix(1614265330, 0))
	if got := h.Get("webhook-signature"); got != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Errorf("the signature is %s", got)
	}
}

// An attempt that fails is repeated with the same identity and body, and later events come after it.
func TestRetriesKeepIdentityAndOrder(t *testing.T) {
	r := receive(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader([]int{500, 503, 404, 200, 200}[n-1])
	})
	b := newBench(t, "", r.URL).run()
	b.send(notice("one"), notice("two"))
	b.untilCounted("a sent", 2)
	waves := ""
	for i, got := range r.requests() {
		var e event
		if err := json.Unmarshal([]byte(got.body), &e); err != nil || e.ID != got.headers.Get("webhook-id") {
			t.Fatalf("%v: %s", err, got.body)
		}
		if waves += e.Data.Wave + " "; i < 4 && (e.ID != r.requests()[0].headers.Get("webhook-id") || got.body != r.requests()[0].body) {
			t.Errorf("attempt %d has the identity %s and the body %s", i, e.ID, got.body)
		}
		if err := verify(got, testKey); err != nil {
			t.Error(err)
		}
	}
	if waves != "one one one one two " || b.counted("a retried") != 3 || b.counted("a failed") != 0 {
		t.Errorf("waves %s, counts %v", waves, b.counts)
	}
}

// What the target refuses for good is not repeated, and delays nothing.
func TestEventThatIsRefused(t *testing.T) {
	for _, status := range []int{400, 410, 413, 415, 422} {
		r := receive(t, func(n int, w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader([]int{status, 200}[n-1])
		})
		b := newBench(t, "", r.URL).run()
		b.send(notice("one"), notice("two"))
		b.untilCounted("a sent", 1)
		if b.counted("a failed") != 1 || b.counted("a retried") != 0 || len(r.requests()) != 2 {
			t.Errorf("%d: counts %v", status, b.counts)
		}
	}
}

// A target that hangs, redirects, breaks the connection, or answers without end delays no other, and not who notifies.
func TestTargetsThatMisbehave(t *testing.T) {
	for name, answer := range map[string]func(n int, w http.ResponseWriter, r *http.Request){
		"hangs": func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"redirects": func(_ int, w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		},
		"breaks": func(int, http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"answers without end": func(_ int, w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		},
		"long header": func(_ int, w http.ResponseWriter, _ *http.Request) { w.Header().Set("A", strings.Repeat("a", 10<<20)) },
	} {
		t.Run(name, func(t *testing.T) {
			bad, good := receive(t, answer), receive(t, ok)
			b := newBench(t, "", bad.URL, good.URL)
			b.targets.all[0].client.Timeout = time.Second // and not that of the good one, which a slow machine may exceed
			b.run()
			for i := range 2 * maxQueue {
				b.send(notice(strconv.Itoa(i)))
				b.untilCounted("b sent", i+1)
			}
			b.untilCounted("a retried", 1)
			if b.counted("a sent") != 0 || b.counted("b retried")+b.counted("b failed")+b.counted("b dropped") != 0 {
				t.Errorf("counts %v", b.counts)
			}
			if name == "redirects" && slices.ContainsFunc(bad.requests(), func(r received) bool { return !strings.Contains(r.body, "soaking") }) {
				t.Error("the redirect was followed")
			}
		})
	}
}

// An answer of 10 MB that accepts the event is not read.
func TestLongAnswer(t *testing.T) {
	r := receive(t, func(_ int, w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 10<<20)) })
	b := newBench(t, "", r.URL).run()
	b.send(notice("one"), notice("two"))
	b.untilCounted("a sent", 2)
	if len(b.counts) != 1 {
		t.Errorf("counts %v", b.counts)
	}
}

// A queue keeps the newest events, and each that is dropped is counted.
func TestQueueIsBounded(t *testing.T) {
	r := receive(t, ok)
	b := newBench(t, "", r.URL)
	for i := range maxQueue + 10 {
		b.send(notice(strconv.Itoa(i)))
	}
	if b.counted("a dropped") != 10 || b.targets.all[0].queue.size() != maxQueue {
		t.Errorf("counts %v, queue %d", b.counts, b.targets.all[0].queue.size())
	}
	b.run()
	b.untilCounted("a sent", maxQueue)
	if first := r.requests()[0].body; !strings.Contains(first, `"wave":"10"`) {
		t.Errorf("the first event that was sent is %s", first)
	}
}

// Events beyond the filters of a target, and repeated ones that are older than it wants, are not sent.
func TestEventsThatAreNotWanted(t *testing.T) {
	r := receive(t, ok)
	b := newBench(t, ", events: [soaking], namespaces: [kube-system]", r.URL).run()
	other, elsewhere, old, young := notice("other"), notice("elsewhere"), notice("old"), notice("young")
	other.Type, elsewhere.Set.Namespace, old.Repeated, young.Repeated = policy.NoticeFailed, "default", true, true
	old.At, young.At = rollout.Time(time.Now().Add(-61*time.Minute).UnixNano()), rollout.Time(time.Now().Add(-59*time.Minute).UnixNano())
	b.send(other, elsewhere, old, young)
	b.untilCounted("a sent", 1)
	if got := r.requests(); len(got) != 1 || !strings.Contains(got[0].body, `"wave":"young"`) || len(b.counts) != 1 {
		t.Errorf("%+v, %v", got, b.counts)
	}
}

// The delays grow up to five minutes, respect what the target asks for, and end when the event is too old.
func TestDeliveryIsTriedForALimitedTime(t *testing.T) {
	for after, most := range map[string]time.Duration{"": 15 * time.Second, "120": 3 * time.Minute, "65535": 6 * time.Minute, "-1": 15 * time.Second, "soon": 15 * time.Second} {
		r := receive(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", after)
			w.WriteHeader(http.StatusTooManyRequests)
		})
		b := newBench(t, ", maxAge: 1h", r.URL)
		fake := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
		b.Sender.clock, b.backoff = fake, New(nil, fake, nil).backoff
		b.run().send(notice("one"))
		began := fake.Now()
		for n := 1; b.counted("a failed") == 0; n++ {
			b.until("it waits, or gives up", func() bool { return b.counted("a failed") == 1 || b.counted("a retried") == n && fake.HasWaiters() })
			if n == 4 && fake.Since(began) > 3*most {
				t.Errorf("%s: the third attempt was after %s", after, fake.Since(began))
			}
			for !b.idle(fake, n) {
				fake.Step(time.Second)
			}
		}
		if waited := fake.Since(began); waited < time.Hour || waited > time.Hour+2*time.Second || b.counted("a sent") != 0 {
			t.Errorf("%s: it was tried for %s, counts %v", after, waited, b.counts)
		}
		if n := len(r.requests()); after == "" && (n < 15 || n > 30) || after == "65535" && n != 13 {
			t.Errorf("%s: %d attempts in an hour", after, n)
		}
	}
}

// idle is whether the timer of attempt n has ended.
func (b *bench) idle(fake *clocktesting.FakeClock, n int) bool {
	return !fake.HasWaiters() || b.counted("a retried") > n || b.counted("a failed") > 0
}

// Run ends at once, also while a request hangs, and sends nothing afterwards.
func TestRunEnds(t *testing.T) {
	r := receive(t, func(_ int, _ http.ResponseWriter, q *http.Request) { <-q.Context().Done() })
	b := newBench(t, ", timeout: 1m", r.URL).run()
	b.send(notice("one"), notice("two"))
	b.until("the request hangs", func() bool { return len(r.requests()) == 1 })
	b.stop()
	<-b.ended
	b.send(notice("three"))
	if len(r.requests()) != 1 || len(b.counts) != 0 {
		t.Errorf("%d requests, counts %v", len(r.requests()), b.counts)
	}
	waiting := newBench(t, "", "http://127.0.0.1:1")
	waiting.backoff = wait.Backoff{Duration: time.Hour, Steps: 1}
	waiting.run().send(notice("one"))
	waiting.untilCounted("a retried", 1)
	waiting.stop()
	<-waiting.ended
}

// A key that is replaced counts from the next attempt on; while it cannot be read, nothing is sent.
func TestKeyIsReplaced(t *testing.T) {
	r := receive(t, ok)
	b := newBench(t, "", r.URL)
	file := b.targets.all[0].keyFiles[0]
	for _, text := range []string{"nothing", "whsec_" + strings.Repeat("QUFB", 8)} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if text == "nothing" {
			b.run().send(notice("one"))
			b.untilCounted("a retried", 2)
			if n := len(r.requests()); n != 0 {
				t.Errorf("%d requests without a signature", n)
			}
			continue
		}
		b.untilCounted("a sent", 1)
		if err := verify(r.requests()[0], text); err != nil {
			t.Error(err)
		}
	}
}

// Without targets nothing is sent.
func TestNoTargets(t *testing.T) {
	s := New(nil, clock.RealClock{}, nil)
	s.Send(t.Context(), []policy.Notice{notice("one")})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	s.Run(ctx)
}
