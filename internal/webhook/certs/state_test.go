// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"crypto/x509"
	"testing"
	"time"

	certutil "k8s.io/client-go/util/cert"
)

func names() []string { return []string{"everynode-webhook.everynode-system.svc", "10.1.2.3"} }

func advance(t *testing.T, s state, now time.Time, names []string) state {
	t.Helper()
	next, err := s.advance(now, everywhere(names))
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// everywhere are inputs in which everything is published, and nothing served.
func everywhere(names []string) inputs {
	return inputs{names: names, published: func(pair) bool { return true }}
}

// trusts is whether a client with the bundle accepts what p is, under the name.
func trusts(t *testing.T, bundle []byte, p pair, name string, now time.Time) bool {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(bundle)
	chain, err := certutil.ParseCertsPEM(p.cert)
	if err != nil {
		t.Fatal(err)
	}
	_, err = chain[0].Verify(x509.VerifyOptions{Roots: pool, DNSName: name, CurrentTime: now})
	return err == nil
}

func count(t *testing.T, bundle []byte) int {
	t.Helper()
	certs, err := certutil.ParseCertsPEM(bundle)
	if err != nil {
		t.Fatal(err)
	}
	return len(certs)
}

// TestLife follows the state until well after its renewal, in steps of five days, and sees to it that a client that last
// read the bundle a step ago always trusts the certificate in use.
func TestLife(t *testing.T) {
	start := time.Now()
	s := advance(t, state{}, start, names())
	first := s.current
	if s.next.cert != nil || count(t, s.bundle) != 1 {
		t.Fatalf("the first state has a next certificate, or %d authorities", count(t, s.bundle))
	}
	// A lifetime begins now, whatever the time of the test is. So a life is as far as this could go,
	// and after the first renewal each further step is a renewal again; each makes two RSA keys, so a few of them have to do.
	const step = 5 * 24 * time.Hour
	now, renewed := start, time.Time{}
	for now.Before(start.Add(renewAfter + 6*step)) {
		now = now.Add(step)
		was := s
		s = advance(t, s, now, names())
		if !trusts(t, was.bundle, s.current, names()[0], now) || !trusts(t, was.bundle, s.current, names()[1], now) {
			t.Fatalf("after %v the certificate in use is not trusted by who read the bundle a step before", now.Sub(start))
		}
		if s.next.cert != nil && was.next.cert == nil && renewed.IsZero() {
			renewed = now
			if !bytes.Equal(s.current.cert, first.cert) || count(t, s.bundle) != 2 {
				t.Errorf("the next certificate is used before it was published")
			}
		}
	}
	if after := renewed.Sub(start); after < renewAfter-step || after > renewAfter+step {
		t.Errorf("renewed after %v", after)
	}
	if bytes.Equal(s.current.cert, first.cert) {
		t.Error("the next certificate is never used")
	}
}

func TestSettle(t *testing.T) {
	now := time.Now()
	s := advance(t, state{}, now, names())
	renewing := advance(t, s, now.Add(renewAfter), names())
	for _, e := range []struct {
		after    time.Duration
		promoted bool
	}{{time.Minute, false}, {settle - time.Minute, false}, {settle + time.Minute, true}} {
		// The lifetime of the next certificate begins an hour before the moment at which it was made.
		got := advance(t, renewing, now.Add(e.after), names())
		if promoted := bytes.Equal(got.current.cert, renewing.next.cert); promoted != e.promoted {
			t.Errorf("%v after it was made: in use %v, want %v", e.after, promoted, e.promoted)
		}
	}
}

// Nothing is used that is not published, however long ago it was made, unless there is nothing else.
func TestUnpublished(t *testing.T) {
	now := time.Now()
	s := advance(t, state{}, now, names())
	renewing := advance(t, s, now.Add(renewAfter), names())
	nowhere := inputs{names: names(), held: s.current, published: func(pair) bool { return false }}
	for _, after := range []time.Duration{settle + time.Minute, renewAfter + time.Hour} {
		got, err := renewing.advance(now.Add(after), nowhere)
		if err != nil || !got.equal(renewing) {
			t.Errorf("after %v the state is another: %v", after, err)
		}
	}
	expired := state{current: issueAt(t, names()[:1], now.Add(-lifetime-time.Hour)), next: s.current}
	got, err := expired.advance(now, inputs{names: names()[:1], held: expired.current, published: nowhere.published})
	if err != nil || !got.current.equal(s.current) {
		t.Errorf("the next certificate is not used when the last one has expired: %v", err)
	}
}

// A pair that this manager serves is followed by a new one when the Secret is of no use, and is trusted meanwhile.
func TestHeld(t *testing.T) {
	now := time.Now()
	s := advance(t, state{}, now, names())
	other := advance(t, state{}, now, names())
	held := inputs{names: names(), held: s.current, published: func(pair) bool { return false }}
	for name, c := range map[string]struct {
		was     state
		current pair
		next    bool
	}{
		"deleted":                       {state{}, s.current, true},
		"damaged":                       {state{current: pair{[]byte("x"), []byte("y")}, bundle: []byte("z")}, s.current, true},
		"damaged, but for the next one": {state{next: other.current}, s.current, true},
		"made anew":                     {other, other.current, false},
	} {
		got, err := c.was.advance(now, held)
		if err != nil {
			t.Fatal(err)
		}
		if !got.current.equal(c.current) || (got.next.cert != nil) != c.next || !got.served(now, held).equal(s.current) {
			t.Errorf("%s: the state is not what it should be", name)
		}
		if name == "damaged, but for the next one" && !got.next.equal(other.current) {
			t.Errorf("%s: that is lost", name)
		}
		for _, p := range []pair{s.current, got.current} {
			if !p.trustedBy(got.bundle) || !trusts(t, got.bundle, p, names()[0], now) {
				t.Errorf("%s: a certificate in use is not in the bundle", name)
			}
		}
	}
	if later := now.Add(settle + time.Minute); !other.served(later, everywhere(names())).equal(other.current) {
		t.Error("what is published is not served")
	}
}

func TestStable(t *testing.T) {
	now := time.Now()
	s := advance(t, state{}, now, names())
	if again := advance(t, readState(s.data()), now.Add(time.Hour), names()); !again.equal(s) {
		t.Error("nothing happened, and the state is another")
	}
}

func TestRenewed(t *testing.T) {
	now := time.Now()
	s := advance(t, state{}, now, names())
	other := advance(t, state{}, now, names())
	for name, damaged := range map[string]state{
		"no key":            {current: pair{cert: s.current.cert}, bundle: s.bundle},
		"another's key":     {current: pair{s.current.cert, other.current.key}, bundle: s.bundle},
		"no PEM":            {current: pair{[]byte("x"), []byte("y")}, bundle: []byte("z")},
		"no authority":      {current: pair{s.current.cert[:bytes.LastIndex(s.current.cert, []byte("-----BEGIN"))], s.current.key}, bundle: s.bundle},
		"an unusable next":  {current: s.current, next: pair{[]byte("x"), nil}, bundle: s.bundle},
		"a damaged bundle":  {current: s.current, bundle: []byte("x")},
		"somebody's bundle": {current: s.current, bundle: other.bundle},
	} {
		got := advance(t, damaged, now, names())
		if !trusts(t, got.bundle, got.current, names()[0], now) || got.next.cert != nil {
			t.Errorf("%s: not mended", name)
		}
	}
}

func TestNames(t *testing.T) {
	now := time.Now()
	s := advance(t, state{}, now, names())
	moved := advance(t, s, now, []string{"127.0.0.1"})
	if !trusts(t, moved.bundle, moved.current, "127.0.0.1", now) {
		t.Error("the certificate is not for the new name")
	}
	if !trusts(t, moved.bundle, s.current, names()[0], now) {
		t.Error("the old certificate, which another manager may still use, is not trusted any more")
	}
	if _, err := s.advance(now, everywhere(nil)); err != nil {
		t.Errorf("no name, but a certificate: %v", err)
	}
	if _, err := (state{}).advance(now, everywhere(nil)); err == nil {
		t.Error("a certificate for nothing")
	}
}

// TestTheClockOfTheAPIServerIsBehind: an API server whose clock is behind trusts a new certificate, and a manager whose clock is behind keeps it.
func TestTheClockOfTheAPIServerIsBehind(t *testing.T) {
	now := time.Now()
	s := advance(t, state{}, now, names())
	for _, behind := range []time.Duration{0, 2 * time.Hour, 24 * time.Hour, tolerance} {
		if !trusts(t, s.bundle, s.current, names()[0], now.Add(-behind)) {
			t.Errorf("an API server whose clock is %v behind rejects the certificate", behind)
		}
	}
	if got := advance(t, s, now.Add(-tolerance), names()); !got.equal(s) {
		t.Error("a manager whose clock is behind replaces the certificate")
	}
}

// TestMadeByAFastClock: a certificate that is not valid yet, because the clock was wrong when it was made, is replaced at once, also where it is the one
// that is served, and where somebody deletes the Secret.
func TestMadeByAFastClock(t *testing.T) {
	const fast = tolerance + 48*time.Hour
	bad := advance(t, state{}, time.Now(), names()).current
	now := time.Now().Add(-fast)
	served := everywhere(names())
	served.held = bad
	for what, s := range map[string]state{"in the Secret": {current: bad, bundle: bad.cert}, "served, and the Secret is gone": {}} {
		got, err := s.advance(now, served)
		if err != nil || got.current.equal(bad) {
			t.Errorf("%s: it stays, error %v", what, err)
		}
		if got.served(now, served).equal(bad) {
			t.Errorf("%s: it is served", what)
		}
	}
}
