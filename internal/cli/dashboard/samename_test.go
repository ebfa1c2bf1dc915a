// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The panel of a node has the pods of the set of the page, not those of a set of the other dialect that has the same name.
func TestTheCellOfASetHasItsOwnPodsOnly(t *testing.T) {
	cluster := zoned(t, roll())
	pods := cluster.Kubernetes.CoreV1().Pods("default")
	all, err := pods.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range all.Items {
		if p := &all.Items[i]; p.Spec.NodeName == "node-1" {
			other := p.DeepCopy()
			other.Name, other.UID = "of-the-native-set", "uid-native-pod"
			other.OwnerReferences[0].APIVersion, other.OwnerReferences[0].UID = "apps/v1", "uid-native-set"
			if _, err := pods.Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	var d nodeDetails
	open(t, cluster).read(http.MethodGet, "/api/cell"+setQuery+"&node=node-1", "", &d)
	if len(d.Pods) != 1 {
		t.Errorf("the pods of ads/agent on the node are %+v", d.Pods)
	}
}
