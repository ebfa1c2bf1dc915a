// SPDX-License-Identifier: Apache-2.0

package analyses

import (
	"context"
	"strings"
	"testing"
	"time"
)

// One call of an expression ends soon, because the cost and the time of the expression are compared with their limits only between two calls.
func TestACallThatComputesForLong(t *testing.T) {
	long := "['aaaaaaaaaa']" + strings.Repeat(".map(a,a+a+a+a+a+a+a+a+a+a)", 3)
	for name, c := range map[string]struct{ text, want string }{
		"pattern": {long + ".all(a,a.matches('^(" + strings.Repeat("(a?){1000}", 40) + ")*b$'))", "too long for the pattern"},
		"text":    {long + ".all(a,a.matches('^(a?){100}b$'))", "too long for the pattern"},
		"both":    {"['aaaaaaaaaa']" + strings.Repeat(".map(a,a+a+a+a+a+a+a+a+a+a)", 2) + ".all(a,a.matches(a+a))", "at most 1024 are allowed"},
		"many":    {"[" + strings.Repeat("1,", 300) + "1].all(i,'" + strings.Repeat("a", 90) + "'.matches('(a?){500}b')||true)", ""},
	} {
		if len(c.text) > 1024 {
			t.Fatalf("%s: a policy cannot have it", name)
		}
		e, err := compile(c.text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		r, done := one(1), make(chan error, 1)
		go func() {
			_, err := e.passes(ctx, &r)
			done <- err
		}()
		select {
		case err := <-done:
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s: %v, want %s", name, err, c.want)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s: the provider has a timeout of 1 s, and 10 s later the expression still computes", name)
		}
		cancel()
	}
}

// The function matches does what that of CEL does.
func TestMatches(t *testing.T) {
	for text, want := range map[string]bool{
		"'agent-v2'.matches('^agent-v[0-9]+$')": true, "matches('agent', 'g.n')": true, "'agent'.matches('^g')": false, "result.matches('v2')": true,
	} {
		e, err := compile(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		r := answered("agent-v2")
		if got, err := e.passes(t.Context(), &r); got != want || err != nil {
			t.Errorf("%s is %t, %v", text, got, err)
		}
	}
	for _, text := range []string{"'a'.matches('(')", "result.matches(1)"} {
		if e, err := compile(text); err == nil {
			r := answered("a")
			if got, err := e.passes(t.Context(), &r); got || err == nil {
				t.Errorf("%s is %t", text, got)
			}
		}
	}
}
