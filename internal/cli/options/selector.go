// SPDX-License-Identifier: Apache-2.0

package options

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Selector parses a label selector as in kubectl -l, and returns it in the form of a manifest.
// metav1.ParseToLabelSelector does not support "!=", and ignores the first of two values for one label.
func Selector(text string) (*metav1.LabelSelector, error) {
	requirements, err := labels.ParseToRequirements(text)
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller adds the context
	}
	selector := &metav1.LabelSelector{}
	for _, r := range requirements {
		one := metav1.LabelSelectorRequirement{Key: r.Key(), Values: r.Values().List()}
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals:
			if _, twice := selector.MatchLabels[r.Key()]; !twice {
				metav1.AddLabelToSelector(selector, r.Key(), one.Values[0])
				continue
			}
			one.Operator = metav1.LabelSelectorOpIn
		case selection.In:
			one.Operator = metav1.LabelSelectorOpIn
		case selection.NotEquals, selection.NotIn:
			one.Operator = metav1.LabelSelectorOpNotIn
		case selection.Exists:
			one.Operator, one.Values = metav1.LabelSelectorOpExists, nil
		case selection.DoesNotExist:
			one.Operator, one.Values = metav1.LabelSelectorOpDoesNotExist, nil
		default:
			return nil, fmt.Errorf("a selector in a manifest cannot compare numbers: list the values, as in %s in (1,2)", r.Key())
		}
		selector.MatchExpressions = append(selector.MatchExpressions, one)
	}
	return selector, nil
}
