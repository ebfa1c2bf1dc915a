// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestARefusalIsReported(t *testing.T) {
	quota := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", errors.New("exceeded quota: few"))
	busy := apierrors.NewTooManyRequests("busy", 1)
	for _, c := range []struct {
		name, verb, status string
		err                error
	}{
		{"quota", "create", "True", quota}, {"busy", "create", "False", busy},
		{"policy", "delete", "True", quota}, {"policy in place", "patch", "True", quota},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAdvanced(t, 2, inPlace)
			if c.verb != "create" {
				a.settle()
				a.image("img:v2")
			}
			if c.verb == "delete" {
				a.change(func(spec map[string]any) { container(spec)["command"] = []any{"new"} })
			}
			a.fail(c.verb, c.err, false)
			for range 2 { // also when it is tried again
				_ = a.pass()
				a.clock.Step(time.Minute)
				conditions, _, _ := unstructured.NestedSlice(a.set.Object, "status", "conditions")
				i := slices.IndexFunc(conditions, func(c any) bool { return c.(map[string]any)["type"] == "Degraded" })
				if i < 0 {
					t.Fatalf("conditions %v", conditions)
				}
				degraded := conditions[i].(map[string]any)
				if told := strings.Contains(fmt.Sprint(degraded["message"]), "exceeded quota: few"); degraded["status"] != c.status || told != (c.status == "True") {
					t.Errorf("%v", degraded)
				}
			}
		})
	}
}

// TestARefusedChangeInPlaceIsTakenBack: a policy protects the pod on which a change in place begins. The pod has been made not ready by then, and would keep the
// budget of one; it is put back into use, the others are updated, and it is tried again less and less often.
func TestARefusedChangeInPlaceIsTakenBack(t *testing.T) {
	for name, answer := range denials() {
		for _, grace := range []string{"0", "3"} {
			a := protectedInPlace(t, grace, answer, "patch")
			a.wantOthersUpdated(name+", grace "+grace, "patch", 14, func() { a.passEachSecond(1) })
			if len(a.wrote("delete")) > 0 {
				t.Errorf("%s, grace %s: %v were deleted", name, grace, a.wrote("delete"))
			}
		}
	}
}

// denials are the answers of those who keep a write from taking effect.
func denials() map[string]error {
	return map[string]error{
		"a policy":            apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", errors.New("it is protected")),
		"a webhook is down":   apierrors.NewInternalError(errors.New("failed calling webhook")),
		"a webhook is silent": apierrors.NewTimeoutError("too slow", 0),
	}
}

// wantOthersUpdated checks a set of three nodes and a budget of one, where writes of a verb to one pod are denied: within two minutes the others are updated, all three
// are available, and there are at most so many tries; three minutes after the denials end, all are updated.
func (a *advanced) wantOthersUpdated(what, verb string, most int, second func()) {
	a.t.Helper()
	for range 120 {
		second()
	}
	if updated, available := a.status("updatedNumberScheduled"), a.status("numberAvailable"); updated != 2 || available != 3 {
		a.t.Errorf("%s: after two minutes %d of 3 pods are updated, want 2, and %d available, want 3: %v", what, updated, available, a.set.Object["status"])
	}
	if tries := a.count(verb); tries > most {
		a.t.Errorf("%s: %d tries in two minutes, want at most %d", what, tries, most)
	}
	a.before = nil
	for range 180 {
		second()
	}
	if a.status("updatedNumberScheduled") != 3 || a.status("numberAvailable") != 3 {
		a.t.Errorf("%s: three minutes after the pod is no longer protected, the status is %v", what, a.set.Object["status"])
	}
}

