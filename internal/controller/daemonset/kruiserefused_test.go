// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestARefusalIsTold(t *testing.T) {
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
		t.Error("another quota is not told of")
	}
	a.before = nil
	pass()
	if news != 2 || a.c.failures.reasons[a.key] != "" {
		t.Errorf("a pass that succeeds is told of, or what it mends is remembered: %v", a.c.failures.reasons)
	}
}
