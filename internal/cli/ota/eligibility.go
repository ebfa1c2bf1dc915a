// SPDX-License-Identifier: Apache-2.0

package ota

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v2 "everynode.dev/everynode/api/agent/v2"
	"everynode.dev/everynode/api/openyurt"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/podselector"
	"everynode.dev/everynode/internal/cli/resolver"
	"everynode.dev/everynode/internal/ota"
	"everynode.dev/everynode/internal/revision"
)

// candidate is a pod that is upgraded one by one.
type candidate struct {
	set *resolver.Set
	pod *corev1.Pod
	// old reports whether there is a newer revision, next is its name, if known.
	old  bool
	next string
}

// candidates is the result of a search.
type candidates struct {
	words podselector.Selection
	all   []candidate
	// others are the named pods that are not upgraded one by one.
	others []candidate
	// rolling is the named set, if its controller upgrades its pods.
	rolling *resolver.Set
}

// scope defines where pods are searched.
type scope struct {
	*options.Options
	c          *options.Clients
	everywhere bool
	// all reports whether all pods are selected; then arguments may not name nodes or pods.
	all bool
}

// find finds the pods that the arguments select.
func (p scope) find(ctx context.Context, args []string) (*candidates, error) {
	words, err := podselector.Parse(args)
	if err != nil {
		return nil, err
	}
	c := p.c
	sets, err := words.Readable(ctx, p.Options, c, p.everywhere)
	if err != nil {
		return nil, err
	}
	if words, sets, err = words.Narrow(ctx, c, sets, p.all); err != nil {
		return nil, err
	}
	found := &candidates{words: words}
	if words.Set != "" && !oneByOne(sets[0]) {
		found.rolling = sets[0]
	}
	for _, set := range sets {
		pods, err := podselector.PodsOf(ctx, c, set)
		if err != nil {
			return nil, err
		}
		var newest *newest
		if slices.ContainsFunc(pods, withoutCondition) { // otherwise the revisions, and the right to read them, are not needed
			if newest, err = newestOf(ctx, c, set); err != nil {
				return nil, err
			}
		}
		for _, pod := range pods {
			if _, meant := words.Matches(pod); !meant {
				continue
			}
			if one, ok := evaluate(set, pod, newest); ok {
				found.all, found.rolling = append(found.all, one), nil // its pods are reported
			} else {
				found.others = append(found.others, one)
			}
		}
	}
	return found, nil
}

// evaluate determines whether there is a newer revision for a pod: from the condition of the pod or, if it has none,
// from the revisions of its set. ok reports whether the pod is upgraded one by one at all.
func evaluate(set *resolver.Set, pod *corev1.Pod, newest *newest) (one candidate, ok bool) {
	one = candidate{set: set, pod: pod}
	if next, old, said := ota.Announced(pod); said {
		one.next, one.old = next, old
		return one, true
	}
	if newest == nil {
		return one, false
	}
	one.next = newest.as(pod.Labels[appsv1.ControllerRevisionHashLabelKey])
	one.old = one.next != "" && one.next != pod.Labels[appsv1.ControllerRevisionHashLabelKey]
	return one, true
}

// withoutCondition reports whether a pod has no condition about a newer revision.
func withoutCondition(pod *corev1.Pod) bool {
	_, _, said := ota.Announced(pod)
	return !said
}

// oneByOne reports whether the pods of a set are upgraded one by one.
func oneByOne(set *resolver.Set) bool {
	return onDelete(set) && (set.Advanced() || hasOTA(set))
}

// onDelete reports whether no controller updates the pods of a set. The strategy OTA requires that.
func onDelete(set *resolver.Set) bool {
	kind, _, _ := unstructured.NestedString(set.Object.Object, "spec", "updateStrategy", "type")
	return kind == "OnDelete"
}

func hasOTA(set *resolver.Set) bool {
	strategy, ok := openyurt.ParseStrategy(set.Object.GetAnnotations()[openyurt.UpdateStrategy])
	return ok && strategy == openyurt.OTA
}

// updatedByController explains why a set is not upgraded one by one.
func updatedByController(set *resolver.Set) string {
	if !set.Advanced() && hasOTA(set) {
		return "is upgraded by its controller, not one by one: the strategy OTA goes with spec.updateStrategy.type OnDelete only"
	}
	return "is upgraded by its controller, not one by one: it has neither the strategy OTA nor, as an Advanced DaemonSet, OnDelete"
}

// byController returns an error if this command cannot be used for the named set.
func (f *candidates) byController() error {
	if f.rolling == nil {
		return nil
	}
	if onDelete(f.rolling) {
		return fmt.Errorf("%s cannot be upgraded pod by pod with this command: its pods are upgraded when they are deleted. The command needs the annotation %s: %s", f.rolling, openyurt.UpdateStrategy, openyurt.OTA)
	}
	return fmt.Errorf("%s %s", f.rolling, updatedByController(f.rolling))
}

