// SPDX-License-Identifier: Apache-2.0

// Package agent is everynode-agent: it keeps on one node the images that the NodeImage of that node names.
//
// It is a loop around pull.Decide. Each step takes in what changed (the NodeImage, a pull that ended, the time), asks the container
// runtime what is there, decides, begins and cancels pulls, and has the status written:
//
//	NodeImage ──► wants ──┐
//	runtime   ──► facts ──┼──► pull.Decide ──► pulls begin and end
//	memory    ────────────┘         └────────► memory ──► status of the NodeImage
//
// The memory is read from the status once, when the agent begins or the NodeImage was made anew; from then on the agent knows
// better than the status, but that what somebody else has ended there has ended. So an agent that is killed goes on where it was,
// and one whose API server is away goes on with what it was told last.
//
// Rule: nothing in the loop waits for the API server or for a pull; both answer through channels. What is wanted comes from the
// NodeImage alone, and nothing else than its status is written, but for events.
package agent
