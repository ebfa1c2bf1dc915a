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

// Finding is one rule of a template, and what came of it on one node.
type Finding struct {
	// Rule is what was looked at, as it stands in the template or on the node.
	Rule string
	// Says is what came of it, with the values that were compared.
	Says string
	// Against is the fit that it leads to by itself: MustRun if nothing stands against a pod.
	Against rollout.Fit
}

// Explain says for each rule what comes of it on n. The largest of what the findings lead to is what Fit answers; without any finding
// a pod has to run.
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
		if f, counts := r.explainTaint(&n.Taints[i]); counts {
			findings = append(findings, f)
		}
	}
	return findings
}

func finding(rule string, fits bool, yes, no string) Finding {
	if fits {
		return Finding{Rule: rule, Says: yes, Against: rollout.MustRun}
	}
	return Finding{Rule: rule, Says: no, Against: rollout.MustLeave}
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

// explainTerms says of each term of the required node affinity whether it matches: one of them is enough.
func (r *Rules) explainTerms(n Node) []Finding {
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels}}
	var findings []Finding
	matched := false
	for i := range r.required.NodeSelectorTerms {
		term := &r.required.NodeSelectorTerms[i]
		one := nodeaffinity.NewLazyErrorNodeSelector(&corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{*term}})
		matches, _ := one.Match(&node)
		matched = matched || matches
		findings = append(findings, finding(fmt.Sprintf("node affinity, term %d: %s", i+1, termText(term)), matches, "it matches", "it does not match: "+termAgainst(term, n)))
	}
	if matched {
		for i := range findings {
			findings[i].Against = rollout.MustRun
		}
	}
	if len(findings) == 0 {
		findings = append(findings, finding("node affinity", false, "", "it has no terms, so it selects no node"))
	}
	return findings
}

// termText is a term as a person writes it.
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

// termAgainst names the values of the node that a term looked at.
func termAgainst(t *corev1.NodeSelectorTerm, n Node) string {
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

// explainTaint says whether a taint is tolerated, and by what; counts is false for one that means nothing here.
func (r *Rules) explainTaint(taint *corev1.Taint) (f Finding, counts bool) {
	rule := "taint " + taint.ToString()
	against := rollout.MayStay
	switch taint.Effect {
	case corev1.TaintEffectNoSchedule:
	case corev1.TaintEffectNoExecute:
		against = rollout.MustLeave
	default:
		return Finding{}, false
	}
	for i := range r.typed {
		// As in Fit: the logger is only used by the comparison operators, which are off.
		if t := &r.typed[i]; t.ToleratesTaint(klog.Logger{}, taint, comparisonOperators) {
			return Finding{Rule: rule, Says: "the pod tolerates it: " + tolerationText(t), Against: rollout.MustRun}, true
		}
	}
	return Finding{Rule: rule, Says: "the pod does not tolerate it", Against: against}, true
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
