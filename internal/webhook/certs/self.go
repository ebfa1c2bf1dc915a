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

// selfTimeout is how long a manager waits for its own answer; the API server waits for 10 seconds.
const selfTimeout = 5 * time.Second

// callURL asks for a conversion under the published URL, as the API server would, and trusts whom that is told to trust. An answer that refuses the
// empty request is one. Whoever gets the URL or the port wrong would otherwise find out when the first Advanced DaemonSet is refused.
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
		return fmt.Errorf("calling %s: another server answers there, with %s", url, response.Status)
	}
	return nil
}

// report logs what is wrong with the URL, once, and when it is right again. The manager goes on: the API server may reach what it does not.
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
		log.Info("The webhooks answer under their URL", "url", p.URL)
		return
	}
	log.Error(err, "The webhooks do not answer under their URL; where the API server cannot reach them either, it refuses every write of an Advanced DaemonSet: "+
		"see --webhook-url and --webhook-bind-address")
}
