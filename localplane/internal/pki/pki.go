// SPDX-License-Identifier: Apache-2.0

// Package pki issues the certificates of one plane.
//
// Two authorities are kept across restarts: the cluster's for all clients of the API server, and etcd's only for the
// API server and etcd, so that no client certificate of the cluster gives access to etcd. The key that signs service
// account tokens is kept too. Certificates are issued again at every start: that takes milliseconds, and none ever
// expires.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const (
	authorityLife   = 10 * 365 * 24 * time.Hour
	certificateLife = 365 * 24 * time.Hour
	// backdate allows for small clock differences.
	backdate = time.Hour
)

// Authority is a certificate authority.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	// CertPEM is the authority's own certificate.
	CertPEM []byte
}

// Pair is a certificate with its key, both as PEM.
type Pair struct {
	Cert, Key []byte
}

// Request is a certificate request.
type Request struct {
	Name   string
	Groups []string
	// Hosts are the server names and addresses; if empty, it is a client certificate.
	Hosts []string
}

// LoadAuthority reads the authority NAME.crt and NAME.key in dir, or creates it.
func LoadAuthority(dir, name string) (*Authority, error) {
	certPath, keyPath := filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	certPEM, err := os.ReadFile(certPath)
	if errors.Is(err, fs.ErrNotExist) {
		return newAuthority(dir, name)
	}
	if err != nil {
		return nil, fmt.Errorf("reading authority %s: %w", name, err)
	}
	key, err := LoadKey(keyPath)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(certPEM)
	if block == nil {
		return nil, fmt.Errorf("reading authority %s: %s holds no certificate (start with --fresh to make a new one)", name, certPath)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading authority %s: %w", name, err)
	}
	return &Authority{cert: cert, key: key, CertPEM: certPEM}, nil
}

func newAuthority(dir, name string) (*Authority, error) {
	// The key is written first, so that a certificate always has its key at the next start.
	key, err := LoadKey(filepath.Join(dir, name+".key"))
	if err != nil {
		return nil, err
	}
	template, err := newTemplate(pkix.Name{CommonName: "localplane " + name}, authorityLife)
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("making authority %s: %w", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("making authority %s: %w", name, err)
	}
	a := &Authority{cert: cert, key: key, CertPEM: encode("CERTIFICATE", der)}
	return a, writePrivate(filepath.Join(dir, name+".crt"), a.CertPEM)
}

// Issue creates a key and a certificate.
func (a *Authority) Issue(r Request) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("making a key for %s: %w", r.Name, err)
	}
	template, err := newTemplate(pkix.Name{CommonName: r.Name, Organization: r.Groups}, certificateLife)
	if err != nil {
		return Pair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(r.Hosts) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, host := range r.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("issuing a certificate for %s: %w", r.Name, err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{Cert: encode("CERTIFICATE", der), Key: keyPEM}, nil
}

// IssueTo issues a certificate to NAME.crt and NAME.key in dir.
func (a *Authority) IssueTo(dir, name string, r Request) error {
	pair, err := a.Issue(r)
	if err != nil {
		return err
	}
	return errors.Join(
		writePrivate(filepath.Join(dir, name+".crt"), pair.Cert),
		writePrivate(filepath.Join(dir, name+".key"), pair.Key),
	)
}

// LoadKey reads a private key, or creates it.
func LoadKey(path string) (*ecdsa.PrivateKey, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return newKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("reading key: %w", err)
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, fmt.Errorf("reading key: %s holds none (start with --fresh to make a new one)", path)
	}
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading key %s: %w", path, err)
	}
	return key, nil
}

func newKey(path string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making key %s: %w", path, err)
	}
	raw, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	return key, writePrivate(path, raw)
}

func newTemplate(subject pkix.Name, life time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("making a serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    now.Add(-backdate),
		NotAfter:     now.Add(life),
	}, nil
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a key: %w", err)
	}
	return encode("EC PRIVATE KEY", der), nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func writePrivate(path string, data []byte) error {
	// Removed first, so that the new file has its own mode.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
