// SPDX-License-Identifier: Apache-2.0

package analyses

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"

	"everynode.dev/everynode/internal/policy"
)

// costLimit limits the cost of an expression to some ten thousand steps. It stops expressions that run long although their text is short.
const costLimit = 200_000

// maxNesting limits what nests types in an expression: its lists, its maps and its calls of type. The checker of types takes time with the third power of their depth: 14
// s for an expression of 1,000 characters that is nothing but a list of lists.
const maxNesting = 16

// Sample is one value of an answer, with its labels.
type Sample struct {
	Labels map[string]string
	Value  float64
}

// Result is what a provider has answered: samples of a query, or any value of JSON.
type Result struct {
	Samples []Sample
	// Value is the answer of a webhook, and Webhook reports whether there is one.
	Value   any
	Webhook bool
	// Notes are warnings of the provider: the result may be incomplete.
	Notes string
}

// expression is an expression that decides whether a measurement passes.
type expression struct {
	text    string
	program cel.Program
}

// compile compiles an expression. The error says where it is wrong.
func compile(text string) (*expression, error) {
	m := &matcher{}
	env, err := cel.NewCustomEnv(append(m.library(),
		cel.Variable("result", cel.DynType), cel.Variable("results", cel.ListType(cel.MapType(cel.StringType, cel.DynType))),
		cel.CrossTypeNumericComparisons(true))...)
	if err != nil {
		return nil, fmt.Errorf("making an environment: %w", err)
	}
	parsed, issues := env.Parse(text)
	if issues == nil || len(issues.Errors()) == 0 {
		if n := nesting(parsed); n > maxNesting {
			return nil, fmt.Errorf("the expression %q has %d lists, maps and calls of type, and at most %d are allowed; each map and filter counts as two", policy.Shortened(text, maxValue), n, maxNesting)
		}
		parsed, issues = env.Check(parsed)
	}
	if issues != nil && len(issues.Errors()) > 0 {
		first := issues.Errors()[0]
		return nil, fmt.Errorf("the expression %q cannot be compiled: at character %d: %s", policy.Shortened(text, maxValue), first.Location.Column()+1, printable(first.Message))
	}
	if kind := parsed.OutputType(); !kind.IsExactType(cel.BoolType) && !kind.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("the expression %q is a %s: it must be true or false", policy.Shortened(text, maxValue), kind)
	}
	program, err := env.Program(parsed, cel.CostLimit(costLimit), m.costs(), cel.InterruptCheckFrequency(1))
	if err != nil {
		return nil, fmt.Errorf("the expression %q cannot be used: %w", policy.Shortened(text, maxValue), err)
	}
	return &expression{text, program}, nil
}

// nesting counts what may nest types in an expression that has been parsed, with what its macros expand to.
func nesting(of *cel.Ast) (n int) {
	ast.PostOrderVisit(of.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.ListKind, ast.MapKind, ast.StructKind:
			n++
		case ast.CallKind:
			if e.AsCall().FunctionName() == "type" {
				n++
			}
		}
	}))
	return n
}

var (
	errNoData = errors.New("the query has returned no data")
	errNaN    = errors.New("the value is NaN")
	errInf    = errors.New("the value is infinite")
	errNull   = errors.New("the webhook has answered no result")
)

// passes computes the expression. An error means that it is not known.
func (e *expression) passes(ctx context.Context, r *Result) (passes bool, err error) {
	defer func() {
		if recover() != nil {
			passes, err = false, errors.New("the expression cannot be computed")
		}
	}()
	input, err := r.input()
	if err != nil {
		return false, err
	}
	out, _, err := e.program.ContextEval(ctx, input)
	switch {
	case err != nil && !r.Webhook && len(r.Samples) != 1:
		return false, fmt.Errorf("the query has returned %d samples: make it return one, or use results in the expression", len(r.Samples))
	case err != nil:
		return false, fmt.Errorf("the expression %q cannot be computed: %s", policy.Shortened(e.text, maxValue), printable(err.Error()))
	}
	value, ok := out.(types.Bool)
	if !ok {
		return false, fmt.Errorf("the expression %q is neither true nor false", policy.Shortened(e.text, maxValue))
	}
	return bool(value), nil
}

// input returns the variables of an expression. It returns an error if there is no data, or a value is not a number.
func (r *Result) input() (map[string]any, error) {
	if r.Webhook {
		if r.Value == nil {
			return nil, errNull
		}
		return map[string]any{"result": r.Value}, nil
	}
	if len(r.Samples) == 0 {
		return nil, errNoData
	}
	results := make([]map[string]any, 0, len(r.Samples))
	for _, s := range r.Samples {
		if math.IsNaN(s.Value) {
			return nil, errNaN
		}
		if math.IsInf(s.Value, 0) {
			return nil, errInf
		}
		results = append(results, map[string]any{"value": s.Value, "labels": s.Labels})
	}
	input := map[string]any{"results": results}
	if len(r.Samples) == 1 {
		input["result"] = r.Samples[0].Value
	}
	return input, nil
}

// The longest texts of a measurement, in characters.
const (
	maxValue   = 128
	maxMessage = 256
)

// text shows what was measured.
func (r *Result) text() string {
	if r.Webhook {
		return policy.Shortened(printable(jsonText(r.Value)), maxValue)
	}
	var parts []string
	for _, s := range r.Samples[:min(len(r.Samples), maxValue/2)] {
		parts = append(parts, strconv.FormatFloat(s.Value, 'g', 6, 64))
	}
	text := strings.Join(parts, ", ")
	if len(r.Samples) > 1 {
		text = fmt.Sprintf("%d samples: %s", len(r.Samples), text)
	}
	return policy.Shortened(text, maxValue)
}
