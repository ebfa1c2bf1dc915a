// SPDX-License-Identifier: Apache-2.0

package options

import (
	"context"
	"errors"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// May returns nil if who calls may do what r says, or if nobody can tell; else an error that names the missing right.
func (c *Clients) May(ctx context.Context, r Request) error {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: r.Verb, Group: r.Resource.Group, Resource: r.Resource.Resource, Namespace: r.Namespace, Name: r.Name,
		},
	}}
	answer, err := c.Kubernetes.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil || answer.Status.Allowed {
		return nil //nolint:nilerr // who cannot be told finds out by trying
	}
	return lacking(apierrors.NewForbidden(r.Resource, r.Name, errors.New("no rule allows it")), r)
}
