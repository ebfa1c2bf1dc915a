// SPDX-License-Identifier: Apache-2.0

// Package supervisor keeps the processes of one plane: it starts them tier by tier, starts one again that ended without
// having been asked to (as a kubelet does with a static pod), and stops them in the opposite order.
//
// A component that was killed on purpose stays down until it is started on purpose. Every process is written down in
// the plane's home before anything waits for it, so that the next supervisor can end what a killed one left behind.
package supervisor
