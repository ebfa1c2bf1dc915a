// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/agent/pull"
)

// maxMessage is the maximum length of an error in a status; some runtimes include whole pages of a registry.
const maxMessage = 1024

// statusOf converts states to a status, without those of pods, which are not in the NodeImage. Fields of other writers
// are kept.
func statusOf(states []pull.State, before *v1beta1.NodeImageStatus) *v1beta1.NodeImageStatus {
	states = slices.DeleteFunc(slices.Clone(states), func(s pull.State) bool { return s.Pod != "" })
	status := &v1beta1.NodeImageStatus{Desired: int32(len(states)), FirstSyncStatus: before.FirstSyncStatus}
	for i := range states {
		s := &states[i]
		switch s.Phase {
		case pull.Succeeded:
			status.Succeeded++
		case pull.Broken:
			status.Failed++
		case pull.Pulling:
			status.Pulling++
		case pull.Waiting:
			status.Waiting++
		}
		if status.ImageStatuses == nil {
			status.ImageStatuses = map[string]v1beta1.ImageStatus{}
		}
		of := status.ImageStatuses[s.Image]
		of.Tags = append(of.Tags, tagStatusOf(s))
		status.ImageStatuses[s.Image] = of
	}
	if status.FirstSyncStatus == nil {
		status.FirstSyncStatus = firstSync(states, status.Failed)
	}
	return status
}

// firstSync returns the result of the first sync, or nil while it is not finished, or before there was anything to
// pull.
func firstSync(states []pull.State, failed int32) *v1beta1.SyncStatus {
	last := time.Time{}
	for i := range states {
		s := &states[i]
		if !s.Final() {
			return nil
		}
		if s.Completed.After(last) {
			last = s.Completed
		}
	}
	if last.IsZero() {
		return nil
	}
	sync := &v1beta1.SyncStatus{SyncAt: metav1.NewTime(last), Status: v1beta1.SyncStatusSucceeded}
	if failed > 0 {
		sync.Status, sync.Message = v1beta1.SyncStatusFailed, fmt.Sprintf("%d of %d images were given up", failed, len(states))
	}
	return sync
}

func tagStatusOf(s *pull.State) v1beta1.ImageTagStatus {
	tag := v1beta1.ImageTagStatus{
		Tag: s.Tag, Version: s.Version, Phase: v1beta1.ImagePullPhase(s.Phase.String()), Progress: int32(s.Progress),
		StartTime: timeOf(s.Started), CompletionTime: timeOf(s.Completed), Message: s.Message[:min(len(s.Message), maxMessage)],
	}
	if s.ImageID != "" {
		tag.ImageID = s.Image + "@" + s.ImageID
	}
	return tag
}

func timeOf(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t}
}

// statesOf converts a status of an earlier agent to states. A state with a completion time is final.
func statesOf(status *v1beta1.NodeImageStatus) []pull.State {
	states := []pull.State{}
	for image, of := range status.ImageStatuses {
		for _, tag := range of.Tags {
			s := pull.State{
				Key: pull.Key{Image: image, Tag: tag.Tag, Version: tag.Version}, Progress: int(tag.Progress), Message: tag.Message,
				ImageID: strings.TrimPrefix(tag.ImageID, image+"@"),
			}
			if tag.StartTime != nil {
				s.Started = tag.StartTime.Time
			}
			switch {
			case tag.CompletionTime == nil && tag.Phase == v1beta1.ImagePhasePulling:
				s.Phase = pull.Pulling
			case tag.CompletionTime == nil:
				s.Phase = pull.Waiting
			case tag.Phase == v1beta1.ImagePhaseSucceeded:
				s.Phase, s.Completed = pull.Succeeded, tag.CompletionTime.Time
			default:
				s.Phase, s.Completed = pull.Broken, tag.CompletionTime.Time
			}
			states = append(states, s)
		}
	}
	return states
}

// patchOf returns a merge patch from one status to another, for exactly that object; nil if there is no difference.
func patchOf(uid types.UID, before, after *v1beta1.NodeImageStatus) ([]byte, error) {
	old, err := json.Marshal(before)
	if err != nil {
		return nil, fmt.Errorf("writing the old status: %w", err)
	}
	wanted, err := json.Marshal(after)
	if err != nil {
		return nil, fmt.Errorf("writing the new status: %w", err)
	}
	patch := mergePatch(old, wanted)
	if len(patch) == 0 {
		return nil, nil
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid}, "status": patch})
}

// mergePatch returns the merge patch from one JSON object to another; empty if they are equal. Values stay undecoded:
// libraries for this decode numbers as floating point, which would change a version above 2^53.
func mergePatch(old, wanted json.RawMessage) map[string]any {
	patch := map[string]any{}
	was, is := fieldsOf(old), fieldsOf(wanted)
	for name := range was {
		if _, stays := is[name]; !stays {
			patch[name] = nil
		}
	}
	for name, value := range is {
		before, there := was[name]
		switch {
		case there && bytes.Equal(before, value):
		case there && fieldsOf(before) != nil && fieldsOf(value) != nil:
			patch[name] = mergePatch(before, value)
		default:
			patch[name] = value
		}
	}
	return patch
}

// fieldsOf returns the fields of a JSON object, or nil.
func fieldsOf(value json.RawMessage) map[string]json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(value, &fields) != nil {
		return nil
	}
	return fields
}
