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
// The memory is read from the status once, when the agent starts or the NodeImage was recreated. From then on the memory is newer than the status,
// except for images that another writer has completed there. So an agent that is killed continues where it was, and an agent that loses the API
// server continues with the last NodeImage that it has read.
//
// Rule: nothing in the loop waits for the API server or for a pull; both answer through channels. What is wanted comes from the
// NodeImage alone, and the agent writes only its status, and events.
package agent
