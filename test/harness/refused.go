// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"everynode.dev/everynode/internal/dialects"
	"everynode.dev/everynode/internal/rbac"
)

// CheckLogs returns an error if a manager or an agent of a plane has logged that the API server denied it a call that
// none of the roles in its manifests allows. A denied call that they allow is ignored: an API server that has just
// started responds before it has read the roles, and a test may remove some. dir is the directory of the plane, which
// may have stopped.
func CheckLogs(dir string) error {
	var logs []string
	for _, pattern := range []string{
		filepath.Join("logs", "*.log"),                           // managers, and the simulated nodes with their agents
		filepath.Join("real", "*", "log", "pods", "*", "*", "*"), // containers on real nodes
	} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return fmt.Errorf("looking for logs in %s: %w", dir, err)
		}
		logs = append(logs, found...)
	}
	if len(logs) == 0 {
		return fmt.Errorf("the plane in %s has no logs, so nobody knows what was refused to it", dir)
	}
	var errs []error
	for _, log := range logs {
		if filepath.Base(log) == "kube-apiserver.log" { // it also has denied calls of tests that impersonate users
			continue
		}
		errs = append(errs, checkLog(log))
	}
	return errors.Join(errs...)
}

func checkLog(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("opening a log: %w", err)
	}
	defer file.Close()
	var errs []error
	said := map[refusal]bool{}
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadString('\n')
		for _, r := range refusals(line) {
			if !said[r] && !r.isShipped() {
				errs = append(errs, fmt.Errorf("%s: %s was refused what none of its roles allows: %+v", filepath.Base(path), r.user, r.call))
			}
			said[r] = true
		}
		switch {
		case errors.Is(err, io.EOF):
			return errors.Join(errs...)
		case err != nil:
			return fmt.Errorf("reading a log: %w", err)
		}
	}
}

// refusal is a call that the API server has denied because no role of the user allows it.
type refusal struct {
	user string
	call rbac.Call
}

// isShipped reports whether a role in the manifests of the program allows it.
func (r refusal) isShipped() bool {
	return slices.ContainsFunc(dialects.Roles(), func(role rbac.Role) bool { return rbac.User(role.Program) == r.user && role.Allows(r.call) })
}

// refused is the message of the API server, with or without the quotes of a log:
//
//	secrets "s" is forbidden: User "u" cannot get resource "secrets" in API group "" in the namespace "n"
var refused = regexp.MustCompile(strings.ReplaceAll(
	`(?:"([^"]*)" )?is forbidden: User "(system:serviceaccount:everynode-[^"]*)" cannot (\S+) resource "([^"]*)" in API group "([^"]*)"(?: in the namespace "([^"]*)")?`,
	`"`, `\\*"`))

// refusals returns those in a line of a log.
func refusals(line string) []refusal {
	if !strings.Contains(line, " cannot ") { // for speed: most lines do not match
		return nil
	}
	var all []refusal
	for _, m := range refused.FindAllStringSubmatch(line, -1) {
		for i := range m {
			m[i] = strings.TrimRight(m[i], `\`)
		}
		all = append(all, refusal{user: m[2], call: rbac.Call{Verb: m[3], Group: m[5], Resource: m[4], Namespace: m[6], Name: m[1]}})
	}
	return all
}
