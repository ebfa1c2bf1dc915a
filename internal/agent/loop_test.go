// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"

	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/agent/credentials"
	"everynode.dev/everynode/internal/agent/cri"
	"everynode.dev/everynode/internal/agent/pull"
	"everynode.dev/everynode/internal/imageref"
)

// world is a node and an API server in memory. Its time is that of synctest, so a test of minutes takes none.
type world struct {
	t       *testing.T
	mu      sync.Mutex
	object  *v1beta1.NodeImage
	changed chan struct{}
	version int
	// refuse, when not nil, is what the API server answers to writes.
	refuse error
	writes int

	images map[string]string
	fill   int
	// pulling is what becomes of a pull; nil brings the image after a second.
	pulling func(ctx context.Context, p cri.Pull) error
	// down, when not nil, is what the runtime answers to everything.
	down  error
	pulls []string
	// credentials are found for every pull.
	credentials []credentials.Credential

	recorder *record.FakeRecorder
	ahead    wantSource
	stop     func()
}

func newWorld(t *testing.T, images map[string]v1beta1.ImageSpec) *world {
	w := &world{
		t: t, changed: make(chan struct{}, 1), images: map[string]string{}, recorder: record.NewFakeRecorder(100),
	}
	w.edit(func(o *v1beta1.NodeImage) { o.Name, o.UID, o.Spec.Images = "node-1", "uid-1", images })
	return w
}

// edit changes the NodeImage as somebody else would.
func (w *world) edit(change func(o *v1beta1.NodeImage)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := &v1beta1.NodeImage{}
	if w.object != nil {
		o = w.object.DeepCopy()
	}
	change(o)
	w.store(o)
}

func (w *world) store(o *v1beta1.NodeImage) {
	w.version++
	o.ResourceVersion = strconv.Itoa(w.version)
	w.object = o
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

func (w *world) Object() *v1beta1.NodeImage {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.object
}

func (w *world) PatchStatus(_ context.Context, patch []byte) (*v1beta1.NodeImage, error) {
	time.Sleep(10 * time.Millisecond)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes++
	if w.refuse != nil {
		return nil, w.refuse
	}
	old, _ := json.Marshal(w.object)
	merged, err := jsonpatch.MergePatch(old, patch)
	if err != nil {
		return nil, err
	}
	o := &v1beta1.NodeImage{}
	if err := json.Unmarshal(merged, o); err != nil {
		return nil, err
	}
	if o.UID != w.object.UID {
		return nil, errors.New("the UID differs")
	}
	w.store(o)
	return o, nil
}

func (w *world) Image(_ context.Context, ref imageref.Full) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.images[ref.Name], w.down
}

func (w *world) Fill(context.Context) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fill, w.down
}

func (w *world) Pull(ctx context.Context, p cri.Pull) (string, error) {
	w.mu.Lock()
	w.pulls = append(w.pulls, p.Ref.Name)
	pulling, down := w.pulling, w.down
	w.mu.Unlock()
	if down != nil {
		return "", down
	}
	if pulling == nil {
		pulling = func(ctx context.Context, _ cri.Pull) error { return takes(ctx, time.Second) }
	}
	if err := pulling(ctx, p); err != nil {
		return "", err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.images[p.Ref.Name] = "sha256:" + p.Ref.Name
	return w.images[p.Ref.Name], nil
}

// takes is a pull that takes some time.
func takes(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *world) pulled() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.pulls)
}

func (w *world) find(_ context.Context, o pullSpec) ([]credentials.Credential, error) {
	if len(o.secrets) > 0 {
		return nil, fmt.Errorf("pull secret %s/%s: gone", o.secrets[0].Namespace, o.secrets[0].Name)
	}
	return w.credentials, nil
}

// begin starts an agent on the node.
func (w *world) begin() {
	ctx, cancel := context.WithCancel(w.t.Context())
	l := newLoop()
	l.store, l.changed, l.runtime, l.keychain = w, w.changed, w, w
	l.limits = pull.Limits{Pulls: 2, FillPercent: 85}
	l.report = newReporter(w.recorder, prometheus.NewRegistry())
	l.prepull = w.ahead
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.run(ctx)
	}()
	w.stop = func() {
		cancel()
		<-ended
	}
}

// after lets time go by, and returns the status then.
func (w *world) after(d time.Duration) v1beta1.NodeImageStatus {
	time.Sleep(d)
	synctest.Wait()
	return w.Object().Status
}

