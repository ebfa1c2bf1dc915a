// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/plan"
	"everynode.dev/everynode/internal/rollout"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// measuredOn gives the newest revisions these durations, the newest last.
func measuredOn(objects []runtime.Object, values ...string) []runtime.Object {
	for _, o := range objects {
		if r, ok := o.(*appsv1.ControllerRevision); ok && r.Revision <= int64(len(values)) && r.Revision > 0 {
			r.Annotations = map[string]string{everynode.MeasuredDurations: values[r.Revision-1]}
		}
	}
	return objects
}

// gateFirst does for the first node what gated does for the others.
func gateFirst(objects []runtime.Object) []runtime.Object {
	for _, o := range objects {
		if p, ok := o.(*corev1.Pod); ok && p.Spec.NodeName == "node-1" {
			p.Spec.NodeName = ""
			gated([]runtime.Object{p})
			p.Spec.NodeName = "node-1"
		}
	}
	return objects
}

const toThree = " --image agent=registry.example/agent:3"

func TestEstimateOfMeasuredDurations(t *testing.T) {
	single := rolling(map[string]any{"maxUnavailable": int64(1)})
	ten := settled(false, 10)
	ten.Spec = single
	inPlace := settled(true, 4)
	inPlace.Spec = rolling(map[string]any{"maxUnavailable": int64(1), "rollingUpdateType": "InPlaceIfPossible"})
	for name, c := range map[string]struct {
		roll   fakecluster.Roll
		on     []string
		args   string
		screen []string
	}{
		"no rollout": {ten, nil, toThree, []string{"Estimate: 2m30s (assumed: no rollout has been measured yet), if:", "stop    5s      assumed"}},
		"measured": {ten, []string{"", "stop=48,1s,1.4s start=48,1.5s,2.1s"}, toThree, []string{
			"Estimate: 25s to 35s (from 48 pods of the last rollouts), if:", "stop    1s to 1.4s from 48 pods of the last rollouts", "start   1.5s to 2.1s from 48",
		}},
		"of the revision before": {ten, []string{"stop=7,1s,1s start=9,1s,1s", ""}, toThree, []string{"Estimate: 20s (from 9 pods of the last rollouts), if:", "stop    1s      from 7 pods"}},
		"of the newest":          {ten, []string{"stop=7,1s,1s start=9,1s,1s", "stop=1,2s,2s start=1,2s,2s"}, toThree, []string{"Estimate: 40s (from 1 pod of the last rollouts), if:"}},
		"nonsense":               {ten, []string{"", "stop=7,-1s,1s start=9,1s,1s"}, toThree, []string{"Estimate: 2m30s (assumed: no rollout has been measured yet), if:"}},
		"another kind":           {ten, []string{"", "change=7,1s,1s"}, toThree, []string{"Estimate: 2m30s (partly assumed: no rollout of this kind has been measured yet), if:"}},
		"flags win": {ten, []string{"", "stop=48,1s,1.4s start=48,1.5s,2.1s"}, toThree + " --assume-stop 20s", []string{
			"Estimate: 3m35s to 3m41s (from 48 pods of the last rollouts), if:", "stop    20s     given",
		}},
		"all given":       {ten, []string{"", "stop=48,1s,1.4s start=48,1.5s,2.1s"}, toThree + " --assume-stop 1s --assume-start 1s", []string{"Estimate: 20s (given, or read from the pods), if:"}},
		"while it rolls":  {fakecluster.Roll{Name: "agent", Spec: single, Letters: "uuuuuooooo"}, []string{"", "stop=5,1s,1s start=5,1s,2s"}, "", []string{"Estimate: 10s to 15s (from 5 pods of the last rollouts), if:"}},
		"change in place": {inPlace, []string{"", "change=9,2s,3s"}, toThree, []string{"Estimate: 8s to 12s (from 9 pods of the last rollouts), if:", "change  2s to 3s from 9 pods"}},
	} {
		t.Run(name, func(t *testing.T) {
			objects := measuredOn(c.roll.Objects(t), c.on...)
			if name == "change in place" {
				gated(objects)
				objects = gateFirst(objects)
			}
			s := newServer(t, objects...)
			if err := s.Run(t, New, strings.Fields("agent "+c.args)...); err != nil {
				t.Fatal(err)
			}
			for _, want := range c.screen {
				if !strings.Contains(s.Out.String(), want) {
					t.Errorf("it says\n%s\nwant %q", s.Out.String(), want)
				}
			}
		})
	}
}

func TestEstimateInTheDocument(t *testing.T) {
	ten := settled(false, 10)
	ten.Spec = rolling(map[string]any{"maxUnavailable": int64(1)})
	s := newServer(t, measuredOn(ten.Objects(t), "", "stop=48,1s,1.4s start=48,1.5s,2.1s")...)
	if err := s.Run(t, New, strings.Fields("agent"+toThree+" -o json")...); err != nil {
		t.Fatal(err)
	}
	var d Document
	if err := json.Unmarshal(s.Out.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	if want := (Estimate{Low: "25s", High: "35s", Source: "from 48 pods of the last rollouts", Pods: 48}); d.Estimate != want || d.Duration != "25s" {
		t.Errorf("the estimate is %+v and the duration %s, wanted %+v", d.Estimate, d.Duration, want)
	}
	stop := d.Assumptions[0]
	if stop.Value != "1s" || stop.High != "1.4s" || stop.Pods != 48 {
		t.Errorf("the stop is %+v", stop)
	}
	var again times
	if err := again.restore(d.Assumptions); err != nil || again.stop.String() != "1s" {
		t.Errorf("`apply` plans again with a stop of %v: %v", again.stop, err)
	}
}

// TestStartTimes: only pods that have started once show how long a start takes.
func TestStartTimes(t *testing.T) {
	at := func(s int) rollout.Time { return rollout.Time(s) * rollout.Time(time.Second) }
	pod := func(ready int, restarts uint16) rollout.Node {
		return rollout.Node{Pods: []rollout.Pod{{Ready: true, Created: at(100), ReadySince: at(100 + ready), Restarts: restarts}}}
	}
	s := &rollout.Snapshot{Nodes: []rollout.Node{pod(4, 0), pod(264, 1), pod(265, 1), pod(5, 0), pod(266, 3)}}
	if took, pods := startTime(s); took != 5*time.Second || pods != 2 {
		t.Errorf("%v from %d pods, want 5s from 2", took, pods)
	}
}

// What another controller writes on its revisions is not read, and the plan says why it only assumes.
func TestEstimateOfPodsOfAnotherController(t *testing.T) {
	f := &prediction{result: plan.Result{Nodes: []plan.Node{{Verdict: plan.Recreate}}}, assumed: assumed{{Name: "stop", assumed: true}}}
	f.view.Workload = &dialect.Workload{Set: rollout.Set{ExternalController: true}, Plain: &rollout.Set{}}
	f.view.History = &clustercache.Resolved{Revisions: []clustercache.Revision{{Durations: everynode.ParseDurations("stop=5,1s,1s")}}}
	if got := f.learned(); got != (everynode.Durations{}) {
		t.Errorf("it reads %+v", got)
	}
	if got := f.estimate().Source; got != neverMeasured {
		t.Errorf("the source is %q, wanted %q", got, neverMeasured)
	}
	f.view.Workload.ByPolicy = &rollout.Set{} // a policy updates the pods
	if got := f.learned(); got.Stop.Pods != 5 {
		t.Errorf("where a policy updates the pods it reads %+v", got)
	}
}
