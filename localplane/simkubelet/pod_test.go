// SPDX-License-Identifier: Apache-2.0

package simkubelet

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestLifeOfAPod(t *testing.T) {
	w := newWorld(t, steady(), "app:v1")
	w.run(time.Minute)
	w.expect(`
		0.0 Pending unready c0=ContainerCreating/0
		2.3 Running unready c0=running/0
		3.0 Running ready c0=ready/0`)

	st := w.pod.Status.ContainerStatuses[0]
	if st.ImageID != ImageID("app:v1") || st.ContainerID == "" || st.Started == nil || !*st.Started {
		t.Errorf("container status %+v", st)
	}
	if s := w.pod.Status; s.PodIP != "10.128.0.7" || s.HostIP != "198.18.0.1" || s.StartTime == nil || s.ObservedGeneration != 1 {
		t.Errorf("status %+v", s)
	}
	if c := findCondition(w.pod.Status.Conditions, v1.PodScheduled); c == nil || c.ObservedGeneration != 0 {
		t.Errorf("the scheduler's condition was touched: %+v", c)
	}

	now := metav1.NewTime(w.now)
	w.pod.DeletionTimestamp, w.pod.DeletionGracePeriodSeconds = &now, new(int64(30))
	w.pod.Generation++
	w.run(time.Minute)
	w.expect(`61.0 deleted`)
}

func TestTerminationTakesAtMostTheGracePeriod(t *testing.T) {
	for _, tc := range []struct {
		name  string
		grace int64
		stop  time.Duration
		ran   bool
		want  string
	}{
		{"the delay", 30, 4 * time.Second, true, "14.0 deleted"},
		{"the grace period", 2, 4 * time.Second, true, "12.0 deleted"},
		{"nothing ever ran", 30, 4 * time.Second, false, "10.0 deleted"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			profile := steady()
			profile.PodStop = tc.stop
			image := "app:v1"
			if !tc.ran {
				image = "broken"
			}
			w := newWorld(t, profile, image)
			w.run(10 * time.Second)
			w.lines = nil
			now := metav1.NewTime(w.now)
			w.pod.DeletionTimestamp, w.pod.DeletionGracePeriodSeconds = &now, &tc.grace
			w.run(time.Minute)
			w.expect(tc.want)
		})
	}
}

func TestFastWritesOnce(t *testing.T) {
	w := newWorld(t, Fast(), "app:v1", "app:v2")
	w.run(time.Minute)
	w.expect(`0.0 Running ready c0=ready/0 c1=ready/0`)
}

func TestImageIsPulledOncePerNode(t *testing.T) {
	first := newWorld(t, steady(), "app:v1")
	first.run(time.Minute)
	second := newWorld(t, steady(), "app:v1")
	second.node.Images = first.node.Images
	second.now = first.now
	second.began = second.now
	second.run(time.Minute)
	second.expect(`
		0.0 Pending unready c0=ContainerCreating/0
		0.3 Running unready c0=running/0
		1.0 Running ready c0=ready/0`)

	third := newWorld(t, steady(), "app:v2")
	third.run(time.Second)
	fourth := newWorld(t, steady(), "app:v2")
	fourth.node.Images, fourth.now = third.node.Images, third.now
	fourth.run(time.Minute)
	// Joins the pull that the third began a second before.
	fourth.expect(`
		1.0 Pending unready c0=ContainerCreating/0
		2.3 Running unready c0=running/0
		3.0 Running ready c0=ready/0`)
}

func TestBrokenImage(t *testing.T) {
	for _, image := range []string{"foo:non-existent", "broken/app:v1"} {
		w := newWorld(t, steady(), "app:v1", image)
		w.run(time.Hour)
		w.expect(`
			0.0 Pending unready c0=ContainerCreating/0 c1=ContainerCreating/0
			2.0 Pending unready c0=ContainerCreating/0 c1=ErrImagePull/0
			2.3 Pending unready c0=running/0 c1=ErrImagePull/0
			3.0 Pending unready c0=ready/0 c1=ImagePullBackOff/0`)
	}
}

func TestPullPolicyNever(t *testing.T) {
	w := newWorld(t, steady(), "app:v1")
	w.pod.Spec.Containers[0].ImagePullPolicy = v1.PullNever
	w.run(time.Hour)
	w.expect(`0.0 Pending unready c0=ErrImageNeverPull/0`)

	w = newWorld(t, steady(), "app:v1")
	w.pod.Spec.Containers[0].ImagePullPolicy = v1.PullNever
	w.node.Images = NewImageStore("app:v1")
	w.run(time.Hour)
	w.expect(`
		0.0 Pending unready c0=ContainerCreating/0
		0.3 Running unready c0=running/0
		1.0 Running ready c0=ready/0`)
}

