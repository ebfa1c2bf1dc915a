// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/test/harness"
)

// rightToApprove is the only right of the user approver.
const rightToApprove = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: approver}
rules: [{apiGroups: [everynode.dev], resources: [rolloutapprovals], verbs: [create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: approver}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: approver}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: approver}]
`

// approve creates an approval of the canary as a user.
func (s *stage) approve(user string) error {
	s.t.Helper()
	manifest := fmt.Sprintf("apiVersion: everynode.dev/v1alpha1\nkind: RolloutApproval\nmetadata: {generateName: canary-}\n"+
		"spec: {policy: %s, set: %s, wave: canary, revision: %s, decision: Approve, by: %s}", agents, set, s.status().TargetRevision, user)
	out, err := s.KubectlWith(manifest, "create", "--as", user, "-f", "-")
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// TestApprovalWithheld: without an approval nothing moves for a minute, and events remind of it. A user who may only approve moves it.
func TestApprovalWithheld(t *testing.T) {
	s := newStage(t, native(), smallNodes)
	s.kubectl(rightToApprove, "apply", "-f", "-")
	s.Kubectl("create", "rolebinding", "editor", "--clusterrole=edit", "--user=editor")
	s.govern(`
  waves:
  - {name: canary, nodes: {count: 1}, soak: 2s, after: [{type: Approval, remindAfter: 20s}]}
`)
	s.update(harness.Image2)
	s.await(v1alpha1.PhaseWaitingForApproval)
	if next := s.status().Next; next == nil || next.Action != v1alpha1.ActionApprove {
		t.Errorf("the next action is %+v", next)
	}
	s.Wait("an event says that an approval is needed", harness.HasEvent(set, "Warning", "RolloutApprovalNeeded"))
	for _, waited := range []string{"20s", "40s", "1m0s"} {
		s.Wait("an event reminds of the approval after "+waited, reminds(waited))
	}
	if h := s.soFar(); len(h.began) != 1 {
		t.Errorf("without an approval, these nodes have begun: %v", h.beganAfter(0))
	}
	s.approvalFrom("editor", "approver")
	h := s.finish()
	for _, wrong := range h.judge([]step{{"canary", s.Nodes[:1], 0}, {"remaining", s.Nodes[1:], 0}}) {
		t.Error(wrong)
	}
}

// approvalFrom has a user who may edit policies approve, which is denied, and then one who may approve.
func (s *stage) approvalFrom(editor, approver string) {
	s.t.Helper()
	s.Poll("a user who may edit policies may not approve", func() error {
		if err := s.approve(editor); err == nil || !strings.Contains(err.Error(), "cannot create resource") {
			return fmt.Errorf("the answer is %w", errors.Join(errors.New("not that it is forbidden"), err))
		}
		return nil
	})
	before := s.soFar()
	if len(before.began) != 1 {
		s.t.Errorf("before the approval, these nodes have begun: %v", before.beganAfter(0))
	}
	if err := s.approve(approver); err != nil {
		s.t.Fatalf("the approval of %s: %v", approver, err)
	}
	s.Poll("the status names who approved", func() error {
		for _, w := range s.status().Waves {
			if w.Name == "canary" && w.ApprovedBy == approver {
				return nil
			}
		}
		return fmt.Errorf("the waves are %+v", s.status().Waves)
	})
}

// reminds is met when an event says for how long an approval has been missing.
func reminds(waited string) harness.Condition {
	return func(v harness.View) error {
		for _, e := range v.Events(set) {
			if e.Reason == "RolloutApprovalMissing" && strings.Contains(e.Message, "for an approval for "+waited+".") {
				return nil
			}
		}
		return errors.New("no event reminds of it")
	}
}
