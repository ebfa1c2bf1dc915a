// SPDX-License-Identifier: Apache-2.0

package analyses

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

// Limits of what a provider may answer, and of the file with a token.
const (
	maxResponse = 1 << 20
	maxHeader   = 64 << 10
	maxToken    = 64 << 10
)

var (
	errTooLong  = errors.New("the answer is longer than 1 MiB")
	errRedirect = errors.New("the provider answers with a redirect, which is not followed")
)

// newClient returns the HTTP client of one provider. It follows no redirect, and reads no more than it must.
func newClient(e *v1alpha1.ProviderEndpoint, timeout time.Duration) (*http.Client, error) {
	u, err := url.Parse(e.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("url: %q is not one: write https://HOST:PORT/PATH", e.URL)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("url: it must have neither a user nor a query: use bearerTokenFile")
	case e.BearerTokenFile != "" && u.Scheme != "https":
		return nil, errors.New("bearerTokenFile: a token needs an url with https")
	case e.CAFile != "" && u.Scheme != "https":
		return nil, errors.New("caFile: certificates need an url with https")
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, DisableCompression: true,
		MaxResponseHeaderBytes: maxHeader, ResponseHeaderTimeout: timeout, TLSHandshakeTimeout: timeout, IdleConnTimeout: time.Minute, MaxConnsPerHost: concurrency,
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
		CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect },
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
		token, err := readToken(l.token)
		if err != nil {
			if r.Body != nil {
				_ = r.Body.Close()
			}
			return nil, err
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

func readToken(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", errToken
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxToken))
	if data = bytes.TrimSpace(data); err != nil || len(data) == 0 || bytes.ContainsAny(data, "\r\n") {
		return "", errToken
	}
	return string(data), nil
}

var errToken = errors.New("the token of the provider cannot be read")

// limitedBody is a body that fails when it is too long: half an answer is none.
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
		return 0, errTooLong
	}
	return n, err
}
