// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"context"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/resolver"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/clustercache/informers"
	"everynode.dev/everynode/internal/revision"
)

// Revisions returns the ControllerRevisions of a set, newest first.
func Revisions(ctx context.Context, c *options.Clients, set *resolver.Set) ([]appsv1.ControllerRevision, error) {
	list, err := c.Kubernetes.AppsV1().ControllerRevisions(set.Namespace()).List(ctx, metav1.ListOptions{})
	if err != nil {
		resource := schema.GroupResource{Group: appsv1.GroupName, Resource: "controllerrevisions"}
		return nil, options.Explain(err, options.Request{Verb: "list", Resource: resource, Namespace: set.Namespace()})
	}
	all := slices.DeleteFunc(list.Items, func(r appsv1.ControllerRevision) bool { return !metav1.IsControlledBy(&r, set.Object) })
	slices.SortFunc(all, func(a, b appsv1.ControllerRevision) int {
		return cmp.Or(cmp.Compare(b.Revision, a.Revision), strings.Compare(a.Name, b.Name))
	})
	return all, nil
}

// Version is one entry of a set's history.
type Version struct {
	clustercache.Revision
	// Cause is the change cause in the annotation that kubectl uses.
	Cause string
	// Current reports whether it has the template of the set.
	Current bool
	// Pods is the number of pods with it; -1 if the user may not read pods.
	Pods int
}

// changeCause is the annotation with the reason for a change.
const changeCause = "kubernetes.io/change-cause"

// History returns the history of a set, oldest first. written reports whether the template of the set is in it.
func History(ctx context.Context, c *options.Clients, set *resolver.Set) (versions []Version, written bool, err error) {
	all, err := Revisions(ctx, c, set)
	if err != nil {
		return nil, false, err
	}
	pods := podsByHash(ctx, c, set)
	slices.Reverse(all)
	var records []clustercache.Revision
	causes := map[string]string{}
	for i := range all {
		if rec, ours := informers.RevisionFrom(&all[i]); ours {
			records = append(records, rec)
			causes[rec.Name] = all[i].Annotations[changeCause]
		}
	}
	workload := set.Source.Digest(set.Object.Object)
	for i := range records {
		if Repeats(records, i) {
			continue
		}
		v := Version{Revision: records[i], Cause: causes[records[i].Name], Pods: -1, Current: revision.Same(records[i].Template(), workload.Template)}
		if pods != nil {
			v.Pods = pods[v.Hash]
		}
		versions = append(versions, v)
		written = written || v.Current
	}
	return versions, written, nil
}

// Repeats reports whether revision i of a history repeats another one, with the same hash and template, in the form of another controller. The one with the
// shorter name is the original; the repetition adds a suffix to it.
func Repeats(all []clustercache.Revision, i int) bool {
	r := &all[i]
	return slices.ContainsFunc(all, func(other clustercache.Revision) bool {
		return r.Hash == other.Hash && len(other.Name) < len(r.Name) && revision.Same(r.Template(), other.Template())
	})
}

// podsByHash counts the pods of a set by revision; nil if the user may not read them.
func podsByHash(ctx context.Context, c *options.Clients, set *resolver.Set) map[string]int {
	pods, err := c.Kubernetes.CoreV1().Pods(set.Namespace()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	counts := map[string]int{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		ended := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
		if metav1.IsControlledBy(pod, set.Object) && pod.DeletionTimestamp == nil && !ended {
			counts[pod.Labels[appsv1.ControllerRevisionHashLabelKey]]++
		}
	}
	return counts
}
