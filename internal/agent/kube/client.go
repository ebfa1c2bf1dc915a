// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"everynode.dev/everynode/api/kruise/v1beta1"
)

const (
	pods       = "pods"
	manager    = "everynode-agent"
	nodeOfAPod = "spec.nodeName"
)

// Client is a client of an API server. It is safe for concurrent use.
type Client struct {
	core, apps, kruise, authentication, authorization rest.Interface
	// probe checks whether the API server responds, without the rate limit.
	probe rest.Interface
}

// New returns a client; it sends no requests.
func New(cfg *rest.Config) (*Client, error) {
	scheme := runtime.NewScheme()
	err := errors.Join(corev1.AddToScheme(scheme), v1beta1.AddToScheme(scheme))
	scheme.AddKnownTypes(appsv1.SchemeGroupVersion, &appsv1.ControllerRevision{}, &appsv1.ControllerRevisionList{})
	scheme.AddKnownTypes(authenticationv1.SchemeGroupVersion, &authenticationv1.TokenReview{})
	scheme.AddKnownTypes(authorizationv1.SchemeGroupVersion, &authorizationv1.SubjectAccessReview{})
	for _, gv := range []schema.GroupVersion{appsv1.SchemeGroupVersion, authenticationv1.SchemeGroupVersion, authorizationv1.SchemeGroupVersion} {
		metav1.AddToGroupVersion(scheme, gv)
	}
	if err != nil {
		return nil, fmt.Errorf("setting up the types: %w", err)
	}
	httpClient, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("setting up the client: %w", err)
	}
	c := &Client{}
	for gv, into := range map[schema.GroupVersion]*rest.Interface{
		corev1.SchemeGroupVersion:           &c.core,
		appsv1.SchemeGroupVersion:           &c.apps,
		v1beta1.GroupVersion():              &c.kruise,
		authenticationv1.SchemeGroupVersion: &c.authentication,
		authorizationv1.SchemeGroupVersion:  &c.authorization,
	} {
		if *into, err = RESTClient(cfg, httpClient, scheme, gv); err != nil {
			return nil, err
		}
	}
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.RateLimiter = -1, nil
	c.probe, err = RESTClient(cfg, httpClient, scheme, corev1.SchemeGroupVersion)
	return c, err
}

// RESTClient returns a client of one API group with the types of the scheme; all clients can share one httpClient.
func RESTClient(cfg *rest.Config, client *http.Client, scheme *runtime.Scheme, gv schema.GroupVersion) (rest.Interface, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.GroupVersion, cfg.APIPath = &gv, "/apis"
	if gv.Group == "" {
		cfg.APIPath = "/api"
	}
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	return rest.RESTClientForConfigAndClient(cfg, client)
}

// Answers checks whether the API server is ready. A rejected request counts as a response.
func (c *Client) Answers(ctx context.Context) error {
	err := c.probe.Get().AbsPath("/readyz").Do(ctx).Error()
	if apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

// OwnPods lists and watches the pods of one node, as the kubelet does.
func (c *Client) OwnPods(node string) *cache.ListWatch {
	return cache.NewListWatchFromClient(c.core, pods, metav1.NamespaceAll, fields.OneTermEqualSelector(nodeOfAPod, node))
}

// Pod reads one pod.
func (c *Client) Pod(ctx context.Context, name types.NamespacedName) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	err := c.core.Get().Namespace(name.Namespace).Resource(pods).Name(name.Name).Do(ctx).Into(pod)
	return pod, err
}

// DeletePod deletes a pod with preconditions.
func (c *Client) DeletePod(ctx context.Context, name types.NamespacedName, only metav1.Preconditions) error {
	return c.core.Delete().Namespace(name.Namespace).Resource(pods).Name(name.Name).
		Body(&metav1.DeleteOptions{Preconditions: &only}).Do(ctx).Error()
}

// SetCondition writes one condition of exactly that pod, and changes no other condition.
func (c *Client) SetCondition(ctx context.Context, pod *corev1.Pod, condition corev1.PodCondition) error {
	fields := map[string]any{
		"type": condition.Type, "status": condition.Status, "message": condition.Message, "lastTransitionTime": condition.LastTransitionTime,
		"reason": nil, // other fields stay as they are
	}
	if condition.Reason != "" {
		fields["reason"] = condition.Reason
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID}, "status": map[string]any{"conditions": []any{fields}},
	})
	if err != nil {
		return fmt.Errorf("writing the condition %s: %w", condition.Type, err)
	}
	return c.core.Patch(types.StrategicMergePatchType).Namespace(pod.Namespace).Resource(pods).Name(pod.Name).SubResource("status").
		VersionedParams(&metav1.PatchOptions{FieldManager: manager}, metav1.ParameterCodec).Body(patch).Do(ctx).Error()
}

// unlogged returns a context for requests with a secret or a token: from -v=8 on, the client logs the bodies of
// requests and responses.
func unlogged(ctx context.Context) context.Context { return klog.NewContext(ctx, klog.Logger{}) }

// Secret reads a secret.
func (c *Client) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := c.core.Get().Namespace(namespace).Resource("secrets").Name(name).Do(unlogged(ctx)).Into(secret)
	return secret, err
}

// Review returns the user of a token for one of these audiences. ok reports whether the token is valid.
func (c *Client) Review(ctx context.Context, token string, audiences ...string) (user authenticationv1.UserInfo, ok bool, err error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: audiences}}
	if err := c.authentication.Post().Resource("tokenreviews").Body(review).Do(unlogged(ctx)).Into(review); err != nil {
		return user, false, fmt.Errorf("reviewing a token: %w", err)
	}
	for _, a := range review.Status.Audiences {
		if slices.Contains(audiences, a) && review.Status.Authenticated {
			return review.Status.User, true, nil
		}
	}
	return user, false, nil
}

// May checks whether a user may act on a pod; an empty name means all pods of a namespace, an empty namespace all pods.
func (c *Client) May(ctx context.Context, user authenticationv1.UserInfo, verb string, pod types.NamespacedName) (bool, error) {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, Groups: user.Groups, UID: user.UID, Extra: extra,
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: pod.Namespace, Name: pod.Name, Verb: verb, Resource: pods, Version: "v1"},
	}}
	if err := c.authorization.Post().Resource("subjectaccessreviews").Body(review).Do(ctx).Into(review); err != nil {
		return false, fmt.Errorf("reviewing the access of %s: %w", user.Username, err)
	}
	return review.Status.Allowed, nil
}
