// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"iter"

	"k8s.io/apimachinery/pkg/types"
)

// table has objects by namespace and name: what concerns one daemon set reads only those of its namespace, however many there are in others.
type table[V any] map[string]map[string]V

// get returns an object; the zero value for one that is not there.
func (t table[V]) get(name types.NamespacedName) V { return t[name.Namespace][name.Name] }

func (t table[V]) put(name types.NamespacedName, v V) {
	if t[name.Namespace] == nil {
		t[name.Namespace] = map[string]V{}
	}
	t[name.Namespace][name.Name] = v
}

func (t table[V]) remove(name types.NamespacedName) {
	delete(t[name.Namespace], name.Name)
	if len(t[name.Namespace]) == 0 {
		delete(t, name.Namespace)
	}
}

// all returns the objects of all namespaces.
func (t table[V]) all() iter.Seq2[types.NamespacedName, V] {
	return func(yield func(types.NamespacedName, V) bool) {
		for namespace, objects := range t {
			for name, v := range objects {
				if !yield(types.NamespacedName{Namespace: namespace, Name: name}, v) {
					return
				}
			}
		}
	}
}
