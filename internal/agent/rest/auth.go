// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/types"

	v2 "everynode.dev/everynode/api/agent/v2"
)

// The verbs on pods that a caller must be allowed in the cluster: changing a pod requires the right to delete it.
const (
	verbRead   = "get"
	verbChange = "delete"
)

// caller is the authenticated caller.
type caller struct {
	// owner reports whether the caller has the token of the node. The owner can also power the node off, so no access
	// review is needed.
	owner bool
	user  authenticationv1.UserInfo
}

// identify authenticates the caller, and counts the request.
func (a *API) identify(r *http.Request) (caller, *problem) {
	token, ok := bearer(r.Header.Get("Authorization"))
	switch {
	case !ok:
		if p := a.gate.allow(a.gate.failed, r); p != nil {
			return caller{}, p
		}
		return caller{}, &problem{code: http.StatusUnauthorized, message: fmt.Sprintf(
			"send a bearer token: that of the node, which is in a file there, or one of the cluster for the audience %s", v2.AudienceOf(a.o.Node))}
	case a.o.Token != "" && equalTokens(token, a.o.Token):
		return caller{owner: true}, a.gate.allow(a.gate.owner, r)
	}
	if p := a.gate.allowReview(token); p != nil {
		return caller{}, p
	}
	user, p := a.user(r.Context(), token)
	if p != nil {
		return caller{}, p
	}
	return caller{user: user}, a.gate.allow(a.gate.users, r)
}

// user returns the user of a token of the cluster.
func (a *API) user(ctx context.Context, token string) (user authenticationv1.UserInfo, p *problem) {
	if !a.o.Cluster.Connected(ctx) {
		return user, &problem{code: http.StatusServiceUnavailable, message: "the cluster cannot be reached to review this token: use the token of the node"}
	}
	user, ok, err := a.o.Cluster.Review(ctx, token, a.audiences()...)
	switch {
	case err != nil:
		return user, &problem{code: http.StatusBadGateway, message: err.Error()}
	case !ok:
		a.gate.knownTokens.remove(token)
		return user, &problem{code: http.StatusUnauthorized, message: fmt.Sprintf("the cluster does not know this token for the audience %s", v2.AudienceOf(a.o.Node))}
	}
	a.gate.knownTokens.add(token)
	return user, nil
}

// audiences returns the accepted audiences of tokens of the cluster.
func (a *API) audiences() []string {
	all := []string{v2.AudienceOf(a.o.Node)}
	if a.o.SharedAudience {
		all = append(all, v2.Audience)
	}
	return all
}

// authorize refuses a caller that may not act on a pod, on the pods of a namespace, or on all pods.
func (a *API) authorize(ctx context.Context, w caller, verb string, pod types.NamespacedName) *problem {
	if w.owner {
		return nil
	}
	allowed, err := a.o.Cluster.May(ctx, w.user, verb, pod)
	switch {
	case err != nil:
		return &problem{code: http.StatusBadGateway, message: err.Error()}
	case !allowed:
		return &problem{code: http.StatusForbidden, message: fmt.Sprintf("%s may not %s pods in the namespace %s", w.user.Username, verb, pod.Namespace)}
	}
	return nil
}

// bearer returns the token in an Authorization header.
func bearer(header string) (token string, ok bool) {
	kind, token, _ := strings.Cut(header, " ")
	token = strings.TrimSpace(token)
	return token, strings.EqualFold(kind, "Bearer") && token != ""
}

// equalTokens compares in constant time, whatever the lengths.
func equalTokens(a, b string) bool {
	left, right := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(left[:], right[:]) == 1
}
