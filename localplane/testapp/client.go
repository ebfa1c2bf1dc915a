// SPDX-License-Identifier: Apache-2.0

package testapp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Answer is the result of a request.
type Answer struct {
	// Time is the time of the request.
	Time time.Time `json:"time"`
	// OK reports whether there was a response with status 200.
	OK     bool   `json:"ok"`
	Status int    `json:"status,omitempty"`
	Body   string `json:"body,omitempty"`
	Error  string `json:"error,omitempty"`
	// Latency is how long it took, in nanoseconds.
	Latency time.Duration `json:"latency"`
}

// ReadAnswers parses the output of probe and hold. An incomplete last line is ignored, because the client may have been
// killed.
func ReadAnswers(raw []byte) ([]Answer, error) {
	raw = raw[:bytes.LastIndexByte(raw, '\n')+1]
	var answers []Answer
	for lines := bufio.NewScanner(bytes.NewReader(raw)); lines.Scan(); {
		var answer Answer
		if err := json.Unmarshal(lines.Bytes(), &answer); err != nil {
			return nil, fmt.Errorf("reading line %d of the answers: %w", len(answers)+1, err)
		}
		answers = append(answers, answer)
	}
	return answers, nil
}

// client sends requests, each on its own connection, because connections are load-balanced.
type client struct {
	http *http.Client

	mu  sync.Mutex
	out io.Writer
	// err is the first error while printing a result.
	err error
}

func newClient(out io.Writer, timeout time.Duration) *client {
	return &client{out: out, http: &http.Client{Timeout: timeout, Transport: &http.Transport{DisableKeepAlives: true}}}
}

// ask sends one request.
func (c *client) ask(ctx context.Context, url string) Answer {
	answer := Answer{Time: time.Now()}
	body, status, err := c.exchange(ctx, http.MethodGet, url)
	answer.Latency = time.Since(answer.Time)
	answer.Body, answer.Status, answer.OK = strings.TrimSpace(body), status, err == nil && status == http.StatusOK
	if err != nil {
		answer.Error = err.Error()
	}
	return answer
}

func (c *client) exchange(ctx context.Context, method, url string) (body string, status int, err error) {
	request, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return "", 0, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return "", 0, err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	return string(raw), response.StatusCode, err
}

// print prints a result as one line.
func (c *client) print(answer Answer) {
	line, err := json.Marshal(answer)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		_, err = c.out.Write(append(line, '\n'))
	}
	if c.err == nil {
		c.err = err
	}
}

// printed returns the first error of print.
func (c *client) printed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return fmt.Errorf("printing an answer: %w", c.err)
	}
	return nil
}

// clientFlags parses the arguments of probe and hold: a URL and then flags.
func clientFlags(name string, args []string, define func(*flag.FlagSet)) (string, error) {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return "", usage("%s wants a URL first, and its flags after it", name)
	}
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the error says it
	define(flags)
	if err := flags.Parse(args[1:]); err != nil {
		return "", usage("%s: %v", name, err)
	}
	if flags.NArg() > 0 {
		return "", usage("%s: it takes one URL and flags, and %q is neither", name, flags.Arg(0))
	}
	return args[0], nil
}

// within returns a context with a timeout; 0 means none.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}

// probe sends requests periodically, without waiting for earlier ones, and prints the results.
func probe(ctx context.Context, args []string, out io.Writer) error {
	var every, duration, timeout time.Duration
	url, err := clientFlags("probe", args, func(flags *flag.FlagSet) {
		flags.DurationVar(&every, "every", 50*time.Millisecond, "time between questions")
		flags.DurationVar(&duration, "duration", 0, "when to end; 0 for a signal")
		flags.DurationVar(&timeout, "timeout", time.Second, "time after which a question is a failure")
	})
	if err != nil {
		return err
	}
	if every <= 0 {
		return usage("probe: --every is %s: give a time that is greater than 0", every)
	}
	asking, cancel := within(ctx, duration)
	defer cancel()
	c := newClient(out, timeout)
	// A request that was sent before the end may be answered after it.
	late := context.WithoutCancel(ctx)
	var wg sync.WaitGroup
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for asking.Err() == nil {
		wg.Go(func() { c.print(c.ask(late, url)) })
		select {
		case <-ticks.C:
		case <-asking.Done():
		}
	}
	wg.Wait()
	return c.printed()
}

// hold keeps a number of requests open, and prints the results.
func hold(ctx context.Context, args []string, out io.Writer) error {
	var duration, timeout time.Duration
	var connections int
	url, err := clientFlags("hold", args, func(flags *flag.FlagSet) {
		flags.DurationVar(&duration, "for", 0, "when to end; 0 for a signal")
		flags.DurationVar(&timeout, "timeout", 30*time.Second, "time after which a question is a failure")
		flags.IntVar(&connections, "connections", 4, "how many questions are open at a time")
	})
	if err != nil {
		return err
	}
	if connections < 1 {
		return usage("hold: --connections is %d: give at least 1", connections)
	}
	asking, cancel := within(ctx, duration)
	defer cancel()
	c := newClient(out, timeout)
	late := context.WithoutCancel(ctx)
	var wg sync.WaitGroup
	for range connections {
		wg.Go(func() {
			for asking.Err() == nil {
				answer := c.ask(late, url)
				c.print(answer)
				const afterFailure = 50 * time.Millisecond // a server that refuses immediately must not be called all the time
				if !answer.OK {
					pause(asking, afterFailure)
				}
			}
		})
	}
	wg.Wait()
	return c.printed()
}

// get prints the response to a GET.
func get(ctx context.Context, args []string, out io.Writer) error {
	return once(ctx, http.MethodGet, args, out)
}

// post prints the response to a POST without a body.
func post(ctx context.Context, args []string, out io.Writer) error {
	return once(ctx, http.MethodPost, args, out)
}

func once(ctx context.Context, method string, args []string, out io.Writer) error {
	url, err := one(args, "a URL")
	if err != nil {
		return err
	}
	const timeout = 30 * time.Second
	body, status, err := newClient(out, timeout).exchange(ctx, method, url)
	if err != nil {
		return fmt.Errorf("asking: %w", err)
	}
	if _, err := io.WriteString(out, body); err != nil {
		return fmt.Errorf("printing the answer: %w", err)
	}
	if status/100 != 2 {
		return fmt.Errorf("asking %s: the answer has the status %d", url, status)
	}
	return nil
}
