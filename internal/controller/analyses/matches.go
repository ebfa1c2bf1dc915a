// SPDX-License-Identifier: Apache-2.0

package analyses

import (
	"regexp"
	"regexp/syntax"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/env"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// The limits of one call of matches. The cost and the time of an expression are compared with their limits only between two calls, and the time of this one grows with
// the length of the text, multiplied by the number of instructions of the pattern: (a?){1000} has 4,000.
const (
	maxPattern    = 1024
	maxMatchSteps = 200_000
)

// What a call costs, so that costLimit also limits all calls of an evaluation together, to about a second of a core. To read and compile a pattern takes up to a millisecond for each byte, for
// example for (?i)[!-\uffff], and is done once for a pattern.
const (
	stepsPerCost = 100
	costPerByte  = 100
)

// What is kept of the patterns of one expression. A pattern with more instructions than maxKeptInstructions is compiled, and costs that, in each call.
const (
	maxKept             = 64
	maxKeptInstructions = 20_000
)

// matcher is the function matches of one expression.
type matcher struct {
	mu           sync.Mutex
	kept         map[string]*pattern
	instructions int
}

// pattern is a pattern that has been compiled.
type pattern struct {
	program      *regexp.Regexp
	instructions int
	// unpaid is the cost of its compilation until a call has been charged for it.
	unpaid uint64
}

// library is the standard library of CEL, whose function matches has limits.
func (m *matcher) library() []cel.EnvOption {
	return []cel.EnvOption{
		cel.StdLib(cel.StdLibSubset(&env.LibrarySubset{ExcludeFunctions: []*env.Function{{Name: overloads.Matches}}})),
		cel.Function(overloads.Matches,
			cel.Overload(overloads.Matches, []*cel.Type{cel.StringType, cel.StringType}, cel.BoolType),
			cel.MemberOverload(overloads.MatchesString, []*cel.Type{cel.StringType, cel.StringType}, cel.BoolType),
			cel.SingletonBinaryBinding(m.matches)),
	}
}

// costs makes a program count what the calls of matches cost.
func (m *matcher) costs() cel.ProgramOption {
	return cel.CostTrackerOptions(interpreter.OverloadCostTracker(overloads.Matches, m.cost), interpreter.OverloadCostTracker(overloads.MatchesString, m.cost))
}

// matches reports whether a pattern matches a part of a text.
func (m *matcher) matches(text, what ref.Val) ref.Val {
	of, isText := text.(types.String)
	with, isPattern := what.(types.String)
	if !isText || !isPattern {
		return types.MaybeNoSuchOverloadErr(text)
	}
	if len(with) > maxPattern {
		return types.NewErr("matches: the pattern has %d bytes, and at most %d are allowed", len(with), maxPattern)
	}
	p, err := m.pattern(string(with), len(of))
	switch {
	case err != nil:
		return types.WrapErr(err)
	case p.program == nil || p.steps(len(of)) > maxMatchSteps:
		return types.NewErr("matches: the text of %d bytes is too long for the pattern: shorten one of them", len(of))
	}
	return types.Bool(p.program.MatchString(string(of)))
}

// pattern returns a pattern for a text of a length. It is not compiled if the text is too long for it.
func (m *matcher) pattern(text string, length int) (*pattern, error) {
	m.mu.Lock()
	p := m.kept[text]
	m.mu.Unlock()
	if p != nil {
		return p, nil
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	p = &pattern{instructions: instructions(parsed), unpaid: costPerByte * uint64(len(text))}
	if p.steps(length) > maxMatchSteps {
		return p, nil
	}
	if p.program, err = regexp.Compile(text); err != nil {
		return nil, err
	}
	m.keep(text, p)
	return p, nil
}

// keep keeps a pattern for later calls, instead of the earlier ones if there are too many.
func (m *matcher) keep(text string, p *pattern) {
	if p.instructions > maxKeptInstructions {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept == nil || len(m.kept) >= maxKept || m.instructions+p.instructions > maxKeptInstructions {
		m.kept, m.instructions = map[string]*pattern{}, 0
	}
	m.kept[text] = p
	m.instructions += p.instructions
}

// cost is what a call has cost, with the compilation of its pattern if that was necessary.
func (m *matcher) cost(args []ref.Val, _ ref.Val) *uint64 {
	cost := uint64(1)
	text, isText := args[0].(types.String)
	what, isPattern := args[1].(types.String)
	if !isText || !isPattern || len(what) > maxPattern {
		return &cost
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.kept[string(what)]; p != nil {
		cost += p.unpaid + uint64(min(p.steps(len(text)), maxMatchSteps)/stepsPerCost)
		p.unpaid = 0
	} else {
		cost += costPerByte*uint64(len(what)) + maxMatchSteps/stepsPerCost
	}
	return &cost
}

// steps is how many steps it may take to compare a text of a length with the pattern.
func (p *pattern) steps(length int) int { return p.instructions * (length + 1) }

// instructions is about how many instructions a pattern has when it is compiled.
func instructions(p *syntax.Regexp) int {
	n := 1
	switch p.Op {
	case syntax.OpLiteral:
		n = len(p.Rune)
	case syntax.OpCapture:
		n = 2
	case syntax.OpConcat, syntax.OpRepeat:
		n = 0
	case syntax.OpAlternate:
		n = len(p.Sub) - 1
	}
	for _, sub := range p.Sub {
		n += instructions(sub)
	}
	if p.Op == syntax.OpRepeat {
		n = n*max(p.Min, p.Max) + max(p.Max-p.Min, 1)
	}
	return n
}
