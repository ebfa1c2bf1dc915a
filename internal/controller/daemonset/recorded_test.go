// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "k8s.io/apimachinery/pkg/util/json"

	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/revision"
)

// recording is what the API server and the DaemonSet controller of one version of Kubernetes wrote; see testdata/kubernetes/README.md.
type recording struct {
	Version   string
	Sets      []*unstructured.Unstructured
	Revisions []*appsv1.ControllerRevision
	Pods      []*corev1.Pod
}

// dropped is the set with fields that some API servers drop, so its template is not the same in all recordings.
const dropped = "newer"

// recordings are those of all versions, the newest first.
func recordings(t *testing.T) []*recording {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "kubernetes", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings (%v)", err)
	}
	slices.Sort(files)
	slices.Reverse(files)
	var all []*recording
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r := &recording{}
		if err := json.Unmarshal(text, r); err != nil || r.Version+".json" != filepath.Base(file) {
			t.Fatalf("%s is of %q (%v)", file, r.Version, err)
		}
		all = append(all, r)
	}
	return all
}

// TestEachMinorIsRecorded: what is claimed to be compatible was compared with what it writes.
func TestEachMinorIsRecorded(t *testing.T) {
	text, err := os.ReadFile("../../../hack/minors")
	if err != nil {
		t.Fatal(err)
	}
	all := recordings(t)
	for line := range strings.Lines(string(text)) {
		version, _, _ := strings.Cut(line, " ")
		if strings.HasPrefix(version, "v") && !slices.ContainsFunc(all, func(r *recording) bool { return r.Version == version }) {
			t.Errorf("%s is in hack/minors and not in testdata/kubernetes, whose README says how to record it", version)
		}
	}
}

// UnmarshalJSON reads a recording, and its sets as the manager gets them from a watch.
func (r *recording) UnmarshalJSON(text []byte) error {
	var raw struct {
		Version         string
		Sets            []json.RawMessage
		Revisions, Pods json.RawMessage
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return err
	}
	r.Version = raw.Version
	for _, set := range raw.Sets {
		obj := &unstructured.Unstructured{}
		if err := kjson.Unmarshal(set, &obj.Object); err != nil {
			return err
		}
		r.Sets = append(r.Sets, obj)
	}
	if err := json.Unmarshal(raw.Revisions, &r.Revisions); err != nil {
		return err
	}
	return json.Unmarshal(raw.Pods, &r.Pods)
}

// names are the names of the sets.
func (r *recording) names() []string {
	var names []string
	for _, set := range r.Sets {
		names = append(names, set.GetName())
	}
	return slices.Compact(names)
}

// versions are those of a set, the oldest first, by copies.
func (r *recording) versions(name string) []*unstructured.Unstructured {
	var versions []*unstructured.Unstructured
	for _, set := range r.Sets {
		if set.GetName() == name {
			versions = append(versions, set.DeepCopy())
		}
	}
	return versions
}

// last is the newest version of a set.
func (r *recording) last(name string) *unstructured.Unstructured {
	versions := r.versions(name)
	return versions[len(versions)-1]
}

// revisionOf is the revision that was recorded of the template of a set. No two templates of a set have the same image.
func (r *recording) revisionOf(t *testing.T, set *unstructured.Unstructured) *appsv1.ControllerRevision {
	t.Helper()
	for _, recorded := range r.Revisions {
		if controls(set, recorded) && bytes.Contains(recorded.Data.Raw, []byte(`"image":"`+imageOf(set)+`"`)) {
			return recorded
		}
	}
	t.Fatalf("no revision of %s with image %s is recorded", set.GetName(), imageOf(set))
	return nil
}

func imageOf(set *unstructured.Unstructured) string {
	return firstContainer(set)["image"].(string)
}

