// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/everynode"
	api "everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/rollout"
)

const inPlaceAll = `{updateStrategy: {type: RollingUpdate, rollingUpdate: {rollingUpdateType: InPlaceIfPossible, maxUnavailable: "100%"}}}`

// imagesInPlace is a world in which changes in place wait for images, with three nodes and agents on some.
func imagesInPlace(t *testing.T, agents ...string) (*advanced, *jobs) {
	t.Helper()
	a, j := newAdvanced(t, 3, inPlaceAll), newJobs()
	a.c.PullJobs = j
	a.c.ImagesInPlace = &ImagesInPlace{MayCopySecrets: func(namespace string) bool { return namespace == "allowed" }}
	a.gateOpen()
	for _, node := range agents {
		a.agent(everynode.AgentNamespace, node)
	}
	if a.settle(); len(j.all) > 0 || !a.c.orders.isJobless("set-uid") {
		t.Fatalf("before the roll the jobs are %v", j.all)
	}
	j.made = timeOf(a.clock.Now())
	return a, j
}

// agent adds a pod that looks like an agent.
func (a *advanced) agent(namespace, node string) *corev1.Pod {
	yes := true
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "agent-" + node, UID: types.UID("agent-" + node), Labels: map[string]string{everynode.AgentLabel: everynode.AgentName},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "everynode-agent", UID: "agents", Controller: &yes}},
		},
		Spec: corev1.PodSpec{NodeName: node},
	}
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	a.pods[p.Name] = p
	a.changed(p)
	return p
}

// patched are the nodes whose pods have been changed in place since the log was last cleared, in order.
func (a *advanced) patched() string {
	var nodes []string
	for _, name := range a.wrote("patch") {
		nodes = append(nodes, a.nodeOf(name))
	}
	slices.Sort(nodes)
	return strings.Join(nodes, " ")
}

// TestChangesInPlaceWaitForImages on the nodes with an agent, although the set does not ask for that.
func TestChangesInPlaceWaitForImages(t *testing.T) {
	a, j := imagesInPlace(t, "n1", "n2")
	a.image("img:v2")
	a.forgetLog()
	a.mustPass()
	if len(j.all) != 1 || a.patched() != "n3" || len(a.marks()) > 0 {
		t.Fatalf("the jobs are %v, changed are %q, the marks %q", j.all, a.patched(), a.marks())
	}
	for _, job := range j.all {
		if n := job.Spec.Parallelism.IntValue(); n != 3 {
			t.Errorf("%d nodes pull at once", n)
		}
	}
	if got, _ := a.c.Order("set-uid"); !slices.Equal(got, []string{"n2", "n1"}) {
		t.Errorf("the order is %q", got)
	}
	const waiting = "Normal WaitingForImage Waiting for image on n1, n2: the update of a node begins when it has the images of the new pod, or 5m0s after the pull was requested."
	if events := a.allEvents(); !strings.Contains(events, waiting) {
		t.Errorf("the events are %s", events)
	}
	a.forgetLog()
	j.there["n2"] = "img:v2"
	if a.mustPass(); a.patched() != "n2" {
		t.Errorf("then changed are %q", a.patched())
	}
	j.there["n1"] = "img:v2"
	a.settle()
	if len(j.all) > 0 || a.served() != nil || a.status("updatedNumberScheduled") != 3 || len(a.wrote("delete")) > 0 {
		t.Errorf("in the end the jobs are %v, %d are updated, and deleted %q", j.all, a.status("updatedNumberScheduled"), a.wrote("delete"))
	}
}

// TestAJobThatAppearsLate: a create whose time is up may take effect when the set no longer changes its pods in place. The job goes.
func TestAJobThatAppearsLate(t *testing.T) {
	a, j := imagesInPlace(t, "n1", "n2")
	a.image("img:v2")
	a.mustPass()
	late := maps.Clone(j.all)
	if len(late) != 1 {
		t.Fatalf("the jobs are %v", j.all)
	}
	clear(j.all)
	a.change(func(spec map[string]any) {
		spec["updateStrategy"].(map[string]any)["rollingUpdate"].(map[string]any)["rollingUpdateType"] = "Standard"
	})
	a.settle()
	maps.Copy(j.all, late)
	a.mustPass()
	if len(j.all) != 1 {
		t.Fatal("each pass reads the jobs of a set that has none")
	}
	a.c.pending.remove(a.key)
	a.c.PullsChanged("set-uid")
	if _, isNew := a.c.pending.add(a.key); isNew {
		t.Error("no pass is asked for")
	}
	if a.settle(); len(j.all) > 0 {
		t.Errorf("in the end the jobs are %v", j.all)
	}
}

