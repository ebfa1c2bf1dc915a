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