// of is the status of a tag as text.
func of(s v1beta1.NodeImageStatus, image, tag string) string {
	for _, t := range s.ImageStatuses[image].Tags {
		if t.Tag == tag {
			return strings.TrimSuffix(fmt.Sprintf("%s v%d %d%% %s: %s", t.Phase, t.Version, t.Progress, t.ImageID, t.Message), ": ")
		}
	}
	return "unknown"
}

func tags(all ...v1beta1.ImageTagSpec) map[string]v1beta1.ImageSpec {
	return map[string]v1beta1.ImageSpec{"r.io/app": {Tags: all}}
}

func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, not %q", what, got, want)
	}
}

// inTime runs a test in a bubble in which time goes by at once.
func inTime(t *testing.T, images map[string]v1beta1.ImageSpec, test func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, images)
		test(t, w)
		w.stop()
	})
}

func TestImageIsPulledAndReported(t *testing.T) {
	inTime(t, tags(v1beta1.ImageTagSpec{Tag: "v1", Version: 3}), func(t *testing.T, w *world) {
		w.begin()
		s := w.after(500 * time.Millisecond)
		expect(t, "while it is pulled", of(s, "r.io/app", "v1"), "Pulling v3 0% ")
		s = w.after(time.Second)
		expect(t, "in the end", of(s, "r.io/app", "v1"), "Succeeded v3 100% r.io/app@sha256:r.io/app:v1")
		if s.Desired != 1 || s.Succeeded != 1 || s.Pulling != 0 {
			t.Errorf("the numbers are %+v", s)
		}
		expect(t, "event", <-w.recorder.Events, "Normal PullImageSucceed Image r.io/app:v1, elapsed time 1s")
		w.after(time.Hour)
		if w.writes != 2 || len(w.pulled()) != 1 {
			t.Errorf("%d writes and the pulls %v, for one image", w.writes, w.pulled())
		}
	})
}

func TestFailureIsReportedWithItsReason(t *testing.T) {
	spec := tags(v1beta1.ImageTagSpec{
		Tag: "v1", PullPolicy: &v1beta1.ImageTagPullPolicy{BackoffLimit: ptr.To(int32(1))},
		PullSecrets: []v1beta1.ReferenceObject{{Namespace: "a", Name: "regcred"}},
	})
	inTime(t, spec, func(t *testing.T, w *world) {
		w.pulling = func(context.Context, cri.Pull) error { return errors.New("401 Unauthorized") }
		w.begin()
		s := w.after(500 * time.Millisecond)
		expect(t, "after the first try", of(s, "r.io/app", "v1"), "Pulling v0 0% : try 1 of 2 failed: 401 Unauthorized\npull secret a/regcred: gone")
		s = w.after(time.Second)
		expect(t, "in the end", of(s, "r.io/app", "v1"), "Failed v0 0% : 401 Unauthorized\npull secret a/regcred: gone")
		expect(t, "event", <-w.recorder.Events, "Warning PullImageFailed Image r.io/app:v1 401 Unauthorized\npull secret a/regcred: gone")
	})
}

func TestOtherImagesGoOnNextToOneThatHangs(t *testing.T) {
	spec := tags(v1beta1.ImageTagSpec{Tag: "bad", PullPolicy: &v1beta1.ImageTagPullPolicy{
		TimeoutSeconds: ptr.To(int32(20)), BackoffLimit: ptr.To(int32(0)),
	}}, v1beta1.ImageTagSpec{Tag: "v1"}, v1beta1.ImageTagSpec{Tag: "v2"})
	inTime(t, spec, func(t *testing.T, w *world) {
		w.pulling = func(ctx context.Context, p cri.Pull) error {
			if p.Ref.Name == "r.io/app:bad" {
				return takes(ctx, 24*time.Hour)
			}
			return takes(ctx, time.Second)
		}
		w.begin()
		s := w.after(15 * time.Second)
		if s.Succeeded != 2 || s.Pulling != 1 {
			t.Errorf("the numbers are %+v", s)
		}
		s = w.after(10 * time.Second)
		expect(t, "in the end", of(s, "r.io/app", "bad"), "Failed v0 0% : pulling took longer than the timeout of 20s")
	})
}

