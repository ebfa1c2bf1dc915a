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

	"everynode.dev/everynode/internal/rights"
)

// Asked is what a program has asked of the API server, as that has it in its audit log.
type Asked struct {
	Calls map[rights.Call]bool
	// Refused is what it never had a right to, and what the API server said.
	Refused map[rights.Call]string
	// Others are paths of requests that are about no resource.
	Others []string
}

// AskedBy reads from an audit log what a user has asked. What a test has asked in the name of that user is left out: it uses no right of the program,
// and what it may not do is meant to be refused. So is what was refused once and allowed at another time: an API server that has just begun answers
// before it knows the roles.
func AskedBy(log, user string) (Asked, error) {
	file, err := os.Open(log)
	if err != nil {
		return Asked{}, fmt.Errorf("opening the audit log: %w", err)
	}
	defer file.Close()
	asked := Asked{Calls: map[rights.Call]bool{}, Refused: map[rights.Call]string{}}
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil { // the last line may be in the middle of being written
			maps.DeleteFunc(asked.Refused, func(c rights.Call, _ string) bool { return asked.Calls[c] })
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
	c := rights.Call{Verb: e.Verb, Group: e.ObjectRef.APIGroup, Resource: e.ObjectRef.Resource, Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name}
	if e.ObjectRef.Subresource != "" {
		c.Resource += "/" + e.ObjectRef.Subresource
	}
	if e.ResponseStatus != nil && e.ResponseStatus.Code == http.StatusForbidden && strings.Contains(e.ResponseStatus.Message, "cannot "+e.Verb+" resource") {
		a.Refused[c] = e.ResponseStatus.Message
		return
	}
	a.Calls[c] = true
}

// CheckRights compares what a program has asked with its roles: whatever it asked some role allows, and no role is without need. Whether every right
// was used is only looked at when all was played that uses them.
func CheckRights(program string, asked Asked, all bool) error {
	roles := slices.DeleteFunc(rights.Roles(), func(r rights.Role) bool { return r.Program != program })
	errs := []error{CheckRoles(program, asked, roles)}
	if all {
		for i := range roles {
			errs = append(errs, unused(&roles[i], asked)...)
		}
	}
	return errors.Join(errs...)
}

// CheckRoles is whether one of these roles allows whatever a program has asked.
func CheckRoles(program string, asked Asked, roles []rights.Role) error {
	var errs []error
	for call, said := range asked.Refused {
		errs = append(errs, fmt.Errorf("%s has no right to what it asks: %+v: %s", program, call, said))
	}
	for call := range asked.Calls {
		if !slices.ContainsFunc(roles, func(r rights.Role) bool { return r.Allows(call) }) {
			errs = append(errs, fmt.Errorf("%s asks what none of its roles allows: %+v", program, call))
		}
	}
	for _, path := range asked.Others {
		// What every user may ask for, by the roles system:discovery and system:public-info-viewer.
		if !slices.ContainsFunc([]string{"/api", "/openapi", "/version", "/readyz"}, func(known string) bool { return strings.HasPrefix(path, known) }) {
			errs = append(errs, fmt.Errorf("%s asks for %s", program, path))
		}
	}
	if len(asked.Calls) == 0 {
		errs = append(errs, fmt.Errorf("%s has asked nothing: is its user in the audit policy?", program))
	}
	return errors.Join(errs...)
}

// unused are the rights of a role that nobody has used, and those that somebody has, though the table says that nobody does.
func unused(role *rights.Role, asked Asked) (errs []error) {
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
					errs = append(errs, fmt.Errorf("the role %s allows to %s, and nobody has: take it away, or say in internal/rights why it is not seen", role.Name, what))
				case seen && unseen && role.BoundBy == "": // what allows one that nobody is bound to, another one may allow too
					errs = append(errs, fmt.Errorf("somebody has asked to %s, which internal/rights says of the role %s that nobody does: take it out of Unseen", what, role.Name))
				}
			}
		}
	}
	return errs
}

// right is one verb of a rule, about one name or any, in one namespace or all.
type right struct {
	namespace  string
	rule       *rights.Rule
	verb, name string
}

// any is whether somebody has used a right.
func (a *Asked) any(r right) bool {
	for c := range a.Calls {
		if c.Verb == r.verb && c.Group == r.rule.Group && c.Resource == r.rule.Resource &&
			(r.name == "" || r.name == c.Name) && (r.namespace == "" || r.namespace == c.Namespace) {
			return true
		}
	}
	return false
}
