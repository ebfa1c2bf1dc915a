// SPDX-License-Identifier: Apache-2.0

package images_test

import (
	"errors"
	"flag"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"everynode.dev/everynode/internal/cli/command"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

var update = flag.Bool("update", false, "write the golden files")

const agent = `
apiVersion: apps.kruise.io/v1beta1
kind: DaemonSet
metadata: {name: agent, namespace: default, uid: uid-agent}
spec:
  selector: {matchLabels: {app: agent}}
  template: {spec: {containers: [{name: agent, image: "nginx:1.27"}, {name: side, image: "registry.example/side@sha256:1111111111111111111111111111111111111111111111111111111111111111"}]}}
`

const plain = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: plain, namespace: default, uid: uid-plain}
spec:
  selector: {matchLabels: {app: plain}}
  template: {spec: {containers: [{name: plain, image: "registry.example/plain:1"}]}}
`

const nodeImages = `
apiVersion: apps.kruise.io/v1beta1
kind: NodeImage
metadata: {name: n1}
spec: {images: {nginx: {tags: [{tag: "1.27", version: 2}]}}}
status: {imageStatuses: {nginx: {tags: [{tag: "1.27", version: 2, phase: Pulling}]}}}
---
apiVersion: apps.kruise.io/v1beta1
kind: NodeImage
metadata: {name: n2}
spec: {images: {nginx: {tags: [{tag: "1.27", version: 2}]}}}
status: {imageStatuses: {nginx: {tags: [{tag: "1.27", version: 1, phase: Succeeded}]}}}
---
apiVersion: apps.kruise.io/v1beta1
kind: NodeImage
metadata: {name: n3}
spec: {images: {nginx: {tags: [{tag: "1.27", version: 2}]}, other: {tags: [{tag: "1"}]}}}
status: {imageStatuses: {nginx: {tags: [{tag: "1.27", version: 2, phase: Failed, message: "no such host\x1b[2J"}]}}}
---
apiVersion: apps.kruise.io/v1beta1
kind: NodeImage
metadata: {name: n4}
spec: {images: {nginx: {tags: [{tag: "1.27"}]}}}
status: {imageStatuses: {nginx: {tags: [{tag: "1.27", phase: Succeeded}]}}}
---
apiVersion: apps.kruise.io/v1beta1
kind: ImagePullJob
metadata: {name: ahead, namespace: default}
spec: {image: "docker.io/library/nginx:1.27", completionPolicy: {}}
status: {desired: 4, active: 2, succeeded: 1, failed: 1, message: "job is running"}
---
apiVersion: apps.kruise.io/v1beta1
kind: ImagePullJob
metadata: {name: other, namespace: default}
spec: {image: "other:1", completionPolicy: {}}
status: {desired: 1, succeeded: 0, completionTime: "2026-03-01T11:00:00Z"}
`

func pod(owner *unstructured.Unstructured, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: owner.GetName() + "-" + node, Labels: map[string]string{"app": owner.GetName()},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())},
		},
		Spec: corev1.PodSpec{NodeName: node},
	}
}

// cluster has five nodes with pods of two sets; the kubelets of two have seen an image.
func cluster(t *testing.T, kruise bool) *fakecluster.Cluster {
	t.Helper()
	sets := []*unstructured.Unstructured{fakecluster.Object(t, plain)}
	var objects []runtime.Object
	if kruise {
		sets = append(sets, fakecluster.Object(t, agent))
		for _, manifest := range splitDocuments(nodeImages) {
			objects = append(objects, fakecluster.Object(t, manifest))
		}
	}
	for _, name := range []string{"n1", "n2", "n3", "n4", "n5"} {
		node := fakecluster.Node(name, true)
		if name >= "n4" {
			node.Status.Images = []corev1.ContainerImage{
				{Names: []string{"docker.io/library/nginx@sha256:2222222222222222222222222222222222222222222222222222222222222222", "docker.io/library/nginx:1.27"}, SizeBytes: 192_000_000},
				{Names: []string{"registry.example/plain:1", "not a name"}, SizeBytes: 3_400_000},
			}
		}
		objects = append(objects, node)
		for _, set := range sets {
			objects = append(objects, pod(set, name))
		}
	}
	for _, set := range sets {
		objects = append(objects, set)
	}
	c := fakecluster.New(t, objects...)
	if !kruise {
		c.WithoutKruise()
	}
	return c
}

func splitDocuments(text string) []string {
	var all []string
	for len(text) > 0 {
		before, after := text, ""
		for i := 0; i+5 <= len(text); i++ {
			if text[i:i+5] == "\n---\n" {
				before, after = text[:i], text[i+5:]
				break
			}
		}
		all, text = append(all, before), after
	}
	return all
}

func TestScreens(t *testing.T) {
	for name, play := range map[string]func(t *testing.T) string{
		"images": func(t *testing.T) string {
			return cluster(t, true).Session(t, command.Root, "images", "images ads/agent", "images agent -o wide", "images plain -o json", "images -A", "images nobody")
		},
		"without-kruise": func(t *testing.T) string {
			return cluster(t, false).Session(t, command.Root, "images", "images plain -o wide")
		},
		"nothing": func(t *testing.T) string { return fakecluster.New(t).Session(t, command.Root, "images") },
		"without-rights": func(t *testing.T) string {
			c := cluster(t, true)
			c.Kubernetes.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewForbidden(corev1.Resource("nodes"), "", errors.New("no"))
			})
			c.Dynamic.PrependReactor("list", "nodeimages", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewForbidden(corev1.Resource("nodeimages"), "", errors.New("no"))
			})
			first := c.Session(t, command.Root, "images agent")
			return first + cluster(t, true).Session(t, command.Root, "images agent")
		},
	} {
		t.Run(name, func(t *testing.T) { fakecluster.Golden(t, *update, name+".txt", play(t)) })
	}
}
