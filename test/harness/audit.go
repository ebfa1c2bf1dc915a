// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"everynode.dev/everynode/internal/dialects"
	"everynode.dev/everynode/internal/rbac"
)

// Asked is what a program has requested from the API server, according to the audit log.
type Asked struct {
	Calls map[rbac.Call]bool
	// Refused are the calls for which it never had a right, with the message of the API server.
	Refused map[rbac.Call]string
	// Others are paths of requests that are not for resources.
	Others []string
}

// AskedBy reads the requests of a user from an audit log. It ignores what a test has requested by impersonation: this
// uses no right of the program, and may be meant to be rejected. It also ignores a call that was rejected once and
// allowed at another time: an API server that has just started responds before it has read the roles.
func AskedBy(log, user string) (Asked, error) {
	file, err := os.Open(log)
	if err != nil {
		return Asked{}, fmt.Errorf("opening the audit log: %w", err)
	}
	defer file.Close()
	asked := Asked{Calls: map[rbac.Call]bool{}, Refused: map[rbac.Call]string{}}
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil { // the last line may be incomplete
			maps.DeleteFunc(asked.Refused, func(c rbac.Call, _ string) bool { return asked.Calls[c] })
			return asked, nil //nolint:nilerr // the end of the file
		}
		var e auditv1.Event
		if err := json.Unmarshal(line, &e); err != nil {
			return asked, fmt.Errorf("reading the audit log: %w", err)
		}
		if e.User.Username == user && e.UserAgent != UserAgent {
			asked.add(&e)
		}
	}
}

func (a *Asked) add(e *auditv1.Event) {
	if e.ObjectRef == nil {
		a.Others = append(a.Others, e.RequestURI)
		return
	}
	c := rbac.Call{Verb: e.Verb, Group: e.ObjectRef.APIGroup, Resource: e.ObjectRef.Resource, Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name}
	if e.ObjectRef.Subresource != "" {
		c.Resource += "/" + e.ObjectRef.Subresource
	}
	if e.ResponseStatus != nil && e.ResponseStatus.Code == http.StatusForbidden && strings.Contains(e.ResponseStatus.Message, "cannot "+e.Verb+" resource") {
		a.Refused[c] = e.ResponseStatus.Message
		return
	}
	a.Calls[c] = true
}

// CheckRights compares the requests of a program with its roles: each request must be allowed by a role, and no role
// may be unnecessary. Unused rights are reported only if all tests that use them were run.
func CheckRights(program string, asked Asked, all bool) error {
	roles := slices.DeleteFunc(dialects.Roles(), func(r rbac.Role) bool { return r.Program != program })
	errs := []error{CheckRoles(program, asked, roles)}
	if all {
		for i := range roles {
			errs = append(errs, unused(&roles[i], asked)...)
		}
	}
	return errors.Join(errs...)
}

// CheckRoles checks that one of these roles allows each request of a program.
func CheckRoles(program string, asked Asked, roles []rbac.Role) error {
	var errs []error
	for call, said := range asked.Refused {
		errs = append(errs, fmt.Errorf("%s has no right to what it asks: %+v: %s", program, call, said))
	}
	for call := range asked.Calls {
		if !slices.ContainsFunc(roles, func(r rbac.Role) bool { return r.Allows(call) }) {
			errs = append(errs, fmt.Errorf("%s asks what none of its roles allows: %+v", program, call))
		}
	}
	for _, path := range asked.Others {
		// Every user may request these paths, by the roles system:discovery and system:public-info-viewer.
		if !slices.ContainsFunc([]string{"/api", "/openapi", "/version", "/readyz"}, func(known string) bool { return strings.HasPrefix(path, known) }) {
			errs = append(errs, fmt.Errorf("%s asks for %s", program, path))
		}
	}
	if len(asked.Calls) == 0 {
		errs = append(errs, fmt.Errorf("%s has asked nothing: is its user in the audit policy?", program))
	}
	return errors.Join(errs...)
}

// unused returns the rights of a role that were not used, and those that were used although the table marks them as
// unseen.
func unused(role *rbac.Role, asked Asked) (errs []error) {
	for _, rule := range role.Rules {
		names := rule.Names
		if len(names) == 0 {
			names = []string{""}
		}
		for _, verb := range rule.Verbs {
			for _, name := range names {
				what := fmt.Sprintf("%s %s.%s %s", verb, rule.Resource, rule.Group, name)
				switch seen, unseen := asked.any(right{role.Namespace, &rule, verb, name}), slices.Contains(rule.Unseen, verb); {
				case !seen && !unseen && !slices.Contains(rule.Rare, verb):
					errs = append(errs, fmt.Errorf("the role %s allows to %s, and nobody has: remove it, or explain in internal/rbac why it is not used", role.Name, what))
				case seen && unseen && role.BoundBy == "": // a right in a role without binding may be allowed by another role too
					errs = append(errs, fmt.Errorf("somebody has asked to %s, which internal/rbac says of the role %s that nobody does: take it out of Unseen", what, role.Name))
				}
			}
		}
	}
	return errs
}

// right is one verb of a rule, for one name or any, in one namespace or all.
type right struct {
	namespace  string
	rule       *rbac.Rule
	verb, name string
}

// any reports whether a right was used.
func (a *Asked) any(r right) bool {
	for c := range a.Calls {
		if c.Verb == r.verb && c.Group == r.rule.Group && c.Resource == r.rule.Resource &&
			(r.name == "" || r.name == c.Name) && (r.namespace == "" || r.namespace == c.Namespace) {
			return true
		}
	}
	return false
}
