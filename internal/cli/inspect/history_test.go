// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"slices"
	"testing"

	"everynode.dev/everynode/internal/clustercache"
)

// A revision that is there in two forms is one line of the history, with its pods once; another with the same hash or the same template is not the same.
func TestARevisionInTwoFormsIsOneVersion(t *testing.T) {
	version := func(name, hash, image, more string) Version {
		data := `{"spec":{"template":{"$patch":"replace","metadata":{` + more + `},"spec":{"containers":[{"name":"c","image":"` + image + `"}]}}}}`
		return Version{Revision: clustercache.Revision{Name: name, Hash: hash, Data: []byte(data)}}
	}
	versions := oneOfEach([]Version{
		version("agent-1-kubernetes", "1", "a", ""), version("agent-1", "1", "a", `"creationTimestamp":null`),
		version("agent-2", "2", "a", ""), version("agent-1-other", "1", "b", ""),
	})
	var names []string
	for _, v := range versions {
		names = append(names, v.Name)
	}
	if !slices.Equal(names, []string{"agent-1", "agent-2", "agent-1-other"}) {
		t.Errorf("versions %v", names)
	}
}
