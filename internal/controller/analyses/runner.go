// SPDX-License-Identifier: Apache-2.0

// Package analyses measures what the analyses of rollout policies ask for.
//
// # Rule
//
// A decision never waits for a provider: it says what is to be measured from now on (policy.Question), and finds the answers when it is made the next time.
// Each question has its own goroutine, each request has a timeout, and each provider a limit of requests, so that one that hangs delays no other. What is not a
// clear answer is Unknown: this package has no case in which an error passes, or fails, a wave.
//
// Only the administrator says where providers are. A policy names one, and its text never becomes a part of an address.
package analyses

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	everynode "everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/controller/endpoint"
	"everynode.dev/everynode/internal/policy"
)

// Runner asks the questions of all sets. Make one with New.
type Runner struct {
	// providers are those that count now.
	providers atomic.Pointer[Providers]
	clock     clock.WithTicker
	programs  *programs

	mu sync.Mutex
	// ctx is the context of Run; nil before Run is called.
	ctx     context.Context
	asked   map[clustercache.Key]map[policy.Question]*asked
	answers map[clustercache.Key][]policy.Answer
	running sync.WaitGroup
}

// asked is a question that is being asked.
type asked struct {
	wake func()
	stop context.CancelFunc // nil before Run
	// compiled is the expression of the question; nil before Run.
	compiled func() (*expression, error)
}

// maxAnswers is how many answers of a set are kept until its next decision: the newest.
const maxAnswers = 64

// New returns a Runner. Run starts it.
func New(providers Providers, c clock.WithTicker) *Runner {
	r := &Runner{clock: c, programs: newPrograms(compile), asked: map[clustercache.Key]map[policy.Question]*asked{}, answers: map[clustercache.Key][]policy.Answer{}}
	r.Replace(providers)
	return r
}

// Replace replaces the providers; measurements in progress end with the earlier ones.
func (r *Runner) Replace(providers Providers) { r.providers.Store(&providers) }

// Check returns why the analyses of a policy cannot be measured, with the path of each field.
func (r *Runner) Check(p *everynode.RolloutPolicy) []string { return r.providers.Load().Check(p) }

// Run asks until ctx ends.
func (r *Runner) Run(ctx context.Context) {
	r.mu.Lock()
	r.ctx = ctx
	for key, all := range r.asked {
		for q, a := range all {
			r.start(key, q, a)
		}
	}
	r.mu.Unlock()
	<-ctx.Done()
	r.mu.Lock()
	r.ctx = nil
	r.asked = map[clustercache.Key]map[policy.Question]*asked{}
	r.mu.Unlock()
	r.running.Wait()
}

// Ask implements daemonset.Analyses.
func (r *Runner) Ask(key clustercache.Key, questions []policy.Question, wake func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.asked[key]
	if len(before) == 0 && len(questions) == 0 {
		return
	}
	now := map[policy.Question]*asked{}
	for _, q := range questions {
		switch a := before[q]; {
		case now[q] != nil:
		case a != nil:
			now[q] = a
		default:
			now[q] = &asked{wake: wake}
			r.start(key, q, now[q])
		}
	}
	for q, a := range before {
		if now[q] == nil && a.stop != nil {
			a.stop()
		}
	}
	r.asked[key] = now
	if len(now) == 0 {
		delete(r.asked, key)
		delete(r.answers, key)
	}
}

// Answers implements daemonset.Analyses.
func (r *Runner) Answers(key clustercache.Key) []policy.Answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.answers[key]
	delete(r.answers, key)
	return all
}

// start begins to ask, if Run has begun. The lock is held.
func (r *Runner) start(key clustercache.Key, q policy.Question, a *asked) {
	if r.ctx == nil {
		return
	}
	ctx, stop := context.WithCancel(r.ctx)
	compiled, end := r.programs.use(q.Success)
	a.stop, a.compiled = stop, compiled
	r.running.Go(func() {
		defer stop()
		defer end()
		r.repeat(ctx, key, q, a)
	})
}