// TestWhoDoesNotWait: none of these sets and nodes waits, and none gets a job.
func TestWhoDoesNotWait(t *testing.T) {
	rolling := func(a *advanced, key string, value any) {
		a.change(func(spec map[string]any) {
			spec["updateStrategy"].(map[string]any)["rollingUpdate"].(map[string]any)[key] = value
		})
	}
	for name, change := range map[string]func(a *advanced){
		"it says so":                   func(a *advanced) { a.annotate(everynode.WaitForImage, "false") },
		"it says something else":       func(a *advanced) { a.annotate(everynode.WaitForImage, "maybe") },
		"the manager is set so":        func(a *advanced) { a.c.ImagesInPlace = nil },
		"pulls come after updates":     func(a *advanced) { a.annotate(api.PredownloadMinUpdatedReady, "1") },
		"pods are recreated":           func(a *advanced) { rolling(a, "rollingUpdateType", "Standard") },
		"the agent is not ready":       func(a *advanced) { a.agentStops("n1") },
		"the agent has gone":           func(a *advanced) { a.gone("agent-n1") },
		"a tenant's pod looks like it": func(a *advanced) { a.gone("agent-n1"); a.agent("evil", "n1") },
		"no agent can read its pull secrets": func(a *advanced) {
			a.change(func(spec map[string]any) {
				template(spec)["spec"].(map[string]any)["imagePullSecrets"] = []any{map[string]any{"name": "s"}}
			})
		},
		"no agent can read those of its service account": func(a *advanced) { a.serviceAccountBrings("s") },
	} {
		t.Run(name, func(t *testing.T) {
			a, j := imagesInPlace(t, "n1")
			change(a)
			a.settle()
			a.image("img:v2")
			if a.settle(); a.status("updatedNumberScheduled") != 3 || len(j.all) > 0 {
				t.Errorf("%d are updated, and the jobs are %v", a.status("updatedNumberScheduled"), j.all)
			}
			if events := a.allEvents(); strings.Contains(events, "WaitingForImage") {
				t.Errorf("the events are %s", events)
			}
		})
	}
}

// serviceAccountBrings gives all pods pull secrets that their template does not name, as the API server does for a service account.
func (a *advanced) serviceAccountBrings(secrets ...string) {
	for _, p := range a.pods {
		if p.Namespace == "ns" {
			for _, name := range secrets {
				p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
			}
			a.changed(p)
		}
	}
}

// TestPullSecretsOfServiceAccounts: agents pull with the secrets that the pods have, which is what the kubelet does after a change in place.
func TestPullSecretsOfServiceAccounts(t *testing.T) {
	a, j := imagesInPlace(t, "n1")
	a.c.ImagesInPlace.MayCopySecrets = func(namespace string) bool { return namespace == "ns" }
	a.serviceAccountBrings("t", "s")
	a.image("img:v2")
	a.forgetLog()
	if a.mustPass(); a.patched() != "n2 n3" || len(j.all) != 1 {
		t.Fatalf("changed are %q, the jobs are %v", a.patched(), j.all)
	}
	for _, job := range j.all {
		if !slices.Equal(job.Spec.PullSecrets, []string{"s", "t"}) {
			t.Errorf("the job pulls with %q", job.Spec.PullSecrets)
		}
	}
}

func template(spec map[string]any) map[string]any { return spec["template"].(map[string]any) }

// agentStops has the agent of a node report that it is not ready.
func (a *advanced) agentStops(node string) {
	p := a.pods["agent-"+node]
	p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "never"}} // so that the kubelet of this world keeps it so
	p.Status.Conditions[0].Status = corev1.ConditionFalse
	a.changed(p)
}

