// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/intstr"

	"everynode.dev/everynode/internal/apply/executor"
)

// unclear are answers that leave open whether a write took effect. None of these did.
func unclear() map[string]error {
	return map[string]error{
		"504": apierrors.NewTimeoutError("request did not complete within requested timeout", 0),
		"500": apierrors.NewInternalError(errors.New("rpc error: code = Unavailable")),
	}
}

// goOn runs passes for that long, one each second, whether they fail or not.
func (w *world) goOn(d time.Duration) {
	for range int(d / time.Second) {
		_ = w.pass()
		w.kubelets()
		w.deliver()
		w.clock.Step(time.Second)
	}
}

// A pod whose delete never gets a definite answer does not stop the update of the other nodes.
func TestADeleteThatStaysUnclearDoesNotStopTheUpdate(t *testing.T) {
	for name, answer := range unclear() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 5, nil)
			w.settle()
			w.edit("img:v2")
			w.answerOne("delete", answer)
			w.goOn(20 * time.Minute)
			if got := w.status("updatedNumberScheduled"); got != 4 {
				t.Errorf("after 20 minutes %d of 5 nodes are updated, want all but the one whose delete has no definite answer", got)
			}
		})
	}
}

// The same with the slow lane: two webhooks in series that take 30 seconds each use up the minute that the API server has.
func TestADeleteThatStaysUnclearInTheSlowLaneDoesNotStopTheUpdate(t *testing.T) {
	w := newWorld(t, 5, nil)
	w.c.Executor.Slow = &executor.SlowLane{Pods: worldPods{w}, Hold: func(context.Context) error { return nil }, Free: func(context.Context, func() bool) {}}
	w.settle()
	w.edit("img:v2")
	w.answerOne("delete", unclear()["504"])
	for range 3600 {
		_ = w.pass()
		w.c.Executor.Slow.Wait()
		w.kubelets()
		w.deliver()
		w.clock.Step(time.Second)
	}
	if got := w.status("updatedNumberScheduled"); got != 4 {
		t.Errorf("after an hour %d of 5 nodes are updated, want all but the one whose delete has no definite answer", got)
	}
}

// A node whose new pod never gets a definite answer does not stop an update with a surge on the other nodes.
func TestACreateThatStaysUnclearDoesNotStopTheUpdate(t *testing.T) {
	for name, answer := range unclear() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 5, func(ds *appsv1.DaemonSet) {
				zero, one := intstr.FromInt32(0), intstr.FromInt32(1)
				ds.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType, RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &zero, MaxSurge: &one}}
			})
			w.settle()
			w.edit("img:v2")
			w.answerOne("create", answer)
			w.goOn(20 * time.Minute)
			if got := w.status("updatedNumberScheduled"); got != 4 {
				t.Errorf("after 20 minutes %d of 5 nodes are updated, want all but one", got)
			}
			if events := w.allEvents(); !strings.Contains(events, "FailedCreate") {
				t.Errorf("events:\n%s", events)
			}
		})
	}
}

// A pod whose changes never get a definite answer does not stop changes in place on the other nodes.
func TestAChangeThatStaysUnclearDoesNotStopTheUpdate(t *testing.T) {
	for name, answer := range unclear() {
		t.Run(name, func(t *testing.T) {
			a := newAdvanced(t, 5, inPlace)
			a.settle()
			a.image("img:v2")
			a.answerOne("patch", answer)
			a.goOn(20 * time.Minute)
			if got := a.status("updatedNumberScheduled"); got != 4 {
				t.Errorf("after 20 minutes %d of 5 nodes are updated, want all but one", got)
			}
		})
	}
}

// answerOne answers the writes of that verb with err for the pod that the first one is for.
func (w *world) answerOne(verb string, err error) {
	first := ""
	w.before = func(v, name string) error {
		if ofPod(v, verb) && (first == "" || first == name) {
			first = name
			return err
		}
		return nil
	}
}

// ofPod is whether a write is of that verb, or a patch of a subresource, and not of a revision.
func ofPod(write, verb string) bool {
	return write == verb || verb == "patch" && strings.HasPrefix(write, "patch-")
}

// While it is open whether a write took effect, the conditions show the words of the API server.
func TestTheWordsOfAnUnclearAnswerShow(t *testing.T) {
	for name, answer := range unclear() {
		t.Run(name, func(t *testing.T) {
			for _, verb := range []string{"create", "delete", "patch"} {
				a := newAdvanced(t, 3, map[string]string{"create": standard, "delete": standard, "patch": inPlace}[verb])
				if verb != "create" {
					a.settle()
					a.image("img:v2")
				}
				a.before = func(v, _ string) error {
					if ofPod(v, verb) {
						return answer
					}
					return nil
				}
				_ = a.pass()
				shown := 0
				for range 60 {
					a.clock.Step(time.Second)
					_ = a.pass()
					a.deliver()
					if strings.Contains(a.degraded(), answer.Error()) {
						shown++
					}
				}
				if shown < 50 {
					t.Errorf("%s: the condition Degraded shows the words of the API server in %d of 60 seconds; at the end: %s", verb, shown, a.degraded())
				}
			}
		})
	}
}

// degraded is the message of the condition Degraded while that is True.
func (w *world) degraded() string {
	for _, c := range w.set.Object["status"].(map[string]any)["conditions"].([]any) {
		if m := c.(map[string]any); m["type"] == "Degraded" && m["status"] == "True" {
			return fmt.Sprint(m["message"])
		}
	}
	return ""
}
