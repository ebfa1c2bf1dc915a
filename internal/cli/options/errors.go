// SPDX-License-Identifier: Apache-2.0

package options

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// What the program returns to the shell.
const (
	ExitOK         = 0
	ExitError      = 1 // something went wrong
	ExitUsage      = 2 // the command line makes no sense
	ExitUnfinished = 3 // the rollout has failed, or has not finished in time
	ExitStale      = 4 // the plan does not hold any more
)

// ExitText says what the codes mean, for --help.
const ExitText = `Exit codes: 0 done, 1 error, 2 wrong usage, 3 the rollout is not finished or has failed, 4 the plan is no longer valid.`

// Exit is an error that says what the program returns to the shell.
type Exit struct {
	Code int
	Err  error
}

// Error implements error.
func (e *Exit) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong.
func (e *Exit) Unwrap() error { return e.Err }

// Usagef is an error of the command line.
func Usagef(format string, args ...any) error {
	return &Exit{Code: ExitUsage, Err: fmt.Errorf(format, args...)}
}

// Code is what the program returns to the shell for err.
func Code(err error) int {
	if err == nil {
		return ExitOK
	}
	if exit := (*Exit)(nil); errors.As(err, &exit) {
		return exit.Code
	}
	return ExitError
}

// Request is what was asked of the API server.
type Request struct {
	Verb      string
	Resource  schema.GroupResource
	Namespace string // empty for all
	Name      string
}

// Explain says of the failure of a request what was asked, and where a right is missing which one.
func Explain(err error, r Request) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err) && r.isWrite() && !strings.Contains(err.Error(), fmt.Sprintf(deniedRight, r.Verb)):
		return fmt.Errorf("the API server refuses to %s %s: %w", r.Verb, r.what(), err)
	case apierrors.IsForbidden(err):
		return lacking(err, r)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the cluster rejects your credentials: log in again, or use another user with --user or --context (%w)", err)
	case utilnet.IsConnectionRefused(err):
		return fmt.Errorf("%s %s: %w (there is no API server: name another cluster with --context or --kubeconfig, or set KUBECONFIG)", r.Verb, r.what(), err)
	case webhookFailed(err):
		return fmt.Errorf("%s %s: %w (see `%s doctor`)", r.Verb, r.what(), err, Program)
	default:
		return fmt.Errorf("%s %s: %w", r.Verb, r.what(), err)
	}
}

// deniedRight is in the text of the API server about a right that is missing: User "jane" cannot patch resource "daemonsets". What a policy, a quota or a
// webhook refuses is forbidden as well, and only its text tells that it is something else.
const deniedRight = `" cannot %s resource "`

// lacking names the right that is missing.
func lacking(err error, r Request) error {
	return fmt.Errorf("you are not allowed to %s %s: ask for the verb %q on %q%s, and see whether you have it with: %s (%w)",
		r.Verb, r.what(), r.Verb, r.Resource.String(), r.role(), r.canI(), err)
}

// isWrite is whether a policy may have something against it.
func (r Request) isWrite() bool { return r.Verb != "get" && r.Verb != "list" && r.Verb != "watch" }

// webhookFailed is whether the API server could not ask a webhook. It says so in its text alone: the type is that of everything that fails inside of it.
func webhookFailed(err error) bool {
	return apierrors.IsInternalError(err) && strings.Contains(err.Error(), "failed calling webhook")
}

// what names what the request is about: "pods in namespace default", "nodes", "deployments.apps everynode-system/x".
func (r Request) what() string {
	text := r.Resource.String()
	switch {
	case r.Name != "" && r.Namespace != "":
		return text + " " + r.Namespace + "/" + r.Name
	case r.Name != "":
		return text + " " + r.Name
	case r.Namespace != "":
		return text + " in namespace " + r.Namespace
	default:
		return text
	}
}

// Viewer is the ClusterRole that lets people see nodes; nobody has it who was not given it.
const Viewer = "everynode-viewer"

// role names the role that has the right, where those do not have it that people are given usually.
func (r Request) role() string {
	if (r.Resource != schema.GroupResource{Resource: "nodes"}) {
		return ""
	}
	return " (view, edit and admin have no right to nodes: ask for a ClusterRoleBinding to " + Viewer + ")"
}

// canI is the command that tells whether the right is there.
func (r Request) canI() string {
	text := fmt.Sprintf("kubectl auth can-i %s %s", r.Verb, r.Resource.String())
	if r.Namespace != "" {
		return text + " -n " + r.Namespace
	}
	return text + " --all-namespaces"
}
