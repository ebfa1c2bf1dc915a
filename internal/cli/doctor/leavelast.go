// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/cli/options"
)

// leaveLast looks for sets that ask to leave a node last where no webhook asks about evictions: the manager reads no namespaces, so it cannot say that in
// a condition of the set.
func (p *installation) leaveLast(ctx context.Context) []Finding {
	if !p.servesKruise() || p.foreign {
		return nil
	}
	sets, err := p.advanced(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return nil // the check of the definitions reports that
	case err != nil:
		return []Finding{unreadable(err, options.Request{Verb: "list", Resource: advanced().GroupResource()})}
	}
	asks := map[string][]string{}
	var namespaces []string
	for i := range sets {
		if _, asked := sets[i].GetAnnotations()[everynode.LeaveLast]; !asked {
			continue
		}
		namespace := sets[i].GetNamespace()
		if len(asks[namespace]) == 0 {
			namespaces = append(namespaces, namespace)
		}
		asks[namespace] = append(asks[namespace], sets[i].GetName())
	}
	slices.Sort(namespaces)
	var findings []Finding
	for _, name := range namespaces {
		namespace, err := p.c.Kubernetes.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err): // it is gone meanwhile, and its sets too
		case err != nil:
			findings = append(findings, unreadable(err, options.Request{Verb: "get", Resource: schema.GroupResource{Resource: "namespaces"}, Name: name}))
		case namespace.Labels[everynode.KeepDaemonPods] != "true":
			findings = append(findings, warning(fmt.Sprintf("kubectl label namespace %s %s=true", name, everynode.KeepDaemonPods),
				"the annotation %s has no effect in namespace %s, which has no label %s=true: %s", everynode.LeaveLast, name, everynode.KeepDaemonPods, listed(asks[name])))
		}
	}
	return findings
}
