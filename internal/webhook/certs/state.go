// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	certutil "k8s.io/client-go/util/cert"
)

const (
	// lifetime is the validity of a certificate, renewAfter is when the next one is created, and settle is how long the
	// next one is published before it is used: much longer than any manager needs to notice it.
	lifetime   = 365 * 24 * time.Hour
	renewAfter = lifetime * 2 / 3
	settle     = 10 * time.Minute
	// backdated is how much earlier than its creation the lifetime of a certificate begins.
	backdated = time.Hour
)

// Keys of the Secret. The first three are the standard keys.
const (
	keyCert     = "tls.crt"
	keyKey      = "tls.key"
	keyBundle   = "ca.crt"
	keyNextCert = "next.crt"
	keyNextKey  = "next.key"
)

// state is the content of the Secret.
type state struct {
	current, next pair
	bundle        []byte
}

// pair is a certificate, followed by its authority, and its private key.
type pair struct {
	cert, key []byte
}

func readState(data map[string][]byte) state {
	return state{
		current: pair{data[keyCert], data[keyKey]},
		next:    pair{data[keyNextCert], data[keyNextKey]},
		bundle:  data[keyBundle],
	}
}

func (s state) data() map[string][]byte {
	data := map[string][]byte{keyCert: s.current.cert, keyKey: s.current.key, keyBundle: s.bundle}
	if s.next.cert != nil {
		data[keyNextCert], data[keyNextKey] = s.next.cert, s.next.key
	}
	return data
}

func (s state) equal(other state) bool {
	return s.current.equal(other.current) && s.next.equal(other.next) && bytes.Equal(s.bundle, other.bundle)
}

// inputs is everything else that the next state depends on.
type inputs struct {
	// names are the names of the server.
	names []string
	// held is the pair that this manager serves; empty before the first one.
	held pair
	// published reports whether clients trust a pair.
	published func(pair) bool
}

// advance returns the state that follows s at that time. If s is unusable because the Secret was deleted or damaged,
// the manager continues to serve its pair, which clients trust, until the next pair is published.
func (s state) advance(now time.Time, in inputs) (state, error) {
	var err error
	_, nextUsable := s.next.usable(now, in.names)
	if !nextUsable {
		s.next = pair{}
	}
	current, ok := s.current.usable(now, in.names)
	_, holds := in.held.usable(now, in.names)
	switch {
	case !ok && holds:
		if s.current = in.held; !nextUsable {
			s.next, err = issue(in.names)
		}
	case nextUsable && (!ok || in.trusted(now, s.next)):
		s.current, s.next = s.next, pair{}
	case !ok:
		s.current, err = issue(in.names)
	case !nextUsable && now.After(begin(current).Add(renewAfter)):
		s.next, err = issue(in.names)
	}
	if err != nil {
		return s, err
	}
	s.bundle, err = trusted(now, s.current, s.next, in.held, pair{cert: s.bundle})
	return s, err
}

// served returns the pair to serve at that time for the state s. A new pair of another manager is not served before it
// is trusted.
func (s state) served(now time.Time, in inputs) pair {
	_, holds := in.held.usable(now, in.names)
	if !holds || in.held.equal(s.current) || in.trusted(now, s.current) {
		return s.current
	}
	return in.held
}

// trusted reports whether all clients trust the usable pair p by now.
func (in inputs) trusted(now time.Time, p pair) bool {
	cert, ok := p.usable(now, in.names)
	return ok && now.After(begin(cert).Add(backdated+settle)) && in.published(p)
}

func (p pair) equal(other pair) bool {
	return bytes.Equal(p.cert, other.cert) && bytes.Equal(p.key, other.key)
}

// authority returns the authority that signed p, or nil.
func (p pair) authority() *x509.Certificate {
	chain, err := certutil.ParseCertsPEM(p.cert)
	if err != nil || !chain[len(chain)-1].IsCA {
		return nil
	}
	return chain[len(chain)-1]
}

// trustedBy reports whether a client that trusts the bundle trusts p.
func (p pair) trustedBy(bundle []byte) bool {
	authority := p.authority()
	known, err := certutil.ParseCertsPEM(bundle)
	return authority != nil && err == nil && slices.ContainsFunc(known, authority.Equal)
}

// usable reports whether p can be served at that time under these names, and returns its certificate.
func (p pair) usable(now time.Time, names []string) (*x509.Certificate, bool) {
	if _, err := tls.X509KeyPair(p.cert, p.key); err != nil {
		return nil, false
	}
	chain, err := certutil.ParseCertsPEM(p.cert)
	if err != nil || len(chain) < 2 || now.After(chain[0].NotAfter) {
		return nil, false
	}
	if now.Before(chain[0].NotBefore) {
		return nil, false // created by a clock that was ahead: clients reject it until that time
	}
	for _, name := range names {
		if chain[0].VerifyHostname(name) != nil {
			return nil, false
		}
	}
	return chain[0], true
}

// trusted returns the authorities of the pairs that have not expired, without duplicates.
func trusted(now time.Time, pairs ...pair) ([]byte, error) {
	var authorities []*x509.Certificate
	pool := x509.NewCertPool()
	for _, p := range pairs {
		// A damaged bundle is created again from the pairs.
		chain, err := certutil.ParseCertsPEM(p.cert)
		if err != nil {
			continue
		}
		for _, cert := range chain {
			before := pool.Clone()
			if pool.AddCert(cert); cert.IsCA && now.Before(cert.NotAfter) && !pool.Equal(before) {
				authorities = append(authorities, cert)
			}
		}
	}
	bundle, err := certutil.EncodeCertificates(authorities...)
	if err != nil {
		return nil, fmt.Errorf("encoding the authorities: %w", err)
	}
	return bundle, nil
}
