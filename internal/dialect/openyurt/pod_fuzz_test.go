// SPDX-License-Identifier: Apache-2.0

package openyurt_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	api "everynode.dev/everynode/api/openyurt"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/openyurt"
)

// FuzzPod: whatever stands on a pod of a DaemonSet, what it is told is what it says afterwards; other conditions stay, and what is withdrawn is gone.
func FuzzPod(f *testing.F) {
	f.Add(`{"metadata":{"uid":"u"}}`, "6d4757bf68", true)
	f.Add(`{"status":{"conditions":[{"type":"PodNeedUpgrade","status":"True","message":"controllerrevision: 1"},{"type":"Ready","status":"True"}]}}`, "2", false)
	f.Fuzz(func(t *testing.T, text, hash string, old bool) {
		p := &corev1.Pod{}
		if json.Unmarshal([]byte(text), p) != nil || ambiguous(p) || hash == "" {
			t.Skip("no pod, or no hash")
		}
		facts := openyurt.Facts(p)
		if again := openyurt.Facts(p); !reflect.DeepEqual(again, facts) {
			t.Errorf("read twice it says %+v and %+v", facts, again)
		}
		if facts != nil && facts.Announced.Hash != "" && !says(p, facts.Announced) {
			t.Errorf("read %+v from %+v", facts.Announced, p.Status.Conditions)
		}
		owned := p.DeepCopy()
		owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "ds", UID: "s", Controller: new(true)}}
		told := tell(t, owned, dialect.Announcement{UID: string(p.UID), Old: old, Turned: true, Hash: hash})
		if got, want := openyurt.Facts(told), (dialect.Announced{Said: true, Old: old, Hash: valid(hash)}); got == nil || got.Announced != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		silent := tell(t, told, dialect.Announcement{UID: string(p.UID), Withdraw: true})
		if got := openyurt.Facts(silent); got != nil {
			t.Errorf("it was withdrawn, and is %+v", got)
		}
		for _, after := range []*corev1.Pod{told, silent} {
			if !reflect.DeepEqual(others(after), others(p)) {
				t.Errorf("other conditions were %+v and are %+v", others(p), others(after))
			}
		}
	})
}

// says is whether a condition of the pod stands for that.
func says(p *corev1.Pod, a dialect.Announced) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == api.PodNeedUpgrade && c.Message == api.FormatRevision(a.Hash) && a.Old == (c.Status == corev1.ConditionTrue)
	})
}

// valid is a text as JSON carries it.
func valid(text string) string {
	data, _ := json.Marshal(text)
	_ = json.Unmarshal(data, &text)
	return text
}

// others are the conditions of a pod that say nothing of revisions.
func others(p *corev1.Pod) map[corev1.PodConditionType]corev1.PodCondition {
	found := map[corev1.PodConditionType]corev1.PodCondition{}
	for _, c := range p.Status.Conditions {
		if c.Type != api.PodNeedUpgrade {
			found[c.Type] = c
		}
	}
	return found
}

// ambiguous is whether a pod has two conditions of one type, which the API server allows nobody.
func ambiguous(p *corev1.Pod) bool {
	seen := map[corev1.PodConditionType]bool{}
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		was := seen[c.Type]
		seen[c.Type] = true
		return was
	})
}

// tell is what the API server makes of a pod that is told something.
func tell(t *testing.T, p *corev1.Pod, a dialect.Announcement) *corev1.Pod {
	t.Helper()
	e := openyurt.Announce(a, time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	original, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	merged, err := strategicpatch.StrategicMergePatch(original, e.Patch, &corev1.Pod{})
	if err != nil {
		t.Fatalf("%s: %v", e.Patch, err)
	}
	next := &corev1.Pod{}
	if err := json.Unmarshal(merged, next); err != nil {
		t.Fatal(err)
	}
	if e.Of != dialect.Status || next.UID != p.UID {
		t.Errorf("%s of %q has no precondition", e.Patch, e.Of)
	}
	return next
}
