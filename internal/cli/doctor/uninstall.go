// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	kruiseapi "everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/view"
	"everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/internal/rollout"
)

// beforeUninstall returns the checks for work that would stay unfinished without a manager.
func (p *installation) beforeUninstall() []check {
	return []check{
		{"cluster", p.cluster},
		{"in-place", p.changedInPlace},
		{"stored", p.storedInOtherVersion},
		{"held-nodes", p.heldNodes},
	}
}

// mayUninstall returns an error if something must be done first.
func mayUninstall(findings []Finding) error {
	has := func(r Result) bool {
		return slices.ContainsFunc(findings, func(f Finding) bool { return f.Result == r })
	}
	switch {
	case has(Failed):
		return errors.New("do not stop the manager: first do what is listed above")
	case has(Skipped):
		return errors.New("do not stop the manager: not every check could be made")
	}
	return nil
}

// changedInPlace looks for pods whose readiness gate is closed, or soon will be: without a manager it stays closed.
func (p *installation) changedInPlace(ctx context.Context) []Finding {
	name := kruiseapi.Resource + "." + kruiseapi.Group
	crd, err := p.c.Dynamic.Resource(kruise.Definitions()).Get(ctx, name, metav1.GetOptions{})
	if err == nil && !kruise.OwnDefinition(crd) {
		return []Finding{ok("%s is not Everynode's, so no pod of an Advanced DaemonSet needs its manager", name)}
	}
	sets, err := p.advanced(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return []Finding{ok("this cluster has no Advanced DaemonSets")}
	case err != nil:
		return []Finding{unreadable(err, options.Request{Verb: "list", Resource: advanced().GroupResource()})}
	}
	namespaces := map[string]bool{}
	for i := range sets {
		namespaces[sets[i].GetNamespace()] = true
	}
	half := map[types.UID][]string{}
	for namespace := range namespaces {
		if err := p.findUnfinished(ctx, namespace, half); err != nil {
			return []Finding{unreadable(err, options.Request{Verb: "list", Resource: schema.GroupResource{Resource: "pods"}, Namespace: namespace})}
		}
	}
	var findings []Finding
	for i := range sets {
		if f, found := unfinished(&sets[i], half[sets[i].GetUID()]); found {
			findings = append(findings, f)
		}
	}
	if len(findings) == 0 {
		return []Finding{ok("no pod of %s is being changed in place or held by a preDelete hook", view.Plural(len(sets), "Advanced DaemonSet"))}
	}
	return findings
}

// unfinished returns the finding about a set with these pods in the middle of a change.
func unfinished(set *unstructured.Unstructured, pods []string) (f Finding, found bool) {
	name := set.GetNamespace() + "/" + set.GetName()
	pause := fmt.Sprintf("kubectl everynode pause -n %s ads/%s, wait until its pods are ready and its preDelete hook has released them, and run this command again", set.GetNamespace(), set.GetName())
	w := kruise.Digest(set.Object)
	switch {
	case len(pods) > 0:
		slices.Sort(pods)
		return failed(pause, "%s has %s with a closed readiness gate, because of a change in place or a preDelete hook; only the manager opens it, and no traffic reaches them: %s",
			name, view.Plural(len(pods), "pod"), listed(pods)), true
	case rolls(set) && inPlace(set) && w.Set.ClosesGate():
		return failed(pause, "%s is being updated in place, and can start with further pods at any moment", name), true
	case rolls(set) && w.PreDelete != nil && w.PreDelete.MarkNotReady:
		return failed(pause, "%s is being updated, and can prepare further pods for its preDelete hook at any moment, which makes them not ready", name), true
	}
	return f, false
}

// listed returns the first names, and the number of the others.
func listed(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

func advanced() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: kruiseapi.Group, Version: kruiseapi.VersionStored, Resource: kruiseapi.Resource}
}

// page is the page size of lists.
const page = 500