// repeat asks a question again and again.
func (r *Runner) repeat(ctx context.Context, key clustercache.Key, q policy.Question, a *asked) {
	before := ""
	for {
		began := r.clock.Now()
		m, err := r.measure(ctx, &q, a.compiled)
		if ctx.Err() != nil {
			return
		}
		err = endpoint.WithoutAddress(err) // the log names the provider
		if text := fmt.Sprint(err); err != nil && text != before {
			klog.FromContext(ctx).Error(err, "Could not measure an analysis of a rollout policy", "namespace", q.Namespace, "set", q.Set, "analysis", q.Analysis, "provider", q.Provider)
			before = text
		} else if err == nil {
			before = ""
		}
		r.mu.Lock()
		if r.asked[key][q] == a {
			all := append(r.answers[key], policy.Answer{Question: q, Measurement: m})
			r.answers[key] = all[max(len(all)-maxAnswers, 0):]
		}
		r.mu.Unlock()
		a.wake()
		timer := r.clock.NewTimer(max(q.Interval-r.clock.Since(began), time.Second))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
	}
}

// measure asks a question once. The error is for the log; the measurement contains only what policies may show.
func (r *Runner) measure(ctx context.Context, q *policy.Question, compiled func() (*expression, error)) (m everynode.Measurement, err error) {
	m = everynode.Measurement{At: metav1.NewTime(r.clock.Now()), Answer: everynode.AnswerUnknown}
	defer func() {
		if reason := recover(); reason != nil { // in what reads the answer of a server
			m.Answer, m.Message, err = everynode.AnswerUnknown, "The answer cannot be read.", fmt.Errorf("panic: %v", reason)
		}
	}()
	p, err := r.providers.Load().find(q.Provider, q.Namespace)
	if err != nil {
		m.Message = sentence(err.Error())
		return m, err
	}
	limited, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	end, err := p.begin(limited, q.Namespace)
	if err != nil {
		m.Message = sentence("the provider is busy with other measurements")
		return m, err
	}
	defer end()
	if q.Alerts {
		err = p.fillAlerts(limited, q, &m)
	} else {
		err = p.fillResult(limited, q, compiled, &m)
	}
	if err != nil {
		m.Answer, m.Message = everynode.AnswerUnknown, sentence(p.publicly(limited, err))
	}
	return m, err
}

func (p *provider) fillResult(ctx context.Context, q *policy.Question, compiled func() (*expression, error), m *everynode.Measurement) error {
	e, err := compiled()
	if err != nil {
		return &publicError{err.Error()}
	}
	result, err := p.query(ctx, q)
	if err != nil {
		return err
	}
	m.Value = result.text()
	if result.Notes != "" {
		return incomplete(result.Notes)
	}
	passes, err := e.passes(ctx, result)
	if err != nil {
		return &publicError{err.Error()}
	}
	m.Answer = everynode.AnswerFail
	if passes {
		m.Answer = everynode.AnswerPass
	}
	m.Message = fmt.Sprintf("%s is %t.", policy.Shortened(q.Success, maxValue), passes)
	return nil
}

func (p *provider) fillAlerts(ctx context.Context, q *policy.Question, m *everynode.Measurement) error {
	names, err := p.alerts(ctx, q.Query, q.FiringOnly)
	if err != nil {
		return err
	}
	m.Answer, m.Message = everynode.AnswerPass, "No alert that matches is firing."
	if len(names) > 0 {
		m.Answer = everynode.AnswerFail
		m.Message = sentence(fmt.Sprintf("these alerts hold it: %s", printable(strings.Join(names[:min(len(names), 5)], ", "))))
	}
	return nil
}

// publicly returns the part of an error that policies may show: it does not contain the address of the provider.
func (p *provider) publicly(ctx context.Context, err error) string {
	var shown *publicError
	var network net.Error
	switch {
	case errors.As(err, &shown):
		return shown.message
	case errors.Is(err, endpoint.ErrTooLong):
		return endpoint.ErrTooLong.Error()
	case errors.Is(err, endpoint.ErrRedirect):
		return "the provider answers with a redirect, which is not followed"
	case errors.Is(err, endpoint.ErrToken):
		return "the token of the provider cannot be read"
	case errors.Is(err, errNaN):
		return errNaN.Error()
	case ctx.Err() != nil, errors.As(err, &network) && network.Timeout():
		return fmt.Sprintf("the provider has not answered within %s", p.timeout)
	case errors.As(err, &network):
		return "the provider cannot be reached"
	default:
		return "the provider has given no answer that can be read"
	}
}

// sentence is a text with a capital letter and a full stop.
func sentence(text string) string {
	letters := []rune(strings.TrimSuffix(policy.Shortened(text, maxMessage), "."))
	if len(letters) == 0 {
		return ""
	}
	letters[0] = unicode.ToUpper(letters[0])
	return string(letters) + "."
}
