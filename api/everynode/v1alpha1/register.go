// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The names of the resources.
const (
	Group             = "everynode.dev"
	Version           = "v1alpha1"
	ResourcePolicies  = "rolloutpolicies"
	ResourceApprovals = "rolloutapprovals"
	KindPolicy        = "RolloutPolicy"
	KindApproval      = "RolloutApproval"
)

// GroupVersion is the group and version of the types of this package.
func GroupVersion() schema.GroupVersion { return schema.GroupVersion{Group: Group, Version: Version} }

// AddToScheme adds the types of this package to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion(), &RolloutPolicy{}, &RolloutPolicyList{}, &RolloutApproval{}, &RolloutApprovalList{})
	metav1.AddToGroupVersion(scheme, GroupVersion())
	return nil
}
