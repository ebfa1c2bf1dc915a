// SPDX-License-Identifier: Apache-2.0

// Package supervisor manages the processes of one plane: it starts them tier by tier, restarts one that ended
// unexpectedly (as a kubelet does with a static pod), and stops them in reverse order.
//
// A component that was killed on request stays down until a start is requested. Every process is recorded in the
// plane's home as soon as it is started, so that the next supervisor can end the processes that a killed supervisor
// left behind.
package supervisor
