// SPDX-License-Identifier: Apache-2.0

package ota_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/cli/command"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// TestAWaveThatIsNotReleased: no newer revision is announced to the pods of a later wave. They are refused with the wave that they wait for, and not as up to date.
func TestAWaveThatIsNotReleased(t *testing.T) {
	roll := fakecluster.Roll{Name: "edge", Letters: "uoo", Spec: map[string]any{"updateStrategy": map[string]any{"type": "OnDelete"}}}
	objects := roll.Objects(t)
	for _, object := range objects {
		switch o := object.(type) {
		case *appsv1.ControllerRevision:
			if o.Revision == 1 {
				o.Annotations = map[string]string{everynode.Committed: everynode.FormatCommitted(1, string(o.UID))}
			}
		case *corev1.Pod:
			o.Status.Conditions = append(o.Status.Conditions, corev1.PodCondition{
				Type: "PodNeedUpgrade", Status: corev1.ConditionFalse, Message: "controllerrevision: " + o.Labels[appsv1.ControllerRevisionHashLabelKey],
			})
		}
		if u, ok := object.(interface {
			GetKind() string
			SetAnnotations(map[string]string)
		}); ok && u.GetKind() == "DaemonSet" {
			u.SetAnnotations(map[string]string{"apps.openyurt.io/update-strategy": "OTA"})
		}
	}
	objects = append(objects, fakecluster.Object(t, `
apiVersion: everynode.dev/v1alpha1
kind: RolloutPolicy
metadata: {name: edges, namespace: default, uid: uid-policy}
spec:
  targets: [{apiVersion: apps/v1, kind: DaemonSet, name: edge}]
  waves:
  - {name: canary, nodes: {count: 1}, soak: 1h}
status:
  sets: [{apiVersion: apps/v1, name: edge, enforcement: Announcements, phase: Soaking, wave: canary, targetRevision: edge-7c9d5f6b8, targetNumber: 2, committedRevision: edge-6b8f7d4c9,
    waves: [{name: canary, nodes: 1, updated: 1, available: 1, phase: Soaking}, {name: remaining, nodes: 2, phase: Pending}]}]
`))
	text := fakecluster.New(t, objects...).Session(t, command.Root, "ota upgrade node-3 daemonset/edge", "ota pull node-3 daemonset/edge", "ota upgrade node-1 daemonset/edge")
	const want = "on node node-3 has an old revision, and no newer one is announced to it: it waits for rolloutpolicy/edges, which has not released its wave remaining yet: see `kubectl everynode explain-node node-3 daemonset/edge`"
	if strings.Count(text, want) != 2 || strings.Count(text, "is up to date: there is nothing") != 1 {
		t.Errorf("it prints:\n%s", text)
	}
}
