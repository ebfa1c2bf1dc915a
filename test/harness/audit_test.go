// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"everynode.dev/everynode/internal/rbac"
)

// A right that nobody uses is an error, and so is an exception from that which has come to its end.
func TestExceptionsExpire(t *testing.T) {
	asked := func(verbs ...string) Asked {
		a := Asked{Calls: map[rbac.Call]bool{}}
		for _, verb := range verbs {
			a.Calls[rbac.Call{Verb: verb, Group: "g", Resource: "things", Name: "one"}] = true
		}
		return a
	}
	role := rbac.Role{Name: "role", Rules: []rbac.Rule{{
		Group: "g", Resource: "things", Verbs: []string{"get", "list", "watch"}, Unseen: []string{"list"}, Rare: []string{"watch"},
	}}}
	unbound := role
	unbound.BoundBy = "somebody"
	for _, c := range []struct {
		name  string
		role  rbac.Role
		asked Asked
		want  []string // one of each error
	}{
		{"as it is told", role, asked("get"), nil},
		{"what is rare, too", role, asked("get", "watch"), nil},
		{"nothing", role, asked(), []string{"allows to get things.g"}},
		{"all", role, asked("get", "list", "watch"), []string{"asked to list things.g"}},
		{"all, and another role allows it", unbound, asked("get", "list", "watch"), nil},
	} {
		errs := unused(&c.role, c.asked)
		if len(errs) != len(c.want) {
			t.Errorf("%s: %v", c.name, errs)
			continue
		}
		for i, want := range c.want {
			if !strings.Contains(errs[i].Error(), want) {
				t.Errorf("%s: %v, want %s", c.name, errs[i], want)
			}
		}
	}
}

// TestAskedBy: what a program was refused is told, but not what it was allowed at another time, nor what a test was refused in its name.
func TestAskedBy(t *testing.T) {
	const refused = `{"code":403,"message":"things is forbidden: User \"u\" cannot list resource \"things\""}`
	line := func(user, agent, verb, status string) string {
		return fmt.Sprintf(`{"verb":%q,"user":{"username":%q},"userAgent":%q,"objectRef":{"resource":"things","namespace":"ns"},"responseStatus":%s}`+"\n",
			verb, user, agent, status)
	}
	log := filepath.Join(t.TempDir(), "audit.log")
	text := line("u", "program", "get", `{"code":200}`) + line("u", "program", "list", refused) + line("u", UserAgent, "list", refused) +
		line("u", "program", "get", strings.ReplaceAll(refused, "list", "get")) +
		line("u", UserAgent, "delete", `{"code":200}`) + line("other", "program", "watch", `{"code":200}`) + `{"verb":"cre`
	if err := os.WriteFile(log, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	asked, err := AskedBy(log, "u")
	if err != nil {
		t.Fatal(err)
	}
	if want := (rbac.Call{Verb: "get", Resource: "things", Namespace: "ns"}); len(asked.Calls) != 1 || !asked.Calls[want] {
		t.Errorf("asked %v", asked.Calls)
	}
	if list := (rbac.Call{Verb: "list", Resource: "things", Namespace: "ns"}); len(asked.Refused) != 1 || asked.Refused[list] == "" {
		t.Errorf("refused %q", asked.Refused)
	}
	if err := CheckRoles("program", asked, []rbac.Role{{Rules: []rbac.Rule{{Resource: "things", Verbs: []string{"get"}}}}}); err == nil ||
		!strings.Contains(err.Error(), "has no right to what it asks") {
		t.Errorf("what was refused is no error: %v", err)
	}
}
