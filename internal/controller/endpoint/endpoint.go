// SPDX-License-Identifier: Apache-2.0

// Package endpoint makes the HTTP clients of servers that the administrator of the manager names: providers of analyses, and targets of notifications.
//
// # Rule
//
// A server that is slow, redirects, or answers more than it should costs no more than the timeout and the limits of its client. Secrets are files that are read
// for each request, so they can be replaced while the manager runs, and no error shows what they contain. The log shows no address of a server: see WithoutAddress.
package endpoint

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	"everynode.dev/everynode/api/config/v1alpha1"
)

// Limits of what a server may answer, and of the file with a secret.
const (
	maxResponse = 1 << 20
	maxHeader   = 64 << 10
	maxSecret   = 64 << 10
)

// Concurrency is how many requests of one client are under way at once.
const Concurrency = 8

// The errors of requests that are not errors of the network.
var (
	ErrTooLong  = errors.New("the answer is longer than 1 MiB")
	ErrRedirect = errors.New("the server answers with a redirect, which is not followed")
	ErrToken    = errors.New("the file with the token cannot be read, or has none")
)

// NewClient returns the HTTP client of one server. It follows no redirect, and reads no more than it must.
func NewClient(e *v1alpha1.ProviderEndpoint, timeout time.Duration) (*http.Client, error) {
	u, err := url.Parse(e.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("url: the value, which is not shown, is no address of a server: write https://HOST:PORT/PATH")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("url: it must have neither a user nor a query: use bearerTokenFile")
	case e.BearerTokenFile != "" && u.Scheme != "https":
		return nil, errors.New("bearerTokenFile: a token needs an url with https")
	case e.CAFile != "" && u.Scheme != "https":
		return nil, errors.New("caFile: certificates need an url with https")
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, DisableCompression: true,
		MaxResponseHeaderBytes: maxHeader, ResponseHeaderTimeout: timeout, TLSHandshakeTimeout: timeout, IdleConnTimeout: time.Minute, MaxConnsPerHost: Concurrency,
	}
	if e.CAFile != "" {
		data, err := os.ReadFile(e.CAFile)
		if err != nil {
			return nil, fmt.Errorf("caFile: %w", err)
		}
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("caFile: %s has no certificate", e.CAFile)
		}
	}
	return &http.Client{
		Transport:     &limited{transport, e.BearerTokenFile},
		Timeout:       timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return ErrRedirect },
	}, nil
}

// limited sends a token with each request, and limits what is read of the answer.
type limited struct {
	next  http.RoundTripper
	token string
}

// RoundTrip implements http.RoundTripper.
func (l *limited) RoundTrip(r *http.Request) (*http.Response, error) {
	if l.token != "" {
		token, err := ReadSecret(l.token)
		if err != nil {
			if r.Body != nil {
				_ = r.Body.Close()
			}
			return nil, ErrToken
		}
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := l.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	response.Body = &limitedBody{response.Body, maxResponse}
	return response, nil
}

// WithoutAddress returns the part of an error of a request that has no address of the server: the path of an address may be a secret, as those of chats are.
func WithoutAddress(err error) error {
	for {
		request := (*url.Error)(nil)
		if !errors.As(err, &request) {
			return err
		}
		err = request.Err
	}
}

// ReadSecret reads a file with a secret of one line.
func ReadSecret(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSecret))
	if err != nil {
		return "", err
	}
	if data = bytes.TrimSpace(data); len(data) == 0 || bytes.ContainsAny(data, "\r\n") {
		return "", errors.New("it must have exactly one line")
	}
	return string(data), nil
}

// limitedBody is a body that returns an error when it is too long, because a truncated answer is useless.
type limitedBody struct {
	io.ReadCloser
	left int
}

// Read implements io.Reader.
func (b *limitedBody) Read(p []byte) (int, error) {
	if len(p) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, ErrTooLong
	}
	return n, err
}
