// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/api/openyurt"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialect"
	openyurtdialect "everynode.dev/everynode/internal/dialect/openyurt"
)

// yurtMoment is what there was of a set while OpenYurt's own controller was at work, and what that had written to pods since the moment before; see
// testdata/openyurt/README.md.
type yurtMoment struct {
	recording
	name   string
	writes []yurtWrite
}

type yurtWrite struct {
	Verb, Resource, Pod string
	Body                json.RawMessage
}

// yurtMoments are those of all recordings, by their names: the version of OpenYurt, the set, and what had happened.
func yurtMoments(t *testing.T) map[string]*yurtMoment {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "openyurt", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings of OpenYurt (%v)", err)
	}
	moments := map[string]*yurtMoment{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var raw struct {
			OpenYurt string
			Moments  []json.RawMessage
		}
		if err := json.Unmarshal(text, &raw); err != nil {
			t.Fatal(err)
		}
		for _, one := range raw.Moments {
			m := &yurtMoment{}
			var rest struct {
				Name   string
				Writes []yurtWrite
			}
			if err := json.Unmarshal(one, &m.recording); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(one, &rest); err != nil {
				t.Fatal(err)
			}
			m.name, m.writes = rest.Name, rest.Writes
			moments[raw.OpenYurt+" "+m.name] = m
		}
	}
	return moments
}

// yurtWorld is one in which Everynode takes the set of a moment over, with the pods that there were at another one.
func yurtWorld(t *testing.T, m, before *yurtMoment, kind string) *world {
	t.Helper()
	d := nativeDialect()
	d.Source.Digest, d.StatusPatch, d.Announce = openyurtdialect.Digest, openyurtdialect.StatusPatch, openyurtdialect.Announce
	if kind == "external" {
		d.Source, d.StatusPatch = dialect.Source{Dialect: "openyurt", Digest: openyurtdialect.DigestExternal}, openyurtdialect.ExternalPatch
	}
	w := newWorldOf(t, 0, d)
	w.index.ReadFacts(openyurtdialect.Facts)
	set := m.Sets[0].DeepCopy()
	w.key.Namespace, w.key.Name = set.GetNamespace(), set.GetName()
	w.clock.SetTime(set.GetCreationTimestamp().Add(time.Hour))
	w.set = set
	w.set.SetResourceVersion(w.next())
	w.seeSet()
	for _, r := range m.Revisions {
		r = r.DeepCopy()
		r.ResourceVersion = w.next()
		w.revisions[r.Name] = r
	}
	for _, p := range before.Pods {
		p = p.DeepCopy()
		w.index.PutNode(clustercache.Node{Name: p.Spec.NodeName, RV: w.next(), Ready: true, Labels: p.Spec.NodeSelector})
		w.pods[p.Name] = p
		w.changed(p)
	}
	w.deliver()
	return w
}

// needUpgrade is what pods say of whether there is a newer version, by their names.
func needUpgrade(pods []*corev1.Pod) map[string]corev1.PodCondition {
	said := map[string]corev1.PodCondition{}
	for _, p := range pods {
		for _, c := range p.Status.Conditions {
			if c.Type == openyurt.PodNeedUpgrade {
				said[p.Name] = c
			}
		}
	}
	return said
}

// old is whether a newer revision than that of the pod was recorded.
func (m *yurtMoment) old(p *corev1.Pod) bool {
	newest := slices.MaxFunc(m.Revisions, func(a, b *appsv1.ControllerRevision) int { return cmp.Compare(a.Revision, b.Revision) })
	return p.Labels[hashLabel] != newest.Labels[hashLabel]
}

// TestPodsThatOpenYurtHasReported: Everynode takes over what OpenYurt has written into pods, and when. It adds the name of the newest revision, which this version of
// OpenYurt leaves out and later ones write, and changes nothing else, but where OpenYurt was wrong: it computes the hash of a template with types of its own, which
// is not that of another version of Kubernetes, so after a rollback it takes every pod of an earlier template generation for old.
func TestPodsThatOpenYurtHasReported(t *testing.T) {
	for name, m := range yurtMoments(t) {
		if !strings.Contains(name, " ota ") {
			continue
		}
		both(t, func(t *testing.T, kind string) {
			w := yurtWorld(t, m, m, kind)
			w.passes()
			if verbs := w.verbs(); !slices.Equal(verbs, []string{"patch-status"}) && !slices.Equal(verbs, []string{"patch-status", "status"}) {
				t.Errorf("%s: it wrote %v", name, w.log)
			}
			wrong := 0
			for _, p := range m.Pods {
				if !m.takenOver(t, name, p, w.pods[p.Name]) {
					wrong++
				}
			}
			if want := map[bool]int{true: 2}[strings.HasSuffix(name, " undone")]; wrong != want {
				t.Errorf("%s: OpenYurt is wrong about %d pods, want %d", name, wrong, want)
			}
		})
	}
}

