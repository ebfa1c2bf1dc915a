// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestTheTokenOfTheNode(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	made, err := localToken(file)
	if err != nil || len(made) < 40 {
		t.Fatalf("a new token is %q %v", made, err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its file is %v %v", info, err)
	}
	if again, err := localToken(file); err != nil || again != made {
		t.Errorf("it was %q, and is %q %v", made, again, err)
	}
	if other, err := localToken(filepath.Join(t.TempDir(), "token")); err != nil || other == made {
		t.Errorf("another node has %q %v", other, err)
	}
}

// Nobody ever finds a token that is not whole: neither an agent that begins at the same time, nor the one after a power cut.
func TestTheTokenOfTheNodeIsWholeOrNotThere(t *testing.T) {
	directory := t.TempDir()
	tokens, errs := make([]string, 16), make([]error, 16)
	agents := sync.WaitGroup{}
	for i := range tokens {
		agents.Go(func() { tokens[i], errs[i] = localToken(filepath.Join(directory, "token")) })
	}
	agents.Wait()
	for i := range tokens {
		if errs[i] != nil || tokens[i] != tokens[0] {
			t.Errorf("one has %q, another %q %v", tokens[0], tokens[i], errs[i])
		}
	}
	if files, err := os.ReadDir(directory); err != nil || len(files) != 1 {
		t.Errorf("there are %v %v", files, err)
	}
}

func TestTokensThatAreRefused(t *testing.T) {
	for _, row := range []struct {
		name string
		make func(file string) error
		want string
	}{
		{"others can read it", func(f string) error { return os.WriteFile(f, []byte(strings.Repeat("x", 40)), 0o644) }, "readable by other users"},
		{"the group can write it", func(f string) error {
			return errors.Join(os.WriteFile(f, []byte(strings.Repeat("x", 40)), 0o600), os.Chmod(f, 0o620))
		}, "readable by other users"},
		{"it is short", func(f string) error { return os.WriteFile(f, []byte("secret\n"), 0o600) }, "has 6 characters"},
		{"it is empty", func(f string) error { return os.WriteFile(f, nil, 0o600) }, "has 0 characters"},
		{"it is a link", func(f string) error { return os.Symlink("/dev/zero", f) }, "not a regular file"},
		{"it is a directory", func(f string) error { return os.Mkdir(f, 0o700) }, "not a regular file"},
	} {
		t.Run(row.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "token")
			if err := row.make(file); err != nil {
				t.Fatal(err)
			}
			if token, err := localToken(file); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("it is %q %v, and should say %q", token, err, row.want)
			}
		})
	}
}

func TestReach(t *testing.T) {
	now := time.Unix(1000, 0)
	asked, answers := 0, []error{}
	r := &connectivity{now: func() time.Time { return now }, probe: func(context.Context) error {
		asked++
		if len(answers) == 0 {
			return errors.New("silence")
		}
		answer := answers[0]
		answers = answers[1:]
		return answer
	}}
	step := func(what string, pass time.Duration, want bool, wantAsked int, next ...error) {
		t.Helper()
		now = now.Add(pass)
		answers, asked = next, 0
		if got := r.Connected(t.Context()); got != want || asked != wantAsked {
			t.Errorf("%s: connected is %v after %d questions, want %v after %d", what, got, asked, want, wantAsked)
		}
	}
	lost := errors.New("lost")
	step("at first", 0, true, 1, nil)
	step("soon after", connectedTTL-1, true, 0)
	step("one answer is lost", 1, true, 2, lost, nil)
	step("two are lost", connectedTTL, false, 2, lost, lost, nil)
	step("soon after that", disconnectedTTL-1, false, 0)
	step("it is back", 1, true, 1, nil)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	now, answers = now.Add(connectedTTL), nil
	if r.Connected(gone) {
		t.Error("without an answer it is connected")
	}
	step("whoever has gone away has spoilt nothing", 0, true, 1, nil)
}

// certificate writes a certificate for some names and its key.
func certificate(t *testing.T, names ...string) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	data, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, data []byte) string {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	return write("cert.pem", "CERTIFICATE", data), write("key.pem", "PRIVATE KEY", private)
}

func TestHostsOfACertificate(t *testing.T) {
	o := &options{node: "n", socket: "unix:///run/x", metricsAddress: "0", secretNamespace: "a", listen: "10.1.2.3:10267", stateDir: t.TempDir()}
	o.certFile, o.keyFile = certificate(t, "node-1.example", "10.9.9.9", "fd00::1")
	if err := o.complete(); err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]bool{
		"127.0.0.1": true, "localhost": true, "10.1.2.3": true, "node-1.example": true, "NODE-1.example": true, "10.9.9.9": true, "fd00::1": true,
		"node-2.example": false, "10.1.2.4": false, "fd00::2": false, "": false, "evil.example": false,
	} {
		if got := o.isHost(host); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
}
