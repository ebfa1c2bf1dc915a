// SPDX-License-Identifier: Apache-2.0

package revision_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"

	"everynode.dev/everynode/internal/revision"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares got with a file of testdata, or writes it.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s has changed; it must not, see testdata/README.md\n got: %s\nwant: %s", path, got, want)
	}
}

func readTemplate(t testing.TB, name string) map[string]any {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".template.json"))
	if err != nil {
		t.Fatal(err)
	}
	var template map[string]any
	if err := json.Unmarshal(data, &template); err != nil {
		t.Fatal(err)
	}
	return template
}

func templateNames() []string { return []string{"minimal", "agent", "newer"} }

func TestDataNeverChanges(t *testing.T) {
	for _, name := range templateNames() {
		data, err := revision.Data(readTemplate(t, name))
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name+".data.json", append(data, '\n'))
	}
}

func TestHashNeverChanges(t *testing.T) {
	var lines strings.Builder
	zero, one, big := int32(0), int32(1), int32(1<<30)
	for _, name := range templateNames() {
		for _, count := range []*int32{nil, &zero, &one, &big} {
			hash, err := revision.Hash(readTemplate(t, name), count)
			if err != nil {
				t.Fatal(err)
			}
			shown := "nil"
			if count != nil {
				shown = fmt.Sprint(*count)
			}
			fmt.Fprintf(&lines, "%s collisions=%s %s\n", name, shown, hash)
		}
	}
	golden(t, "hashes.golden", []byte(lines.String()))
}

func TestPodNameNeverChanges(t *testing.T) {
	const uid = "5f0c1f52-7f0b-4c3e-9b0e-0d4f8e1f7b11"
	cases := []revision.PodKey{
		{SetName: "agent", SetUID: uid, Node: "node-1", Hash: "7f9c6b5d4"},
		{SetName: "agent", SetUID: uid, Node: "node-2", Hash: "7f9c6b5d4"},
		{SetName: "agent", SetUID: uid, Node: "node-1", Hash: "58d7c9bb4f"},
		{SetName: "agent", SetUID: "other", Node: "node-1", Hash: "7f9c6b5d4"},
		{SetName: "agent", SetUID: uid, Node: "node-1", Hash: "7f9c6b5d4", Salt: "8a1f0d8e-0000-4000-8000-000000000001"},
		{SetName: strings.Repeat("a", 52), SetUID: uid, Node: "n", Hash: "h"},
		{SetName: strings.Repeat("a", 253), SetUID: uid, Node: "n", Hash: "h"},
		{SetName: strings.Repeat("a", 51) + "-" + "tail", SetUID: uid, Node: "n", Hash: "h"},
		{SetName: strings.Repeat("a", 50) + ".b.tail", SetUID: uid, Node: "n", Hash: "h"},
	}
	var lines strings.Builder
	for _, c := range cases {
		fmt.Fprintf(&lines, "%s\n", c.Name())
	}
	golden(t, "podnames.golden", []byte(lines.String()))
}

// Writers of other versions must find their own revision again in what is served today, and so must we in theirs;
// otherwise an upgrade restarts every pod.
func TestRecordedDataEqualTheirTemplate(t *testing.T) {
	for _, name := range []string{"minimal", "agent"} {
		template := readTemplate(t, name)
		recorded, err := filepath.Glob(filepath.Join("testdata", "recorded", name+".*.json"))
		if err != nil || len(recorded) < 2 {
			t.Fatalf("found %d recordings of %s (%v), want at least 2", len(recorded), name, err)
		}
		for _, path := range recorded {
			checkRecorded(t, path, template)
		}
	}
}

func checkRecorded(t *testing.T, path string, template map[string]any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	written, err := revision.Data(template)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(bytes.TrimSpace(data), written) {
		t.Errorf("%s has the bytes that are written today, so it shows nothing", path)
	}
	decoded, err := revision.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if !revision.Equal(decoded, template) || !revision.Equal(template, decoded) {
		t.Errorf("%s does not equal the template it was made of", path)
	}
	// Going back to such a revision, and writing it anew, gives what 1.37.1 writes, where no number was rounded.
	again, err := revision.Data(decoded)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(again, written) && !strings.HasSuffix(path, "agent.openkruise-1.3.json") {
		t.Errorf("%s, decoded and written again:\n got: %s\nwant: %s", path, again, written)
	}
	entries := []revision.Entry{{Name: "r", Hash: "h", UID: types.UID("u"), Number: 3, Template: decoded}}
	if r := revision.Resolve(entries, template); r.Current != 0 || r.Number != 3 {
		t.Errorf("%s is not found in a history: %+v", path, r)
	}
}

// A hash that another version has computed says nothing today: whoever computes it anew takes every pod for an old one.
func TestRecordedHashesAreNotTodays(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "recorded", "hashes.txt"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if recorded, err := filepath.Glob(filepath.Join("testdata", "recorded", "*.json")); err != nil || len(lines) != len(recorded) {
		t.Fatalf("%d hashes of %d recordings (%v)", len(lines), len(recorded), err)
	}
	for _, line := range lines {
		var name, writer, hash string
		if n, err := fmt.Sscan(line, &name, &writer, &hash); n != 3 {
			t.Fatalf("reading %q: %v", line, err)
		}
		if _, err := os.Stat(filepath.Join("testdata", "recorded", name+"."+writer+".json")); err != nil {
			t.Error(err)
		}
		if today, err := revision.Hash(readTemplate(t, name), nil); err != nil || today == hash {
			t.Errorf("%s: today's hash is %s (%v), so it shows nothing", line, today, err)
		}
	}
}
