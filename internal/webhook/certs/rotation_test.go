// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// issueAt is issue, at another time.
func issueAt(t *testing.T, names []string, when time.Time) pair {
	t.Helper()
	sign := func(template, parent *x509.Certificate, key, by *ecdsa.PrivateKey) *x509.Certificate {
		der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
		if err != nil {
			t.Fatal(err)
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return cert
	}
	keys := [2]*ecdsa.PrivateKey{} // hundreds of connections are made with them, and RSA takes its time
	for i := range keys {
		var err error
		if keys[i], err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			t.Fatal(err)
		}
	}
	from, until := when.Add(-backdated), when.Add(lifetime-backdated)
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "old"}, NotBefore: from, NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	authority = sign(authority, authority, keys[0], keys[0])
	cert := sign(&x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: names, NotBefore: from, NotAfter: until}, authority, keys[1], keys[0])
	chain, err := certutil.EncodeCertificates(cert, authority)
	if err != nil {
		t.Fatal(err)
	}
	key, err := keyutil.MarshalPrivateKeyToPEM(keys[1])
	if err != nil {
		t.Fatal(err)
	}
	return pair{chain, key}
}

// rotation is two managers, the second of which leads, and an API server that asks both of them all the time.
type rotation struct {
	t         *testing.T
	now       atomic.Pointer[time.Time]
	client    *fake.Clientset
	trusted   [2]atomic.Pointer[x509.CertPool] // as the API server has read it last, for admission and for conversion
	keepers   [2]*Keeper
	servers   [2]*httptest.Server
	answers   [2]chan error
	publisher *Publisher
	asked     int
}

func newRotation(t *testing.T, now time.Time, old pair, names []string) *rotation {
	t.Helper()
	first := state{current: old}
	var err error
	if first.bundle, err = trusted(now, old); err != nil {
		t.Fatal(err)
	}
	client := fake.NewClientset(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "certs"}, Data: first.data()})
	r := &rotation{t: t, client: client}
	r.now.Store(&now)
	p, _, _ := publisher(configurations(), crd(map[string]any{"everynode.dev/part-of": "everynode"}))
	r.publisher = p
	for i := range r.keepers {
		r.keepers[i] = &Keeper{Client: client, Namespace: "system", Secret: "certs", Names: names, Published: p.Published}
		r.keep(i)
		r.servers[i] = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "allowed") }))
		r.servers[i].TLS = &tls.Config{GetCertificate: r.keepers[i].Certificate}
		r.servers[i].StartTLS()
		t.Cleanup(r.servers[i].Close)
	}
	p.Bundle = r.keepers[1].Bundle
	r.publish()
	r.read()
	for i := range r.servers {
		r.answers[i] = make(chan error)
		go func() {
			for t.Context().Err() == nil {
				answer := errors.Join(r.ask(i, r.trusted[0].Load(), names[0]), r.ask(i, r.trusted[1].Load(), names[0]))
				select {
				case r.answers[i] <- answer:
				case <-t.Context().Done():
				}
			}
		}()
	}
	return r
}

// ask asks a manager as the API server does that trusts a bundle, over a new connection.
func (r *rotation) ask(manager int, bundle *x509.CertPool, name string) error {
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
		RootCAs: bundle, ServerName: name, Time: func() time.Time { return *r.now.Load() },
	}}
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.servers[manager].URL, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// check waits until each manager was asked since now, and every request since the last time was answered.
func (r *rotation) check(after string, minute int) {
	r.t.Helper()
	for manager, answers := range r.answers {
		for range 2 { // the first may have been asked before
			if err := <-answers; err != nil {
				r.t.Errorf("minute %d, after %s: manager %d was not reached: %v", minute, after, manager, err)
			}
			r.asked++
		}
	}
}

func (r *rotation) keep(manager int) {
	r.t.Helper()
	if err := r.keepers[manager].sync(r.t.Context(), *r.now.Load()); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rotation) publish() {
	r.t.Helper()
	if err := r.publisher.sync(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

// read has the API server see what is published.
func (r *rotation) read() {
	r.t.Helper()
	bundles, err := r.publisher.Published(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	for i, bundle := range [][]byte{bundles[0], bundles[len(bundles)-1]} {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(bundle) {
			r.t.Fatal("nothing is published")
		}
		r.trusted[i].Store(pool)
	}
}

// put puts data into the Secret; without any the Secret is deleted.
func (r *rotation) put(data map[string][]byte) {
	r.t.Helper()
	secrets, err := r.client.CoreV1().Secrets("system"), error(nil)
	if data == nil {
		err = secrets.Delete(r.t.Context(), "certs", metav1.DeleteOptions{})
	} else {
		_, err = secrets.Update(r.t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "certs"}, Data: data}, metav1.UpdateOptions{})
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// TestRotationFailsNoRequest renews the certificate of two managers while an API server asks both, which trusts only what it has read of what the
// leader has published of what it has read. Each of these looks a while after the other.
func TestRotationFailsNoRequest(t *testing.T) {
	names := []string{"everynode-webhook.everynode-system.svc"}
	now := time.Now()
	fresh, other := issueAt(t, names, now), state{current: issueAt(t, names, now)}
	for name, c := range map[string]struct {
		old         pair
		then        func(*rotation) // in the fifth minute
		unpublished bool            // the leader does not publish
	}{
		"renewed after three minutes": {old: issueAt(t, names, now.Add(3*time.Minute+backdated-renewAfter))},
		"renewed, and not published":  {old: issueAt(t, names, now.Add(3*time.Minute+backdated-renewAfter)), unpublished: true},
		"deleted":                     {old: fresh, then: func(r *rotation) { r.put(nil) }},
		"damaged":                     {old: fresh, then: func(r *rotation) { r.put(map[string][]byte{keyCert: []byte("x")}) }},
		"replaced":                    {old: fresh, then: func(r *rotation) { r.put(other.data()) }},
		"deleted, and not published":  {old: fresh, then: func(r *rotation) { r.put(nil) }, unpublished: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRotation(t, now, c.old, names)
			before := r.trusted[0].Load()
			for minute := range 20 {
				if minute == 5 && c.then != nil {
					c.then(r)
				}
				r.minute(now, minute, !c.unpublished)
			}
			for i := range r.servers {
				if old := r.ask(i, before, names[0]) == nil; old != c.unpublished {
					t.Errorf("manager %d has the old certificate: %v, want %v", i, old, c.unpublished)
				}
			}
			if r.asked < 100 {
				t.Errorf("there were %d requests only", r.asked)
			}
		})
	}
}

// minute is one of the API server, the managers, and the publisher, in this order.
func (r *rotation) minute(now time.Time, minute int, publish bool) {
	r.t.Helper()
	at := now.Add(time.Duration(minute) * time.Minute)
	r.now.Store(&at)
	r.check("a minute", minute)
	r.keep(0)
	r.check("the look of the first manager", minute)
	if minute%2 == 1 {
		r.keep(1)
		r.check("the look of the leader", minute)
	}
	if publish && minute%3 == 2 {
		r.publish()
		r.check("what the leader has published", minute)
	}
	if minute%4 == 3 {
		r.read()
		r.check("the look of the API server", minute)
	}
}
