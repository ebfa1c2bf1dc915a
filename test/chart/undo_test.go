// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"strings"
	"testing"
)

// TestUndoNamespaces: the right to patch DaemonSets is given in the named namespaces only, and not without them.
func TestUndoNamespaces(t *testing.T) {
	const binding = "/everynode-manager-undo"
	all := release{values: "dialects: [policy]\nmanager: {undoNamespaces: [one, two]}"}.objects(t)
	for _, object := range []string{"RoleBinding/one" + binding, "RoleBinding/two" + binding} {
		if got := field(t, one(t, all, object), "roleRef.name") + field(t, one(t, all, object), "subjects.0.namespace"); got != `"everynode-manager-undo""everynode-system"` {
			t.Errorf("%s: %s", object, got)
		}
	}
	if got := field(t, one(t, all, "ClusterRole"+binding), "rules"); got != `[{"apiGroups":["apps"],"resources":["daemonsets"],"verbs":["patch"]}]` {
		t.Errorf("the role is %s", got)
	}
	for name := range (release{values: "dialects: [policy]"}).objects(t) {
		if strings.Contains(name, "Binding") && strings.HasSuffix(name, binding) {
			t.Errorf("%s is there without the value", name)
		}
	}
	if _, err := (release{values: "manager: {undoNamespaces: [one]}"}).texts(t); err == nil || !strings.Contains(err.Error(), "needs the dialect policy") {
		t.Errorf("without the dialect: %v", err)
	}
}
