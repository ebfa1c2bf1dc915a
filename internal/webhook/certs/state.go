// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"

	certutil "k8s.io/client-go/util/cert"
)

const (
	// lifetime is how long a certificate is valid, renewAfter when the next one is made, settle how long that one is
	// published before it is used: much longer than any manager takes to notice.
	lifetime   = 365 * 24 * time.Hour
	renewAfter = lifetime * 2 / 3
	settle     = 10 * time.Minute
	// backdated is how much earlier than they are made the library lets certificates begin.
	backdated = time.Hour
)

// Keys of the Secret. The first three are those that tools know.
const (
	keyCert     = "tls.crt"
	keyKey      = "tls.key"
	keyBundle   = "ca.crt"
	keyNextCert = "next.crt"
	keyNextKey  = "next.key"
)

// state is what the Secret holds.
type state struct {
	current, next pair
	bundle        []byte
}

// pair is a certificate, followed by its authority, and its key.
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
	return bytes.Equal(s.current.cert, other.current.cert) && bytes.Equal(s.current.key, other.current.key) &&
		bytes.Equal(s.next.cert, other.next.cert) && bytes.Equal(s.next.key, other.next.key) && bytes.Equal(s.bundle, other.bundle)
}

// advance returns the state that should follow s at that time, for a server that is reached under these names.
func (s state) advance(now time.Time, names []string) (state, error) {
	var err error
	next, nextUsable := s.next.usable(now, names)
	if !nextUsable {
		s.next = pair{}
	}
	current, ok := s.current.usable(now, names)
	switch {
	case nextUsable && (!ok || now.After(next.NotBefore.Add(backdated+settle))):
		s.current, s.next = s.next, pair{}
	case !ok:
		s.current, err = issue(names)
	case !nextUsable && now.After(current.NotBefore.Add(renewAfter)):
		s.next, err = issue(names)
	}
	if err != nil {
		return s, err
	}
	s.bundle, err = trusted(now, s.current, s.next, pair{cert: s.bundle})
	return s, err
}

// usable is whether p can be served at that time under these names, and its certificate.
func (p pair) usable(now time.Time, names []string) (*x509.Certificate, bool) {
	if _, err := tls.X509KeyPair(p.cert, p.key); err != nil {
		return nil, false
	}
	chain, err := certutil.ParseCertsPEM(p.cert)
	if err != nil || len(chain) < 2 || now.After(chain[0].NotAfter) {
		return nil, false
	}
	for _, name := range names {
		if chain[0].VerifyHostname(name) != nil {
			return nil, false
		}
	}
	return chain[0], true
}

// issue makes a pair with an authority of its own.
func issue(names []string) (pair, error) {
	if len(names) == 0 {
		return pair{}, errors.New("making a certificate: no name to make it for")
	}
	options := certutil.SelfSignedCertKeyOptions{Host: names[0], MaxAge: lifetime}
	for _, name := range names[1:] {
		if ip := net.ParseIP(name); ip != nil {
			options.AlternateIPs = append(options.AlternateIPs, ip)
		} else {
			options.AlternateDNS = append(options.AlternateDNS, name)
		}
	}
	cert, key, err := certutil.GenerateSelfSignedCertKeyWithOptions(options)
	if err != nil {
		return pair{}, fmt.Errorf("making a certificate: %w", err)
	}
	return pair{cert, key}, nil
}

// trusted are the authorities in the certificates of pairs that have not expired, each once.
func trusted(now time.Time, pairs ...pair) ([]byte, error) {
	var authorities []*x509.Certificate
	pool := x509.NewCertPool()
	for _, p := range pairs {
		// A bundle that somebody has damaged is made anew from the pairs.
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