func TestPatchedInPlace(t *testing.T) {
	w := newWorld(t, steady(), "app:v1", "sidecar:v1")
	w.run(10 * time.Second)
	before := w.pod.Status.DeepCopy()
	w.lines = nil
	w.setImage(0, "app:v2")
	w.run(time.Minute)
	// Killed first and pulled after, like a kubelet does.
	w.expect(`
		10.0 Running ready c0=ready/0 c1=ready/0
		10.5 Running unready c0=Completed(0)/0 c1=ready/0
		12.8 Running unready c0=running/1[Completed] c1=ready/0
		13.5 Running ready c0=ready/1[Completed] c1=ready/0`)

	old, changed := before.ContainerStatuses[0], w.pod.Status.ContainerStatuses[0]
	if changed.ContainerID == old.ContainerID || changed.ImageID == old.ImageID || changed.Image != "app:v2" {
		t.Errorf("container status before %+v, after %+v", old, changed)
	}
	if last := changed.LastTerminationState.Terminated; last.ContainerID != old.ContainerID {
		t.Errorf("the last state is that of %s, want %s", last.ContainerID, old.ContainerID)
	}
	if w.pod.Status.ContainerStatuses[1].ContainerID != before.ContainerStatuses[1].ContainerID {
		t.Error("the other container was restarted too")
	}
	if w.pod.Status.ObservedGeneration != 2 {
		t.Errorf("observed generation %d", w.pod.Status.ObservedGeneration)
	}
}

func TestResizedInPlace(t *testing.T) {
	w := newWorld(t, steady(), "app:v1", "sidecar:v1")
	cpu := func(amount string) v1.ResourceList {
		return v1.ResourceList{v1.ResourceCPU: resource.MustParse(amount)}
	}
	w.pod.Spec.Containers[0].Resources.Limits = cpu("1")
	w.run(10 * time.Second)
	before := w.pod.Status.DeepCopy()
	w.pod.Spec.Containers[0].Resources.Limits = cpu("2")
	w.pod.Generation++
	w.run(time.Minute)
	after := &w.pod.Status
	if had, has := before.ContainerStatuses[0].Resources, after.ContainerStatuses[0].Resources; had == nil || had.Limits.Cpu().String() != "1" || has.Limits.Cpu().String() != "2" {
		t.Errorf("resources before %v, after %v", had, has)
	}
	if after.ContainerStatuses[0].ContainerID != before.ContainerStatuses[0].ContainerID || after.ObservedGeneration != 2 {
		t.Errorf("container %s after %s, observed generation %d", after.ContainerStatuses[0].ContainerID, before.ContainerStatuses[0].ContainerID, after.ObservedGeneration)
	}
	if after.ContainerStatuses[1].Resources != nil {
		t.Errorf("the container that asks for nothing has %v", after.ContainerStatuses[1].Resources)
	}
}

func TestPatchedInPlaceToABrokenImageAndBack(t *testing.T) {
	w := newWorld(t, steady(), "app:v1")
	w.run(10 * time.Second)
	w.lines = nil
	w.setImage(0, "app:broken")
	w.run(10 * time.Second)
	w.expect(`
		10.0 Running ready c0=ready/0
		10.5 Running unready c0=Completed(0)/0
		12.5 Running unready c0=ErrImagePull/0[Completed]
		13.5 Running unready c0=ImagePullBackOff/0[Completed]`)
	w.setImage(0, "app:v1")
	w.run(10 * time.Second)
	w.expect(`
		20.0 Running unready c0=Completed(0)/0
		20.3 Running unready c0=running/1[Completed]
		21.0 Running ready c0=ready/1[Completed]`)
}

func TestPatchedWhileItsImageIsPulled(t *testing.T) {
	w := newWorld(t, steady(), "app:broken")
	w.run(10 * time.Second)
	w.lines = nil
	w.setImage(0, "app:v1")
	w.run(10 * time.Second)
	w.expect(`
		10.0 Pending unready c0=ContainerCreating/0
		12.3 Running unready c0=running/0
		13.0 Running ready c0=ready/0`)
}

func TestCrashLoop(t *testing.T) {
	w := newWorld(t, steady(), "crash:v1")
	w.run(50 * time.Second)
	w.expect(`
		0.0 Pending unready c0=ContainerCreating/0
		2.3 Running unready c0=running/0
		3.3 Running unready c0=Error(1)/0
		3.6 Running unready c0=running/1[Error]
		4.6 Running unready c0=CrashLoopBackOff/1[Error]
		14.6 Running unready c0=Error(1)/1
		14.9 Running unready c0=running/2[Error]
		15.9 Running unready c0=CrashLoopBackOff/2[Error]
		35.9 Running unready c0=Error(1)/2
		36.2 Running unready c0=running/3[Error]
		37.2 Running unready c0=CrashLoopBackOff/3[Error]`)
}

