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
	// old is whether there is a newer revision, next its name as far as it has one.
	old  bool
	next string
}

// candidates are what was looked for.
type candidates struct {
	words podselector.Selection
	all   []candidate
	// others are the pods that were named and that nobody upgrades one by one.
	others []candidate
	// rolling is the set that was named, where its controller upgrades its pods.
	rolling *resolver.Set
}

// scope is where pods are looked for.
type scope struct {
	*options.Options
	c          *options.Clients
	everywhere bool
	// all is whether all pods are meant, so that no word may name nodes and pods.
	all bool
}

// look finds the pods that words mean.
func (p scope) look(ctx context.Context, args []string) (*candidates, error) {
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
		if slices.ContainsFunc(pods, withoutCondition) { // else the revisions need not be read, nor the right to be there
			if newest, err = newestOf(ctx, c, set); err != nil {
				return nil, err
			}
		}
		for _, pod := range pods {
			if _, meant := words.Matches(pod); !meant {
				continue
			}
			if one, ok := evaluate(set, pod, newest); ok {
				found.all, found.rolling = append(found.all, one), nil // its pods tell of it
			} else {
				found.others = append(found.others, one)
			}
		}
	}
	return found, nil
}

// evaluate tells of a pod whether there is a newer revision: by what it says itself, or, where nobody has it say anything, by the revisions of its set; ok is
// whether it is upgraded one by one at all.
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

// withoutCondition is whether a pod does not say whether there is a newer revision.
func withoutCondition(pod *corev1.Pod) bool {
	_, _, said := ota.Announced(pod)
	return !said
}

// oneByOne is whether a set says that its pods are upgraded one by one.
func oneByOne(set *resolver.Set) bool {
	return onDelete(set) && (set.Advanced() || hasOTA(set))
}

// onDelete is whether no controller updates the pods of a set by itself. The strategy OTA goes with it only.
func onDelete(set *resolver.Set) bool {
	kind, _, _ := unstructured.NestedString(set.Object.Object, "spec", "updateStrategy", "type")
	return kind == "OnDelete"
}

func hasOTA(set *resolver.Set) bool {
	strategy, ok := openyurt.ParseStrategy(set.Object.GetAnnotations()[openyurt.UpdateStrategy])
	return ok && strategy == openyurt.OTA
}

// updatedByController says of a set that is not upgraded one by one why not.
func updatedByController(set *resolver.Set) string {
	if !set.Advanced() && hasOTA(set) {
		return "is upgraded by its controller, not one by one: the strategy OTA goes with spec.updateStrategy.type OnDelete only"
	}
	return "is upgraded by its controller, not one by one: it has neither the strategy OTA nor, as an Advanced DaemonSet, OnDelete"
}

// byController says of the set that was named that it is not for this verb; nil where it is.
func (f *candidates) byController() error {
	if f.rolling == nil {
		return nil
	}
	if onDelete(f.rolling) {
		return fmt.Errorf("%s is not upgraded one by one from here: its pods are upgraded when they are deleted; this verb needs the annotation %s: %s", f.rolling, openyurt.UpdateStrategy, openyurt.OTA)
	}
	return fmt.Errorf("%s %s", f.rolling, updatedByController(f.rolling))
}

// newest is the newest revision of a set, and all of them.
type newest struct {
	hash     string
	template map[string]any
	all      []appsv1.ControllerRevision
}

// newestOf is nil for a set whose pods are not upgraded one by one, as far as the set tells.
func newestOf(ctx context.Context, c *options.Clients, set *resolver.Set) (*newest, error) {
	if !oneByOne(set) {
		return nil, nil //nolint:nilnil // there is none, and that is no failure
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

// as is the newest revision: that name, if the revision of that name has the same template.
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

// unknown says which names find no pod that is upgraded one by one.
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

// skipped is whether a pod is meant only as one of many on a node, and has nothing to be upgraded to. A pod that is named itself is answered.
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

// images is how far the images of the next revision are.
func (one *candidate) images() v2.ImageState { return ota.ImagesOf(one.pod, one.next).State }

// refused is why a pod is not upgraded now, in the words of this program; nil when it can be.
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

// awaited is whether a pod is old and waits for its images.
func (one *candidate) awaited() bool {
	return ota.Refusal(one.pod, one.next, one.old) == v2.ReasonImagesNotReady
}

// remedy is what to do about a pod that waits for its images.
func (one *candidate) remedy() string {
	again := fmt.Sprintf("kubectl delete pod -n %s %s upgrades it without them", one.pod.Namespace, one.pod.Name)
	if one.upgrading() {
		return fmt.Sprintf("wait until they are there (`%s ota list -n %s`), which takes an agent on that node; %s", options.Program, one.pod.Namespace, again)
	}
	return fmt.Sprintf("request them again (`%s ota pull -n %s %s`); %s", options.Program, one.pod.Namespace, one.pod.Name, again)
}
