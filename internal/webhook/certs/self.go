// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"strings"
	"time"

	"k8s.io/klog/v2"
)

// selfTimeout is the timeout of a request to this manager itself; that of the API server is 10 seconds.
const selfTimeout = 5 * time.Second

// callURL sends a conversion request to the published URL, as the API server would, and trusts the published bundle.
// Any response to the empty request is a success. Without this check, a wrong URL or port would be noticed only when
// the first Advanced DaemonSet is rejected.
func (p *Publisher) callURL(ctx context.Context) error {
	if p.URL == "" {
		return nil
	}
	bundle, err := p.Bundle()
	if err != nil {
		return err
	}
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(bundle) > 0 {
		trust.RootCAs = x509.NewCertPool()
		trust.RootCAs.AppendCertsFromPEM(bundle)
	}
	ctx, cancel := context.WithTimeout(ctx, selfTimeout)
	defer cancel()
	url := strings.TrimSuffix(p.URL, "/") + p.ConversionPath
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
	if err != nil {
		return err
	}
	transport := &http.Transport{TLSClientConfig: trust}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(request)
	if err != nil {
		return fmt.Errorf("calling %s: %w", url, err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusBadRequest {
		return fmt.Errorf("calling %s: another server responds there, with %s", url, response.Status)
	}
	return nil
}

// report logs an error of the URL once, and its end. The manager continues, because the API server may be able to reach
// the URL anyway.
func (p *Publisher) report(ctx context.Context, err error) {
	log, found := klog.FromContext(ctx), ""
	if err != nil {
		found = err.Error()
	}
	if found == p.unreached {
		return
	}
	p.unreached = found
	if err == nil {
		log.Info("The webhooks respond at their URL", "url", p.URL)
		return
	}
	log.Error(err, "The webhooks do not respond at their URL; if the API server cannot reach them either, it rejects every write of an Advanced DaemonSet: "+
		"see --webhook-url and --webhook-bind-address")
}
