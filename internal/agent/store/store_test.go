// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v2 "everynode.dev/everynode/api/agent/v2"
)

// bench is a directory in which a store is opened again and again.
type bench struct {
	t    testing.TB
	dir  string
	said []string
}

func newBench(t testing.TB) *bench { return &bench{t: t, dir: filepath.Join(t.TempDir(), "state")} }

func (b *bench) open() *Store {
	b.t.Helper()
	s, err := Open(Options{Directory: b.dir, Node: "n1", Say: func(m string) { b.said = append(b.said, m) }})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = s.Close() })
	return s
}

func (b *bench) file() string { return filepath.Join(b.dir, FileName) }

func pod(name, version string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), ResourceVersion: version},
		Spec:       corev1.PodSpec{NodeName: "n1"}, Status: corev1.PodStatus{Message: strings.Repeat("m", 300)},
	}
}

func names(t testing.TB, s *Store) string {
	t.Helper()
	pods, seen, err := s.Pods()
	if err != nil {
		t.Fatal(err)
	}
	if !seen {
		return "never seen"
	}
	all := []string{}
	for _, p := range pods {
		all = append(all, p.Name+"@"+p.ResourceVersion)
	}
	return strings.Join(all, " ")
}

func mustSave(t testing.TB, s *Store, pods ...*corev1.Pod) {
	t.Helper()
	if err := s.SavePods(pods); err != nil {
		t.Fatal(err)
	}
}

