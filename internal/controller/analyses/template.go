// SPDX-License-Identifier: Apache-2.0

package analyses

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"everynode.dev/everynode/internal/policy"
)

// placeholder is what a query may contain in double braces.
func placeholder() *regexp.Regexp { return regexp.MustCompile(`\{\{[^{}]*\}\}`) }

// values are the texts that replace placeholders.
func values(q *policy.Question) map[string]string {
	return map[string]string{"{{old}}": q.Old, "{{new}}": q.New, "{{wave}}": q.Wave, "{{namespace}}": q.Namespace, "{{name}}": q.Set}
}

// checkQuery reports a placeholder that is not known.
func checkQuery(query string) error {
	known := values(&policy.Question{})
	for _, found := range placeholder().FindAllString(query, -1) {
		if _, ok := known[found]; !ok {
			return fmt.Errorf("%s is not a placeholder: there are {{old}}, {{new}}, {{wave}}, {{namespace}} and {{name}}", found)
		}
	}
	return nil
}

// fill replaces the placeholders of a query in one pass: placeholders in a value are not replaced.
func fill(q *policy.Question) string {
	known := values(q)
	return placeholder().ReplaceAllStringFunc(q.Query, func(found string) string {
		if value, ok := known[found]; ok {
			return escaped(value)
		}
		return found
	})
}

// escaped returns a text escaped for a PromQL string, in quotes of either kind.
func escaped(text string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, `'`, `\'`, "\n", `\n`, "`", "\\x60").Replace(text)
}

// printable returns a text in which each whitespace character is a space, and without the characters that cannot be printed.
func printable(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text))
}

func jsonText(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	return string(data)
}
