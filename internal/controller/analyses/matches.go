// SPDX-License-Identifier: Apache-2.0

package analyses

import (
	"regexp"
	"regexp/syntax"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/env"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// The limits of one call of matches. The cost and the time of an expression are compared with their limits only between two calls, and the time of this one grows with
// the length of the text, multiplied by the number of instructions of the pattern: (a?){1000} has 2,000.
const (
	maxPattern    = 1024
	maxMatchSteps = 200_000
)

// limitedLibrary is the standard library of CEL, whose function matches has limits.
func limitedLibrary() []cel.EnvOption {
	return []cel.EnvOption{
		cel.StdLib(cel.StdLibSubset(&env.LibrarySubset{ExcludeFunctions: []*env.Function{{Name: overloads.Matches}}})),
		cel.Function(overloads.Matches,
			cel.Overload(overloads.Matches, []*cel.Type{cel.StringType, cel.StringType}, cel.BoolType),
			cel.MemberOverload(overloads.MatchesString, []*cel.Type{cel.StringType, cel.StringType}, cel.BoolType),
			cel.SingletonBinaryBinding(matches)),
	}
}

// matches reports whether a pattern matches a part of a text.
func matches(text, pattern ref.Val) ref.Val {
	of, isText := text.(types.String)
	what, isPattern := pattern.(types.String)
	if !isText || !isPattern {
		return types.MaybeNoSuchOverloadErr(text)
	}
	if len(what) > maxPattern {
		return types.NewErr("matches: the pattern has %d bytes, and at most %d are allowed", len(what), maxPattern)
	}
	parsed, err := syntax.Parse(string(what), syntax.Perl)
	if err != nil {
		return types.WrapErr(err)
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return types.WrapErr(err)
	}
	if steps := len(program.Inst) * (len(of) + 1); steps > maxMatchSteps {
		return types.NewErr("matches: the text of %d bytes is too long for the pattern: shorten one of them", len(of))
	}
	compiled, err := regexp.Compile(string(what))
	if err != nil {
		return types.WrapErr(err)
	}
	return types.Bool(compiled.MatchString(string(of)))
}
