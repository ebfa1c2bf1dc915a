// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/api/openyurt"
	"everynode.dev/everynode/internal/agent/cri"
)

// podWorld is a world whose node has pods.
type podWorld struct {
	*world
	mu        sync.Mutex
	pods      []*corev1.Pod
	templates map[string]*corev1.PodTemplateSpec
	refuse    error
	reported  []string
	prepuller *prepuller
}

// newPodWorld returns a node with one pod that asks for the images of revision r2: an init container with init:2 and a main
// container with app:2.
func newPodWorld(t *testing.T, images map[string]v1beta1.ImageSpec) *podWorld {
	w := &podWorld{world: newWorld(t, images), templates: map[string]*corev1.PodTemplateSpec{}}
	w.templates["r2"] = &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Image: "init:2"}}, Containers: []corev1.Container{{Image: "app:2"}, {Image: "app:2"}},
		},
	}
	w.ask("r2", 1)
	return w
}

// ask has the pod ask for the images of a revision, at some second.
func (w *podWorld) ask(revision string, since int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pods = []*corev1.Pod{{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "p", UID: "uid-p",
			OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: "set", UID: "uid-set", Controller: new(true)}},
		},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: openyurt.PodNeedUpgrade, Status: corev1.ConditionTrue, Message: openyurt.FormatRevision("r2")},
			{Type: openyurt.PodImageReady, Status: corev1.ConditionFalse, Message: openyurt.FormatRevision(revision), LastTransitionTime: metav1.Unix(since, 0)},
		}},
	}}
}

// beginAhead starts an agent with a prepuller.
func (w *podWorld) beginAhead() {
	w.prepuller = newPrepuller(w, func() {
		select {
		case w.changed <- struct{}{}:
		default:
		}
	})
	w.prepuller.pods = func() ([]*corev1.Pod, bool, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.pods, true, nil
	}
	w.ahead = w.prepuller
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.prepuller.run(ctx)
	}()
	w.begin()
	stop := w.stop
	w.stop = func() {
		cancel()
		<-ended
		stop()
	}
}

func (w *podWorld) Template(_ context.Context, namespace string, owner types.UID, hash string) (*corev1.PodTemplateSpec, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if namespace != "default" || owner != "uid-set" {
		return nil, fmt.Errorf("nobody knows %s in %s", owner, namespace)
	}
	return w.templates[hash], w.refuse
}

func (w *podWorld) SetCondition(_ context.Context, pod *corev1.Pod, c corev1.PodCondition) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse != nil {
		return w.refuse
	}
	w.reported = append(w.reported, fmt.Sprintf("%s %s %s %s: %s", pod.Name, c.Type, c.Status, c.Reason, c.Message))
	// The informer is behind on purpose: the pod still asks.
	return nil
}

func (w *podWorld) tells() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.reported, "\n")
}

const toldReady = "p PodImageReady True PullImageSuccess: controllerrevision: r2"

func TestImagesThatAPodAsksFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPodWorld(t, nil)
		w.beginAhead()
		defer w.stop()
		status := w.after(time.Minute)
		if got := fmt.Sprint(w.pulled()); strings.Count(got, "app:2") != 1 || strings.Count(got, "init:2") != 1 {
			t.Errorf("pulled is %s", got)
		}
		w.prepuller.notify() // something else has changed
		w.after(time.Minute)
		if got := w.tells(); got != toldReady {
			t.Errorf("told is %q", got)
		}
		if status.Desired != 0 || len(status.ImageStatuses) != 0 || w.writes != 0 {
			t.Errorf("the NodeImage, which has not asked for it, says %+v", status)
		}
	})
}

func TestThePullQueueIsOneForPodsAndNodeImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPodWorld(t, map[string]v1beta1.ImageSpec{
			"app": {Tags: []v1beta1.ImageTagSpec{{Tag: "2", Version: 1}}}, "other": {Tags: []v1beta1.ImageTagSpec{{Tag: "1", Version: 1}}},
		})
		most, now := 0, 0
		w.pulling = func(ctx context.Context, _ cri.Pull) error {
			w.set(func() { now++; most = max(most, now) })
			defer w.set(func() { now-- })
			return takes(ctx, time.Second)
		}
		w.beginAhead()
		defer w.stop()
		status := w.after(time.Minute)
		if most != 2 {
			t.Errorf("%d pulls went on at once, and 2 are allowed", most)
		}
		if got := fmt.Sprint(w.pulled()); strings.Count(got, "app:2") != 1 {
			t.Errorf("an image that pod and NodeImage want is pulled as %s", got)
		}
		if status.Desired != 2 || status.Succeeded != 2 || w.tells() != toldReady {
			t.Errorf("the NodeImage says %+v, and the pod %q", status, w.tells())
		}
	})
}

func TestImagesThatCannotBePulled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPodWorld(t, nil)
		bad := func(_ context.Context, p cri.Pull) error {
			if strings.Contains(p.Ref.Name, "app") {
				return errors.New("not found")
			}
			return nil
		}
		w.pulling = bad
		w.beginAhead()
		defer w.stop()
		w.after(5 * time.Minute)
		const failed = "p PodImageReady False PullImageFail: pull image job image-pre-pull-p-r2 failed"
		if got := w.tells(); got != failed {
			t.Fatalf("told is %q", got)
		}
		// Who asks again has it tried again, although the pod never was without a request in the eyes of the agent.
		w.set(func() { w.pulling = nil })
		w.ask("r2", 2)
		w.prepuller.notify()
		w.after(time.Minute)
		if got := w.tells(); got != failed+"\n"+toldReady {
			t.Errorf("told is %q", got)
		}
	})
}

func TestAnAgentThatIsKilledWhileItPullsForAPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPodWorld(t, nil)
		w.pulling = func(ctx context.Context, _ cri.Pull) error { return takes(ctx, 30*time.Second) }
		w.beginAhead()
		w.after(10 * time.Second)
		w.stop()
		if got := w.tells(); got != "" {
			t.Errorf("before the pull has ended is told %q", got)
		}
		w.beginAhead()
		defer w.stop()
		w.after(time.Minute)
		if got := w.tells(); got != toldReady {
			t.Errorf("told is %q", got)
		}
	})
}

func TestAnAPIServerThatIsAwayWhileAPodAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPodWorld(t, nil)
		w.refuse = errors.New("away")
		w.beginAhead()
		defer w.stop()
		w.after(time.Minute)
		w.mu.Lock()
		w.refuse = nil
		w.mu.Unlock()
		w.after(time.Minute)
		if got := w.tells(); got != toldReady {
			t.Errorf("told is %q", got)
		}
	})
}

func TestRequestsThatAreOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPodWorld(t, nil)
		w.ask("r1", 1) // r2 is the next one by now
		w.beginAhead()
		defer w.stop()
		w.after(time.Minute)
		if w.tells() != "" || len(w.pulled()) != 0 {
			t.Errorf("told is %q, pulled %q", w.tells(), w.pulled())
		}
	})
}

func TestARevisionThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPodWorld(t, nil)
		delete(w.templates, "r2")
		w.beginAhead()
		defer w.stop()
		w.after(time.Minute)
		if got := w.tells(); got != "p PodImageReady False PullImageFail: pull image job image-pre-pull-p-r2 failed" {
			t.Errorf("told is %q", got)
		}
	})
}