// newest is the newest revision of a set, and all its revisions.
type newest struct {
	hash     string
	template map[string]any
	all      []appsv1.ControllerRevision
}

// newestOf returns nil for a set whose pods are not upgraded one by one.
func newestOf(ctx context.Context, c *options.Clients, set *resolver.Set) (*newest, error) {
	if !oneByOne(set) {
		return nil, nil //nolint:nilnil // not found is not an error
	}
	list, err := c.Kubernetes.AppsV1().ControllerRevisions(set.Namespace()).List(ctx, metav1.ListOptions{})
	if err != nil {
		resource := appsv1.Resource("controllerrevisions")
		return nil, options.Explain(err, options.Request{Verb: "list", Resource: resource, Namespace: set.Namespace()})
	}
	all := slices.DeleteFunc(list.Items, func(r appsv1.ControllerRevision) bool { return !metav1.IsControlledBy(&r, set.Object) })
	if len(all) == 0 {
		return &newest{}, nil
	}
	last := slices.MaxFunc(all, func(a, b appsv1.ControllerRevision) int { return cmp.Compare(a.Revision, b.Revision) })
	template, err := revision.Decode(last.Data.Raw)
	if err != nil {
		return nil, fmt.Errorf("revision %s of %s: %w", last.Name, set, err)
	}
	return &newest{hash: last.Labels[appsv1.ControllerRevisionHashLabelKey], template: template, all: all}, nil
}

// as returns the newest revision under the given name if that revision has the same template.
func (n *newest) as(hash string) string {
	for i := range n.all {
		if n.all[i].Labels[appsv1.ControllerRevisionHashLabelKey] != hash {
			continue
		}
		if template, err := revision.Decode(n.all[i].Data.Raw); err == nil && revision.Same(template, n.template) {
			return hash
		}
	}
	return n.hash
}

// unknown returns an error for names without a pod that is upgraded one by one.
func (f *candidates) unknown() error {
	known, passed := map[string]bool{}, map[string]candidate{}
	for _, one := range f.all {
		word, _ := f.words.Matches(one.pod)
		known[word] = true
	}
	for _, one := range f.others {
		word, _ := f.words.Matches(one.pod)
		passed[word] = one
	}
	var errs []error
	for _, word := range f.words.Names() {
		switch one, found := passed[word]; {
		case known[word]:
		case found:
			errs = append(errs, fmt.Errorf("%s: pod %s of %s, which %s", word, one.pod.Name, one.set, updatedByController(one.set)))
		default:
			errs = append(errs, fmt.Errorf("%s: there is no such node with a pod of a set, and no such pod: see `%s ota list`", word, options.Program))
		}
	}
	return errors.Join(errs...)
}

// skipped reports whether a pod without a newer version was selected only by its node. A pod that is named itself gets
// an answer.
func (f *candidates) skipped(one *candidate) bool {
	word, _ := f.words.Matches(one.pod)
	_, name, slashed := strings.Cut(word, "/")
	if !slashed {
		name = word
	}
	return word != "" && name != one.pod.Name && !one.old && f.anotherIsOld(word)
}

func (f *candidates) anotherIsOld(word string) bool {
	return slices.ContainsFunc(f.all, func(one candidate) bool {
		other, _ := f.words.Matches(one.pod)
		return other == word && one.old
	})
}

// images returns the state of the images of the next revision.
func (one *candidate) images() v2.ImageState { return ota.ImagesOf(one.pod, one.next).State }

// refused returns an error if a pod cannot be upgraded now.
func (one *candidate) refused() error {
	name, node := one.pod.Name, one.pod.Spec.NodeName
	switch ota.Refusal(one.pod, one.next, one.old) {
	case "":
		return nil
	case v2.ReasonDeleting:
		return fmt.Errorf("pod %s on node %s is being deleted already", name, node)
	case v2.ReasonUpToDate:
		return fmt.Errorf("pod %s on node %s is up to date: there is nothing to upgrade it to", name, node)
	default:
		return fmt.Errorf("pod %s on node %s cannot be upgraded yet: its images were requested, and are %s: %s", name, node, one.images(), one.remedy())
	}
}

// awaited reports whether a pod is old and waits for its images.
func (one *candidate) awaited() bool {
	return ota.Refusal(one.pod, one.next, one.old) == v2.ReasonImagesNotReady
}

// remedy returns what to do about a pod that waits for its images.
func (one *candidate) remedy() string {
	again := fmt.Sprintf("kubectl delete pod -n %s %s upgrades it without them", one.pod.Namespace, one.pod.Name)
	if one.upgrading() {
		return fmt.Sprintf("wait until they are there (`%s ota list -n %s`), which takes an agent on that node; %s", options.Program, one.pod.Namespace, again)
	}
	return fmt.Sprintf("request them again (`%s ota pull -n %s %s`); %s", options.Program, one.pod.Namespace, one.pod.Name, again)
}
