// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"everynode.dev/everynode/internal/apply"
)

// meaning is what an answer says of a write, for the judge: found out without the code that ships, whose mistakes the judge would share. In this simulation an answer
// leaves open whether the write took effect if time is up, or if the API server has an internal error that is not one of a webhook.
func meaning(verb string, err error) apply.Answer {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return apply.Done
	case !errors.As(err, &status):
		return apply.Unclear
	}
	s, create := status.Status(), verb == "create"
	switch {
	case strings.Contains(s.Message, "webhook"):
		return apply.Refused
	case s.Code == http.StatusInternalServerError, s.Code == http.StatusGatewayTimeout:
		return apply.Unclear
	case s.Code == http.StatusTooManyRequests && s.Details != nil && s.Details.RetryAfterSeconds > 0:
		return apply.Busy
	case create && apierrors.IsAlreadyExists(err):
		return apply.Exists
	case create && apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return apply.Ended
	case !create && s.Code == http.StatusNotFound:
		return apply.Gone
	case !create && s.Code == http.StatusConflict:
		return apply.Differs
	default:
		return apply.Refused
	}
}

// TestMeaning: the judge and the code that ships read the answers of this simulation alike.
func TestMeaning(t *testing.T) {
	for _, verb := range policyVerbs() {
		r, read := &request{write: true, ofPod: true, action: action{verb: verb}}, apply.OfDelete
		if verb == "create" {
			read = apply.OfCreate
		}
		for _, f := range slices.Concat(refusals(r), policyAnswers(), codeAnswers(), []refusal{
			{"done", nil}, {"time is up", errTimeout()}, {"the namespace ends", errEnding()}, {"used", apierrors.NewAlreadyExists(podResource("pods"), "")},
		}) {
			if verb != "create" && apierrors.IsAlreadyExists(f.err) {
				continue
			}
			if got, want := meaning(verb, f.err), read(f.err); got != want {
				t.Errorf("%s: %s means %v, for the code that ships %v", verb, f.what, got, want)
			}
		}
	}
}
