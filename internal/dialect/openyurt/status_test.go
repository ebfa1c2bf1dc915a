// SPDX-License-Identifier: Apache-2.0

package openyurt_test

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/openyurt"
	"everynode.dev/everynode/internal/rollout"
)

// patched is obj with a strategic merge patch of its status, as the API server applies it.
func patched(t testing.TB, obj map[string]any, patch []byte) map[string]any {
	t.Helper()
	before, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, &appsv1.DaemonSet{})
	if err != nil {
		t.Fatal(err)
	}
	var result map[string]any
	if err := json.Unmarshal(after, &result); err != nil {
		t.Fatal(err)
	}
	return result
}

func conditionOf(obj map[string]any, kind string) map[string]any {
	status, _ := obj["status"].(map[string]any)
	list, _ := status["conditions"].([]any)
	for _, c := range list {
		if c := c.(map[string]any); c["type"] == kind {
			return c
		}
	}
	return nil
}

// The condition comes with a mistake, changes with it, and goes with it or with the annotation; those of others stay, and an external set
// writes nothing else.
func TestDegraded(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, d := range map[string]struct {
		digest func(map[string]any) dialect.Workload
		patch  func(*dialect.Workload, dialect.Report) ([]byte, bool)
	}{
		"with native":        {openyurt.Digest, openyurt.StatusPatch},
		"as an external set": {openyurt.DigestExternal, openyurt.ExternalPatch},
	} {
		t.Run(name, func(t *testing.T) {
			obj := daemonSet(t, "OnDelete", nil)
			obj["status"].(map[string]any)["conditions"] = []any{map[string]any{"type": "Foreign", "status": "True"}}
			annotations := obj["metadata"].(map[string]any)["annotations"].(map[string]any)
			step := func(now time.Time, value string) map[string]any {
				t.Helper()
				annotations[strategyKey] = value
				if value == "" {
					delete(annotations, strategyKey)
				}
				w := d.digest(obj)
				if patch, changed := d.patch(&w, dialect.Report{Now: now, Numbers: w.Status, ObservedGeneration: 2}); changed {
					obj = patched(t, obj, patch)
					annotations = obj["metadata"].(map[string]any)["annotations"].(map[string]any)
				}
				w = d.digest(obj)
				if patch, again := d.patch(&w, dialect.Report{Now: now.Add(time.Hour), Numbers: w.Status, ObservedGeneration: 2}); again {
					t.Errorf("%q: written again: %s", value, patch)
				}
				if conditionOf(obj, "Foreign") == nil {
					t.Errorf("%q: the condition of another is gone", value)
				}
				return conditionOf(obj, "Degraded")
			}
			if c := step(at, ""); c != nil {
				t.Errorf("nothing is wrong, but %v", c)
			}
			first := step(at, "x")
			if first == nil || first["status"] != "True" || first["reason"] != "InvalidAnnotation" || first["lastTransitionTime"] != "2026-01-01T00:00:00Z" {
				t.Errorf("condition %v", first)
			}
			second := step(at.Add(time.Minute), "y")
			if second == nil || second["message"] == first["message"] || second["lastTransitionTime"] != first["lastTransitionTime"] {
				t.Errorf("condition %v after %v", second, first)
			}
			if c := step(at, "OTA"); c != nil {
				t.Errorf("mended, but %v", c)
			}
			step(at, "z")
			if c := step(at, ""); c != nil {
				t.Errorf("the annotation is gone, but %v", c)
			}
		})
	}
}

func TestDegradedOfAnotherStays(t *testing.T) {
	obj := daemonSet(t, "OnDelete", nil)
	obj["status"].(map[string]any)["conditions"] = []any{map[string]any{"type": "Degraded", "status": "True", "reason": "Disk"}}
	w := openyurt.DigestExternal(obj)
	if patch, changed := openyurt.ExternalPatch(&w, dialect.Report{}); changed {
		t.Errorf("patch %s", patch)
	}
}

// An external set's numbers are another controller's, whatever this one counts.
func TestAnExternalSetWritesNoNumbers(t *testing.T) {
	w := openyurt.DigestExternal(daemonSet(t, "OnDelete", map[string]string{strategyKey: "x"}))
	patch, changed := openyurt.ExternalPatch(&w, dialect.Report{Numbers: rollout.Status{Desired: 9, Updated: 9}, ObservedGeneration: 3})
	var body struct {
		Metadata map[string]any `json:"metadata"`
		Status   map[string]any `json:"status"`
	}
	if err := json.Unmarshal(patch, &body); err != nil || !changed {
		t.Fatal(err, changed)
	}
	if len(body.Status) != 1 || len(body.Metadata) != 1 || body.Metadata["uid"] != "u" || body.Status["conditions"] == nil {
		t.Errorf("patch %s", patch)
	}
}

