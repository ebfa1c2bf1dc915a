// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// tolerance is how long a certificate is valid before its lifetime begins. So an API server trusts it although its clock is behind that of the manager.
const tolerance = 30 * 24 * time.Hour

// begin returns when the lifetime of a certificate begins. Certificates of earlier versions are not valid before that time.
func begin(cert *x509.Certificate) time.Time {
	if from := cert.NotAfter.Add(-lifetime); from.After(cert.NotBefore) {
		return from
	}
	return cert.NotBefore
}

// issue creates a pair with its own authority.
func issue(names []string) (pair, error) {
	if len(names) == 0 {
		return pair{}, errors.New("making a certificate: no host name is given")
	}
	cert, key, err := sign(names, time.Now().Add(-backdated))
	if err != nil {
		return pair{}, fmt.Errorf("making a certificate: %w", err)
	}
	return pair{cert, key}, nil
}

// sign creates an authority, and a certificate that it signs for the names. Their lifetimes begin at that time. The key of the authority is discarded.
func sign(names []string, from time.Time) (cert, key []byte, err error) {
	authority, err := template(names[0]+"-ca", from)
	if err != nil {
		return nil, nil, err
	}
	authority.KeyUsage |= x509.KeyUsageCertSign
	authority.IsCA = true
	server, err := template(names[0], from)
	if err != nil {
		return nil, nil, err
	}
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			server.IPAddresses = append(server.IPAddresses, ip)
		} else {
			server.DNSNames = append(server.DNSNames, name)
		}
	}
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serverKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	var chain [2]*x509.Certificate
	for i, of := range []struct {
		template *x509.Certificate
		key      *ecdsa.PrivateKey
	}{{server, serverKey}, {authority, authorityKey}} {
		der, err := x509.CreateCertificate(rand.Reader, of.template, authority, of.key.Public(), authorityKey)
		if err != nil {
			return nil, nil, err
		}
		if chain[i], err = x509.ParseCertificate(der); err != nil {
			return nil, nil, err
		}
	}
	if cert, err = certutil.EncodeCertificates(chain[:]...); err != nil {
		return nil, nil, err
	}
	key, err = keyutil.MarshalPrivateKeyToPEM(serverKey)
	return cert, key, err
}

// template returns the fields that an authority and a certificate have in common.
func template(name string, from time.Time) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{
		SerialNumber: serial.Add(serial, big.NewInt(1)), // 0 is invalid
		Subject:      pkix.Name{CommonName: fmt.Sprintf("%s@%d", name, time.Now().Unix())},
		NotBefore:    from.Add(-tolerance), NotAfter: from.Add(lifetime),
		KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true,
	}, nil
}
