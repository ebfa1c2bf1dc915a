// SPDX-License-Identifier: Apache-2.0

package simkubelet

import (
	"reflect"
	"testing"
	"time"

	"everynode.dev/everynode/api/kruise/v1beta1"
)

func asking(images map[string]string) *v1beta1.NodeImage {
	image := &v1beta1.NodeImage{Spec: v1beta1.NodeImageSpec{Images: map[string]v1beta1.ImageSpec{}}}
	image.Name = "n1"
	for name, tag := range images {
		image.Spec.Images[name] = v1beta1.ImageSpec{Tags: []v1beta1.ImageTagSpec{{Tag: tag, PullPolicy: &v1beta1.ImageTagPullPolicy{BackoffLimit: new(int32(0))}}}}
	}
	return image
}

func phaseOf(s *v1beta1.NodeImageStatus, name string) string {
	if tags := s.ImageStatuses[name].Tags; len(tags) == 1 {
		return string(tags[0].Phase)
	}
	return ""
}

func TestAgentPullsIntoTheStoreOfItsNode(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	in := AgentInput{Now: begin, Image: asking(map[string]string{"agent": "2", "there": "1", "broken": "1"}), Store: NewImageStore("there:1"), Profile: Profile{ImagePull: 5 * time.Second}}
	a := NewAgent(&in.Image.Status)
	status, wake := a.Step(in)
	if phaseOf(status, "agent") != "Pulling" || phaseOf(status, "there") != "Succeeded" || !wake.Equal(begin.Add(5*time.Second)) {
		t.Errorf("wakes at %v with %+v", wake, status)
	}
	in.Now = wake
	status, _ = a.Step(in)
	if phaseOf(status, "agent") != "Succeeded" || phaseOf(status, "broken") != "Failed" || status.Succeeded != 2 || status.Failed != 1 {
		t.Errorf("got %+v", status)
	}
	if !in.Store.Has("agent:2", wake) {
		t.Error("a pod would have to pull the image again")
	}
	in.Image.Status = *status
	again, wake := NewAgent(status).Step(in)
	if again.Succeeded != 2 || again.Failed != 1 || !wake.IsZero() {
		t.Errorf("another agent begins anew: %+v at %v", again, wake)
	}
}

func TestAgentThatIsKilledInMidPull(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	in := AgentInput{Now: begin, Image: asking(map[string]string{"agent": "2"}), Store: NewImageStore(), Profile: Profile{ImagePull: 5 * time.Second}}
	status, _ := NewAgent(&in.Image.Status).Step(in)
	in.Image.Status, in.Now = *status, begin.Add(time.Second)
	a := NewAgent(status)
	status, wake := a.Step(in)
	if phaseOf(status, "agent") != "Pulling" || !wake.Equal(begin.Add(5*time.Second)) {
		t.Errorf("wakes at %v with %+v", wake, status)
	}
	in.Now = wake
	if status, _ := a.Step(in); phaseOf(status, "agent") != "Succeeded" {
		t.Errorf("got %+v", status)
	}
}

// TestAgentHasNothingToTellInMidPull: each write is an event that leads to the next step, so steps that tell something new each time
// would keep a plane busy with itself for as long as pulls take.
func TestAgentHasNothingToTellInMidPull(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	in := AgentInput{Now: begin, Image: asking(map[string]string{"agent": "2"}), Store: NewImageStore(), Profile: Profile{ImagePull: time.Minute}}
	a := NewAgent(&in.Image.Status)
	status, _ := a.Step(in)
	for in.Now = begin.Add(time.Second); in.Now.Before(begin.Add(time.Minute)); in.Now = in.Now.Add(10 * time.Second) {
		in.Image.Status = *status
		if status, _ = a.Step(in); !reflect.DeepEqual(*status, in.Image.Status) {
			t.Errorf("after %v it tells %+v, and before it told %+v", in.Now.Sub(begin), status, in.Image.Status)
		}
	}
}

func TestAgentGivesUpWhatIsWantedNoLonger(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	in := AgentInput{Now: begin, Image: asking(map[string]string{"agent": "2"}), Store: NewImageStore(), Profile: Profile{ImagePull: time.Minute}}
	a := NewAgent(&in.Image.Status)
	a.Step(in)
	in.Image = asking(nil)
	status, wake := a.Step(in)
	if len(status.ImageStatuses) != 0 || !wake.Equal(begin) {
		t.Errorf("wakes at %v with %+v", wake, status)
	}
	if _, wake := a.Step(in); !wake.IsZero() || len(a.runs) > 0 {
		t.Errorf("it still pulls: %+v", a.runs)
	}
}
