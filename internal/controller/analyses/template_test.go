// SPDX-License-Identifier: Apache-2.0

package analyses

import (
	"strings"
	"testing"

	"everynode.dev/everynode/internal/policy"
)

// The placeholders of a query are replaced once, and can end no string of PromQL.
func TestQueriesAreFilled(t *testing.T) {
	q := policy.Question{Old: "6c", New: "7f", Wave: "canary", Namespace: "kube-system", Set: "proxy"}
	for query, want := range map[string]string{
		`errors{revision="{{new}}"} - errors{revision="{{old}}"}`: `errors{revision="7f"} - errors{revision="6c"}`,
		`x{w="{{wave}}",n="{{namespace}}/{{name}}"}`:              `x{w="canary",n="kube-system/proxy"}`,
		`up`: `up`,
	} {
		q.Query = query
		if got := fill(&q); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	q.Query, q.Set = `x{n="{{name}}"}`, "a\"} or vector(0) # \\ ' ` \n {{new}}"
	if got, want := fill(&q), `x{n="a\"} or vector(0) # \\ \' \x60 \n {{new}}"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if err := checkQuery(`x{a="{{new}}",b="{{revision}}"}`); err == nil || !strings.Contains(err.Error(), "{{revision}} is not a placeholder") {
		t.Errorf("error %v", err)
	}
}