func TestPodsSurviveARestart(t *testing.T) {
	b := newBench(t)
	s := b.open()
	if got := names(t, s); got != "never seen" {
		t.Errorf("a new store has %q", got)
	}
	steps := []struct {
		pods []*corev1.Pod
		want string
	}{
		{[]*corev1.Pod{pod("b", "1"), pod("a", "1")}, "a@1 b@1"},
		{[]*corev1.Pod{pod("a", "2"), pod("c", "3")}, "a@2 c@3"},
		{nil, ""},
	}
	for _, step := range steps {
		mustSave(t, s, step.pods...)
		if got := names(t, s); got != step.want {
			t.Errorf("the store has %q, want %q", got, step.want)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = b.open()
		if got := names(t, s); got != step.want {
			t.Errorf("after a restart the store has %q, want %q", got, step.want)
		}
	}
	if len(b.said) > 0 {
		t.Errorf("it says %q", b.said)
	}
}

func decision(uid, revision string, made int64) v2.Decision {
	return v2.Decision{Namespace: "default", Name: "a", UID: uid, Revision: revision, State: v2.DecisionPending, Made: time.Unix(made, 0).UTC()}
}

func TestDecisions(t *testing.T) {
	b := newBench(t)
	s := b.open()
	first, second := decision("u1", "r1", 1), decision("u1", "r2", 2)
	for _, d := range []v2.Decision{first, second} {
		if err := s.Decide(d); err != nil {
			t.Fatal(err)
		}
	}
	// Whoever has carried out another one must not remove the second.
	for _, other := range []v2.Decision{first, decision("u1", "r1", 2), decision("u2", "r2", 2), decision("u1", "r2", 3)} {
		if err := s.Forget(other); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = b.open()
	name := types.NamespacedName{Namespace: "default", Name: "a"}
	if d, err := s.Decision(name); err != nil || d == nil || *d != second {
		t.Errorf("after a restart the decision is %+v %v, want %+v", d, err, second)
	}
	if all, err := s.Decisions(); err != nil || len(all) != 1 || all[0] != second {
		t.Errorf("all decisions are %+v %v", all, err)
	}
	if err := s.Forget(second); err != nil {
		t.Fatal(err)
	}
	if d, err := s.Decision(name); err != nil || d != nil {
		t.Errorf("a forgotten decision is %+v %v", d, err)
	}
}

func TestAnotherNodesStoreIsSetAside(t *testing.T) {
	b := newBench(t)
	s := b.open()
	mustSave(t, s, pod("a", "1"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	other, err := Open(Options{Directory: b.dir, Node: "n2", Say: func(m string) { b.said = append(b.said, m) }})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if got := names(t, other); got != "never seen" {
		t.Errorf("the store of another node has %q", got)
	}
	if len(b.said) != 1 || !strings.Contains(b.said[0], "it belongs to the node n1, and this is n2") {
		t.Errorf("it says %q", b.said)
	}
}

func TestAStoreThatIsInUse(t *testing.T) {
	b := newBench(t)
	s := b.open()
	mustSave(t, s, pod("a", "1"))
	// The second one is told so by bbolt after its patience; here the lock is taken without it.
	_, err := bbolt.Open(b.file(), 0o600, &bbolt.Options{Timeout: time.Millisecond})
	if got := openError(b.file(), err); got == nil || !strings.Contains(got.Error(), "another process has locked it") {
		t.Errorf("a store in use gives %v", got)
	}
	if got := names(t, s); got != "a@1" {
		t.Errorf("its user sees %q", got)
	}
}

// image is the file of a store with pods of two generations, and how many bytes it has.
func image(t testing.TB) []byte {
	t.Helper()
	b := newBench(t)
	s := b.open()
	for generation := range 3 {
		pods := []*corev1.Pod{}
		for i := range 40 {
			pods = append(pods, pod(fmt.Sprintf("p%02d", i), fmt.Sprint(generation)))
		}
		mustSave(t, s, pods...)
	}
	if err := s.Decide(decision("u1", "r1", 1)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(b.file())
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// usable checks that a store opens whatever its file holds, gives nothing that was never written, and can be used.
func usable(t *testing.T, what string, data []byte) (kept bool) {
	t.Helper()
	b := newBench(t)
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(b.file(), data, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Open(Options{Directory: b.dir, Node: "n1", Say: func(m string) { b.said = append(b.said, m) }})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	defer s.Close()
	pods, _, err := s.Pods()
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
	for _, p := range pods {
		if len(p.Status.Message) != 300 || p.UID != types.UID("uid-"+p.Name) {
			t.Errorf("%s: it gives a pod that was never written: %v", what, p)
		}
	}
	for range 3 { // the second generation of pages frees those of the first
		if err = s.SavePods([]*corev1.Pod{pod("new", "1")}); err == nil {
			break
		}
	}
	if got := names(t, s); err != nil || got != "new@1" {
		t.Errorf("%s: it cannot be used: %q %v", what, got, err)
	}
	if _, err := os.Stat(b.file() + ".aside"); (err == nil) != (len(b.said) > 0) {
		t.Errorf("%s: set aside: %v, said: %q", what, err == nil, b.said)
	}
	return len(pods) > 0
}

func TestTornWrites(t *testing.T) {
	data := image(t)
	const page = 4096
	// A write of the other meta page that stopped half way: the older of the two counts.
	for _, meta := range []int{0, page} {
		torn := append([]byte{}, data...)
		for i := meta + 40; i < meta+page; i++ {
			torn[i] = 0
		}
		if !usable(t, fmt.Sprintf("meta page at %d", meta), torn) {
			t.Errorf("without the meta page at %d nothing is left", meta)
		}
	}
	for _, length := range []int{1, 100, page - 1, page, 2 * page, 3*page + 17, len(data) / 2} {
		usable(t, fmt.Sprintf("cut to %d bytes", length), data[:min(length, len(data))])
	}
	usable(t, "text", []byte(strings.Repeat("not a database ", 2000)))
	usable(t, "zeros", make([]byte, len(data)))
}

// A page that is its own child is damage, and bbolt is not given the file.
func TestPagesAreChecked(t *testing.T) {
	data := image(t)
	b := newBench(t)
	if err := errors.Join(os.MkdirAll(b.dir, 0o700), os.WriteFile(b.file(), data, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := sound(b.file()); err != nil {
		t.Errorf("a file as it was written: %v", err)
	}
	size, found := os.Getpagesize(), 0
	for id := 2; id < len(data)/size; id++ {
		page := data[id*size:]
		if page[8] != flagBranch || page[9] != 0 {
			continue
		}
		bad := append([]byte{}, data...)
		binary.LittleEndian.PutUint64(bad[id*size+headerLength+8:], uint64(id))
		if err := os.WriteFile(b.file(), bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if broken := (*damage)(nil); errors.As(sound(b.file()), &broken) {
			found++
		}
		usable(t, "a page that is its own child", bad)
	}
	if found == 0 { // a branch page that is not in use is not visited
		t.Error("no page that is its own child was found")
	}
}

func TestDamageFromASeed(t *testing.T) {
	data := image(t)
	random := rand.New(rand.NewPCG(5, 2))
	survived, lost := 0, 0
	for i := range 300 {
		bad := append([]byte{}, data...)
		for range 1 + random.IntN(8) {
			at := random.IntN(len(bad))
			length := min(1+random.IntN(600), len(bad)-at)
			for j := at; j < at+length; j++ {
				bad[j] = byte(random.Uint32())
			}
		}
		if usable(t, fmt.Sprintf("damage %d", i), bad) {
			survived++
		} else {
			lost++
		}
	}
	if survived == 0 || lost == 0 {
		t.Errorf("%d survived and %d did not: the damage is not what this test is about", survived, lost)
	}
}
