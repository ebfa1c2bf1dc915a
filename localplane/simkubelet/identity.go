// SPDX-License-Identifier: Apache-2.0

package simkubelet

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
)

// The service account of agents, as in config/agent.
const (
	agentNamespace = "everynode-agents"
	agentAccount   = "everynode-agent"
)

// tokenLife is the requested lifetime of a token of an agent; it is renewed when less than a fifth of it is left.
const tokenLife = time.Hour

// Agents are the clients of simulated agents: each has a token that is bound to its node, like the pod of a real agent,
// and all share one connection. So a simulated agent has exactly the rights of a real one.
type Agents struct {
	tokens kubernetes.Interface
	client dynamic.NamespaceableResourceInterface
}

// Identity is the identity of one agent.
type Identity struct {
	node  types.UID
	token string
	renew time.Time
}

// NewAgents returns agents for the API server of config. Its credentials are not used for that: tokens requests those
// of agents.
func NewAgents(config *rest.Config, tokens kubernetes.Interface) (*Agents, error) {
	config = rest.AnonymousClientConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return bearer{next} })
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("preparing the client of agents: %w", err)
	}
	return &Agents{tokens: tokens, client: client.Resource(v1beta1.GroupVersion().WithResource(kruise.ResourceNodeImage))}, nil
}

// Identify returns the identity of the agent of a node: the current one, or a new one if that belongs to another node
// or expires.
func (a *Agents) Identify(ctx context.Context, has Identity, node *v1.Node, now time.Time) (Identity, error) {
	if has.node == node.UID && now.Before(has.renew) {
		return has, nil
	}
	seconds := int64(tokenLife / time.Second)
	answer, err := a.tokens.CoreV1().ServiceAccounts(agentNamespace).CreateToken(ctx, agentAccount, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: &seconds,
			BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return Identity{}, fmt.Errorf("asking for the token of the agent of node %s: %w", node.Name, err)
	}
	life := answer.Status.ExpirationTimestamp.Sub(now)
	return Identity{node: node.UID, token: answer.Status.Token, renew: now.Add(life * 4 / 5)}, nil
}

// WriteStatus changes the status of a NodeImage with the identity of an agent.
func (a *Agents) WriteStatus(ctx context.Context, as Identity, name string, patch []byte) (*unstructured.Unstructured, error) {
	return a.client.Patch(context.WithValue(ctx, tokenKey{}, as.token), name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
}

// tokenKey is the key of the token in the context of a request.
type tokenKey struct{}

// bearer adds the token to each request.
type bearer struct{ next http.RoundTripper }

func (b bearer) RoundTrip(request *http.Request) (*http.Response, error) {
	token, ok := request.Context().Value(tokenKey{}).(string)
	if !ok || token == "" {
		return nil, errors.New("a request in the name of no agent")
	}
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", "Bearer "+token)
	return b.next.RoundTrip(request)
}
