// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// TestTimesThatGoCannotRead: the API server accepts these times, because they have the format date-time. One of them must not make the list unreadable.
func TestTimesThatGoCannotRead(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]time.Time{
		"2026-01-01T00:00:00Z":      time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		"2026-01-01t00:00:00z":      time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		"2026-01-01T00:00:00+99:99": {},
		"2026-01-01T00:00:00x1Z":    {},
	} {
		list := `{"apiVersion":"apps.kruise.io/v1beta1","kind":"NodeImageList","items":[
			{"metadata":{"name":"a"},"status":{"desired":1,"firstSyncStatus":{"syncAt":"` + text + `"},
			 "imageStatuses":{"x":{"tags":[{"tag":"1","phase":"Pulling","startTime":"` + text + `","version":9007199254740993}]}}}},
			{"metadata":{"name":"b"}}]}`
		obj, _, err := serializer.NewCodecFactory(scheme).UniversalDeserializer().Decode([]byte(list), nil, nil)
		if err != nil {
			t.Errorf("with %s no NodeImage can be read: %v", text, err)
			continue
		}
		images := obj.(*NodeImageList).Items
		if len(images) != 2 || images[0].Status.Desired != 1 {
			t.Errorf("with %s: %+v", text, images)
			continue
		}
		tag := images[0].Status.ImageStatuses["x"].Tags[0]
		if tag.Phase != ImagePhasePulling || tag.Version != 9007199254740993 || tag.StartTime.IsZero() != want.IsZero() || !want.IsZero() && !tag.StartTime.Equal(&images[0].Status.FirstSyncStatus.SyncAt) {
			t.Errorf("with %s: %+v", text, tag)
		}
		if !want.IsZero() && !tag.StartTime.Time.Equal(want) {
			t.Errorf("%s is read as %v", text, tag.StartTime)
		}
		job := `{"apiVersion":"apps.kruise.io/v1beta1","kind":"ImagePullJob","status":{"desired":2,"completionTime":"` + text + `",
			"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"` + text + `"}]}}`
		obj, _, err = serializer.NewCodecFactory(scheme).UniversalDeserializer().Decode([]byte(job), nil, nil)
		if err != nil || obj.(*ImagePullJob).Status.Desired != 2 || len(obj.(*ImagePullJob).Status.Conditions) != 1 {
			t.Errorf("with %s: %v, %+v", text, err, obj)
		}
	}
}
