// SPDX-License-Identifier: Apache-2.0

// Package annotation describes annotations: which values one may have, and how they are read.
//
// A Value is declared next to the name of its annotation. The webhooks reject what it does not read, and the controllers read stored values with
// it, so both always agree.
//
// Rule: a Value says what a text means, and nothing about what is done with it.
package annotation

import (
	"cmp"
	"math"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
)

// Kind is which daemon sets an annotation is for.
type Kind uint8

// The kinds.
const (
	EverySet     Kind = iota // DaemonSets of apps/v1, and Advanced DaemonSets
	AdvancedOnly             // Advanced DaemonSets
	PlainOnly                // DaemonSets of apps/v1
)

// Rule defines which values an annotation may have.
type Rule struct {
	Key string
	For Kind
	// Want is what a value must be, without these words. Correct is what to do about another one that is stored; if empty, set it to what is wanted.
	Want, Correct string
	Allows        func(text string) bool
}

// Remedy is what to do about a value that cannot be read.
func (r Rule) Remedy() string { return cmp.Or(r.Correct, "set it to "+r.Want) }

// Value is an annotation whose values are read by Parse.
type Value[T any] struct {
	Rule
	Parse func(text string) (value T, ok bool)
}

// Of is the Value of an annotation that allows what can be read.
func Of[T any](r Rule, parse func(text string) (T, bool)) Value[T] {
	r.Allows = func(text string) bool { _, ok := parse(text); return ok }
	return Value[T]{r, parse}
}

// Bool reads true and false.
func Bool(text string) (value, ok bool) { return text == "true", text == "true" || text == "false" }

// WholeFrom returns what reads a whole number from least to the largest of 32 bits.
func WholeFrom(least int32) func(string) (int32, bool) { return WholeBetween(least, math.MaxInt32) }

// WholeBetween returns what reads a whole number from least to most.
func WholeBetween(least, most int32) func(string) (int32, bool) {
	return func(text string) (int32, bool) {
		n, err := strconv.ParseInt(text, 10, 32)
		return int32(n), err == nil && n >= int64(least) && n <= int64(most)
	}
}

// Quantity is a whole number or a percentage.
type Quantity struct {
	Value   int
	Percent bool
}

// String is q as QuantityFrom reads it.
func (q Quantity) String() string {
	if q.Percent {
		return strconv.Itoa(q.Value) + "%"
	}
	return strconv.Itoa(q.Value)
}

// QuantityFrom returns what reads a whole number from least, or a percentage from least to 100%: digits alone, without a sign and without a blank.
func QuantityFrom(least int) func(string) (Quantity, bool) {
	return func(text string) (Quantity, bool) {
		digits, percent := strings.CutSuffix(text, "%")
		n, err := strconv.ParseInt(digits, 10, 32)
		if err != nil || strings.Trim(digits, "0123456789") != "" || int(n) < least || percent && n > 100 {
			return Quantity{}, false
		}
		return Quantity{Value: int(n), Percent: percent}, true
	}
}

// TemplateGeneration is the only annotation of Kubernetes itself that is used: the API server increments it on a DaemonSet of apps/v1 with every change of the
// template. It has no meaning on an Advanced DaemonSet.
var TemplateGeneration = Of(Rule{
	Key: appsv1.DeprecatedTemplateGeneration, Want: "a whole number; remove it, because it has no effect here",
	Correct: "remove it, because the API server sets it",
}, func(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
})