// TestNoWaitInPlaceIsForEver: whatever keeps the agents from pulling, the update continues without the image.
func TestNoWaitInPlaceIsForEver(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(a *advanced, j *jobs)
		longest time.Duration
		events  string
	}{
		"the pull was requested and there is no answer": {func(a *advanced, j *jobs) {
			for _, n := range []string{"n1", "n2", "n3"} {
				j.ordered[n] = timeOf(a.clock.Now())
			}
		}, 5 * time.Minute, "Warning ImageWaitOver Updating n1, n2, n3 without the images of the new pod: they are not there after 5m0s."},
		"one node was asked, the others never": {func(a *advanced, j *jobs) { j.ordered["n2"] = timeOf(a.clock.Now()) }, 5 * time.Minute, "ImageWaitOver"},
		"no node is ever asked":                {func(*advanced, *jobs) {}, 5 * time.Minute, "ImageWaitOver"},
		"no node can be asked":                 {func(_ *advanced, j *jobs) { j.unlisted = map[string]bool{"n1": true, "n2": true, "n3": true} }, 5 * time.Minute, "ImageCannotBePulled"},
		"no job can be made":                   {func(_ *advanced, j *jobs) { j.err = errors.New("quota") }, predownloadRetry, "FailedCreateImagePullJob"},
		"the jobs cannot be read":              {func(_ *advanced, j *jobs) { j.reading = true }, unreadLimit, ""},
		"there are no such jobs here":          {func(_ *advanced, j *jobs) { j.missing = "no definitions" }, 0, ""},
		"the agents go away": {func(a *advanced, _ *jobs) {
			a.mustPass()
			for _, n := range []string{"n1", "n2", "n3"} {
				a.agentStops(n)
			}
		}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a, j := imagesInPlace(t, "n1", "n2", "n3")
			a.image("img:v2")
			c.change(a, j)
			a.forgetLog()
			took := time.Duration(0)
			for len(a.wrote("patch")) < 3 && took <= c.longest {
				after, err := a.c.Reconcile(t.Context(), a.key)
				if err != nil {
					t.Fatal(err)
				}
				if len(a.wrote("patch")) < 3 && after <= 0 {
					t.Fatalf("nothing is updated after %v, and no pass is to come", took)
				}
				if len(a.wrote("patch")) < 3 {
					a.clock.Step(after)
					took += after
				}
			}
			if took > c.longest || took < c.longest-2*time.Second || a.patched() != "n1 n2 n3" {
				t.Errorf("changed are %q after %v, want all after %v", a.patched(), took, c.longest)
			}
			if events := a.allEvents(); !strings.Contains(events, c.events) {
				t.Errorf("the events are %s", events)
			}
		})
	}
}

// TestNodesHaveTheirTurn: as long as nodes are asked one after the other, the last waits for its turn, whatever the time of a pull.
func TestNodesHaveTheirTurn(t *testing.T) {
	a, j := imagesInPlace(t, "n1", "n2", "n3")
	a.image("img:v2")
	a.forgetLog()
	done := []string{}
	for _, node := range []string{"n3", "n2", "n1"} {
		j.ordered[node] = timeOf(a.clock.Now())
		a.mustPass()
		a.clock.Step(4 * time.Minute)
		a.mustPass()
		if got := a.patched(); got != strings.Join(done, " ") {
			t.Fatalf("while %s pulls, changed are %q, want %q", node, got, done)
		}
		j.there[node] = "img:v2"
		done = append([]string{node}, done...)
		a.mustPass()
		a.kubelets()
		a.clock.Step(30 * time.Second) // the next node is not asked at once, and nothing shows any more when the last one was
		a.mustPass()
	}
	if got := a.patched(); got != "n1 n2 n3" {
		t.Errorf("changed are %q", got)
	}
}

// TestSwitchedOffInTheMiddle: the jobs go, and the update continues.
func TestSwitchedOffInTheMiddle(t *testing.T) {
	for name, off := range map[string]func(a *advanced){
		"by the set":       func(a *advanced) { a.annotate(everynode.WaitForImage, "false") },
		"with the manager": func(a *advanced) { a.c.ImagesInPlace = nil; a.c.states[a.key].pulls = pullState{} },
	} {
		a, j := imagesInPlace(t, "n1", "n2", "n3")
		a.image("img:v2")
		if a.mustPass(); len(j.all) != 1 {
			t.Fatalf("the jobs are %v", j.all)
		}
		off(a)
		if a.mustPass(); len(j.all) > 0 || len(a.marks()) > 0 {
			t.Errorf("%s: the jobs are %v, the marks %v", name, j.all, a.marks())
		}
		if a.settle(); len(j.all) > 0 || a.status("updatedNumberScheduled") != 3 {
			t.Errorf("%s: the jobs are %v, and %d are updated", name, j.all, a.status("updatedNumberScheduled"))
		}
	}
}

// TestAPausedSetOrdersNothing, and what waits in place is no failure of the version.
func TestAPausedSetOrdersNothing(t *testing.T) {
	a, j := imagesInPlace(t, "n1", "n2", "n3")
	pause := func(on bool) {
		a.change(func(spec map[string]any) {
			spec["updateStrategy"].(map[string]any)["rollingUpdate"].(map[string]any)["paused"] = on
		})
	}
	pause(true)
	a.image("img:v2")
	if a.settle(); len(j.all) > 0 {
		t.Errorf("the jobs are %v", j.all)
	}
	pause(false)
	a.settle()
	conditions := fmt.Sprint(a.set.Object["status"].(map[string]any)["conditions"])
	if len(j.all) != 1 || !strings.Contains(conditions, "waiting for image") || strings.Contains(conditions, "Failed") {
		t.Errorf("the jobs are %v, the conditions %s", j.all, conditions)
	}
}

// TestTheAgentsOwnSetDoesNotWait: nothing that keeps an agent running may need an agent.
func TestTheAgentsOwnSetDoesNotWait(t *testing.T) {
	for namespace, want := range map[string]bool{"ns": true, everynode.AgentNamespace: false} {
		a, _ := imagesInPlace(t)
		w := a.digest(a.set.DeepCopy().Object)
		w.Namespace = namespace
		p := pass{c: a.c, d: a.c.dialects["kruise"], w: &w, key: a.key, state: &state{}}
		if got := p.mayWaitInPlace(&rollout.Snapshot{Set: w.Set}); got != want {
			t.Errorf("%s: %t", namespace, got)
		}
	}
}

