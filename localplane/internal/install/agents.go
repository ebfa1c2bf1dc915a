// SPDX-License-Identifier: Apache-2.0

package install

import (
	"fmt"
	"io/fs"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Agents are the changes of the DaemonSet of Everynode's agents for a plane.
type Agents struct {
	// Image is the image of the agent, Label a label of the nodes that run agents.
	Image, Label string
	// OpenYurt enables the routes of OpenYurt.
	OpenYurt bool
}

// Read reads the DaemonSets below root.
func (a Agents) Read(root fs.FS) ([]*unstructured.Unstructured, error) {
	objects, err := Read(root)
	if err != nil {
		return nil, err
	}
	objects = slices.DeleteFunc(objects, func(obj *unstructured.Unstructured) bool { return obj.GetKind() != "DaemonSet" })
	for _, obj := range objects {
		if err := a.adapt(obj); err != nil {
			return nil, fmt.Errorf("adapting DaemonSet %s: %w", obj.GetName(), err)
		}
	}
	return objects, nil
}

func (a Agents) adapt(obj *unstructured.Unstructured) error {
	var set appsv1.DaemonSet
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &set); err != nil {
		return err
	}
	pod := &set.Spec.Template.Spec
	if pod.NodeSelector == nil {
		pod.NodeSelector = map[string]string{}
	}
	pod.NodeSelector[a.Label] = "true"
	for i := range pod.Containers {
		pod.Containers[i].Image = a.Image
		// The disk is that of the machine, with whatever else is on it. On a disk that is 85% full the agents would pull nothing, and updates would wait for images without an end.
		pod.Containers[i].Args = append(pod.Containers[i].Args, "--image-fs-limit=0")
		if a.OpenYurt {
			pod.Containers[i].Args = append(pod.Containers[i].Args, "--openyurt-api")
		}
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&set)
	if err != nil {
		return err
	}
	// The empty status must not be applied.
	delete(content, "status")
	obj.Object = content
	return nil
}
