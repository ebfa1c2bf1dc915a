// SPDX-License-Identifier: Apache-2.0

package component

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// TestAudit: only who asks for an audit log has one, and the policy says what was asked for.
func TestAudit(t *testing.T) {
	in := testInputs(t)
	policy := func() (auditv1.Policy, bool) {
		t.Helper()
		if err := IssueCredentials(in); err != nil {
			t.Fatal(err)
		}
		var p auditv1.Policy
		raw, err := os.ReadFile(in.auditPolicyFile())
		if err == nil {
			err = json.Unmarshal(raw, &p)
		}
		audits := slices.ContainsFunc(named(t, All(in), APIServer).Args, func(arg string) bool { return strings.HasPrefix(arg, "--audit") })
		if audits != (err == nil) {
			t.Errorf("there is a log: %v; its policy: %v", audits, err)
		}
		return p, audits
	}
	if _, audits := policy(); audits {
		t.Error("there is an audit log that nobody has asked for")
	}
	in.Audit = []string{"somebody"}
	if p, _ := policy(); len(p.Rules) != 2 || !slices.Equal(p.Rules[0].Users, in.Audit) || p.Rules[1].Level != auditv1.LevelNone {
		t.Errorf("the rules are %+v", p.Rules)
	}
	in.AuditWrites = true
	p, _ := policy()
	deletes := func(r auditv1.PolicyRule) bool {
		return r.Level == auditv1.LevelRequest && slices.Contains(r.Verbs, "delete")
	}
	if !slices.ContainsFunc(p.Rules, deletes) || p.Rules[len(p.Rules)-1].Level != auditv1.LevelNone {
		t.Errorf("the rules are %+v", p.Rules)
	}
}

// TestManagersAreDistinguished: each has a certificate of its own, in which a group names it.
func TestManagersAreDistinguished(t *testing.T) {
	in := testInputs(t)
	users := clients(in)
	for _, name := range []string{Manager, Manager + "-2"} {
		user := users[name]
		if user.Name != managerUser || !slices.Contains(user.Groups, "localplane:"+name) {
			t.Errorf("%s is %+v", name, user)
		}
		if args := named(t, All(in), name).Args; !slices.Contains(args, "--kubeconfig="+in.KubeconfigFile(name)) {
			t.Errorf("%s does not use its own kubeconfig: %v", name, args)
		}
	}
	if _, more := users[Manager+"-3"]; more {
		t.Error("there is a user of a manager that does not exist")
	}
}
