// SPDX-License-Identifier: Apache-2.0

// Package policy decides what a RolloutPolicy allows of the update of one daemon set. The result is an input of rollout.Decide (rollout.Gate), like the
// partition and the pause of the set; the limits and the budget of the set apply in addition.
//
// # Rule
//
// Decide is a function of its Input: no clock, no I/O, nothing kept between calls. What must survive a restart is in objects of the cluster.
//
//	committed  the revision that has passed all waves last; its name is in the status of the policy, and an annotation on its ControllerRevision
//	           (everynode.Committed) holds other revisions where there is no policy
//	target     the revision that the template describes now; a rollout is active while it is not the committed one
//	attempt    how often that rollout has begun: a retry after a failure begins the next attempt, with the first wave; in the status of the policy
//	progress   which waves have passed, and how long the active one has soaked; in the status of the policy
//
// If the ControllerRevision of the committed revision was deleted, none is committed, and no mark is written: the target goes through all waves. The status
// keeps the name of the one that was lost, so that no other revision takes its place.
//
// Losing the progress releases nothing: nodes with pods of the target are what they are, and the waves soak and are approved again. As long as a committed
// mark exists, nothing starts to another revision without a policy that allows it: not while the policies cannot be read, and not after the policy was
// deleted in the middle of a rollout. A user who wants to continue without a policy removes the annotation. A policy that is deleted while no rollout is
// active takes the mark along.
//
// # Trust
//
// An account that may write the ControllerRevisions of a namespace can write marks. Only the manager writes the status of a policy, so a mark counts if the status
// agrees with it:
//
//   - Committed is the revision with the digest in the status, or with the name in it if an earlier manager wrote no digest. If the newest mark is on another one,
//     the committed one gets a newer mark, and nothing starts before, except that nodes return to it.
//   - The target has failed if the status reports a failure, which it keeps while the policy stalls. With only a mark, the rollout continues, and the status names
//     the revision and the remedy. Without a status, the mark holds the target, and a user decides whether nodes return.
//   - Without a status (a first start, a policy that was created again, a restored backup), marks can only hold. A mark of the target does not count while a pod
//     has another revision: then the newest mark of another revision counts, and without one the revision that most pods have. So the target passes all waves.
//   - While more than one policy applies to the set, nothing starts, and the status of each keeps what it has of the set (InConflict).
//   - While the policies have not been read, nothing starts. If there is no policy, the newest mark counts: who may write marks can continue such a rollout.
//
// A decision names the committed revision in the status together with its mark, and the mark is written first. A manager that dies between the two leaves a mark
// that does not count: the last waves are judged again with the progress in the status, and the revision is committed again. The same holds for a failure: the
// revision is judged again. If the template changes before the next manager decides, the revision that the status names stays the committed one, and an undo of the
// new template returns to that: no mark alone may choose what nodes return to.
//
// # Decisions
//
// A RolloutApproval counts once, for one attempt of one rollout: its state has both numbers. Decide asks for the state of each approval that has none
// (Result.Judged). The state is stored in the approval, or in the status of its policy, and a later decision reads it back:
//
//   - Approve, Promote and Retry have no effect before. Else a new leader that does not find the state would count the decision again.
//   - Approve, Promote and Retry are void if they are older than the rollout, also if they get their state later because the history lacked the revision.
//   - A Retry begins the attempt that its state names, so it begins the same one for each leader. What the status has of an earlier attempt does not count then.
//   - A Reject is about the revision, and has its effect under each policy that applies to the set: a policy with another name may take over. All other decisions are about the
//     policy that they name.
//   - Reject and Undo have their effect at once, also while no state can be stored: they let no node get the target. An Undo has effect on the attempt that its state
//     names. A Retry gets no state before that of each earlier Undo is stored, so an Undo does not end the attempt that the Retry begins. While neither status
//     can be written, a new leader cannot distinguish an earlier Undo or Reject from a new one: it has its effect again if its revision becomes the target again.
//
// # Vocabulary
//
//	member     a node that must run a pod of the set
//	left out   a member without an available pod that the waves go on without: it has not been ready for long, its pod was broken before the update, no pod of the set
//	           has ever been available there, or it is one of the nodes that may fail (leftOut)
//	done       a member with an available pod of the target, and without an older live one
//	complete   a wave of which all members are done, except those that are left out
//	passed     a wave that was complete for its soak time, and is approved where that is needed; a wave that has passed stays so for this rollout
//	released   a node on which the update may start, as far as the policy is concerned
//
// A template that describes the committed revision again is an undo by the user: nodes with another revision return without waves, soaks, approvals and order.
// Only windows and freezes, unless undo.ignoreWindows is set, the pace, a suspension and a conflict of policies hold them.
package policy