// takenOver checks what Everynode has made of a pod, and returns whether OpenYurt was right about it.
func (m *yurtMoment) takenOver(t *testing.T, name string, before, after *corev1.Pod) (right bool) {
	t.Helper()
	was, told := needUpgrade([]*corev1.Pod{before})[before.Name]
	is := needUpgrade([]*corev1.Pod{after})[before.Name]
	if _, names := openyurt.ParseRevision(is.Message); !told || !names || was.Message != "" {
		t.Errorf("%s: the messages of pod %s are %q and %q", name, before.Name, was.Message, is.Message)
	}
	if old := is.Status == corev1.ConditionTrue; old != m.old(before) {
		t.Errorf("%s: pod %s says %s", name, before.Name, is.Status)
	}
	is.Message = ""
	if right = (was.Status == corev1.ConditionTrue) == m.old(before); right && shown(is) != shown(was) {
		t.Errorf("%s: pod %s said %s, and says %s", name, before.Name, shown(was), shown(is))
	}
	if others(before) != others(after) {
		t.Errorf("%s: pod %s has other conditions\n%s\nand had\n%s", name, before.Name, others(after), others(before))
	}
	return right
}

// others are the conditions of a pod that are not OpenYurt's.
func others(p *corev1.Pod) string {
	conditions := slices.DeleteFunc(slices.Clone(p.Status.Conditions), func(c corev1.PodCondition) bool { return c.Type == openyurt.PodNeedUpgrade })
	return shown(conditions)
}

// TestEverynodeTellsPodsTheSame: from the pods of one moment and the set of the next one Everynode comes to what OpenYurt came to, and changes the time of the same
// conditions.
func TestEverynodeTellsPodsTheSame(t *testing.T) {
	moments := yurtMoments(t)
	for name, before := range moments {
		for from, to := range map[string]string{" ota created": " ota updated", " ota updated": " ota replaced"} {
			if version, ok := strings.CutSuffix(name, from); ok {
				both(t, func(t *testing.T, kind string) { tellsTheSame(t, before, moments[version+to], kind) })
			}
		}
	}
}

func tellsTheSame(t *testing.T, before, next *yurtMoment, kind string) {
	w := yurtWorld(t, next, before, kind)
	w.passes()
	was, theirs, ours := needUpgrade(before.Pods), needUpgrade(next.Pods), needUpgrade(slices.Collect(maps.Values(w.pods)))
	compared := 0
	for pod, is := range ours {
		want, stays := theirs[pod]
		if !stays {
			continue // it was replaced
		}
		compared++
		turned, theyTurned := is.LastTransitionTime != was[pod].LastTransitionTime, want.LastTransitionTime != was[pod].LastTransitionTime
		if is.Status != want.Status || turned != theyTurned {
			t.Errorf("%s: pod %s says %s (time changed: %t), and OpenYurt wrote %s (%t)", next.name, pod, is.Status, turned, want.Status, theyTurned)
		}
	}
	if compared < 2 {
		t.Errorf("%s: %d pods were compared", next.name, compared)
	}
}

// TestConditionIsOpenYurts: a pod that says nothing yet gets the condition with the fields that OpenYurt writes, and the message.
func TestConditionIsOpenYurts(t *testing.T) {
	for name, m := range yurtMoments(t) {
		for _, p := range m.Pods {
			want, said := needUpgrade([]*corev1.Pod{p})[p.Name]
			if !said {
				continue
			}
			silent := p.DeepCopy()
			silent.Status.Conditions = slices.DeleteFunc(silent.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == openyurt.PodNeedUpgrade })
			edit := openyurtdialect.Announce(announcement(p, want), want.LastTransitionTime.Time)
			told := &corev1.Pod{}
			if err := strategic(silent, edit.Patch, told); err != nil {
				t.Fatal(err)
			}
			got := needUpgrade([]*corev1.Pod{told})[p.Name]
			got.Message = ""
			if shown(got) != shown(want) {
				t.Errorf("%s: pod %s gets %s, and OpenYurt wrote %s", name, p.Name, shown(got), shown(want))
			}
			if facts := openyurtdialect.Facts(p); facts == nil || !facts.Announced.Said || facts.Announced.Old != (want.Status == corev1.ConditionTrue) {
				t.Errorf("%s: %s reads as %+v", name, shown(want), facts)
			}
		}
	}
}

func announcement(p *corev1.Pod, c corev1.PodCondition) dialect.Announcement {
	return dialect.Announcement{UID: string(p.UID), Old: c.Status == corev1.ConditionTrue, Hash: "h", Turned: true}
}

// TestEverynodeReplacesTheSamePods: in an update Everynode deletes the pods that OpenYurt deleted, and no other ones.
func TestEverynodeReplacesTheSamePods(t *testing.T) {
	moments := yurtMoments(t)
	for name, after := range moments {
		before, ok := moments[strings.TrimSuffix(name, " updated")+" created"]
		if !ok || strings.Contains(name, " ota ") {
			continue
		}
		w := yurtWorld(t, after, before, "native")
		w.settle()
		var theirs []string
		for _, write := range after.writes {
			if write.Verb == "delete" {
				theirs = append(theirs, write.Pod)
			}
		}
		slices.Sort(theirs)
		if ours := w.wrote("delete"); !slices.Equal(ours, theirs) || len(theirs) != 3 {
			t.Errorf("%s: Everynode deleted %v, and OpenYurt %v", name, ours, theirs)
		}
		if verbs := w.wrote("create-revision"); len(verbs) != 0 {
			t.Errorf("%s: it wrote revisions %v", name, verbs)
		}
	}
}
