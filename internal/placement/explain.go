// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"everynode.dev/everynode/internal/rollout"
)

// Finding is the result of one rule of a template for one node.
type Finding struct {
	// Rule is the rule as it is written in the template or on the node.
	Rule string
	// Result is a sentence with the result and the values that were compared.
	Result string
	// Fit is the result of this rule alone: MustRun if the rule allows a pod.
	Fit rollout.Fit
}

// Explain returns the result of each rule for n. Fit returns the largest Fit of the findings. Without findings, a pod
// must run.
func (r *Rules) Explain(n Node) []Finding {
	if r == nil {
		return nil
	}
	var findings []Finding
	if r.nodeName != "" {
		findings = append(findings, finding("nodeName "+r.nodeName, r.nodeName == n.Name, "it is this node", "it is another node"))
	}
	for _, key := range slices.Sorted(maps.Keys(r.nodeSelector)) {
		findings = append(findings, r.explainLabel(key, n))
	}
	if r.required != nil {
		findings = append(findings, r.explainTerms(n)...)
	}
	for i := range n.Taints {
		if f, ok := r.explainTaint(&n.Taints[i]); ok {
			findings = append(findings, f)
		}
	}
	return findings
}

func finding(rule string, fits bool, yes, no string) Finding {
	if fits {
		return Finding{Rule: rule, Result: yes, Fit: rollout.MustRun}
	}
	return Finding{Rule: rule, Result: no, Fit: rollout.MustLeave}
}

func (r *Rules) explainLabel(key string, n Node) Finding {
	want := r.nodeSelector[key]
	have, labelled := n.Labels[key]
	no := "the node has no label " + key
	if labelled {
		no = fmt.Sprintf("the node has %s=%s", key, have)
	}
	return finding(fmt.Sprintf("nodeSelector %s=%s", key, want), labelled && have == want, "the node has this label", no)
}

// explainTerms returns the result of each term of the required node affinity. One matching term is enough.
func (r *Rules) explainTerms(n Node) []Finding {
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels}}
	var findings []Finding
	matched := false
	for i := range r.required.NodeSelectorTerms {
		term := &r.required.NodeSelectorTerms[i]
		one := nodeaffinity.NewLazyErrorNodeSelector(&corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{*term}})
		matches, _ := one.Match(&node)
		matched = matched || matches
		findings = append(findings, finding(fmt.Sprintf("node affinity, term %d: %s", i+1, termText(term)), matches, "it matches", "it does not match: "+comparedValues(term, n)))
	}
	if matched {
		for i := range findings {
			findings[i].Fit = rollout.MustRun
		}
	}
	if len(findings) == 0 {
		findings = append(findings, finding("node affinity", false, "", "it has no terms, so it selects no node"))
	}
	return findings
}

// termText formats a term for users.
func termText(t *corev1.NodeSelectorTerm) string {
	var parts []string
	for _, e := range slices.Concat(t.MatchExpressions, t.MatchFields) {
		parts = append(parts, expressionText(e))
	}
	if len(parts) == 0 {
		return "(empty)"
	}
	return strings.Join(parts, " and ")
}

func expressionText(e corev1.NodeSelectorRequirement) string {
	if len(e.Values) == 0 {
		return e.Key + " " + string(e.Operator)
	}
	return fmt.Sprintf("%s %s (%s)", e.Key, e.Operator, strings.Join(e.Values, ", "))
}

// comparedValues lists the values of the node that a term was compared with.
func comparedValues(t *corev1.NodeSelectorTerm, n Node) string {
	var parts []string
	for _, e := range t.MatchExpressions {
		if have, labelled := n.Labels[e.Key]; labelled {
			parts = append(parts, fmt.Sprintf("the node has %s=%s", e.Key, have))
		} else {
			parts = append(parts, "the node has no label "+e.Key)
		}
	}
	if len(t.MatchFields) > 0 {
		parts = append(parts, "the node is "+n.Name)
	}
	if len(parts) == 0 {
		return "an empty term selects no node"
	}
	return strings.Join(parts, ", ")
}

// explainTaint reports whether a taint is tolerated, and by which toleration. ok is false for a taint whose effect is
// ignored.
func (r *Rules) explainTaint(taint *corev1.Taint) (f Finding, ok bool) {
	rule := "taint " + taint.ToString()
	fit := rollout.MayStay
	switch taint.Effect {
	case corev1.TaintEffectNoSchedule:
	case corev1.TaintEffectNoExecute:
		fit = rollout.MustLeave
	default:
		return Finding{}, false
	}
	for i := range r.typed {
		// As in Fit: the logger is only used by the comparison operators, which are off.
		if t := &r.typed[i]; t.ToleratesTaint(klog.Logger{}, taint, comparisonOperators) {
			return Finding{Rule: rule, Result: "the pod tolerates it: " + tolerationText(t), Fit: rollout.MustRun}, true
		}
	}
	return Finding{Rule: rule, Result: "the pod does not tolerate it", Fit: fit}, true
}

func tolerationText(t *corev1.Toleration) string {
	text := "any key"
	if t.Key != "" {
		text = t.Key
	}
	if t.Operator == corev1.TolerationOpExists {
		text += " exists"
	} else {
		text += " is " + t.Value
	}
	if t.Effect != "" {
		text += ", " + string(t.Effect)
	}
	return text
}
