// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"strings"
	"testing"

	"everynode.dev/everynode/internal/placement"
)

// TestTooManyTerms: a template may ask only so much about nodes; one that was stored before stays as long as it is not changed.
func TestTooManyTerms(t *testing.T) {
	affine := func(values int) map[string]any {
		obj := valid(t, beta)
		list := strings.Repeat(`"n",`, values-1) + `"n"`
		set(t, obj, "spec updateStrategy type", `"OnDelete"`)
		set(t, obj, "spec template spec affinity", fmt.Sprintf(
			`{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"k","operator":"In","values":[%s]}]}]}}}`, list))
		return obj
	}
	checked := Options{TemplateChecked: true}
	if got := lines(Create(affine(placement.MaxTerms-1), checked)); len(got) > 0 {
		t.Errorf("as many as may be: %v", got)
	}
	many := affine(placement.MaxTerms)
	if got := lines(Create(many, checked)); len(got) != 1 || !strings.Contains(got[0], "has, with the tolerations, 5001 expressions and values") {
		t.Errorf("one too many: %v", got)
	}
	edited := affine(placement.MaxTerms)
	set(t, edited, "spec minReadySeconds", "5")
	if got := lines(Update(edited, many, checked)); len(got) > 0 {
		t.Errorf("an edit of something else: %v", got)
	}
	if got := lines(Update(affine(placement.MaxTerms+1), many, checked)); len(got) != 1 {
		t.Errorf("another template: %v", got)
	}
	// The placement is what an earlier version has accepted, and a new image asks nothing more about nodes.
	rolled := affine(placement.MaxTerms)
	set(t, rolled, "spec template spec containers", `[{"name":"c","image":"img:fixed"}]`)
	if got := lines(Update(rolled, many, checked)); len(got) > 0 {
		t.Errorf("another image: %v", got)
	}
}

// TestTooManyTermsOfASelector: the selector of the nodes to update is compared with every node as well.
func TestTooManyTermsOfASelector(t *testing.T) {
	selecting := func(terms int) map[string]any {
		obj := valid(t, beta)
		list := strings.Repeat(`{"key":"k","operator":"DoesNotExist"},`, terms-1) + `{"key":"k","operator":"DoesNotExist"}`
		set(t, obj, "spec updateStrategy type", `"RollingUpdate"`)
		set(t, obj, "spec updateStrategy rollingUpdate maxUnavailable", "1")
		set(t, obj, "spec updateStrategy rollingUpdate selector", fmt.Sprintf(`{"matchExpressions":[%s]}`, list))
		return obj
	}
	checked := Options{TemplateChecked: true}
	if got := lines(Create(selecting(placement.MaxTerms), checked)); len(got) > 0 {
		t.Errorf("as many as may be: %v", got)
	}
	many := selecting(placement.MaxTerms + 1)
	if got := lines(Create(many, checked)); len(got) != 1 || !strings.Contains(got[0], "has 5001 labels, expressions and values") {
		t.Errorf("one too many: %v", got)
	}
	edited := selecting(placement.MaxTerms + 1)
	set(t, edited, "spec minReadySeconds", "5")
	if got := lines(Update(edited, many, checked)); len(got) > 0 {
		t.Errorf("an edit of something else: %v", got)
	}
}

// TestTooManyTermsOfAPullJob: its selectors are compared with every node, or with every pod of its namespace.
func TestTooManyTermsOfAPullJob(t *testing.T) {
	selecting := func(at string, terms int) map[string]any {
		obj := parse(t, `{"metadata":{"namespace":"ns","name":"job"},"spec":{"image":"img:1","completionPolicy":{"type":"Always"}}}`)
		list := strings.Repeat(`{"key":"k","operator":"DoesNotExist"},`, terms-1) + `{"key":"k","operator":"DoesNotExist"}`
		set(t, obj, "spec "+at, fmt.Sprintf(`{"matchExpressions":[%s]}`, list))
		return obj
	}
	for at, what := range map[string]string{"selector": "node", "podSelector": "pod"} {
		if got := lines(ImagePullJob(selecting(at, placement.MaxTerms), nil)); len(got) > 0 {
			t.Errorf("%s, as many as may be: %v", at, got)
		}
		many := selecting(at, placement.MaxTerms+1)
		if got := lines(ImagePullJob(many, nil)); len(got) != 1 || !strings.Contains(got[0], "spec."+at) || !strings.Contains(got[0], "compared with every "+what) {
			t.Errorf("%s, one too many: %v", at, got)
		}
		edited := selecting(at, placement.MaxTerms+1)
		set(t, edited, "spec parallelism", "5")
		if got := lines(ImagePullJob(edited, many)); len(got) > 0 {
			t.Errorf("%s, an edit of something else: %v", at, got)
		}
	}
}
