// SPDX-License-Identifier: Apache-2.0

// Package dialect holds what all dialects have in common: the Workload that each of them reads out of its API object.
//
// A dialect turns an API object into a Workload (for the cache and the core), and what was decided back into edits of API
// objects. Dialects are pure: no clock, no client. They do not know each other.
package dialect

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/placement"
	"everynode.dev/everynode/internal/rollout"
)

// Workload is one daemon set of any dialect, digested.
type Workload struct {
	Namespace, Name string
	UID             types.UID
	// ResourceVersion is the resourceVersion of the object that was read.
	ResourceVersion string
	// Advanced reports whether the set is of the API group apps.kruise.io, and not of apps.
	Advanced   bool
	Generation int64
	// Created is when the object was made.
	Created rollout.Time
	// Deleting reports whether the object has a deletion timestamp: nothing is done for it any more.
	Deleting bool
	// Selector matches the pods that belong to the set. SelectsAll marks the empty selector, which is refused.
	Selector   labels.Selector
	SelectsAll bool
	// Template is the pod template, undecoded, as the API server served it. It must not be changed.
	Template map[string]any
	// TemplateGeneration is the number that pods carry in the label pod-template-generation; nil when unknown, or where no API server
	// keeps it up to date.
	TemplateGeneration *int64
	// Labels of the object, by which a rollout policy selects it.
	Labels map[string]string
	// Annotations of the object; copied to its ControllerRevisions, as upstream does.
	Annotations    map[string]string
	HistoryLimit   int
	CollisionCount *int32
	// Set is the specification for the core; Set.Update is filled in once the revision is known.
	Set rollout.Set
	// Plain is Set without the effects of OpenYurt's annotations; nil if there are none. It applies while OpenYurt's own manager is active.
	Plain *rollout.Set
	// ForOpenYurt reports whether the annotations of a set whose pods another controller manages ask for updates that only OpenYurt's own manager makes, because
	// the dialect of the set does not know them.
	ForOpenYurt bool
	// ByPolicy replaces Set where a rollout policy applies, for a set whose pods another controller manages; nil if a policy cannot update it.
	ByPolicy *rollout.Set
	// TemplateOwners are the field managers that may write the template again, of a set with the strategy OnDelete: while there are any, no undo changes it.
	TemplateOwners []string
	// Placement are the compiled rules of where the pods may run.
	Placement *placement.Rules
	// NodeSelector defines which nodes an update may start on; nil means all. Set.Selective must be set for it to have an
	// effect. PreDelete is what pods are prepared for before they are deleted; nil means nothing.
	NodeSelector labels.Selector
	PreDelete    *PreDelete
	// PodAnnotations are annotations that new pods get in addition to those of the template, which win. They are not part of a revision.
	PodAnnotations map[string]string
	// ComeBackFirst is for how long, at most, a node that comes back is held back from other pods until a pod of the set is ready there; 0 for not at all.
	ComeBackFirst time.Duration
	// PullAhead is how new images come to the nodes before an update.
	PullAhead PullAhead
	// Status is the status that the object carries now.
	Status             rollout.Status
	ObservedGeneration int64
	// UpdateRevision and Conditions are further parts of the status, of dialects that have them.
	UpdateRevision string
	Conditions     []appsv1.DaemonSetCondition
	// Problems are things in the object that cannot be honoured. With one that is Fatal nothing is done for the set.
	Problems []Problem
}

// PullAhead contains the options of a set for pulling new images on the nodes of old pods. The set does not decide whether images are pulled in advance at all.
type PullAhead struct {
	// Parallelism is on how many nodes at once, Timeout the time of one try, in whole seconds. ParallelismGiven is whether the set says anything about the
	// former.
	Parallelism      int32
	ParallelismGiven bool
	Timeout          time.Duration
	// MinUpdatedReady is how many updated pods must be ready before; a percentage is of the desired nodes, rounded up.
	MinUpdatedReady rollout.Quantity
	// Wait is whether the update of a node waits until the images are there, for at most Timeout after the pull was requested. NoWait is whether
	// none does; without either, changes in place do where an agent pulls.
	Wait, NoWait bool
}

// Problem is something in an object that cannot be honoured.
type Problem struct {
	// Reason is a CamelCase word for an event, Message a sentence that names the field and the remedy.
	Reason, Message string
	Fatal           bool
}
