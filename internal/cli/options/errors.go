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

// Exit codes.
const (
	ExitOK         = 0
	ExitError      = 1 // an error
	ExitUsage      = 2 // wrong usage
	ExitUnfinished = 3 // the rollout has failed, or has not finished in time
	ExitStale      = 4 // the plan is no longer valid
)

// ExitText explains the codes, for --help.
const ExitText = `Exit codes: 0 done, 1 error, 2 wrong usage, 3 the rollout is not finished or has failed, 4 the plan is no longer valid.`

// Exit is an error with an exit code.
type Exit struct {
	Code int
	Err  error
}

// Error implements error.
func (e *Exit) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Exit) Unwrap() error { return e.Err }

// Usagef returns an error of the command line.
func Usagef(format string, args ...any) error {
	return &Exit{Code: ExitUsage, Err: fmt.Errorf(format, args...)}
}

// Code returns the exit code for err.
func Code(err error) int {
	if err == nil {
		return ExitOK
	}
	if exit := (*Exit)(nil); errors.As(err, &exit) {
		return exit.Code
	}
	return ExitError
}

// Request describes a request to the API server, for errors.
type Request struct {
	Verb      string
	Resource  schema.GroupResource
	Namespace string // empty for all
	Name      string
}

// Explain adds the request to an error. If a right is missing, it names the right.
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
		return &Advice{
			Err:   fmt.Errorf("%s %s: %w", r.Verb, r.what(), err),
			Shell: "there is no API server: name another cluster with --context or --kubeconfig, or set KUBECONFIG",
			Page:  "the API server does not answer; the page tries again",
		}
	case webhookFailed(err):
		return fmt.Errorf("%s %s: %w (see `%s doctor`)", r.Verb, r.what(), err, Program)
	default:
		return fmt.Errorf("%s %s: %w", r.Verb, r.what(), err)
	}
}

// Advice is an error with what a user can do about it: in a shell, and on a page, which has no flags.
type Advice struct {
	Err         error
	Shell, Page string
}

// Error implements error, for a shell.
func (a *Advice) Error() string { return a.Err.Error() + " (" + a.Shell + ")" }

// Unwrap returns the cause.
func (a *Advice) Unwrap() error { return a.Err }

// PageText is the text of an error for a page.
func PageText(err error) string {
	text := err.Error()
	if a := (*Advice)(nil); errors.As(err, &a) {
		text = strings.Replace(text, a.Error(), a.Err.Error()+" ("+a.Page+")", 1)
	}
	return text
}

// deniedRight is in the API server's message about a missing right: User "jane" cannot patch resource "daemonsets".
// Rejections by a policy, a quota or a webhook are forbidden too, and differ only in the message.
const deniedRight = `" cannot %s resource "`

// lacking returns the error for a missing right.
func lacking(err error, r Request) error {
	return fmt.Errorf("you are not allowed to %s %s: ask for the verb %q on %q%s, and see whether you have it with: %s (%w)",
		r.Verb, r.what(), r.Verb, r.Resource.String(), r.role(), r.canI(), err)
}

// isWrite reports whether a policy may reject the request.
func (r Request) isWrite() bool { return r.Verb != "get" && r.Verb != "list" && r.Verb != "watch" }

// webhookFailed reports whether the API server could not call a webhook. Only the message shows that: all internal errors have the same type.
func webhookFailed(err error) bool {
	return apierrors.IsInternalError(err) && strings.Contains(err.Error(), "failed calling webhook")
}

// what describes the object of the request: "pods in namespace default", "nodes", "deployments.apps
// everynode-system/x".
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

// Viewer is the ClusterRole with the right to read nodes. It must be bound to users explicitly.
const Viewer = "everynode-viewer"

// role returns the role with the right, if the usual roles of users do not have it.
func (r Request) role() string {
	if (r.Resource != schema.GroupResource{Resource: "nodes"}) {
		return ""
	}
	return " (view, edit and admin have no right to nodes: ask for a ClusterRoleBinding to " + Viewer + ")"
}

// canI returns the command that checks the right.
func (r Request) canI() string {
	text := fmt.Sprintf("kubectl auth can-i %s %s", r.Verb, r.Resource.String())
	if r.Namespace != "" {
		return text + " -n " + r.Namespace
	}
	return text + " --all-namespaces"
}
