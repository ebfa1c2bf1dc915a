// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"net/http"
	"sync/atomic"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// cautiousQPS is the limit of --kube-api-qps=0 where the API server itself does not share its capacity between clients.
const cautiousQPS = 50

// rate is the rate limit of all controllers together. With --kube-api-qps=0 it limits only while the API
// server has no priority and fairness, which its responses show: then nothing else prevents the manager from
// delaying other clients. The number of writes in flight is always limited, by the capacity of the API server
// (apply.Window).
type rate struct {
	flowcontrol.RateLimiter
	fair atomic.Bool
}

// Accept implements flowcontrol.RateLimiter.
func (r *rate) Accept() {
	if !r.fair.Load() {
		r.RateLimiter.Accept()
	}
}

// TryAccept implements flowcontrol.RateLimiter.
func (r *rate) TryAccept() bool { return r.fair.Load() || r.RateLimiter.TryAccept() }

// Wait implements flowcontrol.RateLimiter.
func (r *rate) Wait(ctx context.Context) error {
	if r.fair.Load() {
		return ctx.Err()
	}
	return r.RateLimiter.Wait(ctx)
}

// heed records whether the API server is fair. An unsuccessful response without the header is ignored, because a proxy may have sent it.
func (r *rate) heed(answer *http.Response) {
	switch fair := answer.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID) != ""; {
	case fair == r.fair.Load():
	case fair, answer.StatusCode == http.StatusOK, answer.StatusCode == http.StatusCreated:
		r.fair.Store(fair)
	}
}

// oneRate returns cfg with one rate limit for all clients that are created from it: --kube-api-qps applies to the whole
// manager. Leader election has its own limit, because otherwise a long queue of writes could cost the lease. An automatic limit
// does not hold where the API server is fair.
func oneRate(cfg *rest.Config, automatic bool) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(cfg.QPS, cfg.Burst)
	if !automatic {
		return cfg
	}
	limit := &rate{RateLimiter: cfg.RateLimiter}
	cfg.RateLimiter = limit
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			answer, err := next.RoundTrip(r)
			if err == nil {
				limit.heed(answer)
			}
			return answer, err
		})
	})
	return cfg
}

// unlimited returns cfg for clients whose requests have already waited for the rate limit (see executor.Pace), so that
// the wait is not measured as time of the server.
func unlimited(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.RateLimiter = flowcontrol.NewFakeAlwaysRateLimiter()
	return cfg
}
