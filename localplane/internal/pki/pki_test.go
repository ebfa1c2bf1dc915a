// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
)

func authority(t *testing.T, dir, name string) *Authority {
	t.Helper()
	a, err := LoadAuthority(dir, name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func verify(t *testing.T, a *Authority, p Pair, usage x509.ExtKeyUsage, host string) error {
	t.Helper()
	pair, err := tls.X509KeyPair(p.Cert, p.Key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(a.CertPEM) {
		t.Fatal("the authority's certificate is none")
	}
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	_, err = cert.Verify(x509.VerifyOptions{Roots: pool, DNSName: host, KeyUsages: []x509.ExtKeyUsage{usage}})
	return err
}

func TestCertificatesServeAndIdentify(t *testing.T) {
	dir := t.TempDir()
	a, other := authority(t, dir, "ca"), authority(t, dir, "etcd-ca")
	server, err := a.Issue(Request{Name: "server", Hosts: []string{"127.0.0.1", "localhost"}})
	if err != nil {
		t.Fatal(err)
	}
	client, err := a.Issue(Request{Name: "admin", Groups: []string{"system:masters"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name  string
		by    *Authority
		pair  Pair
		usage x509.ExtKeyUsage
		host  string
		ok    bool
	}{
		{"server by address", a, server, x509.ExtKeyUsageServerAuth, "127.0.0.1", true},
		{"server by name", a, server, x509.ExtKeyUsageServerAuth, "localhost", true},
		{"server elsewhere", a, server, x509.ExtKeyUsageServerAuth, "10.0.0.1", false},
		{"client", a, client, x509.ExtKeyUsageClientAuth, "", true},
		{"client as server", a, client, x509.ExtKeyUsageServerAuth, "", false},
		{"client at the other authority", other, client, x509.ExtKeyUsageClientAuth, "", false},
	} {
		if err := verify(t, tc.by, tc.pair, tc.usage, tc.host); (err == nil) != tc.ok {
			t.Errorf("%s: accepted %v, want %v (%v)", tc.name, err == nil, tc.ok, err)
		}
	}
}

func TestAuthorityAndKeyAreKept(t *testing.T) {
	dir := t.TempDir()
	first := authority(t, dir, "ca")
	pair, err := first.Issue(Request{Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	second := authority(t, dir, "ca")
	if !bytes.Equal(first.CertPEM, second.CertPEM) {
		t.Error("the authority changed over a restart")
	}
	if err := verify(t, second, pair, x509.ExtKeyUsageClientAuth, ""); err != nil {
		t.Error(err)
	}
	k1, err := LoadKey(filepath.Join(dir, "sa.key"))
	if err != nil {
		t.Fatal(err)
	}
	k2, err := LoadKey(filepath.Join(dir, "sa.key"))
	if err != nil {
		t.Fatal(err)
	}
	if !k1.Equal(k2) {
		t.Error("the key changed over a restart")
	}
}

func TestEveryFileIsPrivate(t *testing.T) {
	dir := t.TempDir()
	a := authority(t, dir, "ca")
	// A file that was there before with another mode.
	if err := os.WriteFile(filepath.Join(dir, "server.key"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := a.IssueTo(dir, "server", Request{Name: "server", Hosts: []string{"localhost"}}); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 4 {
		t.Errorf("%d files, want 4", len(entries))
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o", e.Name(), info.Mode().Perm())
		}
	}
}

func TestBrokenFilesAreNamed(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "sa.key")
	if err := os.WriteFile(path, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadKey(path); err == nil {
		t.Error("no key was read as one")
	}
}