// advanced returns all Advanced DaemonSets, sorted by namespace and name.
func (p *installation) advanced(ctx context.Context) ([]unstructured.Unstructured, error) {
	var sets []unstructured.Unstructured
	list := metav1.ListOptions{Limit: page}
	for {
		some, err := p.c.Dynamic.Resource(advanced()).List(ctx, list)
		if err != nil {
			return nil, err
		}
		sets = append(sets, some.Items...)
		if list.Continue = some.GetContinue(); list.Continue == "" {
			break
		}
	}
	slices.SortFunc(sets, func(a, b unstructured.Unstructured) int {
		return strings.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName())
	})
	return sets, nil
}

// findUnfinished finds the pods of a namespace in the middle of a change, and those with a closed gate, by set.
func (p *installation) findUnfinished(ctx context.Context, namespace string, half map[types.UID][]string) error {
	list := metav1.ListOptions{Limit: page}
	for {
		pods, err := p.c.Kubernetes.CoreV1().Pods(namespace).List(ctx, list)
		if err != nil {
			return err
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			if facts := kruise.Facts(pod); facts != nil && (facts.InPlace != rollout.InPlaceNone && !facts.Open || kruise.HeldByHook(pod)) && pod.DeletionTimestamp == nil && !ended(pod) {
				uid := metav1.GetControllerOfNoCopy(pod).UID
				half[uid] = append(half[uid], pod.Name)
			}
		}
		if list.Continue = pods.Continue; list.Continue == "" {
			return nil
		}
	}
}

func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// inPlace reports whether a set changes pods in place.
func inPlace(set *unstructured.Unstructured) bool {
	kind, _, _ := unstructured.NestedString(set.Object, "spec", "updateStrategy", "rollingUpdate", "rollingUpdateType")
	return kind == string(v1beta1.InplaceRollingUpdateType)
}

// rolls reports whether a set has old pods that it may update next.
func rolls(set *unstructured.Unstructured) bool {
	rolling, _, _ := unstructured.NestedMap(set.Object, "spec", "updateStrategy", "rollingUpdate")
	kind, _, _ := unstructured.NestedString(set.Object, "spec", "updateStrategy", "type")
	if paused, _ := rolling["paused"].(bool); paused || kind == "OnDelete" {
		return false
	}
	number := func(field string) int64 {
		n, _, _ := unstructured.NestedInt64(set.Object, "status", field)
		return n
	}
	desired, held := number("desiredNumberScheduled"), int64(0)
	switch partition := rolling["partition"].(type) {
	case int64:
		held = partition
	case string:
		of := intstr.FromString(partition)
		if n, err := intstr.GetScaledValueFromIntOrPercent(&of, int(desired), false); err == nil {
			held = int64(n)
		}
	}
	if number("observedGeneration") != set.GetGeneration() { // the numbers belong to an earlier specification
		return true
	}
	return number("updatedNumberScheduled") < desired-held
}

// storedInOtherVersion looks for objects that can be read only with the conversion webhook.
func (p *installation) storedInOtherVersion(ctx context.Context) []Finding {
	var findings []Finding
	for _, resource := range []string{kruiseapi.Resource, kruiseapi.ResourceJob, kruiseapi.ResourceNodeImage} {
		name := resource + "." + kruiseapi.Group
		crd, err := p.c.Dynamic.Resource(kruise.Definitions()).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			findings = append(findings, unreadable(err, options.Request{Verb: "get", Resource: kruise.Definitions().GroupResource(), Name: name}))
			continue
		}
		stored, _, _ := unstructured.NestedStringSlice(crd.Object, "status", "storedVersions")
		switch others := slices.DeleteFunc(slices.Clone(stored), func(v string) bool { return v == kruiseapi.VersionStored }); {
		case !kruise.OwnDefinition(crd):
			findings = append(findings, ok("%s is not Everynode's, and is not affected", name))
		case len(others) > 0:
			findings = append(findings, failed("while a manager runs, run kubectl everynode adopt, which stores all objects as "+kruiseapi.VersionStored,
				"objects of %s may be stored as %s: without a manager, which converts them, they can be neither listed nor deleted", name, strings.Join(others, " and ")))
		default:
			findings = append(findings, ok("all objects of %s are stored as %s", name, kruiseapi.VersionStored))
		}
	}
	return findings
}