func TestAnnounce(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	pod := &corev1.Pod{}
	pod.UID = "p"
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: "PodImageReady", Status: corev1.ConditionFalse}}
	say := func(a dialect.Announcement, now time.Time) *corev1.PodCondition {
		t.Helper()
		a.UID = "p"
		edit := openyurt.Announce(a, now)
		before, _ := json.Marshal(pod)
		after, err := strategicpatch.StrategicMergePatch(before, edit.Patch, &corev1.Pod{})
		if err != nil || edit.Of != dialect.Status {
			t.Fatal(err, edit.Of)
		}
		pod = &corev1.Pod{}
		if err := json.Unmarshal(after, pod); err != nil {
			t.Fatal(err)
		}
		var found *corev1.PodCondition
		for i := range pod.Status.Conditions {
			if pod.Status.Conditions[i].Type == "PodNeedUpgrade" {
				found = &pod.Status.Conditions[i]
			}
		}
		if want := 2; len(pod.Status.Conditions) < want || pod.UID != "p" {
			t.Fatalf("other conditions are gone: %+v", pod.Status.Conditions)
		}
		return found
	}
	c := say(dialect.Announcement{Hash: "h1", Turned: true}, at)
	if c == nil || c.Status != corev1.ConditionFalse || c.Message != "controllerrevision: h1" || c.Reason != "" || !c.LastTransitionTime.Time.Equal(at) {
		t.Errorf("condition %+v", c)
	}
	c = say(dialect.Announcement{Hash: "h2", Old: true, Turned: true}, at.Add(time.Minute))
	if c.Status != corev1.ConditionTrue || c.Message != "controllerrevision: h2" || !c.LastTransitionTime.Time.Equal(at.Add(time.Minute)) {
		t.Errorf("condition %+v", c)
	}
	c = say(dialect.Announcement{Hash: "h3", Old: true}, at.Add(time.Hour))
	if c.Message != "controllerrevision: h3" || !c.LastTransitionTime.Time.Equal(at.Add(time.Minute)) {
		t.Errorf("the time of a condition that keeps its status has changed: %+v", c)
	}
	if c = say(dialect.Announcement{Withdraw: true}, at); c != nil {
		t.Errorf("withdrawn, but %+v", c)
	}
}

func ownerOf(apiVersion string, controller *bool) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: "DaemonSet", Name: "ds", UID: "u", Controller: controller}
}

func TestFacts(t *testing.T) {
	yes, no := true, false
	pod := func(apiVersion string, controller *bool, status, message string) *corev1.Pod {
		p := &corev1.Pod{}
		p.OwnerReferences = append(p.OwnerReferences, ownerOf(apiVersion, controller))
		if status != "" {
			p.Status.Conditions = []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionTrue},
				{Type: "PodNeedUpgrade", Status: corev1.ConditionStatus(status), Message: message},
			}
		}
		return p
	}
	for _, c := range []struct {
		name string
		pod  *corev1.Pod
		want *dialect.Announced
	}{
		{"old", pod("apps/v1", &yes, "True", "controllerrevision: h"), &dialect.Announced{Said: true, Old: true, Hash: "h"}},
		{"newest", pod("apps/v1", &yes, "False", "controllerrevision: h"), &dialect.Announced{Said: true, Hash: "h"}},
		{"another message", pod("apps/v1", &yes, "True", "soon"), &dialect.Announced{Said: true, Old: true}},
		{"another status", pod("apps/v1", &yes, "Unknown", "controllerrevision: h"), &dialect.Announced{Hash: "h"}},
		{"nothing", pod("apps/v1", &yes, "", ""), nil},
		{"no controller", pod("apps/v1", &no, "True", "controllerrevision: h"), nil},
		{"OpenKruise", pod("apps.kruise.io/v1beta1", &yes, "True", "controllerrevision: h"), nil},
	} {
		got := openyurt.Facts(c.pod)
		if (got == nil) != (c.want == nil) || got != nil && got.Announced != *c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
