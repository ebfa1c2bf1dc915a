// SPDX-License-Identifier: Apache-2.0

package analyses

import (
	"context"
	"fmt"
	"regexp/syntax"
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

// All calls of an expression together have a limit too, because one of 200 characters can make a thousand of them: for the patterns that they compile, and for the texts that they compare.
func TestManyCostlyCalls(t *testing.T) {
	ten := "[1,2,3,4,5,6,7,8,9,0]"
	thousand := func(call string) string {
		return ten + ".all(a," + ten + ".all(b," + ten + ".all(c," + call + "||true)))"
	}
	pattern := `"` + strings.Repeat("(a?){1000}", 8) + `"`
	for name, text := range map[string]string{
		"method":    thousand(`"".matches(` + pattern + `)`),
		"function":  thousand(`matches("",` + pattern + `)`),
		"dynamic":   thousand(`dyn("").matches(dyn(` + pattern + `))`),
		"long text": thousand(`"` + strings.Repeat("a", 90) + `".matches("(a?){500}b")`),
		"too long":  thousand(`"` + strings.Repeat("a", 90) + `".matches(` + pattern + `)`),
		"classes":   thousand(`"".matches("(?i)[` + strings.Repeat(`!-\\uffff`, 20) + `]"+string(a*100+b*10+c))`),
		"mistakes":  thousand(`"".matches("(?i)[` + strings.Repeat(`!-\\uffff`, 20) + `](")`),
	} {
		if len(text) > 1024 {
			t.Fatalf("%s: a policy cannot have it", name)
		}
		e, err := compile(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r := one(1)
		if passes, err := e.passes(t.Context(), &r); err == nil || !strings.Contains(err.Error(), "cost limit exceeded") {
			t.Errorf("%s: %t, %v", name, passes, err)
		}
	}
}

// An expression that compares each sample of a long answer stays below the limit, also where each has a pattern of its own.
func TestManyUsualCalls(t *testing.T) {
	var r Result
	for i := range 800 {
		r.Samples = append(r.Samples, Sample{Value: 1, Labels: map[string]string{"pod": fmt.Sprintf("agent-%05d", i), "zone": fmt.Sprintf("zone-%d", i%50)}})
	}
	for _, text := range []string{
		"results.all(r, r.labels.pod.matches('^agent-[0-9]{5}$') && !r.labels.pod.matches('canary|test'))", "results.all(r, ('in ' + r.labels.zone).matches('^in ' + r.labels.zone + '$'))",
	} {
		e, err := compile(text)
		if err != nil {
			t.Fatal(err)
		}
		if passes, err := e.passes(t.Context(), &r); !passes || err != nil {
			t.Errorf("%s is %t, %v", text, passes, err)
		}
	}
}

// The number of instructions is estimated without compiling a pattern, and is about right.
func TestInstructionsOfAPattern(t *testing.T) {
	for _, text := range []string{"", "agent", "^agent-v[0-9]+$", "(a?){1000}", "a|bc|[d-f]*", "a{2,5}b{3,}c{4}", "((x+y?){3}|z){7}", "(?i)k.*(?:s)"} {
		parsed, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		estimate := instructions(parsed)
		program, err := syntax.Compile(parsed.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		if is := len(program.Inst); estimate < is/2-2 || estimate > is+is/2 {
			t.Errorf("%q has %d instructions, and the estimate is %d", text, is, estimate)
		}
	}
}

// What is kept of patterns has a limit.
func TestKeptPatterns(t *testing.T) {
	m := &matcher{}
	for i := range 1000 {
		if _, err := m.pattern(fmt.Sprintf("(a?){%d}", i), 0); err != nil {
			t.Fatal(err)
		}
		total := 0
		for _, p := range m.kept {
			total += p.instructions
		}
		if len(m.kept) > maxKept || total > maxKeptInstructions || total != m.instructions {
			t.Fatalf("%d patterns with %d instructions, and %d are counted", len(m.kept), total, m.instructions)
		}
	}
}
