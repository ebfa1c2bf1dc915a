// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/api/kruise"
)

// GroupVersion is the group and version of the types of this package.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: kruise.Group, Version: kruise.VersionAlpha}
}

// AddToScheme adds the types of this package to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion(),
		&DaemonSet{}, &DaemonSetList{},
		&ImagePullJob{}, &ImagePullJobList{},
		&NodeImage{}, &NodeImageList{})
	metav1.AddToGroupVersion(scheme, GroupVersion())
	return nil
}
