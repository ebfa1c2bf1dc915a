// SPDX-License-Identifier: Apache-2.0

package options

import (
	"context"
	"errors"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// May returns an error that names the missing right if the user may not make the request. It returns nil if the user
// may, or if that cannot be determined.
func (c *Clients) May(ctx context.Context, r Request) error {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: r.Verb, Group: r.Resource.Group, Resource: r.Resource.Resource, Namespace: r.Namespace, Name: r.Name,
		},
	}}
	answer, err := c.Kubernetes.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil || answer.Status.Allowed {
		return nil //nolint:nilerr // the request itself will show it
	}
	return lacking(apierrors.NewForbidden(r.Resource, r.Name, errors.New("no rule allows it")), r)
}
