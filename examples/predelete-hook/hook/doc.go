// SPDX-License-Identifier: Apache-2.0

// Package hook is an example of a controller that pods wait for before they are deleted, through the hook
// spec.lifecycle.preDelete of an Advanced DaemonSet.
//
// A pod that is to be deleted gets the label lifecycle.apps.kruise.io/state: PreparingDelete, and then keeps running. This
// controller looks whether the pod's node still exists, does its work for the pod, and then removes the label (or the
// finalizer) that the pod waits for. Then the pod is deleted.
//
// Vocabulary: a block is the label or finalizer that a pod waits for; to release a pod is to remove its block.
//
// Rule: work is done at least once for each pod, and the pod is released only after the work has succeeded.
// So the work must be repeatable: the controller may be stopped between the two.
package hook
