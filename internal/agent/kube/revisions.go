// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/revision"
)

// hashLabel is the label with the hash of a revision, on the revision and on its pods.
const hashLabel = appsv1.ControllerRevisionHashLabelKey

// Hash returns the hash of the revision of a pod.
func Hash(pod *corev1.Pod) string { return pod.Labels[hashLabel] }

// NextAdvanced returns the revision to which a pod of an Advanced DaemonSet with the strategy OnDelete can be upgraded:
// the newest one of the set, if the pod has another. It is "" if there is none, or if the pod is not upgraded by its
// node.
func (c *Client) NextAdvanced(ctx context.Context, pod *corev1.Pod, owner metav1.OwnerReference) (string, error) {
	set := &v1beta1.DaemonSet{}
	err := c.kruise.Get().Namespace(pod.Namespace).Resource(kruise.Resource).Name(owner.Name).Do(ctx).Into(set)
	switch {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("reading the Advanced DaemonSet %s: %w", owner.Name, err)
	case set.UID != owner.UID, set.Spec.UpdateStrategy.Type != v1beta1.OnDeleteDaemonSetStrategyType:
		return "", nil
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return "", fmt.Errorf("the selector of the Advanced DaemonSet %s: %w", owner.Name, err)
	}
	all, err := c.revisions(ctx, pod.Namespace, owner.UID, selector)
	if err != nil || len(all) == 0 {
		return "", err
	}
	if newest := newestAs(all, Hash(pod)); newest != Hash(pod) {
		return newest, nil
	}
	return "", nil
}

// Newest returns the newest revision of a set: the given name, if the revision of that name has the same template. It
// is "" if the set has none.
func (c *Client) Newest(ctx context.Context, namespace string, owner types.UID, name string) (string, error) {
	all, err := c.revisions(ctx, namespace, owner, labels.Everything())
	if err != nil || len(all) == 0 {
		return "", err
	}
	return newestAs(all, name), nil
}

// newestAs returns the newest of some revisions: the given name, if the revision of that name has the same template.
// Different versions of the API name the same template differently, so templates are compared.
func newestAs(all []appsv1.ControllerRevision, name string) string {
	newest := &all[0]
	for i := range all {
		if all[i].Revision > newest.Revision {
			newest = &all[i]
		}
	}
	for i := range all {
		if all[i].Labels[hashLabel] == name && sameTemplate(&all[i], newest) {
			return name
		}
	}
	return newest.Labels[hashLabel]
}

// sameTemplate compares like the manager, so that both always agree on whether a pod is up to date.
func sameTemplate(a, b *appsv1.ControllerRevision) bool {
	left, leftErr := revision.Decode(a.Data.Raw)
	right, rightErr := revision.Decode(b.Data.Raw)
	return leftErr == nil && rightErr == nil && revision.Same(left, right)
}

// Template returns the pod template of a revision of a set, or nil if there is no such revision.
func (c *Client) Template(ctx context.Context, namespace string, owner types.UID, hash string) (*corev1.PodTemplateSpec, error) {
	all, err := c.revisions(ctx, namespace, owner, labels.SelectorFromSet(labels.Set{hashLabel: hash}))
	if err != nil || len(all) == 0 {
		return nil, err
	}
	data := struct {
		Spec struct {
			Template corev1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	}{}
	if err := json.Unmarshal(all[0].Data.Raw, &data); err != nil {
		return nil, fmt.Errorf("reading the ControllerRevision %s: %w", all[0].Name, err)
	}
	return &data.Spec.Template, nil
}

// revisions returns the revisions of a set.
func (c *Client) revisions(ctx context.Context, namespace string, owner types.UID, selector labels.Selector) ([]appsv1.ControllerRevision, error) {
	list := &appsv1.ControllerRevisionList{}
	err := c.apps.Get().Namespace(namespace).Resource("controllerrevisions").
		VersionedParams(&metav1.ListOptions{LabelSelector: selector.String()}, metav1.ParameterCodec).Do(ctx).Into(list)
	if err != nil {
		return nil, fmt.Errorf("listing ControllerRevisions: %w", err)
	}
	own := list.Items[:0]
	for _, r := range list.Items {
		if by := metav1.GetControllerOf(&r); by != nil && by.UID == owner {
			own = append(own, r)
		}
	}
	return own, nil
}
