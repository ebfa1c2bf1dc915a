// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"slices"
	"testing"

	"everynode.dev/everynode/internal/clustercache"
)

// A revision that is there in two forms is one line of the history, with its pods once; another with the same hash or the same template is not the same.
func TestARevisionInTwoFormsIsOneVersion(t *testing.T) {
	of := func(name, hash, image, more string) clustercache.Revision {
		data := `{"spec":{"template":{"$patch":"replace","metadata":{` + more + `},"spec":{"containers":[{"name":"c","image":"` + image + `"}]}}}}`
		return clustercache.Revision{Name: name, Hash: hash, Data: []byte(data)}
	}
	all := []clustercache.Revision{
		of("agent-1-kubernetes", "1", "a", ""), of("agent-1", "1", "a", `"creationTimestamp":null`), of("agent-2", "2", "a", ""), of("agent-1-other", "1", "b", ""),
	}
	var names []string
	for i := range all {
		if !Repeats(all, i) {
			names = append(names, all[i].Name)
		}
	}
	if !slices.Equal(names, []string{"agent-1", "agent-2", "agent-1-other"}) {
		t.Errorf("versions %v", names)
	}
}
