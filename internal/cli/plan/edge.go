// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"context"
	"reflect"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"everynode.dev/everynode/api/annotation"
	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/openyurt"
	"everynode.dev/everynode/internal/cli/installed"
	"everynode.dev/everynode/internal/cli/options"
)

// edgeOf returns the OpenYurt annotations of a DaemonSet of apps/v1 and the fields that depend on them, or nil if they
// have no effect. They determine the update strategy, and change without a new generation.
func edgeOf(object *unstructured.Unstructured) map[string]string {
	all := object.GetAnnotations()
	if _, asked := all[openyurt.UpdateStrategy]; !asked || object.GetAPIVersion() != appsv1.SchemeGroupVersion.String() {
		return nil
	}
	found := map[string]string{}
	for _, rule := range slices.Concat(openyurt.Annotations(), everynode.Annotations()) {
		if value, ok := all[rule.Key]; ok && rule.For == annotation.PlainOnly {
			found[rule.Key] = value
		}
	}
	return found
}

// edge sets the budget of a set with OpenYurt's annotation. Its strategy is OnDelete, so fields of a rolling update
// have no effect.
func (b *builder) edge(strategy, flag, text string) error {
	known, _ := openyurt.ParseStrategy(strategy)
	switch {
	case flag == "max-surge":
		return options.Usagef("--max-surge: with the annotation %s no new pod runs next to the old one: omit the flag", openyurt.UpdateStrategy)
	case known != openyurt.AdvancedRollingUpdate:
		return options.Usagef("--%s: there is no budget while the annotation %s is %q, but only with %s: omit the flag",
			flag, openyurt.UpdateStrategy, strategy, openyurt.AdvancedRollingUpdate)
	}
	limit := openyurt.MaxUnavailableValue
	value, ok := limit.Parse(text)
	if !ok {
		return options.Usagef("--%s %q: the annotation %s takes a number of nodes from 1, or a percentage from 1%% to 100%%", flag, text, limit.Key)
	}
	b.set(value.String(), "metadata", "annotations", limit.Key)
	return nil
}

// unchanged reports whether the edit changes nothing that determines the rollout: the specification, and the
// annotations of the dialect.
func (f *prediction) unchanged() bool {
	return f.live != nil && f.object.GetGeneration() == f.live.Object.GetGeneration() &&
		reflect.DeepEqual(f.digest(f.live.Object).Set, f.digest(f.object).Set)
}

// warnServed warns if OpenYurt's annotations are not enabled in the manager.
func (f *prediction) warnServed(ctx context.Context, c *options.Clients) []Warning {
	if text := installed.Unread(ctx, c.Kubernetes, f.object); text != "" {
		return []Warning{{Kind: warnDialect, Message: text}}
	}
	return nil
}