func firstContainer(set *unstructured.Unstructured) map[string]any {
	return templateOf(set)["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)
}

func templateOf(set *unstructured.Unstructured) map[string]any {
	return set.Object["spec"].(map[string]any)["template"].(map[string]any)
}

func controls(set *unstructured.Unstructured, object interface {
	GetLabels() map[string]string
}) bool {
	return object.GetLabels()["app"] == set.GetName()
}

// world is one with the set as given, and with the revisions and the pod that were recorded of it.
func (r *recording) world(t *testing.T, set *unstructured.Unstructured) *world {
	t.Helper()
	w := r.emptyWorld(t, set)
	for _, recorded := range r.Revisions {
		if controls(set, recorded) {
			recorded = recorded.DeepCopy()
			recorded.ResourceVersion = w.next()
			w.revisions[recorded.Name] = recorded
		}
	}
	for _, pod := range r.Pods {
		if controls(set, pod) {
			w.pods[pod.Name] = pod.DeepCopy()
			w.changed(w.pods[pod.Name])
		}
	}
	w.deliver()
	return w
}

// emptyWorld is one with the set, and with the node of the recordings.
func (r *recording) emptyWorld(t *testing.T, set *unstructured.Unstructured) *world {
	t.Helper()
	w := newWorldOf(t, 0, nativeDialect())
	w.key.Namespace, w.key.Name = set.GetNamespace(), set.GetName()
	w.clock.SetTime(set.GetCreationTimestamp().Add(time.Hour))
	w.index.PutNode(clustercache.Node{Name: r.Pods[0].Spec.NodeName, RV: w.next(), Ready: true, Labels: map[string]string{corev1.LabelOSStable: "linux"}})
	w.set = set
	w.set.SetResourceVersion(w.next())
	w.seeSet()
	return w
}

// passes are what the controller writes in a few passes, and what goes wrong: nothing where all is as it should be.
func (w *world) passes() []string {
	w.t.Helper()
	for range 4 {
		w.deliver()
		if err := w.pass(); err != nil {
			w.log = append(w.log, "error "+err.Error())
		}
		w.clock.Step(time.Minute)
	}
	return w.log
}

// relabel changes a byte of labels of all pods, and removes those with a "-" in front.
func (w *world) relabel(labels ...string) {
	for name, pod := range w.pods {
		pod = pod.DeepCopy() // the index shares the labels of the other one
		for _, label := range labels {
			if gone, removed := strings.CutPrefix(label, "-"); removed {
				delete(pod.Labels, gone)
			} else {
				pod.Labels[label] = "x" + pod.Labels[label][1:]
			}
		}
		w.pods[name] = pod
	}
}

// renew has the index see everything once more, as newer versions.
func (w *world) renew() {
	for _, recorded := range w.revisions {
		recorded.ResourceVersion = w.next()
	}
	for _, pod := range w.pods {
		pod.ResourceVersion = w.next()
	}
	w.set.SetResourceVersion(w.next())
	w.deliver()
}

// each runs a test for each set of each recording.
func each(t *testing.T, test func(t *testing.T, r *recording, name string)) {
	for _, r := range recordings(t) {
		for _, name := range r.names() {
			t.Run(r.Version+"/"+name, func(t *testing.T) { test(t, r, name) })
		}
	}
}

// TestRecordedSetsAreLeftAlone: what kube-controller-manager has left at rest is at rest. Everynode writes no revision, no pod, and no other status.
func TestRecordedSetsAreLeftAlone(t *testing.T) {
	each(t, func(t *testing.T, r *recording, name string) {
		set := r.last(name)
		w := r.world(t, set)
		if log := w.passes(); len(log) != 0 {
			t.Errorf("it wrote %v, status %v", log, w.set.Object["status"])
		}
	})
}

// TestRecordedTemplatesOfAnotherAPIServer: the API server is replaced by one of another version, which serves the template with its own defaults.
func TestRecordedTemplatesOfAnotherAPIServer(t *testing.T) {
	all := recordings(t)
	for i, from := range all {
		for k, to := range all {
			if testing.Short() && i-k != 1 && k-i != 1 {
				continue
			}
			for _, name := range from.names() {
				if from == to || name == dropped {
					continue
				}
				t.Run(fmt.Sprintf("%s-%s/%s", from.Version, to.Version, name), func(t *testing.T) {
					set := from.last(name)
					set.Object["spec"].(map[string]any)["template"] = templateOf(to.last(name))
					if log := from.world(t, set).passes(); len(log) != 0 {
						t.Errorf("it wrote %v", log)
					}
				})
			}
		}
	}
}

// TestRecordedRevisionsAreFoundAgain: a rollback to a template that kube-controller-manager has written a revision of gives that one a new number, and its
// hash to the pods; it writes no other one.
func TestRecordedRevisionsAreFoundAgain(t *testing.T) {
	each(t, func(t *testing.T, r *recording, name string) {
		set, first := r.last(name), r.versions(name)[0]
		if len(r.versions(name)) == 1 {
			return // there is nothing to go back to
		}
		if imageOf(first) == imageOf(set) {
			first = r.versions(name)[1] // the last change was a rollback itself
		}
		set.Object["spec"].(map[string]any)["template"] = templateOf(first)
		set.SetGeneration(set.GetGeneration() + 1)
		annotations := set.GetAnnotations()
		annotations[appsv1.DeprecatedTemplateGeneration] = fmt.Sprint(set.GetGeneration())
		set.SetAnnotations(annotations)
		w, want := r.world(t, set), r.revisionOf(t, first)
		highest := int64(0)
		for _, recorded := range w.revisions {
			highest = max(highest, recorded.Revision)
		}
		w.settle()
		made, renumbered := w.wrote("create-revision"), slices.Compact(w.wrote("patch-revision")) // in the end, it also gets the durations
		if len(made) != 0 || !slices.Equal(renumbered, []string{want.Name}) {
			t.Errorf("it wrote revisions %v and changed %v, want a change of %s", made, renumbered, want.Name)
		}
		if number := w.revisions[want.Name].Revision; number != highest+1 {
			t.Errorf("revision %s has number %d, want %d", want.Name, number, highest+1)
		}
		for _, pod := range w.pods {
			if hash := pod.Labels[hashLabel]; hash != want.Labels[hashLabel] {
				t.Errorf("pod %s has hash %s, want %s", pod.Name, hash, want.Labels[hashLabel])
			}
		}
	})
}

const hashLabel = appsv1.ControllerRevisionHashLabelKey

// TestRecordedRevisionsAreWrittenTheSame: where a revision is new, Everynode writes what the newest kube-controller-manager wrote, byte for byte. What an older
// one wrote differs in what differences says, and in nothing else.
func TestRecordedRevisionsAreWrittenTheSame(t *testing.T) {
	each(t, func(t *testing.T, r *recording, name string) {
		known := differences[r.Version]
		seen := map[string]bool{}
		for _, set := range r.versions(name) {
			if seen[imageOf(set)] {
				continue // a rollback, which has no revision of its own
			}
			seen[imageOf(set)] = true
			want := r.revisionOf(t, set)
			w := r.emptyWorld(t, set)
			w.mustPass()
			if len(w.revisions) != 1 {
				t.Fatalf("%d revisions", len(w.revisions))
			}
			for _, got := range w.revisions {
				compareRevisions(t, got, want, known)
			}
		}
	})
}

func compareRevisions(t *testing.T, got, want *appsv1.ControllerRevision, known difference) {
	t.Helper()
	if (got.Name == want.Name) == known.hash {
		t.Errorf("the name is %s, and %s was recorded", got.Name, want.Name)
	}
	data := got.Data.Raw
	if known.data != nil {
		data = known.data(data)
	}
	if !bytes.Equal(data, want.Data.Raw) {
		t.Errorf("revision %s has the data\n%s\nand recorded were\n%s", got.Name, data, want.Data.Raw)
	}
	got.Labels[hashLabel] = want.Labels[hashLabel] // which is in the name
	for what, pair := range map[string][2]any{
		"labels": {got.Labels, want.Labels}, "annotations": {got.Annotations, want.Annotations}, "owners": {shown(got.OwnerReferences), shown(want.OwnerReferences)},
	} {
		if fmt.Sprint(pair[0]) != fmt.Sprint(pair[1]) {
			t.Errorf("revision %s has the %s %v, and recorded were %v", got.Name, what, pair[0], pair[1])
		}
	}
}

func shown(value any) string {
	text, err := json.Marshal(value)
	return fmt.Sprint(string(text), err)
}

// difference is in what a version differs from the newest one.
type difference struct {
	// hash is whether it has another hash for the same template: the hash covers the Go types of all fields, also of those that are not set. No pod is restarted
	// for that: both controllers find a revision by its data, which are the same, and a pod by the hash that the revision carries.
	hash bool
	// data makes what it writes of what the newest one writes; nil if that is the same.
	data func(newest []byte) []byte
}

// TestAChangedRecordingIsNoticed: each of the tests above can fail.
func TestAChangedRecordingIsNoticed(t *testing.T) {
	const name = "defaults"
	for _, r := range recordings(t) {
		set := r.last(name)
		current := r.revisionOf(t, set)
		for change, c := range map[string]struct {
			do   func(w *world)
			want string // the writes that show it
		}{
			"a byte of the data": {func(w *world) {
				raw := w.revisions[current.Name].Data.Raw
				w.revisions[current.Name].Data.Raw = bytes.Replace(raw, []byte(`"path":"/var/lib/agent"`), []byte(`"path":"/var/lib/agenu"`), 1)
			}, "create-revision"},
			"a byte of the template": {func(w *world) { firstContainer(w.set)["image"] = "registry.example/daemon:4" }, "create-revision"},
			"a byte of a pod's hash, and no generation": {func(w *world) {
				w.relabel(hashLabel, "-pod-template-generation")
			}, "delete"},
			"a byte of a pod's hash, and its generation says the same": {func(w *world) { w.relabel(hashLabel) }, ""},
			"a number of the status": {func(w *world) {
				_ = unstructured.SetNestedField(w.set.Object, int64(2), "status", "numberReady")
			}, "status"},
		} {
			t.Run(r.Version+"/"+change, func(t *testing.T) {
				w := r.world(t, set.DeepCopy())
				c.do(w)
				w.renew()
				log := strings.Join(w.passes(), ", ")
				if c.want == "" && log != "" || !strings.Contains(log, c.want) {
					t.Errorf("it wrote %q, want %q", log, c.want)
				}
			})
		}
	}
}

// TestEveryByteOfARecordingCounts: a revision one byte of which is another letter or digit is not that of the template, but for what says nothing.
func TestEveryByteOfARecordingCounts(t *testing.T) {
	r := recordings(t)[0]
	for _, name := range []string{"by-hand", "odd"} {
		set := r.last(name)
		data := r.revisionOf(t, set).Data.Raw
		for i, b := range data {
			if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", rune(b)) {
				continue
			}
			changed := bytes.Clone(data)
			changed[i] ^= 1
			template, err := revision.Decode(changed)
			if err != nil || !revision.Same(template, templateOf(set)) {
				continue
			}
			if around := string(data[max(0, i-10):min(len(data), i+10)]); !bytes.Contains(data[max(0, i-17):min(len(data), i+17)], []byte(`"$patch":"replace"`)) {
				t.Errorf("%s: with another byte in the middle of %s it is still the same", name, around)
			}
		}
	}
}

// differences are those of the versions that are recorded.
var differences = map[string]difference{
	"v1.37.1": {},
	"v1.36.3": {hash: true},
	"v1.35.4": {hash: true},
	"v1.34.4": {hash: true},
}
