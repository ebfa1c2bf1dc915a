// SPDX-License-Identifier: Apache-2.0

package advanced

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"everynode.dev/everynode/test/harness"
	"everynode.dev/everynode/test/observe"
)

// historyScenarios are about revisions.
func historyScenarios() []scenario {
	return []scenario{
		{"old-template-again-reuses-its-revision", 2, true, reuseRevision},
		{"rollback-mid-roll", 4, false, rollbackMidRoll},
		{"revision-history-limit", 2, false, historyLimit},
		{"hash-collision", 2, false, hashCollision},
		{"update-revision", 2, false, updateRevision},
		{"label-on-the-set-changes-nothing", 2, false, labelOnTheSet},
	}
}

// numbers is met when the revisions have these numbers.
func numbers(want ...int64) harness.Condition {
	return func(v harness.View) error {
		var got []int64
		for _, revision := range v.Revisions() {
			got = append(got, revision.Revision)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("revisions %v, want %v", got, want)
		}
		return nil
	}
}

func reuseRevision(s *stage) {
	s.run()
	first := s.set().Status.UpdateRevision
	s.roll(two)
	s.Wait("there are two revisions", numbers(1, 2))
	if out, err := s.KubectlWith("", "rollout", "undo", "ads/agent"); err == nil {
		s.t.Errorf("kubectl knows how to undo a roll of this kind now, so the documentation should say so: %s", out)
	}
	s.roll(one)
	s.Wait("the first became the third", numbers(2, 3))
	if again := s.set().Status.UpdateRevision; again != first {
		s.t.Errorf("revision %s, want %s", again, first)
	}
}

// rollbackMidRoll: pods that the update had not reached are not restarted.
func rollbackMidRoll(s *stage) {
	s.run("spec: {minReadySeconds: 5}") // slow enough for the change to come in the middle
	before := s.uids()
	s.apply(withImage(two))
	s.Wait("the update has begun", s.updatedSomewhere(two))
	s.roll(one)
	s.atEnd(func(report observe.Report) {
		kept := 0
		for node, uid := range before {
			if s.uids()[node] == uid {
				kept++
			}
		}
		if kept == 0 {
			s.t.Errorf("all pods were replaced: %s", report.Summary())
		}
	})
}

func historyLimit(s *stage) {
	s.run(rolling("maxUnavailable: 100%"), "spec: {revisionHistoryLimit: 2}")
	for i := range 4 {
		s.roll(fmt.Sprintf("registry.example/agent:v%d", i))
	}
	s.Wait("two old revisions and the current one are left", numbers(3, 4, 5))
	s.apply("spec: {revisionHistoryLimit: 0}")
	s.Wait("only the current one is left", numbers(5))
}

// hashCollision: the name of the next revision belongs to somebody else, who keeps it.
func hashCollision(s *stage) {
	s.run()
	s.roll(two)
	taken := s.set().Status.UpdateRevision
	s.Kubectl("delete", "ads", "agent")
	s.Wait("everything of the set is gone", harness.NoPods, numbers())
	s.finish()
	revisions := s.Cluster.Client.AppsV1().ControllerRevisions(s.Name)
	foreign, err := revisions.Create(s.Context(), &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Name: "agent-" + taken, Namespace: s.Name},
		Data:       runtime.RawExtension{Raw: []byte(`{"somebody":"else"}`)},
	}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatalf("creating a revision: %v", err)
	}
	s.run(withImage(one))
	s.roll(two)
	if count := s.set().Status.CollisionCount; count == nil || *count != 1 {
		s.t.Errorf("%v collisions are counted, want 1", count)
	}
	if now := s.set().Status.UpdateRevision; now == taken {
		s.t.Errorf("revision %s is that of somebody else", now)
	}
	left, err := revisions.Get(s.Context(), foreign.Name, metav1.GetOptions{})
	if err != nil || left.UID != foreign.UID || len(left.OwnerReferences) > 0 {
		s.t.Errorf("the revision of somebody else: %v, %+v", err, left)
	}
}

func updateRevision(s *stage) {
	s.run(rolling("partition: 1"))
	s.apply(withImage(two))
	s.held(1)
	nodes, revision := s.sorted(), s.set().Status.UpdateRevision
	if got := s.pod(nodes[1]).Labels[appsv1.DefaultDaemonSetUniqueLabelKey]; got != revision {
		s.t.Errorf("the updated pod is of revision %s, want %s", got, revision)
	}
	if got := s.pod(nodes[0]).Labels[appsv1.DefaultDaemonSetUniqueLabelKey]; got == revision {
		s.t.Errorf("the old pod is of revision %s", got)
	}
	for _, revision := range s.View().Revisions() {
		owner := metav1.GetControllerOf(revision)
		if owner == nil || owner.UID != s.set().UID || owner.APIVersion != "apps.kruise.io/v1beta1" || owner.Kind != "DaemonSet" {
			s.t.Errorf("revision %s is owned by %+v", revision.Name, owner)
		}
	}
}

func labelOnTheSet(s *stage) {
	s.run()
	before := s.uids()
	s.apply("metadata: {labels: {team: edge}, annotations: {note: changed}}")
	s.rolled(harness.EachPod(s.name, "there", func(*corev1.Pod) bool { return true }))
	s.samePods(before)
}