func TestCrashWithoutRestart(t *testing.T) {
	for policy, want := range map[v1.RestartPolicy]v1.PodPhase{
		v1.RestartPolicyNever: v1.PodFailed, v1.RestartPolicyOnFailure: v1.PodRunning, v1.RestartPolicyAlways: v1.PodRunning,
	} {
		w := newWorld(t, steady(), "crash:v1")
		w.pod.Spec.RestartPolicy = policy
		w.run(time.Minute)
		if w.pod.Status.Phase != want {
			t.Errorf("restart policy %s: phase %s, want %s", policy, w.pod.Status.Phase, want)
		}
		writes := w.writes
		w.run(0)
		if want == v1.PodFailed && w.writes != writes {
			t.Error("a pod that has ended was written again")
		}
	}
}

func TestInitContainersRunInTurn(t *testing.T) {
	w := newWorld(t, steady(), "app:v1")
	always := v1.ContainerRestartPolicyAlways
	w.pod.Spec.InitContainers = []v1.Container{
		{Name: "i0", Image: "app:v1"}, {Name: "s1", Image: "app:v1", RestartPolicy: &always}, {Name: "i2", Image: "app:v1"},
	}
	w.run(time.Minute)
	w.expect(`
		0.0 Pending unready i0=ContainerCreating/0 s1=ContainerCreating/0 i2=ContainerCreating/0 c0=PodInitializing/0
		2.3 Pending unready i0=running/0 s1=ContainerCreating/0 i2=ContainerCreating/0 c0=PodInitializing/0
		2.8 Pending unready i0=Completed(0)/0 s1=ContainerCreating/0 i2=ContainerCreating/0 c0=PodInitializing/0
		3.1 Pending unready i0=Completed(0)/0 s1=running/0 i2=ContainerCreating/0 c0=PodInitializing/0
		3.4 Pending unready i0=Completed(0)/0 s1=running/0 i2=running/0 c0=PodInitializing/0
		3.8 Pending unready i0=Completed(0)/0 s1=ready/0 i2=running/0 c0=PodInitializing/0
		3.9 Pending unready i0=Completed(0)/0 s1=ready/0 i2=Completed(0)/0 c0=ContainerCreating/0
		4.2 Running unready i0=Completed(0)/0 s1=ready/0 i2=Completed(0)/0 c0=running/0
		4.9 Running ready i0=Completed(0)/0 s1=ready/0 i2=Completed(0)/0 c0=ready/0`)
	w.restartKubelet()
	w.run(time.Minute)
	w.expect(``)
}

func TestFailedInitContainerFailsThePod(t *testing.T) {
	w := newWorld(t, steady(), "app:v1")
	w.pod.Spec.RestartPolicy = v1.RestartPolicyNever
	w.pod.Spec.InitContainers = []v1.Container{{Name: "i0", Image: "crash"}}
	w.run(time.Minute)
	w.expect(`
		0.0 Pending unready i0=ContainerCreating/0 c0=PodInitializing/0
		2.3 Pending unready i0=running/0 c0=PodInitializing/0
		3.3 Failed unready i0=Error(1)/0 c0=PodInitializing/0`)
}

func TestReadinessGatesAreReadAndNeverSet(t *testing.T) {
	const gate = v1.PodConditionType("example.org/gate")
	w := newWorld(t, Fast(), "app:v1")
	w.pod.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: gate}}
	w.run(time.Minute)
	w.expect(`0.0 Running unready c0=ready/0`)
	if c := findCondition(w.pod.Status.Conditions, v1.PodReady); c.Reason != "ReadinessGatesNotReady" {
		t.Errorf("reason %q", c.Reason)
	}
	if findCondition(w.pod.Status.Conditions, gate) != nil {
		t.Fatal("the kubelet set a readiness gate")
	}
	w.pod.Status.Conditions = append(w.pod.Status.Conditions, v1.PodCondition{Type: gate, Status: v1.ConditionTrue, Reason: "theirs"})
	w.run(time.Minute)
	w.expect(`60.0 Running ready c0=ready/0`)
	if c := findCondition(w.pod.Status.Conditions, gate); c == nil || c.Reason != "theirs" {
		t.Errorf("the gate's condition was touched: %+v", c)
	}
	if c := findCondition(w.pod.Status.Conditions, v1.PodReady); c.Reason != "" || c.Message != "" {
		t.Errorf("a ready pod still tells why it is not: %q %q", c.Reason, c.Message)
	}
}

func TestMarkedUnreadyWithItsNode(t *testing.T) {
	w := newWorld(t, Fast(), "app:v1")
	w.run(time.Minute)
	w.lines = nil
	// What the node lifecycle controller does.
	w.node.Ready = false
	findCondition(w.pod.Status.Conditions, v1.PodReady).Status = v1.ConditionFalse
	w.run(time.Minute)
	w.expect(``)
	w.node.Ready = true
	w.run(time.Minute)
	w.expect(`120.0 Running ready c0=ready/0`)
}