// TestTheAnnotationCountsWhereTheGateIsOff: as far as changes in place go, and an event says so.
func TestTheAnnotationCountsWhereTheGateIsOff(t *testing.T) {
	a, j := imagesInPlace(t, "n1")
	a.annotate(everynode.WaitForImage, "true")
	a.image("img:v2")
	a.forgetLog()
	a.mustPass()
	if a.patched() != "n2 n3" || len(j.all) != 1 {
		t.Errorf("changed are %q, the jobs %v", a.patched(), j.all)
	}
	if events := a.allEvents(); strings.Count(events, "has no effect on updates that recreate pods: start everynode-manager with --feature-gates PreDownloadImageForDaemonSetUpdate=true") != 1 {
		t.Errorf("the events are %s", events)
	}
}

// TestWithoutAgentsNothingIsDifferent where images are pulled ahead of all updates: jobs end by themselves, and are marked.
func TestWithoutAgentsNothingIsDifferent(t *testing.T) {
	a, j := imagesInPlace(t)
	a.c.dialects["kruise"].Predownload = true
	a.change(func(spec map[string]any) {
		spec["updateStrategy"].(map[string]any)["rollingUpdate"].(map[string]any)["maxUnavailable"] = int64(1)
	})
	a.image("img:v2")
	a.forgetLog()
	a.mustPass()
	if len(j.all) != 1 || len(a.marks()) != 1 || len(a.wrote("patch")) != 1 {
		t.Errorf("the jobs are %v, the marks %q, changed are %q", j.all, a.marks(), a.patched())
	}
	for _, job := range j.all {
		if job.Spec.CompletionPolicy.Type != v1beta1.CompletionAlways || job.Spec.Parallelism.IntValue() != 1 {
			t.Errorf("got %+v", job.Spec)
		}
	}
}

// TestTheAnnotationWins where images are pulled ahead of all updates: every node waits, with an agent or without, for as long as the annotation says.
func TestTheAnnotationWins(t *testing.T) {
	a, _ := imagesInPlace(t, "n1")
	a.c.dialects["kruise"].Predownload = true
	a.annotate(everynode.WaitForImage, "true")
	a.image("img:v2")
	a.forgetLog()
	a.mustPass()
	a.clock.Step(time.Hour)
	if a.mustPass(); a.patched() != "" {
		t.Errorf("changed are %q", a.patched())
	}
}

// TestHeldNodesPullNothing: a node that the partition keeps pulls no image, and waits for it when it is released, however old the job is by then; also under another leader.
func TestHeldNodesPullNothing(t *testing.T) {
	for name, lost := range map[string]bool{"the same leader": false, "another leader": true} {
		t.Run(name, func(t *testing.T) {
			a, j := imagesInPlace(t, "n1", "n2", "n3")
			released := 0
			a.c.ImagesInPlace.JobReleased = func(types.NamespacedName) { released++ }
			partition := func(n int64) {
				a.change(func(spec map[string]any) {
					spec["updateStrategy"].(map[string]any)["rollingUpdate"].(map[string]any)["partition"] = n
				})
			}
			partition(2)
			a.image("img:v2")
			a.settle()
			if first, held := a.c.Order("set-uid"); !slices.Equal(first, []string{"n3"}) || len(held) != 2 || held["n3"] {
				t.Fatalf("served are %q, held %v", first, held)
			}
			a.forgetLog()
			j.there["n3"] = "img:v2"
			if a.settle(); a.patched() != "n3" {
				t.Fatalf("changed are %q", a.patched())
			}
			a.clock.Step(time.Hour)
			if lost {
				a.c.states[a.key].pulls = pullState{}
			}
			before := released
			a.forgetLog()
			partition(0)
			a.mustPass()
			if first, held := a.c.Order("set-uid"); !slices.Equal(first, []string{"n2", "n1"}) || len(held) > 0 || released != before+1 {
				t.Errorf("served are %q, held %v, and the job was asked to look %d times", first, held, released-before)
			}
			a.clock.Step(4 * time.Minute)
			if a.mustPass(); a.patched() != "" {
				t.Errorf("without their images, changed are %q", a.patched())
			}
			j.there["n2"] = "img:v2"
			if a.mustPass(); a.patched() != "n2" {
				t.Errorf("changed are %q", a.patched())
			}
			a.clock.Step(time.Minute)
			if a.mustPass(); a.patched() != "n1 n2" {
				t.Errorf("when the wait has ended, changed are %q", a.patched())
			}
		})
	}
}
