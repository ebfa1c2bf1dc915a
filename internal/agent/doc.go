// SPDX-License-Identifier: Apache-2.0

// Package agent is everynode-agent: it pulls the images in the NodeImage of its node.
//
// It is a loop around pull.Decide. Each step reads what has changed (the NodeImage, finished pulls, the time), queries
// the container runtime, decides, starts and cancels pulls, and writes the status:
//
//	NodeImage ──► wants ──┐
//	runtime   ──► facts ──┼──► pull.Decide ──► pulls begin and end
//	memory    ────────────┘         └────────► memory ──► status of the NodeImage
//
// The memory is read from the status once, when the agent starts or the NodeImage was recreated. From then on the
// memory is newer than the status, except for images that another writer has completed there. So an agent continues
// after a crash, and an agent without a connection to the API server continues with the last NodeImage that it has
// read.
//
// Rule: nothing in the loop waits for the API server or for a pull; their results come through channels. The images to
// pull come only from the NodeImage, and the agent writes only its status, and events.
package agent
