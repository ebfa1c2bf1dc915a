// SPDX-License-Identifier: Apache-2.0

package base

import (
	"math"
	"strconv"
	"strings"

	"everynode.dev/everynode/internal/rollout"
)

// Quantity is the number or percentage at key, or fallback when it is absent.
func (r *Reader) Quantity(parent Object, key string, fallback rollout.Quantity) rollout.Quantity {
	value := parent.Fields[key]
	if value == nil {
		return fallback
	}
	q, ok := parseQuantity(value)
	if !ok {
		r.Invalid(parent.At(key), "is %s: set it to a whole number such as 3, or a percentage such as %q", Describe(value), "10%")
		return fallback
	}
	return q
}

// parseQuantity reads a whole number, or a string of digits with a percent sign. As in Kubernetes, a string without the
// sign is not a number.
func parseQuantity(value any) (rollout.Quantity, bool) {
	if n, ok := Integer(value); ok {
		return rollout.Quantity{Value: int(n)}, n >= 0 && n <= math.MaxInt32
	}
	text, isText := value.(string)
	digits, isPercent := strings.CutSuffix(text, "%")
	if !isText || !isPercent {
		return rollout.Quantity{}, false
	}
	n, ok := parseDigits(digits)
	return rollout.Quantity{Value: n, Percent: true}, ok
}

func parseDigits(digits string) (int, bool) {
	if strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 32)
	return int(n), err == nil
}
