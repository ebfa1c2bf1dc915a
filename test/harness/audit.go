// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
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
	// Refused are the requests that it had no right to.
	Refused []string
	// Others are paths of requests that are about no resource.
	Others []string
}

// AskedBy reads from an audit log what a user has asked.
func AskedBy(log, user string) (Asked, error) {
	file, err := os.Open(log)
	if err != nil {
		return Asked{}, fmt.Errorf("opening the audit log: %w", err)
	}
	defer file.Close()
	asked := Asked{Calls: map[rights.Call]bool{}}
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil { // the last line may be in the middle of being written
			return asked, nil //nolint:nilerr // the end of the file
		}
		var e auditv1.Event
		if err := json.Unmarshal(line, &e); err != nil {
			return asked, fmt.Errorf("reading the audit log: %w", err)
		}
		if e.User.Username == user {
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
		a.Refused = append(a.Refused, fmt.Sprintf("%+v: %s", c, e.ResponseStatus.Message))
		return
	}
	a.Calls[c] = true
}

// CheckRights compares what a program has asked with its roles: whatever it asked some role allows, and no role is without need. Whether every right
// was used is only looked at when all was played that uses them.
func CheckRights(program string, asked Asked, all bool) error {
	var errs []error
	for _, refused := range asked.Refused {
		errs = append(errs, fmt.Errorf("%s has no right to what it asks: %s", program, refused))
	}
	roles := slices.DeleteFunc(rights.Roles(), func(r rights.Role) bool { return r.Program != program })
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
	if all {
		for i := range roles {
			errs = append(errs, unused(&roles[i], asked)...)
		}
	}
	return errors.Join(errs...)
}

// unused are the rights of a role that nobody has used.
func unused(role *rights.Role, asked Asked) (errs []error) {
	for _, rule := range role.Rules {
		names := rule.Names
		if len(names) == 0 {
			names = []string{""}
		}
		for _, verb := range rule.Verbs {
			for _, name := range names {
				used := false
				for c := range asked.Calls {
					used = used || c.Verb == verb && c.Group == rule.Group && c.Resource == rule.Resource &&
						(name == "" || name == c.Name) && (role.Namespace == "" || role.Namespace == c.Namespace)
				}
				if !used && !slices.Contains(rule.Unseen, verb) {
					errs = append(errs, fmt.Errorf("the role %s allows to %s %s.%s %s, and nobody has: take it away, or say in internal/rights why it is not seen",
						role.Name, verb, rule.Resource, rule.Group, name))
				}
			}
		}
	}
	return errs
}
