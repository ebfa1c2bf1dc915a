// SPDX-License-Identifier: Apache-2.0

package revision_test

import (
	"maps"
	"math/rand"
	"slices"
	"testing"

	"everynode.dev/everynode/internal/revision"
)

// Equal must agree with revision data on templates that differ in one place of any kind. Both answers have to occur
// often, or the test shows nothing.
func TestEqualAgreesWithDataOnMutations(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	count := map[bool]int{}
	for range 1500 {
		name := templateNames()[random.Intn(len(templateNames()))]
		template, mutant := readTemplate(t, name), readTemplate(t, name)
		mutate(random, mutant)
		data, err := revision.Data(template)
		if err != nil {
			t.Fatal(err)
		}
		mutantData, err := revision.Data(mutant)
		if err != nil {
			continue // the mutant has a field of a wrong type
		}
		equal := revision.Equal(template, mutant)
		count[equal]++
		checkEqual(t, equal, data, mutantData)
	}
	if count[true] < 100 || count[false] < 100 {
		t.Errorf("%d mutants are equal and %d are not: too few", count[true], count[false])
	}
}

// mutate changes one member somewhere below object.
func mutate(random *rand.Rand, object map[string]any) {
	keys := slices.Sorted(maps.Keys(object))
	if len(keys) == 0 || random.Intn(4) == 0 {
		added := []string{"hostNetwork", "labels", "resources", "securityContext", "emptyDir", "name", "creationTimestamp", "value", "unknown"}
		object[added[random.Intn(len(added))]] = replacement(random)
		return
	}
	key := keys[random.Intn(len(keys))]
	switch value := object[key].(type) {
	case map[string]any:
		mutate(random, value)
	case []any:
		mutateList(random, object, key, value)
	default:
		if random.Intn(3) == 0 {
			delete(object, key)
		} else {
			object[key] = replacement(random)
		}
	}
}

func mutateList(random *rand.Rand, object map[string]any, key string, list []any) {
	if len(list) == 0 || random.Intn(8) == 0 {
		object[key] = append(list, replacement(random))
		return
	}
	i := random.Intn(len(list))
	if member, ok := list[i].(map[string]any); ok {
		mutate(random, member)
		return
	}
	list[i] = replacement(random)
}

func replacement(random *rand.Rand) any {
	values := []any{nil, nil, "", "", "x", "1", false, false, true, int64(0), int64(1), 1.0, map[string]any{}, []any{}, map[string]any{"name": ""}}
	return values[random.Intn(len(values))]
}
