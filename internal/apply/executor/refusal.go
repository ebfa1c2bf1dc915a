// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"fmt"
	"strings"
)

// Refusal is a definite no to the creation of a pod.
type Refusal struct {
	node, pod string
	err       error
}

// Error implements error.
func (r *Refusal) Error() string { return fmt.Sprintf("creating a pod for node %s: %v", r.node, r.err) }

// Unwrap is the answer of the API server.
func (r *Refusal) Unwrap() error { return r.err }

// Reason is the same for all pods of a set that are refused for one cause, such as a quota.
func (r *Refusal) Reason() string {
	return "creating a pod: " + strings.NewReplacer(r.pod, "<pod>", r.node, "<node>").Replace(r.err.Error())
}
