// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/controller/daemon/util"

	"everynode.dev/everynode/api/everynode"
)

// sight is everything that is compared of a state.
type sight map[topic]string

// topic is what something seen is about: pods or a revision that say that they are of a set, or the set itself.
type topic struct{ set, of string }

// onNode begins the topic of the pods on a node, ofRevision that of a revision; ofStatus is that of the status of a set.
const (
	onNode     = "pods on "
	ofRevision = "revision "
	ofStatus   = "status"
)

// see looks at a state that came from another one. Names and UIDs of new pods, and times, are left out.
func see(from, s *state) sight {
	seen := sight{}
	for _, name := range s.names(pods) {
		p := at[corev1.Pod](s, pods, name)
		on, _ := util.GetTargetNodeName(p)
		was := "new"
		if before := at[corev1.Pod](from, pods, name); before != nil && before.UID == p.UID {
			was = name
		}
		seen[topic{p.Labels["app"], onNode + on}] += fmt.Sprintf("\n\t%s", ofPod(s, p, was))
	}
	for key, text := range seen {
		lines := strings.Split(text, "\n")
		slices.Sort(lines)
		seen[key] = strings.Join(lines, "\n")
	}
	for _, name := range s.names(revisions) {
		r := at[appsv1.ControllerRevision](s, revisions, name)
		seen[topic{r.Labels["app"], ofRevision + name}] = fmt.Sprintf("number %d of %s labels %s annotations %s data %s",
			r.Revision, ownerOf(s, r), show(r.Labels), show(withoutOurs(r.Annotations)), sameJSON(r.Data.Raw))
	}
	for _, name := range s.names(sets) {
		ds := at[appsv1.DaemonSet](s, sets, name)
		status := ds.Status
		status.Conditions = nil
		seen[topic{name, ofStatus}] = show(status)
		seen[topic{name, "specification"}] = fmt.Sprintf("annotations %s spec %s", show(ds.Annotations), show(ds.Spec))
	}
	return seen
}

func ofPod(s *state, p *corev1.Pod, was string) string {
	return fmt.Sprintf("%s %s %s ready %v deleting %v of %s labels %s annotations %s spec %s", was, p.Spec.Containers[0].Image, p.Status.Phase,
		isReady(p), p.DeletionTimestamp != nil, ownerOf(s, p), show(p.Labels), show(p.Annotations), show(p.Spec))
}

// withoutOurs are the annotations of a revision without what was measured, which the native controller does not do.
func withoutOurs(annotations map[string]string) map[string]string {
	annotations = maps.Clone(annotations)
	delete(annotations, everynode.MeasuredDurations)
	return annotations
}

// ownerOf names the set by its name, and says whether it is the one of that name that is there.
func ownerOf(s *state, o object) string {
	refs := slices.Clone(o.GetOwnerReferences())
	for i := range refs {
		there := "gone"
		if ds := at[appsv1.DaemonSet](s, sets, refs[i].Name); ds != nil && ds.UID == refs[i].UID {
			there = "there"
		}
		refs[i] = *refs[i].DeepCopy()
		refs[i].UID = "" // counts what was created before
		refs[i].Name += " " + there
	}
	return show(refs)
}

func show(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // everything here comes from JSON
	}
	return string(text)
}

func sameJSON(raw []byte) string {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return string(raw)
	}
	return show(v)
}

// mismatch is something that the two have left differently; empty where there is nothing.
type mismatch struct {
	topic
	native, ours string
}

func (m mismatch) String() string {
	return fmt.Sprintf("%s: %s\n  native: %s\n  ours:   %s", m.set, m.of, excerpt(m.native, m.ours), excerpt(m.ours, m.native))
}

// excerpt is a text from a little before where it differs from another one.
func excerpt(text, from string) string {
	const before, most = 100, 900
	same := 0
	for same < min(len(text), len(from)) && text[same] == from[same] {
		same++
	}
	if same > before {
		text = "…" + text[same-before:]
	}
	if len(text) > most {
		text = text[:most] + "…"
	}
	return text
}

// of is what is seen of one set.
func (a sight) of(set string) sight {
	some := sight{}
	for topic, text := range a {
		if topic.set == set {
			some[topic] = text
		}
	}
	return some
}

func (a sight) butHistory() sight {
	some := maps.Clone(a)
	maps.DeleteFunc(some, func(t topic, _ string) bool { return strings.HasPrefix(t.of, ofRevision) })
	return some
}

func (a sight) is(b sight) bool { return maps.Equal(a, b) }

func (a sight) compare(b sight) []mismatch {
	all := maps.Clone(a)
	maps.Copy(all, b)
	var found []mismatch
	for of := range all {
		if a[of] != b[of] {
			found = append(found, mismatch{of, a[of], b[of]})
		}
	}
	slices.SortFunc(found, func(a, b mismatch) int { return strings.Compare(a.set+a.of, b.set+b.of) })
	return found
}
