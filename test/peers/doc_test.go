// SPDX-License-Identifier: Apache-2.0

// Package peers holds Everynode's dialects of OpenKruise and OpenYurt against tables of what these two do.
//
// A row of a table (testdata) is a set, nodes with their pods, a sentence on what the other controller makes of that, taken from its code in
// July 2026, and what that comes to. It is digested by the dialect, and decided. Where Everynode does something else, the row says what, and
// why; then that is what is checked. So the tables say the same as docs/differences-from-openkruise.md and docs/differences-from-openyurt.md, in
// numbers.
//
// A second table, testdata/openkruise-in-place.txt, has what users see of changes in place: each row names the tests that show what Everynode does.
//
// Rule: nobody runs the other controllers here. A row that says what they do is a quotation; what is tested is Everynode.
package peers
