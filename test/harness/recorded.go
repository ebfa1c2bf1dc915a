// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
)

// Recorded are objects exactly as an API server has returned them, except for managedFields, and for the order of the
// top-level fields and those of metadata. Objects to compare with them must not be decoded into types of this version.
type Recorded []json.RawMessage

// Record sends a request that returns one object.
func Record(t testing.TB, request *rest.Request) Recorded {
	t.Helper()
	return Recorded{withoutManagedFields(t, Ask(t, request))}
}

// RecordList sends a request that returns a list.
func RecordList(t testing.TB, request *rest.Request) Recorded {
	t.Helper()
	var list struct{ Items Recorded }
	if err := json.Unmarshal(Ask(t, request), &list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		list.Items[i] = withoutManagedFields(t, list.Items[i])
	}
	return list.Items
}

// Ask sends a request, and returns the response as JSON.
func Ask(t testing.TB, request *rest.Request) []byte {
	t.Helper()
	answer, err := request.SetHeader("Accept", "application/json").DoRaw(t.Context())
	if err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	return answer
}

func withoutManagedFields(t testing.TB, raw []byte) json.RawMessage {
	t.Helper()
	var object, metadata map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(object["metadata"], &metadata); err != nil {
		t.Fatal(err)
	}
	delete(metadata, "managedFields")
	object["metadata"] = encoded(t, metadata)
	return encoded(t, object)
}

func encoded(t testing.TB, value any) json.RawMessage {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// String returns a JSON list with one object per line.
func (r Recorded) String() string {
	return "[\n" + string(bytes.Join(r.lines(), []byte(",\n"))) + "\n]"
}

func (r Recorded) lines() [][]byte {
	lines := make([][]byte, len(r))
	for i := range r {
		lines[i] = r[i]
	}
	return lines
}

// WriteRecording writes a file of testdata.
func WriteRecording(t testing.TB, path, text string) {
	t.Helper()
	if !json.Valid([]byte(text)) {
		t.Fatalf("no JSON: %s", text)
	}
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o644)
	}
	if err != nil {
		t.Fatal(fmt.Errorf("writing a recording: %w", err))
	}
	t.Logf("wrote %s, %d bytes", path, len(text))
}
