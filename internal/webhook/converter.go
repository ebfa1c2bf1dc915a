// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// largestReview is the maximum size of a review in bytes; the API server sends a few hundred objects at once. Most reviews are smaller than smallReview.
const (
	largestReview = 256 << 20
	smallReview   = 8 << 20
)

// The number of reviews of either size that are converted at the same time, and how long a review may wait, be read and be answered. The API server shows
// no client certificate, so any pod that reaches the address can send reviews. Their memory is bounded, and senders take turns. A small review is read before
// its turn, so that a slow sender holds no turn. A large review is read during its turn, and waits for longer than another may be read.
const (
	smallAtOnce, largeAtOnce = 16, 2
	waitingReviews           = 1024
	smallTimeout             = 5 * time.Second
	largeTimeout             = readTimeout + 5*time.Second
	readTimeout              = 10 * time.Second
)

// The memory of small reviews in bytes, of all and of one sender, while they are read, wait and are answered.
const (
	pooled         = 256 << 20
	pooledOfSender = pooled / 4
)

// converter converts objects between the versions of the API. The converter of controller-runtime uses typed objects,
// which would lose unknown fields. Create it with newConverter.
type converter struct {
	small, large *turns
	pool         pool
	decoding     sync.Mutex // of an object that is not small
	// smallTurn and largeTurn are how long a review waits for its turn.
	smallTurn, largeTurn time.Duration
}

func newConverter() *converter {
	of := func(n int) *turns {
		return &turns{free: n, atMost: waitingReviews, waiting: map[string][]chan struct{}{}}
	}
	return &converter{
		small: of(smallAtOnce), large: of(largeAtOnce), smallTurn: smallTimeout, largeTurn: largeTimeout,
		pool: pool{of: map[string]int{}, patience: smallTimeout},
	}
}

// ServeHTTP implements http.Handler.
func (c *converter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	sender := senderOf(withSender(r.Context(), r))
	var answer [][]byte
	var err error
	if r.ContentLength < 0 || r.ContentLength > smallReview {
		var leave func()
		if leave, err = enter(r.Context(), c.large, sender, c.largeTurn); err == nil {
			defer leave()
			answer, err = c.convert(w, r, largestReview, nil)
		}
	} else {
		share := &share{pool: &c.pool, sender: sender}
		defer share.free()
		answer, err = c.convert(w, r, smallReview, share)
	}
	switch {
	case errors.Is(err, errBusy):
		http.Error(w, errBusy.Error(), http.StatusServiceUnavailable)
	case err != nil:
		http.Error(w, fmt.Sprintf("this is no ConversionReview with a request: %v", err), http.StatusBadRequest)
	default:
		// A client that reads slowly keeps the answer in memory. The server of a test has no deadlines.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(readTimeout))
		w.Header().Set("Content-Type", "application/json")
		for _, piece := range answer {
			if _, err := w.Write(piece); err != nil {
				klog.FromContext(r.Context()).Error(err, "The answer to a conversion could not be written")
				return
			}
		}
	}
}

// errBusy is the error of a review that must be sent again.
var errBusy = errors.New("too many conversions are in progress: try again")

// enter waits for a turn.
func enter(ctx context.Context, t *turns, sender string, wait time.Duration) (leave func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if err := t.enter(ctx, sender); err != nil {
		return nil, errBusy
	}
	return t.leave, nil
}

// convert answers a review. A review with a share of the pool takes its turn after it has been read.
func (c *converter) convert(w http.ResponseWriter, r *http.Request, limit int, s *share) ([][]byte, error) {
	// A slow sender keeps a connection and its memory for this long.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTimeout))
	body := io.Reader(http.MaxBytesReader(w, r.Body, int64(limit)))
	if s != nil {
		s.ctx, s.body = r.Context(), body
		body = s
	}
	var in review
	if err := json.NewDecoder(body).Decode(&in); err != nil {
		return nil, err
	}
	if in.Request == nil {
		return nil, errors.New("there is none")
	}
	if s != nil {
		leave, err := enter(r.Context(), c.small, s.sender, c.smallTurn)
		if err != nil {
			return nil, err
		}
		defer leave()
	}
	return c.answer(&in, limit)
}

// pool is the memory of small reviews.
type pool struct {
	mu   sync.Mutex
	held int
	of   map[string]int
	// freed is closed when memory is freed; nil while no review waits.
	freed chan struct{}
	// patience is how long a review waits for memory.
	patience time.Duration
}

// take reserves n bytes for a sender. If there is not enough memory it returns a channel that is closed when some is freed.
func (p *pool) take(sender string, n int) (wait <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held+n > pooled || p.of[sender]+n > pooledOfSender {
		if p.freed == nil {
			p.freed = make(chan struct{})
		}
		return p.freed
	}
	p.held += n
	p.of[sender] += n
	return nil
}

func (p *pool) free(sender string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held -= n
	if p.of[sender] -= n; p.of[sender] == 0 {
		delete(p.of, sender)
	}
	if p.freed != nil {
		close(p.freed)
		p.freed = nil
	}
}

// share is the part of the pool that one review has. It reads the body, and reserves twice the size of what it has read, because the decoder reads into
// a buffer that grows by doubling.
type share struct {
	pool   *pool
	sender string
	ctx    context.Context //nolint:containedctx // it is a reader of one request
	body   io.Reader
	held   int
}

// Read implements io.Reader.
func (s *share) Read(p []byte) (int, error) {
	n, err := s.body.Read(p)
	if n == 0 {
		return n, err
	}
	timeout := time.NewTimer(s.pool.patience)
	defer timeout.Stop()
	for {
		wait := s.pool.take(s.sender, 2*n)
		if wait == nil {
			s.held += 2 * n
			return n, err
		}
		select {
		case <-wait:
		case <-timeout.C:
			return 0, errBusy
		case <-s.ctx.Done():
			return 0, errBusy
		}
	}
}

func (s *share) free() {
	if s.held > 0 {
		s.pool.free(s.sender, s.held)
	}
}
