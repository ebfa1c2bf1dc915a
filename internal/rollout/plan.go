// SPDX-License-Identifier: Apache-2.0

package rollout

// Plan contains the actions that Decide wants, and their explanation.
type Plan struct {
	// Actions are independent of each other and in the order in which they should be started; there are at most
	// Set.Burst of them. Only a Patch that comes after the Mark of the same pod depends on it: it must not be sent unless
	// the Mark has been carried out.
	Actions []Action
	Status  Status
	// Wake is when Decide wants to be asked again even if nothing happens; 0 means never.
	Wake Time
	// Verdicts holds one verdict for each node of the Snapshot, in the same order.
	Verdicts []Verdict
	// Budget is what the update budget was and what used it.
	Budget Budget
	Notes  []Note
	Memory Memory
	// Announcements are the conditions that pods get about a newer revision, in the order of the nodes. They are not actions
	// and have no verdicts; together with the actions there are at most Set.Burst of them.
	Announcements []Announcement
	// Obstacles contains, by node index, the reason why the plan could not be carried out on that node; it is nil until After has added the outcomes.
	Obstacles map[int]string
}

// Announcement is one write to a pod that changes what it announces about a newer revision than its own.
type Announcement struct {
	// Node is the index of the node in Snapshot.Nodes.
	Node     int
	Pod, UID string
	// Old reports whether the pod announces a newer revision than its own. Revision is the index of the revision that it names as the newest.
	Old      bool
	Revision int
	// Withdraw reports whether the announcement of the pod is removed.
	Withdraw bool
}

// ActionKind is what an Action does.
type ActionKind uint8

// The kinds of action.
const (
	Create  ActionKind = iota + 1 // create a pod of Action.Revision on Action.Node
	Delete                        // delete the pod Action.Pod with Action.UID on Action.Node
	Prepare                       // let the pod's preDelete hook know that the pod is to be deleted
	Restore                       // take a Prepare back: the pod is wanted again
	Mark                          // make the pod not ready, so that it can be changed in place
	Patch                         // change the pod in place to Action.Revision
	Unmark                        // let the pod be ready again
	Resume                        // change the pod in place to what another controller has announced
)

// Action is one write that the plan asks for.
type Action struct {
	Kind ActionKind
	// Node is the index of the node in Snapshot.Nodes.
	Node int
	// Pod and UID name the pod; a Create has none.
	Pod, UID string
	// Revision is the index of the revision of a Create or Patch; otherwise the revision of the pod, which may be NoRevision.
	Revision int
	// Reason is the verdict that this action carries out. It is the node's verdict, except on a node with several actions:
	// there the node's verdict is the reason of the first of them.
	Reason VerdictKind
	// Detail is the detail of the verdict.
	Detail Detail
	// Evict reports whether the reason of a Prepare is that the node must not run the pod, and not an update.
	Evict bool
	// Begins reports whether a Create begins the update of its node, because the old pod has vanished; it is set where a Gate limits that.
	Begins bool
	// TakesBack reports whether an Unmark or a Restore puts a pod back into use whose change in place or delete was refused.
	TakesBack bool
}

// Verdict is what is done on one node, and why.
type Verdict struct {
	Kind VerdictKind
	// Charged reports whether the node uses up a slot of the update budget.
	Charged bool
	// Detail says more about some kinds.
	Detail Detail
}

// Detail says more about a verdict.
type Detail uint8

// The details.
const (
	NoDetail Detail = iota // the verdict says it all

	// Details of `recreating`, where the pod should have been changed in place.
	DetailNotInHistory  // the pod's revision is not in the history (any more)
	DetailNoGate        // the pod has no readiness gate for it
	DetailTemplate      // the templates differ in something that cannot be changed in place
	DetailInitImage     // the image of an init container differs, and the set does not allow to change that in place
	DetailFieldRef      // an environment variable reads a label, annotation or resource amount that differs, and a restart of its container does not help
	DetailNoAgent       // the same, and the node has no agent that restarts the container
	DetailStarting      // the same, and the container does not run yet
	DetailResources     // the resources differ, and changing them in place is not enabled
	DetailResize        // the resources differ in a way that cannot be changed in place
	DetailResizeRefused // the API server has refused to change the resources
	DetailInfeasible    // the node cannot give the pod the resources that it has been changed to
	DetailUnfinished    // another controller has begun a change that cannot be continued
	DetailRestart       // a container must be restarted that the agent of a node cannot restart
	DetailNotRestarted  // the agent of the node has not restarted the containers in time

	// The detail of `wait-in-place`.
	DetailRestarting // the agent of the node is to restart containers

	// Details of `wait-unreachable`.
	DetailDownBefore      // the update has not touched the node, or only when the node had been down for a long time
	DetailDownAfterUpdate // the node went down at about the time when the update touched it: it is charged
	DetailDownLater       // the node went down long after the update touched it

	// The detail of `wait-replacing`.
	DetailMinReadyPending // the pod has not been ready for Set.MinReady yet, and the budget is exceeded
)

// Budget is the update budget of one plan, for display and metrics.
type Budget struct {
	// Limit is the number of nodes that may be unavailable (or surging, when Surge is set) at once.
	Limit int
	Surge bool
	// UsedByUpdate counts charged nodes that this set's update made unavailable: old pod going or gone, or new pod not
	// yet available. UsedByOthers counts charged nodes that are unavailable for another reason, UsedByUnreachable those
	// whose node is not ready, whatever their pods are. The sum of the three is the number of charged nodes.
	UsedByUpdate, UsedByOthers, UsedByUnreachable int
}

// Used is the number of charged nodes.
func (b Budget) Used() int { return b.UsedByUpdate + b.UsedByOthers + b.UsedByUnreachable }

// Exceeded reports whether more nodes are charged than the budget allows.
func (b Budget) Exceeded() bool { return b.Used() > b.Limit }

// Status holds the numbers of a DaemonSet status; each has the same meaning as in apps/v1.
type Status struct {
	Desired, Current, Misscheduled, Ready, Updated, Available, Unavailable int
}

// NoteKind is what a Note reports.
type NoteKind uint8

// The kinds of note.
const (
	FoundFailedPod    NoteKind = iota + 1 // event FailedDaemonPod
	FoundSucceededPod                     // event SucceededDaemonPod
)

// Note is something that is worth an event once the action that it belongs to has been carried out.
type Note struct {
	Kind NoteKind
	// Node is the index of the node, Action the index of the action in Plan.Actions that the note belongs to.
	Node, Action int
	Pod          string
}