func TestNewPodOnANodeThatIsNotReady(t *testing.T) {
	w := newWorld(t, Fast(), "app:v1")
	w.node.Ready = false
	w.run(time.Minute)
	w.expect(`0.0 Running unready c0=ready/0`)
	w.node.Ready = true
	w.run(time.Minute)
	w.expect(`60.0 Running ready c0=ready/0`)
}

func TestEndedPodsAreLeftAlone(t *testing.T) {
	w := newWorld(t, steady(), "app:v1")
	w.run(time.Minute)
	w.lines = nil
	w.pod.Status.Phase = v1.PodFailed
	w.pod.Generation++
	w.run(time.Minute)
	w.expect(``)
	now := metav1.NewTime(w.now)
	w.pod.DeletionTimestamp, w.pod.DeletionGracePeriodSeconds = &now, new(int64(30))
	w.run(time.Minute)
	w.expect(`120.0 deleted`)
}

func TestMetadataChangesNothing(t *testing.T) {
	w := newWorld(t, steady(), "app:v1")
	w.run(time.Minute)
	w.lines = nil
	w.pod.Labels = map[string]string{"new": "label"}
	w.run(time.Minute)
	w.expect(``)
}

func TestReadinessProbeDelays(t *testing.T) {
	w := newWorld(t, Fast(), "app:v1")
	w.pod.Spec.Containers[0].ReadinessProbe = &v1.Probe{InitialDelaySeconds: 7}
	w.run(time.Minute)
	w.expect(`
		0.0 Running unready c0=running/0
		7.0 Running ready c0=ready/0`)
}

func TestHostNetwork(t *testing.T) {
	w := newWorld(t, Fast(), "app:v1")
	w.pod.Spec.HostNetwork = true
	w.run(time.Minute)
	if w.pod.Status.PodIP != "198.18.0.1" || len(w.pod.Status.PodIPs) != 1 {
		t.Errorf("pod addresses %v", w.pod.Status.PodIPs)
	}
}

// A kubelet that is started again takes over what it finds: it restarts nothing, and finishes what was under way.
func TestKubeletRestart(t *testing.T) {
	for _, tc := range []struct {
		name    string
		image   string
		patch   string
		after   time.Duration
		want    v1.PodPhase
		ready   bool
		restart int32
	}{
		{name: "before anything", image: "app:v1", after: 0, want: v1.PodRunning, ready: true},
		{name: "while pulling", image: "app:v1", after: time.Second, want: v1.PodRunning, ready: true},
		{name: "while becoming ready", image: "app:v1", after: 2500 * time.Millisecond, want: v1.PodRunning, ready: true},
		{name: "when ready", image: "app:v1", after: 10 * time.Second, want: v1.PodRunning, ready: true},
		{name: "broken", image: "broken", after: 10 * time.Second, want: v1.PodPending},
		{name: "patched while it was away", image: "app:v1", patch: "app:v2", after: 10 * time.Second, want: v1.PodRunning, ready: true, restart: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, steady(), tc.image)
			w.run(tc.after)
			w.restartKubelet()
			if tc.patch != "" {
				w.setImage(0, tc.patch)
			}
			w.run(time.Minute)
			st := w.pod.Status.ContainerStatuses[0]
			if w.pod.Status.Phase != tc.want || st.Ready != tc.ready || st.RestartCount != tc.restart {
				t.Errorf("%s", summary(w.pod))
			}
		})
	}
}

func TestKubeletRestartInTheMiddleOfAnInPlaceUpdate(t *testing.T) {
	for _, after := range []time.Duration{0, 600 * time.Millisecond, 2900 * time.Millisecond} {
		w := newWorld(t, steady(), "app:v1")
		w.run(10 * time.Second)
		w.setImage(0, "app:v2")
		w.run(after)
		w.restartKubelet()
		w.run(time.Minute)
		st := w.pod.Status.ContainerStatuses[0]
		if !st.Ready || st.RestartCount != 1 || st.Image != "app:v2" {
			t.Errorf("restarted %s after the patch: %s, image %s", after, summary(w.pod), st.Image)
		}
	}
}

func TestKubeletRestartInACrashLoop(t *testing.T) {
	w := newWorld(t, steady(), "crash:v1")
	w.run(20 * time.Second)
	before := w.pod.Status.ContainerStatuses[0].RestartCount
	w.restartKubelet()
	w.run(5 * time.Minute)
	after := w.pod.Status.ContainerStatuses[0].RestartCount
	if after <= before || after > before+5 {
		t.Errorf("%d restarts before, %d after", before, after)
	}
}
