// SPDX-License-Identifier: Apache-2.0

package revision_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"everynode.dev/everynode/internal/revision"
)

func TestPodNamesAreValid(t *testing.T) {
	names := []string{"a", "a.b", strings.Repeat("a-", 30) + "a", strings.Repeat("a.", 100) + "a", strings.Repeat("-.", 100)}
	for i := 40; i < 60; i++ {
		names = append(names, strings.Repeat("x", i)+"-y", strings.Repeat("x", i)+".y", strings.Repeat("x", i)+"--y.z")
	}
	for _, set := range names {
		name := revision.PodKey{SetName: set, SetUID: "u", Node: "n", Hash: "h"}.Name()
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 || len(name) > 63 {
			t.Errorf("set %q: pod name %q (%d characters): %v", set, name, len(name), problems)
		}
	}
	if name := (revision.PodKey{}).Name(); len(validation.IsDNS1123Label(name)) > 0 {
		t.Errorf("the empty key has the name %q", name)
	}
}

// Everything in the key must make a difference, also when parts of one run into the next.
func TestPodNamesDiffer(t *testing.T) {
	keys := []revision.PodKey{
		{SetName: "s", SetUID: "u", Node: "n", Hash: "h"},
		{SetName: "s", SetUID: "u2", Node: "n", Hash: "h"},
		{SetName: "s", SetUID: "u", Node: "n2", Hash: "h"},
		{SetName: "s", SetUID: "u", Node: "n", Hash: "h2"},
		{SetName: "s", SetUID: "u", Node: "n", Hash: "h", Salt: "s"},
		{SetName: "s", SetUID: "un", Node: "", Hash: "h"},
		{SetName: "s", SetUID: "u", Node: "nh", Hash: ""},
		{SetName: "s", SetUID: "", Node: "un", Hash: "h"},
		{SetName: "t", SetUID: "u", Node: "n", Hash: "h"},
	}
	seen := map[string]revision.PodKey{}
	for _, key := range keys {
		if other, taken := seen[key.Name()]; taken {
			t.Errorf("%+v and %+v are both %s", key, other, key.Name())
		}
		seen[key.Name()] = key
		if again := key.Name(); again != key.Name() {
			t.Errorf("%+v is %s, and then %s", key, again, key.Name())
		}
	}
}

func TestPodNamesOfALargeSetDiffer(t *testing.T) {
	seen := map[string]bool{}
	for i := range 100_000 {
		name := revision.PodKey{SetName: "set", SetUID: types.UID("5f0c1f52-7f0b-4c3e-9b0e-0d4f8e1f7b11"), Node: fmt.Sprintf("node-%d", i), Hash: "7f9c6b5d4"}.Name()
		if seen[name] {
			t.Fatalf("node %d: %s is taken", i, name)
		}
		seen[name] = true
	}
}