func TestAgentThatIsKilledGoesOn(t *testing.T) {
	inTime(t, tags(v1beta1.ImageTagSpec{Tag: "v1"}, v1beta1.ImageTagSpec{Tag: "v2", ImagePullPolicy: v1beta1.PullAlways}), func(t *testing.T, w *world) {
		w.pulling = func(ctx context.Context, p cri.Pull) error {
			return takes(ctx, map[string]time.Duration{"r.io/app:v1": time.Minute, "r.io/app:v2": time.Second}[p.Ref.Name])
		}
		w.begin()
		s := w.after(20 * time.Second)
		started := s.ImageStatuses["r.io/app"].Tags[0].StartTime
		w.stop()
		w.begin()
		s = w.after(2 * time.Minute)
		if s.Succeeded != 2 || !s.ImageStatuses["r.io/app"].Tags[0].StartTime.Equal(started) {
			t.Errorf("the status is %+v", s)
		}
		slices.Sort(w.pulls)
		if want := []string{"r.io/app:v1", "r.io/app:v1", "r.io/app:v2"}; !slices.Equal(w.pulls, want) {
			t.Errorf("pulled %v, not %v", w.pulls, want)
		}
	})
}

func TestWantThatIsTakenBackIsCancelled(t *testing.T) {
	inTime(t, tags(v1beta1.ImageTagSpec{Tag: "v1"}), func(t *testing.T, w *world) {
		cancelled := false
		w.pulling = func(ctx context.Context, _ cri.Pull) error {
			err := takes(ctx, time.Hour)
			cancelled = err != nil
			return err
		}
		w.begin()
		w.after(5 * time.Second)
		w.edit(func(o *v1beta1.NodeImage) { o.Spec.Images = nil })
		s := w.after(5 * time.Second)
		if !cancelled || s.Desired != 0 || len(s.ImageStatuses) != 0 {
			t.Errorf("cancelled %v, status %+v", cancelled, s)
		}
	})
}

func TestRuntimeThatGoesAwayCostsNoTry(t *testing.T) {
	spec := tags(v1beta1.ImageTagSpec{Tag: "v1", PullPolicy: &v1beta1.ImageTagPullPolicy{BackoffLimit: ptr.To(int32(0))}})
	inTime(t, spec, func(t *testing.T, w *world) {
		away := status.Error(codes.Unavailable, "no such socket")
		w.pulling = func(ctx context.Context, _ cri.Pull) error {
			if err := takes(ctx, 3*time.Second); err != nil {
				return err
			}
			return away
		}
		w.begin()
		w.after(time.Second)
		w.set(func() { w.down = away })
		s := w.after(time.Minute)
		expect(t, "while it is down", of(s, "r.io/app", "v1"),
			"Pulling v0 0% : the container runtime does not answer: rpc error: code = Unavailable desc = no such socket")
		w.set(func() { w.down, w.pulling = nil, nil })
		s = w.after(10 * time.Second)
		expect(t, "when it is back", of(s, "r.io/app", "v1"), "Succeeded v0 100% r.io/app@sha256:r.io/app:v1")
	})
}

func TestAPIServerThatIsAwayStopsNoPull(t *testing.T) {
	inTime(t, tags(v1beta1.ImageTagSpec{Tag: "v1"}), func(t *testing.T, w *world) {
		w.refuse = errors.New("connection refused")
		w.begin()
		s := w.after(time.Minute)
		if len(w.pulled()) != 1 || s.Desired != 0 || len(w.recorder.Events) != 0 {
			t.Errorf("pulls %v, status %+v, %d events", w.pulled(), s, len(w.recorder.Events))
		}
		if w.writes > 40 {
			t.Errorf("%d writes in a minute", w.writes)
		}
		w.set(func() { w.refuse = nil })
		s = w.after(5 * time.Second)
		if s.Succeeded != 1 || len(w.recorder.Events) != 1 {
			t.Errorf("status %+v, %d events", s, len(w.recorder.Events))
		}
	})
}

func TestImageThatSomebodyElsePulledIsTaken(t *testing.T) {
	spec := tags(v1beta1.ImageTagSpec{Tag: "v1"}, v1beta1.ImageTagSpec{Tag: "v2"}, v1beta1.ImageTagSpec{Tag: "v3"})
	inTime(t, spec, func(t *testing.T, w *world) {
		w.pulling = func(ctx context.Context, _ cri.Pull) error { return takes(ctx, time.Hour) }
		w.begin()
		w.after(time.Second)
		w.set(func() { w.images["r.io/app:v3"] = "sha256:theirs" })
		s := w.after(lookupInterval + 5*time.Second)
		expect(t, "the third, that waits", of(s, "r.io/app", "v3"), "Succeeded v0 100% r.io/app@sha256:theirs")
	})
}

func TestFullDiskIsRefusedWithTheReason(t *testing.T) {
	spec := tags(v1beta1.ImageTagSpec{Tag: "v1", PullPolicy: &v1beta1.ImageTagPullPolicy{BackoffLimit: ptr.To(int32(0))}})
	inTime(t, spec, func(t *testing.T, w *world) {
		w.fill = 91
		w.begin()
		s := w.after(time.Second)
		if got := of(s, "r.io/app", "v1"); !strings.HasPrefix(got, "Failed v0 0% : the image file system of the node is 91% full") || len(w.pulled()) != 0 {
			t.Errorf("%s, pulls %v", got, w.pulled())
		}
	})
}

