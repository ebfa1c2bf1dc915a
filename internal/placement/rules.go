// SPDX-License-Identifier: Apache-2.0

package placement

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"everynode.dev/everynode/internal/rollout"
)

// comparisonOperators is the default of the feature gate TaintTolerationComparisonOperators in Kubernetes 1.37.
const comparisonOperators = false

// Node is what of a node placement reads.
type Node struct {
	Name   string
	Labels map[string]string
	Taints []corev1.Taint
}

// Rules are what a pod template says about nodes. They are immutable and safe for concurrent use.
type Rules struct {
	nodeName string
	// nodeSelector and required are what affinity is made of, for whoever asks why.
	nodeSelector map[string]string
	required     *corev1.NodeSelector
	// affinity covers nodeSelector and the required node affinity; hasAffinity is false when the template has neither,
	// so that the common set, which runs everywhere, does not even look at a node's labels.
	affinity    nodeaffinity.RequiredNodeAffinity
	hasAffinity bool
	// typed are the tolerations as Fit reads them, undecoded the same ones as the pod will carry them.
	typed     []corev1.Toleration
	undecoded []any
}

// Fit says whether a pod has to run, may stay or must not run on n. On nil Rules it is 0, "not evaluated".
func (r *Rules) Fit(n Node) rollout.Fit {
	if r == nil {
		return 0
	}
	if r.nodeName != "" && r.nodeName != n.Name {
		return rollout.MustLeave
	}
	if r.hasAffinity && !r.selects(n) {
		return rollout.MustLeave
	}
	return r.fitTaints(n.Taints)
}

// selects is whether nodeSelector and required node affinity match n. A term that cannot be parsed matches nothing and
// is otherwise ignored, as upstream does; Compile has reported it.
func (r *Rules) selects(n Node) bool {
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels}}
	matches, _ := r.affinity.Match(&node)
	return matches
}

func (r *Rules) fitTaints(taints []corev1.Taint) rollout.Fit {
	fit := rollout.MustRun
	for i := range taints {
		taint := &taints[i]
		switch taint.Effect {
		case corev1.TaintEffectNoSchedule:
			if !r.tolerates(taint) {
				fit = rollout.MayStay
			}
		case corev1.TaintEffectNoExecute:
			if !r.tolerates(taint) {
				return rollout.MustLeave
			}
		}
	}
	return fit
}

func (r *Rules) tolerates(taint *corev1.Taint) bool {
	for i := range r.typed {
		// The logger is only used by the comparison operators, which are off.
		if r.typed[i].ToleratesTaint(klog.Logger{}, taint, comparisonOperators) {
			return true
		}
	}
	return false
}

// Tolerations are the tolerations of the pods: those of the template, with all their fields, and the automatic ones, in
// upstream's order. The result is shared and must not be changed.
func (r *Rules) Tolerations() []any {
	if r == nil {
		return nil
	}
	return r.undecoded
}

// MaxTerms is how many Terms a template should have at most. A term costs about 50 ns for each node whenever the template changes where its pods
// may run: with 5,000 nodes that is about a second.
const MaxTerms = 5000

// Terms is how many expressions, values of expressions and tolerations there are to be compared with each node, in the worst case.
func Terms(required *corev1.NodeSelector, tolerations []corev1.Toleration) int {
	n := len(tolerations)
	if required == nil {
		return n
	}
	for i := range required.NodeSelectorTerms {
		t := &required.NodeSelectorTerms[i]
		for _, expressions := range [][]corev1.NodeSelectorRequirement{t.MatchExpressions, t.MatchFields} {
			for k := range expressions {
				n += 1 + len(expressions[k].Values)
			}
		}
	}
	return n
}

// Terms is Terms of the rules; 0 for nil.
func (r *Rules) Terms() int {
	if r == nil {
		return 0
	}
	return Terms(r.required, r.typed)
}