// TestAChangeInPlaceThatCannotBeTakenBack: a policy refuses that as well. The pod keeps the budget, because it is not available; it is tried less and less often, and
// all pods are updated when the policy has gone.
func TestAChangeInPlaceThatCannotBeTakenBack(t *testing.T) {
	a := protectedInPlace(t, "0", apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", errors.New("it is protected")), "patch", "patch-status")
	a.passEachSecond(120)
	if tries := a.count("patch") + a.count("patch-status"); tries > 30 {
		t.Errorf("%d writes in two minutes", tries)
	}
	a.before = nil
	a.passEachSecond(180)
	if a.status("updatedNumberScheduled") != 3 || a.status("numberAvailable") != 3 {
		t.Errorf("three minutes after the pod is no longer protected, the status is %v", a.set.Object["status"])
	}
}

// protectedInPlace is a set of three nodes with a budget of one that is being updated in place. The pod on which that begins is protected from the verbs, as soon as it has
// been made not ready.
func protectedInPlace(t *testing.T, grace string, answer error, verbs ...string) *advanced {
	a := newAdvanced(t, 3, inPlace)
	a.graceOf(grace)
	a.settle()
	a.image("img:v2")
	protected, begun := "", false
	a.before = func(verb, name string) error {
		if verb == "patch" && protected == "" {
			protected = name
		}
		begun = begun || verb == "patch"
		if begun && name == protected && slices.Contains(verbs, verb) {
			return answer
		}
		return nil
	}
	a.forgetLog()
	return a
}

func (a *advanced) passEachSecond(seconds int) {
	for range seconds {
		_ = a.pass()
		a.kubelets()
		a.clock.Step(time.Second)
	}
}

// TestARefusalIsLoggedOnce shows that what is tried again and again, on one node after the other, is not said again.
func TestARefusalIsLoggedOnce(t *testing.T) {
	a := newAdvanced(t, 3, standard)
	pods, quota, news, refused := schema.GroupResource{Resource: "pods"}, "few", 0, map[string]bool{}
	a.before = func(verb, name string) error {
		if verb != "create" {
			return nil
		}
		refused[name] = true
		return apierrors.NewForbidden(pods, name, errors.New("exceeded quota: "+quota))
	}
	pass := func() {
		_, err := a.c.Reconcile(t.Context(), a.key)
		if a.c.failures.isNew(a.key, err) {
			news++
		}
		a.clock.Step(time.Minute)
	}
	for range 6 {
		pass()
	}
	if news != 1 || len(refused) < 2 {
		t.Errorf("one quota, which refused %d pods, is told of %d times", len(refused), news)
	}
	quota = "fewer"
	pass()
	if news != 2 {
		t.Error("another quota is not reported")
	}
	a.before = nil
	for range 6 {
		pass()
	}
	if news != 2 || len(a.c.failures.reasons[a.key]) > 0 {
		t.Errorf("a pass that succeeds is told of, or what it mends is remembered: %v", a.c.failures.reasons)
	}
}

// A pass that fails leaves it to the growing delay when it is repeated, however much there is to do.
func TestNoHurryAfterAFailure(t *testing.T) {
	for _, err := range []error{
		apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", errors.New("quota")),
		apierrors.NewTooManyRequests("busy", 1), apierrors.NewInternalError(errors.New("down")),
	} {
		a := newAdvanced(t, 5, `{burstReplicas: 2}`)
		a.fail("create", err, false)
		if after, failure := a.c.Reconcile(t.Context(), a.key); failure == nil || after != 0 && after < time.Second {
			t.Errorf("%v: comes back after %v, error %v", err, after, failure)
		}
	}
}

// What is refused on many nodes is said of all of them, and the same again as long as it lasts.
func TestRefusalsOnManyNodesAreOneStory(t *testing.T) {
	a := newAdvanced(t, 6, standard)
	a.before = func(verb, name string) error {
		if verb == "create" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, name, errors.New("exceeded quota: few"))
		}
		return nil
	}
	degraded := func() string {
		_ = a.pass()
		a.clock.Step(time.Minute)
		for _, c := range a.set.Object["status"].(map[string]any)["conditions"].([]any) {
			if m := c.(map[string]any); m["type"] == "Degraded" {
				return fmt.Sprint(m["message"])
			}
		}
		return ""
	}
	var first string
	for range 12 { // after ten minutes, the set is Stalled
		first = degraded()
	}
	if !strings.Contains(first, "n1: ") || !strings.Contains(first, "n2: ") || !strings.Contains(first, "and 3 nodes more") {
		t.Errorf("said: %s", first)
	}
	a.forgetLog()
	for range 6 {
		if again := degraded(); again != first {
			t.Errorf("said: %s\nand then: %s", first, again)
		}
	}
	if writes := a.wrote("status"); len(writes) > 0 {
		t.Errorf("%d writes of a status that has not changed", len(writes))
	}
}

// Refused adoptions are told in the same words whichever of them is answered first.
func TestRefusedAdoptionsAreOneStory(t *testing.T) {
	a := newAdvanced(t, 8, standard)
	a.orphan(8)
	for _, p := range a.pods {
		a.seePod(p)
	}
	var calls atomic.Int32
	a.before = func(verb, name string) error {
		if verb != "patch" {
			return nil
		}
		if calls.Add(1)%2 == 0 {
			runtime.Gosched()
		}
		return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, name, errors.New("policy"))
	}
	for range 10 {
		_ = a.pass()
		a.clock.Step(time.Minute)
	}
	if n := strings.Count(a.allEvents(), "Warning FailedAdopt"); n != 1 {
		t.Errorf("%d events about one cause", n)
	}
}

// A server that has no room is asked again within the pass. When it never has, the pass is repeated; neither is reported as if a pod were at fault.
func TestABusyServerIsNobodysFault(t *testing.T) {
	for _, verb := range []string{"create", "delete", "patch"} {
		a := newAdvanced(t, 3, inPlace)
		if verb != "create" {
			a.settle()
			a.image("img:v2")
		}
		if verb == "delete" {
			a.change(func(spec map[string]any) { container(spec)["command"] = []any{"new"} })
		}
		a.allEvents()
		tries, never := map[string]int{}, true
		a.before = func(v, name string) error {
			if tries[v+name]++; v == verb && (never || tries[v+name] <= 2) {
				return apierrors.NewTooManyRequests("no room", 1)
			}
			return nil
		}
		if err := a.pass(); err == nil || !strings.Contains(err.Error(), "no room") {
			t.Errorf("%s, never: error %v", verb, err)
		}
		never, tries = false, map[string]int{}
		a.clock.Step(time.Minute)
		a.settle()
		if a.before, tries = nil, nil; strings.Contains(a.allEvents(), "Warning") {
			t.Errorf("%s: a warning", verb)
		}
		if n := a.status("updatedNumberScheduled"); n != 3 {
			t.Errorf("%s: %d are updated", verb, n)
		}
	}
}