func TestNodeImageThatIsMadeAgainIsAnother(t *testing.T) {
	inTime(t, tags(v1beta1.ImageTagSpec{Tag: "v1", ImagePullPolicy: v1beta1.PullAlways}), func(t *testing.T, w *world) {
		w.begin()
		w.after(5 * time.Second)
		w.edit(func(o *v1beta1.NodeImage) { o.UID, o.Status = "uid-2", v1beta1.NodeImageStatus{} })
		if s := w.after(5 * time.Second); s.Succeeded != 1 || len(w.pulled()) != 2 {
			t.Errorf("status %+v, pulls %v", s, w.pulled())
		}
	})
}

func TestWhatOthersKeepInTheStatusStays(t *testing.T) {
	inTime(t, tags(v1beta1.ImageTagSpec{Tag: "v1"}), func(t *testing.T, w *world) {
		w.begin()
		w.after(500 * time.Millisecond)
		w.edit(func(o *v1beta1.NodeImage) {
			o.Status.FirstSyncStatus = &v1beta1.SyncStatus{Status: v1beta1.SyncStatusSucceeded, SyncAt: metav1.Now()}
		})
		if s := w.after(5 * time.Second); s.FirstSyncStatus == nil || s.Succeeded != 1 {
			t.Errorf("the status is %+v", s)
		}
	})
}

func TestWhatTheManagerGaveUpIsNotQuarrelledAbout(t *testing.T) {
	inTime(t, tags(v1beta1.ImageTagSpec{Tag: "v1"}), func(t *testing.T, w *world) {
		cancelled := false
		w.pulling = func(ctx context.Context, _ cri.Pull) error {
			err := takes(ctx, time.Hour)
			cancelled = err != nil
			return err
		}
		w.begin()
		w.after(10 * time.Second)
		w.edit(func(o *v1beta1.NodeImage) {
			tag := &o.Status.ImageStatuses["r.io/app"].Tags[0]
			tag.Phase, tag.CompletionTime, tag.Message = v1beta1.ImagePhaseFailed, ptr.To(metav1.Now()), "node has not responded for a long time"
			o.Status.Pulling, o.Status.Failed = 0, 1
		})
		s := w.after(10 * time.Minute)
		expect(t, "in the end", of(s, "r.io/app", "v1"), "Failed v0 0% : node has not responded for a long time")
		// The second write says how the first round has ended, and nothing else.
		if !cancelled || w.writes != 2 || s.FirstSyncStatus == nil {
			t.Errorf("cancelled %v, %d writes, first round %+v", cancelled, w.writes, s.FirstSyncStatus)
		}
	})
}

func TestStatusSurvivesAsMemory(t *testing.T) {
	now := time.Unix(1700000000, 0)
	states := []pull.State{
		{Key: pull.Key{Image: "a", Tag: "1"}, Phase: pull.Waiting, Started: now, Message: "waits"},
		{Key: pull.Key{Image: "a", Tag: "2", Version: 4}, Phase: pull.Pulling, Progress: 40, Started: now},
		{Key: pull.Key{Image: "b", Tag: "1"}, Phase: pull.Succeeded, Progress: 100, Started: now, Completed: now, ImageID: "sha256:b"},
		{Key: pull.Key{Image: "b", Tag: "2"}, Phase: pull.Broken, Started: now, Completed: now, Message: "no"},
	}
	got := statesOf(statusOf(states, &v1beta1.NodeImageStatus{}))
	slices.SortFunc(got, func(a, b pull.State) int { return a.Key.Compare(b.Key) })
	if !slices.Equal(got, states) {
		t.Errorf("written and read again it is\n%+v, not\n%+v", got, states)
	}
}

func TestPatchNamesTheObjectAndTakesImagesOut(t *testing.T) {
	before := statusOf([]pull.State{{Key: pull.Key{Image: "a", Tag: "1"}}}, &v1beta1.NodeImageStatus{})
	patch, err := patchOf(types.UID("u"), before, statusOf(nil, before))
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "patch", string(patch), `{"metadata":{"uid":"u"},"status":{"desired":0,"imageStatuses":null,"waiting":0}}`)
	if patch, err = patchOf("u", before, before); patch != nil || err != nil {
		t.Errorf("nothing to change gives %s %v", patch, err)
	}
}
