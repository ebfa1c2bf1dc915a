// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"everynode.dev/everynode/internal/rbac"
)

// TestCheckLogs: what a program is refused is an error where its roles do not allow it, and only there.
func TestCheckLogs(t *testing.T) {
	manager, agent := rbac.User(rbac.Manager), rbac.User(rbac.Agent)
	// As client-go logs it.
	failed := func(user, what, where string) string {
		return `E1122 19:59:22.224120 1242 reflector.go:194] "Failed to watch" err="failed to list *v1.X: x is forbidden: User \"` + user +
			`\" cannot ` + what + where + `" type="*v1.X"`
	}
	const everywhere, inTeam = ` at the cluster scope`, ` in the namespace \"team\"`
	for name, c := range map[string]struct{ line, want string }{
		"nothing": {`I1122 19:59:22.224120 1242 x.go:1] "A pod cannot be created"`, ""},
		"what its roles allow": {
			failed(manager, `list resource \"pods\" in API group \"\"`, everywhere), "",
		},
		"a verb that they do not allow": {
			failed(manager, `list resource \"secrets\" in API group \"\"`, everywhere), "manager.log: " + manager + " was refused what none of its roles allows: {Verb:list Group: Resource:secrets",
		},
		"another group": {
			failed(manager, `list resource \"pods\" in API group \"apps\"`, inTeam), "{Verb:list Group:apps Resource:pods Namespace:team Name:}",
		},
		"a subresource": {failed(manager, `patch resource \"nodes/status\" in API group \"\"`, everywhere), "Resource:nodes/status"},
		"what the roles of another program allow": {
			failed(agent, `create resource \"pods\" in API group \"\"`, inTeam), agent + " was refused",
		},
		"a program that nobody knows": {
			failed("system:serviceaccount:everynode-system:other", `list resource \"pods\" in API group \"\"`, everywhere), "everynode-system:other was refused",
		},
		"somebody else": {failed("system:serviceaccount:team:app", `list resource \"secrets\" in API group \"\"`, everywhere), ""},
		"a name that they allow": {
			`error: secrets "everynode-webhook-certs" is forbidden: User "` + manager + `" cannot update resource "secrets" in API group "" in the namespace "everynode-system"`, "",
		},
		"a name that they do not allow": {
			`error: secrets "other" is forbidden: User "` + manager + `" cannot update resource "secrets" in API group "" in the namespace "everynode-system"`,
			"{Verb:update Group: Resource:secrets Namespace:everynode-system Name:other}",
		},
		"such a name in quotes": {
			`err="secrets \"other\" is forbidden: User \"` + manager + `\" cannot update resource \"secrets\" in API group \"\" in the namespace \"everynode-system\""`,
			"{Verb:update Group: Resource:secrets Namespace:everynode-system Name:other}",
		},
		"what a policy refuses": {`nodeimages "a" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: it cannot be`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for where, path := range map[string]string{
				"manager.log": "logs/manager.log", "0.log": "real/real-1/log/pods/everynode-system_manager_1/manager/0.log",
			} {
				err := CheckLogs(plane(t, path, "first\n"+c.line+"\n"+c.line))
				if want := strings.ReplaceAll(c.want, "manager.log", where); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
					t.Errorf("%s: %v, want %q", path, err, want)
				}
				if err != nil && strings.Count(err.Error(), "was refused") != 1 {
					t.Errorf("%s: the same is said twice: %v", path, err)
				}
			}
		})
	}
	if err := CheckLogs(t.TempDir()); err == nil || !strings.Contains(err.Error(), "has no logs") {
		t.Errorf("no logs at all: %v", err)
	}
	tests := failed(manager, `list resource \"secrets\" in API group \"\"`, everywhere)
	if err := CheckLogs(plane(t, "logs/kube-apiserver.log", tests)); err != nil {
		t.Errorf("what a test was refused: %v", err)
	}
}

// plane is the directory of one that has logged something.
func plane(t *testing.T, path, text string) string {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}
