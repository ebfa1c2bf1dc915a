// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A policy protects the oldest revisions, more of them than a pass deletes: all others are deleted.
func TestAProtectedRevisionKeepsNoOther(t *testing.T) {
	for _, protected := range []int{1, tidyLimit + 3} {
		t.Run(fmt.Sprint(protected), func(t *testing.T) {
			w := keepsNoHistory(t)
			w.settle()
			keep := map[string]bool{}
			w.before = func(verb, name string) error {
				if verb == "delete-revision" && keep[name] {
					return denial(http.StatusForbidden, metav1.StatusReasonForbidden)
				}
				return nil
			}
			for i := range protected + 3 {
				w.anotherRevision(i, func(r *appsv1.ControllerRevision) {
					w.ownedUnlabelled(r)
					r.Labels[appsv1.ControllerRevisionHashLabelKey] = r.Name
					r.Revision = -int64(1000 - i)
					keep[r.Name] = i < protected
				})
			}
			_ = w.passesFor(20 * time.Second)
			for name := range w.revisions {
				if kept, is := keep[name]; is && !kept {
					t.Errorf("revision %s is left", name)
				}
			}
			if left := len(w.revisions); left != protected+1 {
				t.Errorf("%d revisions are left, want the current one and %d that are protected", left, protected)
			}
			clear(keep)
			_ = w.passesFor(20 * time.Second)
			if left := len(w.revisions); left != 1 {
				t.Errorf("%d revisions are left after the end of the policy, want the current one", left)
			}
		})
	}
}
